package jsonl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistore"
)

// TestVerdicts holds every broken fixture against the checked-in table.
func TestVerdicts(t *testing.T) {
	table, err := os.ReadFile("testdata/verdicts.txt")
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]bool{}
	for row := range strings.Lines(string(table)) {
		if strings.HasPrefix(row, "#") {
			continue
		}
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			t.Fatalf("row %q", row)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		judged[cells[0]+".jsonl"] = true
		t.Run(cells[0], func(t *testing.T) { checkVerdict(t, cells[0], cells[1:5]) })
	}
	files, err := os.ReadDir(filepath.Join(fixtures, "broken"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !judged[f.Name()] {
			t.Errorf("%s has no verdict", f.Name())
		}
	}
}

func checkVerdict(t *testing.T, name string, want []string) {
	f, err := OpenFile(t.Context(), filepath.Join(fixtures, "broken", name+".jsonl"), pistore.ReadOnly, Options{})
	var r Report
	var unreadable *UnreadableError
	entries, leaf := "-", ""
	switch {
	case errors.Is(err, pistore.ErrNewerVersion):
	case errors.As(err, &unreadable):
		r = unreadable.Report
		var corrupt *pistore.CorruptError
		if !errors.Is(err, pistore.ErrCorrupt) || !errors.As(err, &corrupt) || !strings.Contains(corrupt.Place, "line 1,") {
			t.Errorf("error %v", err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		r = f.Report()
		stats, err := f.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		entries = fmt.Sprint(stats.Entries)
		leaf = strings.TrimSpace(r.LeafID + " " + r.LegacyLeafID)
	}
	verdict := "none"
	switch {
	case errors.Is(err, pistore.ErrNewerVersion):
		verdict = "newer"
	case r.Errors > 0:
		verdict = "error"
	case r.Warnings > 0:
		verdict = "warning"
	}
	var faults []string
	for _, f := range r.Faults {
		faults = append(faults, fmt.Sprintf("%s@%d", f.Kind, f.Line))
		if len(f.Message) > 300 || strings.ContainsAny(f.Message, "\x00\x07\x1b\n") {
			t.Errorf("message %q", f.Message)
		}
	}
	got := []string{verdict, strings.Join(faults, " "), entries, leaf}
	for i, what := range []string{"verdict", "faults", "entries", "leaf"} {
		if got[i] != want[i] {
			t.Errorf("%s %q instead of %q", what, got[i], want[i])
		}
	}
}

// TestBrokenContexts shows that the readable rest is what the coding agent
// shows, wherever that program opens the file and comes to an end.
func TestBrokenContexts(t *testing.T) {
	for _, o := range oracles(t) {
		if filepath.Dir(o.Path) != "broken" || len(o.PiCodingAgent.Context.Messages) == 0 || o.PiCodingAgent.Open != "ok" {
			continue
		}
		t.Run(filepath.Base(o.Path), func(t *testing.T) {
			o.PiAgentCore.BranchContext = nil
			f := openFixture(t, o.Path)
			if f.Report().Version == 1 {
				checkContext(t, f, o)
				return
			}
			if strings.HasPrefix(o.PiCodingAgent.LeafID, "#") { // it replaced ids that are there
				for i := range o.PiCodingAgent.Context.Messages {
					o.PiCodingAgent.Context.Messages[i].Source = strings.Fields(projected(t, f)[i])[1]
				}
			}
			checkContext(t, f, o)
		})
	}
}
