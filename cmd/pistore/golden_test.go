package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/memstore"
	"pistore/session"
	"pistore/verify"
)

var update = flag.Bool("update", false, "write the goldens")

// memory returns a session in memory that holds a fixture.
func memory(t *testing.T, fixture string) pistore.Storage {
	t.Helper()
	b := memstore.New(memstore.Options{
		Clock: func() pistore.UnixMS { return 1741478400000 }, Rand: rand.NewChaCha8([32]byte{}),
	})
	s := must[pistore.Storage](t)(b.Create(t.Context(), pistore.Info{ID: "session-1", CreatedAt: 1741478400000, CWD: "/home/user/project"}))
	t.Cleanup(func() { _ = b.Close() })
	if err := makeFixture(t.Context(), s, fixture); err != nil {
		t.Fatal(err)
	}
	return s
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := must[[]byte](t)(os.ReadFile(path))
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", name, diff)
	}
}

// printed returns what a function writes on a paper without colour.
func printed(t *testing.T, write func(*paper)) string {
	t.Helper()
	f := must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "out")))
	p := newPaper(f)
	write(p)
	if err := errors.Join(p.flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(must[[]byte](t)(os.ReadFile(f.Name())))
}

func inspected(t *testing.T, s pistore.Storage) (*survey, inspectReport) {
	t.Helper()
	ctx := t.Context()
	v := must[*survey](t)(takeSurvey(ctx, s, true))
	checked := must[verify.Report](t)(verify.Check(ctx, s, verify.Options{}))
	return v, buildReport(v, verifyReportOf(checked), &sizeView{Bytes: 4096}, func(id pistore.ID) []string { return toolNames(ctx, s, id) })
}

// The JSON shapes are a promise: fields are added, never renamed.
func TestJSON(t *testing.T) {
	for _, fixture := range []string{"tools", "tree", "damaged", "bare"} {
		t.Run(fixture, func(t *testing.T) {
			s := memory(t, fixture)
			v, r := inspected(t, s)
			tree, cells := v.tree(), v.cells()
			r.Tree, r.Registers = &tree, &cells
			golden(t, "inspect-"+fixture+".json", printed(t, func(p *paper) {
				if err := p.object(r); err != nil {
					t.Fatal(err)
				}
			}))
			checked := must[verify.Report](t)(verify.Check(t.Context(), s, verify.Options{}))
			golden(t, "verify-"+fixture+".json", printed(t, func(p *paper) {
				if err := p.object(verifyReportOf(checked)); err != nil {
					t.Fatal(err)
				}
			}))
		})
	}
}

// What the commands print about session files.
func TestFileJSON(t *testing.T) {
	sound, broken := filepath.Join(sessionsDir, "v3", "compaction-kept.jsonl"), filepath.Join(sessionsDir, "broken", "torn-then-newline.jsonl")
	worn := filepath.Join(t.TempDir(), "s1.jsonl")
	if err := makeFile(worn, "worn"); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "s1.jsonl")
	if err := os.WriteFile(copied, must[[]byte](t)(os.ReadFile(worn)), 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "store")
	if err := makeStore(store, []string{"a=tree"}); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"repair-store.json":         {"repair", store, "--out", filepath.Join(t.TempDir(), "out"), "--json"},
		"inspect-file-4.json":       {"inspect", worn, "--json"},
		"verify-file-4.json":        {"verify", worn, "--json"},
		"inspect-file-values.json":  {"inspect", filepath.Join(sessionsDir, "v4", "open-retry.jsonl"), "--json"},
		"inspect-file.json":         {"inspect", sound, "--json", "--entries"},
		"inspect-file-damaged.json": {"inspect", broken, "--json"},
		"context-file.json":         {"inspect", sound, "--json", "--context", "main"},
		"show-file.json":            {"show", broken, "--json", "--last", "2"},
		"verify-file-damaged.json":  {"verify", broken, "--json"},
		"usage-file.json":           {"usage", sound, "--json"},
		"repair-file.json":          {"repair", broken, "--out", filepath.Join(t.TempDir(), "out"), "--json"},
		"compact-file.json":         {"compact", copied, "--json"},
		"convert-file.json":         {"convert", sound, filepath.Join(t.TempDir(), "store"), "--json"},
	} {
		_, stdout, stderr := ran(t, args...)
		if stderr != "" || !json.Valid([]byte(stdout)) {
			t.Errorf("%v: %s", args, stderr)
		}
		golden(t, name, stdout)
	}
}

