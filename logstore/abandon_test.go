package logstore

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// TestEngineThatHangs: a dead engine that does not come back from Close is
// abandoned after a bounded time. Its folder stays locked, since it may still be
// at work there.
func TestEngineThatHangs(t *testing.T) {
	hanging, release := make(chan struct{}, 100), make(chan struct{})
	defer close(release)
	var broken atomic.Bool
	base := hookFS{FS: vfs.Default, hook: func(op fsOp) error {
		if op.what == "create" && op.kind == "table" {
			hanging <- struct{}{}
			<-release
			return syscall.EIO // the test's folder is going away
		}
		if broken.Load() && op.kind == "log" && op.what == "write" {
			return syscall.EIO
		}
		return nil
	}}
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{MemtableBytes: 1, closeBound: 20 * time.Millisecond, fs: base})
	st := createT(t, s, "one")
	n := 0
	for len(hanging) == 0 {
		commitT(t, st, chainTx(n, 2000).Writes...)
		n++
	}
	broken.Store(true)
	_, err := st.Commit(ctx, chainTx(n, 10))
	wantErr(t, "commit", err, pistore.ErrFaulted)
	err = s.Close()
	wantErr(t, "close", err, errAbandoned)
	wantErr(t, "close", err, pistore.ErrFaulted)
	_, err = Open(dir, Options{})
	wantErr(t, "open beside an abandoned engine", err, pistore.ErrLocked)
}

// TestEnginePanic: a panic in the engine ends neither the process nor is it
// taken for success; the handle is dead and the folder stays locked.
func TestEnginePanic(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	st := createT(t, s, "one")
	err := s.eng.call("test", func() error { panic("boom") })
	wantErr(t, "call", err, pistore.ErrFaulted)
	_, err = st.Commit(ctx, chainTx(0, 10))
	wantErr(t, "commit", err, pistore.ErrFaulted)
	if err := s.Close(); !errors.Is(err, errAbandoned) {
		t.Errorf("close: %v", err)
	}
	_, err = Open(dir, Options{})
	wantErr(t, "open beside an abandoned engine", err, pistore.ErrLocked)
}
