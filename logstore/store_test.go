package logstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

var ctx = context.Background()

func openStoreT(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func createT(t testing.TB, s *Store, id pistore.SessionID) *session {
	t.Helper()
	st, err := s.Create(ctx, pistore.Info{ID: id})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return st.(*session)
}

func openT(t testing.TB, s *Store, id pistore.SessionID, mode pistore.Mode) *session {
	t.Helper()
	st, err := s.Open(ctx, id, mode)
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	return st.(*session)
}

func commitT(t testing.TB, st pistore.Storage, writes ...pistore.Write) pistore.Receipt {
	t.Helper()
	r, err := st.Commit(ctx, pistore.Tx{Writes: writes})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return r
}

func drain[R any](t testing.TB, rows iter.Seq2[R, error]) []R {
	t.Helper()
	var all []R
	for r, err := range rows {
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		all = append(all, r)
	}
	return all
}

func digestT(t testing.TB, st pistore.Storage) string {
	t.Helper()
	d, err := pistore.Digest(ctx, st)
	if err != nil {
		t.Fatalf("digest: %v", err)
	}
	return d
}

func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: error %v, want one that matches %v", what, err, target)
	}
}

// message is an entry of type message whose payload has about size bytes.
func message(id, parent pistore.ID, size int) pistore.InsertEntry {
	text := strings.Repeat("some words of a message, ", size/25)
	return pistore.InsertEntry{
		ID: id, ParentID: parent, Type: pistore.TypeMessage,
		Payload: pistore.JSON(`{"message":{"role":"user","content":"` + text + `"}}`),
	}
}

func usageRow(id, entry pistore.ID) pistore.InsertUsage {
	return pistore.InsertUsage{
		ID: id, EntryID: entry,
		Usage:   `{"input":1200,"output":345,"cacheRead":0,"cacheWrite":17,"totalTokens":1562,"cost":{"total":0.0123}}`,
		Details: `{"model":"m"}`,
	}
}

// fill commits a small tree: a stem of n entries with usage and registers, and
// a branch that leaves it in the middle.
func fill(t testing.TB, st pistore.Storage, n int) (stem, side []pistore.ID) {
	t.Helper()
	parent := pistore.ID("")
	for i := range n {
		id := pistore.ID(fmt.Sprintf("entry-%04d", i))
		commitT(t, st, message(id, parent, 100+i), usageRow("usage-"+id, id),
			pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.QuoteJSON(string(id))},
			pistore.SetRegister{Namespace: "app.count", Key: fmt.Sprintf("k%02d", i%17), Value: pistore.JSON(fmt.Sprint(i))})
		stem, parent = append(stem, id), id
	}
	parent = stem[n/2]
	for i := range n / 2 {
		id := pistore.ID(fmt.Sprintf("side-%04d", i))
		commitT(t, st, pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeCustom, CustomType: "note"})
		side, parent = append(side, id), id
	}
	return stem, side
}

func TestReopenKeepsEverything(t *testing.T) {
	for _, level := range []pistore.Durability{pistore.Process, pistore.Power} {
		t.Run(level.String(), func(t *testing.T) {
			dir := t.TempDir() + "/a/b"
			s := openStoreT(t, dir, Options{Durability: level})
			st := createT(t, s, "one")
			stem, side := fill(t, st, 40)
			want, rows := digestT(t, st), drain(t, st.Export(ctx))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatalf("second close: %v", err)
			}
			_, err := st.Commit(ctx, pistore.Tx{})
			wantErr(t, "commit after close", err, pistore.ErrClosed)

			s = openStoreT(t, dir, Options{Durability: level})
			again := openT(t, s, "one", pistore.ReadWrite)
			if got := digestT(t, again); got != want {
				t.Errorf("digest %s, want %s", got, want)
			}
			if diff := cmp.Diff(rows, drain(t, again.Export(ctx))); diff != "" {
				t.Errorf("export (-before +after):\n%s", diff)
			}
			path := drain(t, again.Branch(ctx, pistore.BranchQuery{Start: side[len(side)-1], Order: pistore.Reversed, StructureOnly: true}))
			if len(path) != len(side)+21 || path[0].ID != stem[0] {
				t.Errorf("branch has %d entries and starts at %s", len(path), path[0].ID)
			}
			r := commitT(t, again, message("next", stem[0], 10))
			if last := rows[0].(pistore.Header).NextSeq; r.FirstSeq != last {
				t.Errorf("next seq %d, want %d", r.FirstSeq, last)
			}
		})
	}
}

func TestLoadCopiesASession(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	st := createT(t, s, "one")
	fill(t, st, 60)
	commitT(t, st, message("big", "", 3<<20), message("small", "big", 10))
	rows := drain(t, st.Export(ctx))
	header := rows[0].(pistore.Header)
	header.Info.ID, header.NextSeq = "two", header.NextSeq+5
	rows[0] = header
	info, err := s.Load(ctx, sequence(rows))
	if err != nil {
		t.Fatal(err)
	}
	two := openT(t, s, info.ID, pistore.ReadWrite)
	if digestT(t, two) != digestT(t, st) {
		t.Error("the copy has another digest")
	}
	a, _ := st.Stats(ctx)
	b, _ := two.Stats(ctx)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("statistics (-source +copy):\n%s", diff)
	}
	if r := commitT(t, two, message("more", "small", 10)); r.FirstSeq != header.NextSeq {
		t.Errorf("seq %d after the load, want %d", r.FirstSeq, header.NextSeq)
	}
	_, err = s.Load(ctx, sequence(rows))
	wantErr(t, "load under an id in use", err, pistore.ErrDuplicateID)
}

func TestFailedLoadLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	boom := errors.New("boom")
	_, err := s.Load(ctx, func(yield func(pistore.Row, error) bool) {
		if !yield(pistore.Header{Info: pistore.Info{ID: "two"}}, nil) {
			return
		}
		for i := range 40 {
			w := message(pistore.ID(fmt.Sprint(i)), "", 200_000)
			e := pistore.Entry{ID: w.ID, Seq: pistore.Seq(i + 1), Type: w.Type, Payload: w.Payload}
			if !yield(e, nil) {
				return
			}
		}
		yield(nil, boom)
	})
	wantErr(t, "load", err, boom)
	if all := drain(t, s.List(ctx)); len(all) != 0 {
		t.Errorf("sessions %v", all)
	}
	wantNoRows(t, s)
}

// wantNoRows checks that no session has left a key behind.
func wantNoRows(t testing.TB, s *Store) {
	t.Helper()
	n := 0
	err := s.view().scan([]byte{areaCatalog}, []byte{areaSession + 1}, false, func(key, _ []byte) (bool, error) {
		n++
		return true, nil
	})
	if err != nil || n != 0 {
		t.Errorf("%d keys are left, error %v", n, err)
	}
}

func TestDelete(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	st := createT(t, s, "one")
	fill(t, st, 10)
	wantErr(t, "delete while open", s.Delete(ctx, "one"), pistore.ErrLocked)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	reader := openT(t, s, "one", pistore.ReadOnly)
	if err := s.Delete(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	_, err := reader.Stats(ctx)
	wantErr(t, "read of a deleted session", err, pistore.ErrNotFound)
	wantErr(t, "delete again", s.Delete(ctx, "one"), pistore.ErrNotFound)
	wantNoRows(t, s)
	createT(t, s, "one")
}

func sequence[R any](rows []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