// What happened in a session, for people and for programs.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s1.jsonl")
	if err := makeFile(path, "steps"); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"log.txt": {"log", path}, "log.jsonl": {"log", path, "--json"}} {
		code, stdout, stderr := ran(t, args...)
		if code != exitFine || stderr != "" {
			t.Errorf("%v: %s", args, stderr)
		}
		for line := range strings.Lines(stdout) {
			if name == "log.jsonl" && !json.Valid([]byte(line)) {
				t.Errorf("no JSON: %s", line)
			}
		}
		golden(t, name, stdout)
	}
}

func TestSearchJSON(t *testing.T) {
	dir := t.TempDir()
	if err := makeFile(filepath.Join(dir, "session.jsonl"), "tree"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(t.TempDir(), "x.db")
	_, stdout, stderr := ran(t, "search", dir, "three two", "--limit", "1", "--json", "--rebuild", "--index", index)
	if stderr != "" {
		t.Error(stderr)
	}
	golden(t, "search.json", strings.NewReplacer(dir, "DIR", index, "INDEX").Replace(stdout))
}

func TestContextJSON(t *testing.T) {
	s := memory(t, "tree")
	for _, lane := range []string{"main", "thread-2"} {
		leaf := must[pistore.ID](t)(laneLeaf(t.Context(), s, lane))
		p := must[session.Projection](t)(session.New(s).Project(t.Context(), leaf, nil))
		golden(t, "context-"+lane+".json", printed(t, func(paper *paper) {
			if err := paper.object(contextOf(p, func(pistore.ID) string { return "" })); err != nil {
				t.Fatal(err)
			}
		}))
	}
}

func TestShow(t *testing.T) {
	for _, fixture := range []string{"tools", "tree", "bare"} {
		s := memory(t, fixture)
		tr := must[*transcript](t)(newTranscript(t.Context(), s, "main", 0))
		for ext, writer := range map[string]func(*paper) transcriptWriter{
			"txt":  func(p *paper) transcriptWriter { return &textTranscript{p: p} },
			"md":   func(p *paper) transcriptWriter { return &markdownTranscript{p: p} },
			"json": func(p *paper) transcriptWriter { return &jsonTranscript{p: p} },
		} {
			got := printed(t, func(p *paper) {
				if err := tr.write(t.Context(), s, writer(p)); err != nil {
					t.Fatal(err)
				}
			})
			if ext == "json" && !json.Valid([]byte(got)) {
				t.Errorf("%s: no JSON: %s", fixture, got)
			}
			golden(t, "show-"+fixture+"."+ext, got)
		}
	}
}

// The documentation shows every member that the reports can have.
func TestDocumentedMembers(t *testing.T) {
	doc := string(must[[]byte](t)(os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))))
	for _, name := range must[[]string](t)(filepath.Glob("testdata/*.json")) {
		dec := json.NewDecoder(bytes.NewReader(must[[]byte](t)(os.ReadFile(name))))
		var tree any
		if err := dec.Decode(&tree); err != nil {
			t.Fatal(name, err)
		}
		documented(t, doc, name, tree)
	}
	for _, args := range [][]string{{"ls", sessionsDir, "--json", "--names"}, {"usage", sessionsDir, "--json"}, {"version", "--json"}} {
		documented(t, doc, args[0], jsonOf[any](t, args...))
	}
}

// documented looks for the members of our own objects; what a store holds as
// JSON of its own is not looked into.
func documented(t *testing.T, doc, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			shown := `"` + name + `"`
			if strings.HasSuffix(at, ".metrics") { // in a table
				shown = "`" + name + "`"
			}
			switch {
			case strings.HasSuffix(at, ".byType"), strings.HasSuffix(at, ".recordsByType"), strings.HasSuffix(at, ".custom"), strings.HasSuffix(at, ".leftOut"):
				continue
			case !strings.Contains(doc, shown):
				t.Errorf("docs/cli.md does not show %q of %s", name, at)
			}
			switch name {
			case "config", "lastResult", "value", "payload", "message", "meta", "state":
			default:
				documented(t, doc, at+"."+name, inner)
			}
		}
	case []any:
		for _, inner := range v {
			documented(t, doc, at, inner)
		}
	}
}

// torn is a store whose export ends at damage.
type torn struct {
	pistore.Storage
	after int
}

func (s torn) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		n := 0
		for row, err := range s.Storage.Export(ctx) {
			if n++; n > s.after {
				yield(nil, &pistore.CorruptError{Backend: "torn", Place: "row 9", Problem: "bad checksum"})
				return
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func TestInspectTornStore(t *testing.T) {
	v, r := inspected(t, torn{memory(t, "tree"), 9})
	got := printed(t, func(p *paper) {
		if err := printInspect(&invocation{out: p}, v, r, inspectFlags{tree: true}); err != nil {
			t.Fatal(err)
		}
	})
	for _, want := range []string{"One, two, three.", "Reading ended early", "row 9", "bad checksum"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
