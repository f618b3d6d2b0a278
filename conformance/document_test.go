package conformance

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of docs/conformance.md, and the verdict")

const document = "../docs/conformance.md"

// failing returns the mutants that each row is failed by.
func failing() map[string][]string {
	by := map[string][]string{}
	note := func(name string, rows []string) {
		for _, id := range rows {
			by[id] = append(by[id], name)
		}
	}
	for _, m := range mutants() {
		note(m.name, m.all())
	}
	for _, m := range historyMutants() {
		note(m.name, m.rows)
	}
	return by
}

// all are the rows that a mutant fails, those of the model among them.
func (m mutant) all() []string {
	all := slices.Clone(m.rows)
	if m.model {
		all = append(all, "MOD-01")
	}
	if m.reopened {
		all = append(all, "MOD-02")
	}
	return all
}

// TestEveryRowHasAMutant: a row that no broken store fails checks nothing, and a
// broken store that passes shows a gap. TestMutants holds what the lists say.
func TestEveryRowHasAMutant(t *testing.T) {
	by := failing()
	for _, id := range RowIDs() {
		if len(by[id]) == 0 {
			t.Errorf("no mutant fails %s", id)
		}
		delete(by, id)
	}
	for id, names := range by {
		t.Errorf("%q name %s, which is no row", names, id)
	}
	for _, m := range mutants() {
		if len(m.all()) == 0 {
			t.Errorf("the mutant that %s passes", m.name)
		}
	}
}

// TestMutantTable holds the generated parts of the document.
func TestMutantTable(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for _, part := range []struct{ name, text string }{{"rows", rowTable()}, {"contract", mutantTable()}} {
		begin, end := "<!-- "+part.name+" -->\n", "<!-- /"+part.name+" -->"
		before, rest, found := strings.Cut(want, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no part between %s and %s", document, strings.TrimSpace(begin), end)
		}
		want = before + begin + part.text + end + after
	}
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is stale: go test ./conformance -run '^TestMutantTable$' -update", document)
	}
}

func rowTable() string {
	var b strings.Builder
	b.WriteString("\n| row | what must hold | group | invariants | needs |\n|---|---|---|---|---|\n")
	for _, g := range groups() {
		for _, r := range g.rows {
			var needs []string
			for _, need := range r.needs {
				needs = append(needs, string(need))
			}
			invariants := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.inv), " ", ", "), "[]")
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.id, cell(r.title), g.name, invariants, strings.Join(needs, ", "))
		}
	}
	return b.String() + "\n"
}

func mutantTable() string {
	var b strings.Builder
	n := len(mutants()) + len(historyMutants())
	fmt.Fprintf(&b, "\n%d broken stores, %d rows.\n\n| a store that … | fails |\n|---|---|\n", n, len(rows()))
	for _, m := range mutants() {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(m.name), strings.Join(m.all(), " "))
	}
	for _, m := range historyMutants() {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(m.name), strings.Join(m.rows, " "))
	}
	return b.String() + "\n"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// TestDocumentedTest: the test that the document shows is that of the example.
func TestDocumentedTest(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```go\n")
	snippet, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(string(example), snippet) {
		t.Errorf("this test is not in example_test.go:\n%s", snippet)
	}
}
