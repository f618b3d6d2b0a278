package pistore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The snippets of the README are those of example_test.go, which run; the files
// that it links to are there.
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
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(readme, -1) {
		if _, err := os.Stat(link[1]); err != nil {
			t.Errorf("link: %v", err)
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
