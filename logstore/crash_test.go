package logstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pistore"
)

// crashImage copies the folder of an open database: what a process that dies at
// this instant leaves to others on the same machine. It tries again when a file
// came or went meanwhile, since that is no instant.
func crashImage(t *testing.T, dir string) string {
	t.Helper()
	for {
		before := list(t, dir)
		to := t.TempDir()
		whole := true
		for _, name := range before {
			if name == lockName {
				continue // closing it would drop the lock of this process
			}
			data, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				whole = false
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if whole && slices.Equal(before, list(t, dir)) {
			return to
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func logsIn(t *testing.T, dir string) []string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs %v, error %v", logs, err)
	}
	slices.Sort(logs)
	return logs
}

// TestTornFirstRecord: a process dies while it writes the first record of a new
// log, which so replays to nothing. The engine must not keep it beside the next
// one: dying again would leave two logs with unclean tails, which it refuses.
func TestTornFirstRecord(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	commitChain(t, createT(t, s, "one"), 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStoreT(t, dir, Options{})
	commitChain(t, openT(t, s, "one", pistore.ReadWrite), 1)

	image := crashImage(t, dir)
	logs := logsIn(t, image)
	if err := os.Truncate(logs[len(logs)-1], 60); err != nil {
		t.Fatal(err)
	}
	s = openStoreT(t, image, Options{})
	st := openT(t, s, "one", pistore.ReadWrite)
	if n := checkChain(t, st); n != 3 {
		t.Fatalf("%d commits, want the 3 before the torn one", n)
	}
	commitChain(t, st, 1)

	s = openStoreT(t, crashImage(t, image), Options{})
	if n := checkChain(t, openT(t, s, "one", pistore.ReadWrite)); n != 4 {
		t.Fatalf("%d commits after the second crash, want 4", n)
	}
}

// TestCutLoadIsCleared: a process dies in the middle of a load.
func TestCutLoadIsCleared(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	var image string
	_, err := s.Load(ctx, func(yield func(pistore.Row, error) bool) {
		if !yield(pistore.Header{Info: pistore.Info{ID: "two"}}, nil) {
			return
		}
		for i := range 30 {
			w := message(pistore.ID(rune('A'+i)), "", 100_000)
			if !yield(pistore.Entry{ID: w.ID, Seq: pistore.Seq(i + 1), Type: w.Type, Payload: w.Payload}, nil) {
				return
			}
		}
		createT(t, s, "one") // its sync takes what the load wrote with it
		image = crashImage(t, dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	cut := openStoreT(t, image, Options{})
	all := drain(t, cut.List(ctx))
	if len(all) != 1 || all[0].ID != "one" {
		t.Fatalf("sessions %v, want one", all)
	}
	if err := cut.Delete(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	wantNoRows(t, cut)
	next := createT(t, cut, "three")
	if next.view.ord <= 2 {
		t.Errorf("ordinal %d was used again", next.view.ord)
	}
}
