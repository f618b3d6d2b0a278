package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

func TestRefusedTransactionLeavesNothing(t *testing.T) {
	s := newSession(t, newBackend(t), "s")
	commit(t, s, message("a", ""), usage("u", 1), set("k", 1))
	before := collect(t, s.Export(t.Context()))
	for _, tt := range []struct {
		name string
		tx   pistore.Tx
		want error
	}{
		{"a duplicate at the end", pistore.Tx{Writes: []pistore.Write{message("b", "a"), set("k", 2), usage("v", 5), message("u", "")}}, pistore.ErrDuplicateID},
		{"a parent that is a usage row", pistore.Tx{Writes: []pistore.Write{set("k", 2), message("b", "u")}}, pistore.ErrMissingParent},
		{"a parent that comes later", pistore.Tx{Writes: []pistore.Write{message("b", "c"), message("c", "")}}, pistore.ErrMissingParent},
		{"a precondition before a duplicate", pistore.Tx{Writes: []pistore.Write{message("a", "")},
			Expect: []pistore.Precondition{{Namespace: "ns", Key: "k", Seq: 3}, {Namespace: "ns", Key: "k"}}}, pistore.ErrConflict},
		{"no writes, a failing precondition", pistore.Tx{Expect: []pistore.Precondition{{Namespace: "ns", Key: "j", Seq: 1}}}, pistore.ErrConflict},
	} {
		if _, err := s.Commit(t.Context(), tt.tx); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if diff := cmp.Diff(before, collect(t, s.Export(t.Context()))); diff != "" {
			t.Fatalf("%s: %s", tt.name, diff)
		}
	}
	if r := commit(t, s, message("b", "a")); r.FirstSeq != 4 {
		t.Errorf("the next seq is %d", r.FirstSeq)
	}
}

func TestEmptyTransaction(t *testing.T) {
	s := newSession(t, newBackend(t), "s")
	commit(t, s, set("k", 1), usage("u", 7))
	r, err := s.Commit(t.Context(), pistore.Tx{Expect: []pistore.Precondition{{Namespace: "ns", Key: "k", Seq: 1}}})
	if err != nil || r.FirstSeq != 0 || len(r.Seqs) != 0 || r.Stats.Usage.Input != "7" {
		t.Errorf("%+v, %v", r, err)
	}
	if r := commit(t, s, set("k", 2)); r.FirstSeq != 3 {
		t.Errorf("it took a seq: the next one is %d", r.FirstSeq)
	}
}

func TestSeqsEnd(t *testing.T) {
	b := newBackend(t)
	if _, err := b.Load(t.Context(), stream(pistore.Header{Info: pistore.Info{ID: "s"}, NextSeq: pistore.MaxSeq})); err != nil {
		t.Fatal(err)
	}
	s := open(t, b, "s", pistore.ReadWrite)
	if _, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{set("a", 1), set("b", 1)}}); !errors.Is(err, pistore.ErrTooLarge) {
		t.Errorf("beyond the last seq: %v", err)
	}
	if r := commit(t, s, set("a", 1)); r.FirstSeq != pistore.MaxSeq {
		t.Errorf("the last seq is %d", r.FirstSeq)
	}
	if _, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{set("b", 1)}}); !errors.Is(err, pistore.ErrTooLarge) {
		t.Errorf("after the last seq: %v", err)
	}
	commit(t, s)
	if got := collect(t, s.Export(t.Context())); got[0].(pistore.Header).NextSeq != pistore.MaxSeq+1 || len(got) != 2 {
		t.Errorf("export %v", got)
	}
}

