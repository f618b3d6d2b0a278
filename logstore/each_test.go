package logstore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// failingOp is an operation every change of which is made to fail, in
// turn: those that no other backend has, and the crash kit so does not know.
type failingOp struct {
	name string
	opts Options
	run  func(s *Store) error
	// outside: its own failures do not poison the database.
	outside bool
}

var failingOps = []failingOp{
	{name: "backup", outside: true, run: func(s *Store) error { return s.Backup(ctx, "copy") }},
	{name: "migrate", opts: Options{version: pistore.StorageVersion + 1, migrations: []migration{{
		from: pistore.StorageVersion, apply: func(v view, b *pebble.Batch) error {
			w := newRecordWriter(v.codec)
			return b.Set(registerKey(v.ord, "app", "migrated"), w.register(1, `true`), nil)
		},
	}}}, run: func(s *Store) error {
		_, err := s.Open(ctx, "one", pistore.ReadWrite)
		return err
	}},
}

// TestEachChangeFails lets every change that an operation makes of the file
// system fail in turn, and those of closing after it: the failure is told with
// its cause, and opening again finds the state before or after, whole.
func TestEachChangeFails(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		fs := vfs.NewCrashableMem()
		s := openStoreT(t, "db", Options{Durability: level, fs: fs, boot: bootA})
		commitChain(t, createT(t, s, "one"), 10)
		commitChain(t, createT(t, s, "two"), 5)
		if err := s.eng.db.Flush(); err != nil {
			t.Fatal(err)
		}
		commitChain(t, openOther(t, s, "one"), 10)
		made := memImage(fs)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, op := range failingOps {
			t.Run(op.name+"/"+level.String(), func(t *testing.T) {
				op.opts.Durability, op.opts.boot, op.opts.MemtableBytes, op.opts.CompressAboveBytes = level, bootA, 1, -1
				n := int64(0)
				for ; n < 1000 && failsAt(t, memImage(made), op, n); n++ {
				}
				t.Logf("%d changes failed", n)
				if n == 0 {
					t.Error("no change failed")
				}
			})
		}
	}
}

// openOther opens a session that has a writer, once that one is closed.
func openOther(t *testing.T, s *Store, id pistore.SessionID) *session {
	t.Helper()
	s.mu.Lock()
	var open []*session
	for h := range s.handles {
		open = append(open, h)
	}
	s.mu.Unlock()
	for _, h := range open {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return openT(t, s, id, pistore.ReadWrite)
}

// failsAt lets one change fail, and reports whether there were so many.
func failsAt(t *testing.T, fs *vfs.MemFS, op failingOp, n int64) bool {
	t.Helper()
	var armed atomic.Bool
	var left atomic.Int64
	left.Store(n)
	was := ""
	opts := op.opts
	opts.fs = hookFS{FS: fs, hook: func(change fsOp) error {
		if change.name == ownerName || op.outside && change.what == "close" { // a copy is synced before
			return nil
		}
		if armed.Load() && left.Add(-1) == -1 {
			was = fmt.Sprint(change)
			return syscall.EIO
		}
		return nil
	}}
	s := openStoreT(t, "db", opts)
	armed.Store(true)
	err := op.run(s)
	cerr := s.Close()
	armed.Store(false)
	what := fmt.Sprintf("change %d, %s", n, was)
	if left.Load() >= 0 {
		if err != nil || cerr != nil {
			t.Errorf("nothing failed: %v, %v", err, cerr)
		}
		return false
	}
	for _, err := range []error{err, cerr} {
		if err != nil && (!errors.Is(err, syscall.EIO) || !op.outside && !errors.Is(err, pistore.ErrFaulted)) {
			t.Errorf("%s: %v, want its cause", what, err)
		}
	}
	if err == nil && cerr == nil {
		t.Errorf("%s: nobody was told", what)
	}

	opts.fs = fs
	s = openStoreT(t, "db", opts)
	st := openT(t, s, "one", pistore.ReadWrite)
	if got := checkChain(t, st); got != 20 {
		t.Errorf("%s: %d commits, want 20", what, got)
	}
	for _, info := range drain(t, s.List(ctx)) {
		if info.ID == "one" {
			continue
		}
		if got := checkChain(t, openT(t, s, info.ID, pistore.ReadOnly)); got != 5 {
			t.Errorf("%s: session %s has %d commits, want 5", what, info.ID, got)
		}
	}
	if _, err := s.Open(ctx, "two", pistore.ReadOnly); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	commitChain(t, st, 1)
	if err := s.Close(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return true
}
