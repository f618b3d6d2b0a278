package logstore

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// TestSync: what was acknowledged before a Sync is there after a power cut, at
// either level.
func TestSync(t *testing.T) {
	for _, level := range bothLevels {
		fs := vfs.NewCrashableMem()
		s := openStoreT(t, "db", Options{Durability: level, fs: fs, boot: bootA, MemtableBytes: 1})
		st := createT(t, s, "one")
		for n := range 3 {
			commitChain(t, st, 50+100*n) // the last ones with rotated logs
			syncer, ok := pistore.Find[pistore.Syncer](pistore.Storage(st))
			if !ok {
				t.Fatal("no Syncer")
			}
			if err := syncer.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			left := fs.CrashClone(vfs.CrashCloneCfg{})
			again := openStoreT(t, "db", Options{Durability: level, fs: left, boot: bootB})
			if got, want := checkChain(t, openT(t, again, "one", pistore.ReadOnly)), checkChain(t, st); got != want {
				t.Errorf("%v: %d commits after a power cut, %d were synced", level, got, want)
			}
		}
		if err := s.Sync(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "sync of a closed session", st.Sync(ctx), pistore.ErrClosed)
		wantErr(t, "sync of a closed store", s.Sync(ctx), pistore.ErrClosed)
	}
}

// TestSyncFails: an error of a real sync poisons the database, at either level.
func TestSyncFails(t *testing.T) {
	for _, kind := range []string{"log", "dir"} {
		var broken atomic.Bool
		dir := t.TempDir()
		s := openStoreT(t, dir, Options{fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
			if broken.Load() && op.what == "sync" && op.kind == kind {
				return syscall.EIO
			}
			return nil
		}}})
		st := createT(t, s, "one")
		commitChain(t, st, 3)
		broken.Store(true)
		err := st.Sync(ctx)
		wantErr(t, "sync", err, pistore.ErrFaulted)
		wantErr(t, "sync", err, syscall.EIO)
		broken.Store(false)
		wantErr(t, "sync again", st.Sync(ctx), pistore.ErrFaulted)
		_, err = st.Commit(ctx, chainTx(3, 10))
		wantErr(t, "commit", err, pistore.ErrFaulted)
		_ = s.Close()
		s = openStoreT(t, dir, Options{})
		if n := checkChain(t, openT(t, s, "one", pistore.ReadOnly)); n != 3 {
			t.Errorf("%d commits, want 3", n)
		}
	}
}

// TestCancelledSync: ending the context ends the wait, not the sync.
func TestCancelledSync(t *testing.T) {
	reached, release := make(chan struct{}, 10), make(chan struct{})
	var hold atomic.Bool
	var synced atomic.Int64
	s := openStoreT(t, t.TempDir(), Options{fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
		if hold.Load() && op.what == "sync" && op.kind == "log" {
			reached <- struct{}{}
			<-release
			synced.Add(1)
		}
		return nil
	}}})
	st := createT(t, s, "one")
	commitChain(t, st, 3)
	hold.Store(true)
	during, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- st.Sync(during) }()
	<-reached
	cancel()
	wantErr(t, "sync", <-done, context.Canceled)
	hold.Store(false)
	close(release)
	if err := errors.Join(st.Close(), s.Close()); err != nil || synced.Load() != 1 {
		t.Errorf("%d syncs went on, error %v", synced.Load(), err)
	}
}
