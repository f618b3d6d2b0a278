package logstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"pistore"
)

// untilFault commits a chain until a commit fails and returns how many were
// acknowledged, and the failure.
func untilFault(st pistore.Storage) (n int, err error) {
	for ; ; n++ {
		if _, err := st.Commit(ctx, chainTx(n, 2000)); err != nil {
			return n, err
		}
	}
}

// wantChain reopens a database: there is exactly what was acknowledged, and at
// most the one commit whose outcome was unknown.
func wantChain(t *testing.T, dir string, level pistore.Durability, acked int) {
	t.Helper()
	s := openStoreT(t, dir, Options{Durability: level})
	st := openT(t, s, "one", pistore.ReadWrite)
	if n := checkChain(t, st); n < acked || n > acked+1 {
		t.Errorf("%d commits, %d were acknowledged", n, acked)
	}
	commitChain(t, st, 2)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestVanishedFolder takes the folder away while it is written to. What still
// goes into open files counts; the first file that cannot be made ends it.
func TestVanishedFolder(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		dir := filepath.Join(t.TempDir(), "db")
		s := openStoreT(t, dir, Options{Durability: level, MemtableBytes: 1, CompressAboveBytes: -1})
		st := createT(t, s, "one")
		if err := os.Rename(dir, dir+".moved"); err != nil {
			t.Fatal(err)
		}
		acked, err := untilFault(st)
		wantErr(t, "commit", err, pistore.ErrFaulted)
		wantErr(t, "commit", err, fs.ErrNotExist)
		wantErr(t, "close", s.Close(), pistore.ErrFaulted)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder came back: %v", err)
		}
		_, err = Open(dir, Options{ReadOnly: true})
		wantErr(t, "open of what is gone", err, pistore.ErrNotFound)
		wantChain(t, dir+".moved", level, acked)
	}
}
