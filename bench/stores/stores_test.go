package stores

import (
	"errors"
	"testing"

	"pistore"
	"pistore/bench"
)

// Every store does the workloads of commits and counts what it writes: at Power
// a session alone syncs each commit, at Process none.
func TestCommits(t *testing.T) {
	for _, level := range []pistore.Durability{pistore.Process, pistore.Power} {
		all := []bench.Candidate{Pebble(level)}
		for _, name := range Names {
			c, err := Candidate(name, level)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, c := range all {
			for _, workload := range []string{bench.Turn, bench.Small, bench.Bulk} {
				r, err := bench.Run(t.Context(), c, bench.Config{Workload: workload, Ops: 20, Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				if c.Name == "backend=memory" {
					continue
				}
				if r.Metrics[bench.WrittenBytes] < r.Metrics[bench.LogicalBytes] || r.Metrics[bench.DiskBytes] == 0 {
					t.Errorf("%s: %v", r.Name(), r.Metrics)
				}
				// The JSONL backend syncs nothing else; the engine, its own files.
				syncs := r.Metrics[bench.Fsyncs]
				if level == pistore.Power && syncs < 1 || level == pistore.Process && syncs >= 1 {
					t.Errorf("%s: %v syncs a commit", r.Name(), syncs)
				}
			}
		}
	}
	if _, err := Candidate("paper", pistore.Process); !errors.Is(err, pistore.ErrInvalid) {
		t.Error(err)
	}
}

// Bare Pebble refuses a duplicate id, an older one too, and gives back what it
// took.
func TestPebble(t *testing.T) {
	b, err := openPebble(t.TempDir(), pistore.Process)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Create(t.Context(), pistore.Info{})
	if err != nil {
		t.Fatal(err)
	}
	content, err := bench.NewContent(bench.Bulk, 1)
	if err != nil {
		t.Fatal(err)
	}
	stream, tx := content.Stream(0), pistore.Tx{}
	var ids []pistore.ID
	var payloads []pistore.JSON
	for range 3 {
		tx = stream.Next()
		if _, err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		e := tx.Writes[50].(pistore.InsertEntry)
		ids, payloads = append(ids, e.ID), append(payloads, e.Payload)
	}
	got, err := s.Entries(t.Context(), append(ids, "none"))
	if err != nil || len(got) != 3 {
		t.Fatal(len(got), err)
	}
	for i, e := range got {
		if e.ID != ids[i] || e.Payload != payloads[i] || e.ParentID == "" {
			t.Errorf("entry %d is %.100v", i, e)
		}
	}
	again := pistore.Tx{Writes: []pistore.Write{pistore.InsertEntry{ID: ids[0], Type: pistore.TypeMessage, Payload: payloads[0]}}}
	if _, err := s.Commit(t.Context(), again); !errors.Is(err, pistore.ErrDuplicateID) {
		t.Error(err)
	}
}
