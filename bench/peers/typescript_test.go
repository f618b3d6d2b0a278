package peers

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistore"
	"pistore/bench"
)

// nodeFolder is where Node is, or the test is skipped.
func nodeFolder(t *testing.T) string {
	t.Helper()
	folder, err := DefaultNode()
	if err == nil {
		err = Installed(folder)
	}
	if err != nil {
		t.Skip(err)
	}
	return folder
}

// Both stores do every workload that compares, and as often as they were told.
func TestTypeScriptWorkloads(t *testing.T) {
	folder := nodeFolder(t)
	for storage, workloads := range map[string][]string{
		JSONL:  {bench.Turn, bench.Small, bench.Bulk, "read-ids", "read-latest", "read-context", "read-structure", "open", "replay"},
		Memory: {bench.Turn, bench.Small, bench.Bulk, "read-ids", "read-latest", "read-context", "read-structure"},
	} {
		for _, workload := range workloads {
			t.Run(storage+"/"+workload, func(t *testing.T) {
				t.Parallel()
				c := bench.Config{Workload: workload, Ops: 4, Dir: t.TempDir()}
				switch w, _ := bench.Find(workload); {
				case w.Defaults["turns"] > 0:
					c.Turns = 300
				case w.Defaults["sessions"] > 0:
					c.Sessions = 3
				}
				r, err := bench.Run(t.Context(), TypeScript(storage, folder), c)
				if err != nil {
					t.Fatal(err)
				}
				m := r.Metrics
				if r.Ops != 4 || m[bench.PerSecond] <= 0 || m[bench.P50] <= 0 || m[bench.P50] > m[bench.Longest] || m[bench.Resident] <= 0 || m[bench.PeakResident] <= 0 {
					t.Errorf("%s: %d ops, %v", r.Name(), r.Ops, m)
				}
				if !strings.Contains(r.Name(), "/node=v22.") {
					t.Errorf("%s does not say on which Node", r.Name())
				}
			})
		}
	}
}

// What the reference implementation commits to a file is what was ordered: each
// transaction a line with its writes, ids all different, entries in one chain.
func TestTypeScriptWrites(t *testing.T) {
	folder, dir := nodeFolder(t), t.TempDir()
	given, err := templates(bench.Turn, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := orders{Do: "commit", Storage: JSONL, Dir: dir, Sessions: 1, Ops: 130, Templates: given}
	if _, err := (typeScript{JSONL, folder}).obey(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "session-0.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 131 {
		t.Fatalf("%d lines instead of a header and 130 transactions", len(lines))
	}
	content, err := bench.NewContent(bench.Turn, 1)
	if err != nil {
		t.Fatal(err)
	}
	leaf, seen, ours := "", map[string]bool{}, content.Stream(0)
	for _, line := range lines[1:] {
		leaf = compareTransaction(t, line, ours.Next(), leaf, seen)
	}
	o = orders{Do: "open", Storage: JSONL, Dir: dir, Path: path, Want: 130}
	if _, err := (typeScript{JSONL, folder}).obey(t.Context(), o); err != nil {
		t.Error(err)
	}
	o.Want++
	if _, err := (typeScript{JSONL, folder}).obey(t.Context(), o); err == nil {
		t.Error("a store that lacks an entry is not told")
	}
}

// compareTransaction checks a line against what our stores are given, ids aside,
// and returns its entry.
func compareTransaction(t *testing.T, line string, ours pistore.Tx, leaf string, seen map[string]bool) string {
	t.Helper()
	var theirs []struct {
		Kind, ID, EntryID, ParentID, Namespace, Key string
		Message, Usage, Value                       json.RawMessage
	}
	if err := json.Unmarshal([]byte(line), &theirs); err != nil || len(theirs) != len(ours.Writes) {
		t.Fatalf("%d writes in %.200q: %v", len(theirs), line, err)
	}
	for i, w := range ours.Writes {
		their, same := theirs[i], false
		switch w := w.(type) {
		case pistore.InsertEntry:
			same = their.Kind == "entry" && their.ParentID == leaf && `{"message":`+string(their.Message)+`}` == string(w.Payload)
			leaf = their.ID
		case pistore.InsertUsage:
			same = their.Kind == "usage" && their.EntryID == leaf
		case pistore.SetRegister:
			want := string(w.Value)
			if w.Namespace == "lane.leaf" {
				want = `"` + leaf + `"`
			}
			same = their.Kind == "value" && their.Namespace == w.Namespace && their.Key == w.Key && string(their.Value) == want
		}
		if their.ID != "" && (seen[their.ID] || len(their.ID) != 36) {
			t.Errorf("the id %s", their.ID)
		}
		seen[their.ID] = true
		if !same {
			t.Fatalf("write %d is %+v, ours is %+v", i, their, w)
		}
	}
	return leaf
}

// A workload that does not compare is said to be none.
func TestTypeScriptRefuses(t *testing.T) {
	folder := nodeFolder(t)
	for storage, workload := range map[string]string{JSONL: "restore", Memory: "open"} {
		_, err := bench.Run(t.Context(), TypeScript(storage, folder), bench.Config{Workload: workload, Ops: 1})
		if !errors.Is(err, pistore.ErrUnsupported) {
			t.Errorf("%s: %v", workload, err)
		}
	}
}