func TestCancelledCommitWritesNothing(t *testing.T) {
	s := newSession(t, newBackend(t), "s")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Commit(ctx, pistore.Tx{Writes: []pistore.Write{set("k", 1)}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := collect(t, s.Export(t.Context())); len(got) != 1 {
		t.Errorf("rows %v", got)
	}
}

func TestInputsAndOutputsAreNotShared(t *testing.T) {
	s := newSession(t, newBackend(t), "s")
	writes := []pistore.Write{message("a", ""), set("k", 1)}
	r := commit(t, s, writes...)
	writes[0], writes[1] = message("x", ""), set("k", 9)
	r.Seqs[0], r.Seqs[1] = 100, 100
	entries, err := s.Entries(t.Context(), []pistore.ID{"a"})
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	entries[0].ID = "x"
	registers, err := s.Registers(t.Context(), []pistore.Address{{Namespace: "ns", Key: "k"}, {Namespace: "ns", Key: "k"}})
	if err != nil || len(registers) != 1 {
		t.Fatal(registers, err)
	}
	registers[0].Value = "9"
	want := []pistore.Row{
		pistore.Entry{ID: "a", Seq: 1, Timestamp: r.Timestamp, Type: pistore.TypeMessage, Payload: `{"role":"user"}`},
		pistore.Register{Namespace: "ns", Key: "k", Value: "1", Seq: 2},
	}
	if diff := cmp.Diff(want, collect(t, s.Export(t.Context()))[1:]); diff != "" {
		t.Error(diff)
	}
}

// Each read is ranged over while commits change everything under it, from the
// loop's own body: a read that held a lock would hang.
func TestReadsAreSnapshotsOfTheirStart(t *testing.T) {
	s := newSession(t, newBackend(t), "s")
	commit(t, s, message("a", ""), usage("u1", 1), set("a", 1), set("b", 1))
	commit(t, s, message("b", "a"), usage("u2", 2), set("c", 1))
	n := 0
	change := func() {
		n++
		id := pistore.ID(fmt.Sprint("x", n))
		commit(t, s, message(id, "b"), usage(id+"u", 1), set("a", n+1), set(fmt.Sprint("b", n), n),
			pistore.DeleteRegister{Namespace: "ns", Key: "c"}, set("d", n))
		commit(t, s, set("c", 1))
	}
	branch := s.Branch(t.Context(), pistore.BranchQuery{Start: "b"})
	scan := s.ScanEntries(t.Context(), pistore.ScanQuery{})
	change() // made, not started: they see this one

	count := 0
	for range branch {
		count++
		change()
	}
	if count != 2 {
		t.Errorf("branch of %d", count)
	}
	want := int(stats(t, s).Entries)
	for range 2 {
		count = 0
		for range scan {
			count++
			change()
		}
		if count != want {
			t.Errorf("scan of %d entries, want %d", count, want)
		}
		want += count
	}
	want, count = int(stats(t, s).Usage.Rows), 0
	for range s.ScanUsage(t.Context(), pistore.ScanQuery{Order: pistore.Reversed}) {
		count++
		change()
	}
	if count != want {
		t.Errorf("scan of %d usage rows, want %d", count, want)
	}
	listing := collect(t, s.RegistersByPrefix(t.Context(), "ns", ""))
	var seen []pistore.Register
	for r := range s.RegistersByPrefix(t.Context(), "ns", "") {
		seen = append(seen, r)
		change()
	}
	if diff := cmp.Diff(listing, seen); diff != "" {
		t.Errorf("registers: %s", diff)
	}
	before := digest(t, s)
	after, err := pistore.DigestRows(func(yield func(pistore.Row, error) bool) {
		for row, err := range s.Export(t.Context()) {
			change()
			if !yield(row, err) {
				return
			}
		}
	})
	if err != nil || before != after {
		t.Errorf("export under change: %v", err)
	}
}

// A writer moves everything together; readers check that they never see it apart.
func TestReadersBesideAWriter(t *testing.T) {
	s := newSession(t, newBackend(t), "s")
	commit(t, s, message("e0", ""), usage("u0", 1), set("left", 0), set("right", 0))
	const commits = 400
	done := make(chan struct{})
	var wg sync.WaitGroup
	reader := func(check func() error) {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := check(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	reader(func() error {
		st, err := s.Stats(t.Context())
		if err == nil && (st.Entries != st.Usage.Rows || string(st.Usage.Input) != fmt.Sprint(st.Entries)) {
			err = fmt.Errorf("stats %+v", st)
		}
		return err
	})
	reader(func() error {
		got, err := s.Registers(t.Context(), []pistore.Address{{Namespace: "ns", Key: "left"}, {Namespace: "ns", Key: "right"}})
		if err == nil && (len(got) != 2 || got[0].Value != got[1].Value) {
			err = fmt.Errorf("registers %v", got)
		}
		return err
	})
	reader(func() error {
		got := collect(t, s.RegistersByPrefix(t.Context(), "ns", "only/"))
		if len(got) > 1 {
			return fmt.Errorf("one register at a time, but %v", got)
		}
		return nil
	})
	reader(func() error {
		n := stats(t, s).Entries
		path := entryIDs(collect(t, s.Branch(t.Context(), pistore.BranchQuery{Start: pistore.ID(fmt.Sprint("e", n-1))})))
		if int64(len(path)) != n || path[n-1] != "e0" {
			return fmt.Errorf("a path of %d from entry %d", len(path), n-1)
		}
		return nil
	})
	reader(func() error {
		rows := collect(t, s.Export(t.Context()))
		var entries, usage int
		for _, r := range rows {
			switch r.(type) {
			case pistore.Entry:
				entries++
			case pistore.UsageRow:
				usage++
			}
		}
		if entries != usage {
			return fmt.Errorf("export of %d entries and %d usage rows", entries, usage)
		}
		return nil
	})
	for i := 1; i < commits; i++ {
		commit(t, s, set("left", i), message(pistore.ID(fmt.Sprint("e", i)), pistore.ID(fmt.Sprint("e", i-1))),
			pistore.DeleteRegister{Namespace: "ns", Key: fmt.Sprint("only/", i-1)}, set(fmt.Sprint("only/", i), i),
			usage(pistore.ID(fmt.Sprint("u", i)), 1), set("right", i))
	}
	close(done)
	wg.Wait()
}

func TestCloseLetsAdmittedCommitsFinish(t *testing.T) {
	b := newBackend(t)
	s := newSession(t, b, "s")
	var mu sync.Mutex
	var acknowledged []pistore.ID
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := pistore.ID(fmt.Sprint(w, "-", i))
				_, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{message(id, "")}})
				if errors.Is(err, pistore.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
				if i == 10 {
					started <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		<-started
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The next owner is there before the last of the committers has returned.
	stored := entryIDs(collect(t, open(t, b, "s", pistore.ReadWrite).ScanEntries(t.Context(), pistore.ScanQuery{})))
	wg.Wait()
	slices.Sort(stored)
	slices.Sort(acknowledged)
	if !slices.Equal(stored, acknowledged) {
		t.Errorf("%d acknowledged, %d stored", len(acknowledged), len(stored))
	}
}
