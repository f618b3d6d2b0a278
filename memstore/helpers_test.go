package memstore_test

import (
	"fmt"
	"iter"
	"testing"

	"pistore"
	"pistore/memstore"
)

func newBackend(t testing.TB) *memstore.Backend {
	t.Helper()
	b := memstore.New(memstore.Options{})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func newSession(t testing.TB, b *memstore.Backend, id pistore.SessionID) pistore.Storage {
	t.Helper()
	s, err := b.Create(t.Context(), pistore.Info{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t testing.TB, b *memstore.Backend, id pistore.SessionID, mode pistore.Mode) pistore.Storage {
	t.Helper()
	s, err := b.Open(t.Context(), id, mode)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func commit(t testing.TB, s pistore.Storage, writes ...pistore.Write) pistore.Receipt {
	t.Helper()
	r, err := s.Commit(t.Context(), pistore.Tx{Writes: writes})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func digest(t testing.TB, s pistore.Storage) string {
	t.Helper()
	d, err := pistore.Digest(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func collect[T any](t testing.TB, rows iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for row, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	return all
}

func stats(t testing.TB, s pistore.Storage) pistore.Stats {
	t.Helper()
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func message(id, parent pistore.ID) pistore.InsertEntry {
	return pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: `{"role":"user"}`}
}

func usage(id pistore.ID, input int) pistore.InsertUsage {
	return pistore.InsertUsage{ID: id, Usage: pistore.JSON(fmt.Sprintf(`{"input":%d}`, input))}
}

func set(key string, value int) pistore.SetRegister {
	return pistore.SetRegister{Namespace: "ns", Key: key, Value: pistore.JSON(fmt.Sprint(value))}
}

func entryIDs(entries []pistore.Entry) []pistore.ID {
	var ids []pistore.ID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func stream(rows ...pistore.Row) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
