package pistore_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The snippets of the README are those of example_test.go, which run.
func TestReadme(t *testing.T) {
	readme, examples := read(t, "README.md"), read(t, "example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d Go snippets", len(blocks))
	}
	for _, b := range blocks {
		var indented strings.Builder
		for line := range strings.Lines(b[1]) {
			indented.WriteString("\t" + line)
		}
		if !strings.Contains(examples, indented.String()) {
			t.Errorf("this snippet is not in example_test.go:\n%s", b[1])
		}
	}
}

// The files that the pages link to are there, and so are the headings.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	deeper, derr := filepath.Glob("docs/*/*.md")
	if err := errors.Join(err, derr); err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`) // of a heading in its anchor
	for _, page := range append(append(pages, deeper...), "README.md", "BENCHMARKS.md") {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, page), -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			path := page
			if file != "" {
				path = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			found := anchor == ""
			if !found {
				for _, h := range heading.FindAllStringSubmatch(read(t, path), -1) {
					found = found || strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(h[1], "")), " ", "-") == anchor
				}
			}
			if !found {
				t.Errorf("%s: %s has no heading %s", page, path, anchor)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
