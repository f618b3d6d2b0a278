package crash

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the crash section of docs/conformance.md anew")

const (
	docPath = "../../docs/conformance.md"
	opening = "<!-- crash -->\n"
	ending  = "<!-- /crash -->\n"
)

// TestMutantTable holds the section of the document to the rows and mutants.
func TestMutantTable(t *testing.T) {
	text, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), opening)
	got, foot, ok2 := strings.Cut(rest, ending)
	if !ok || !ok2 {
		t.Fatalf("%s has no section from %q to %q", docPath, opening, ending)
	}
	want := table()
	if *update {
		if err := os.WriteFile(docPath, []byte(head+opening+want+ending+foot), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is stale; go test ./conformance/crash -run TestMutantTable -update (-want +got):\n%s", docPath, diff)
	}
}

func table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d rows, each at both levels; %d broken stores, each with one defect, of which every row notices at least one.\n",
		len(RowIDs()), len(mutants()))
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n| row | %s |\n|---|---|\n", g.name)
		for _, r := range g.rows {
			fmt.Fprintf(&b, "| %s | %s |\n", r.id, r.title)
		}
	}
	fmt.Fprintf(&b, "\n| a store that | is noticed by |\n|---|---|\n")
	for _, m := range mutants() {
		fmt.Fprintf(&b, "| %s | %s |\n", m.defect, strings.Join(m.rows, ", "))
	}
	b.WriteString("\n")
	return b.String()
}
