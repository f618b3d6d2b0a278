package logstore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// TestOpenFails makes every change that opening a killed process's database makes
// fail in turn: an error with its cause, no lock that stays, and nothing is lost.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		dir := t.TempDir()
		s := openStoreT(t, dir, Options{Durability: level})
		commitChain(t, createT(t, s, "one"), 20)
		image := crashImage(t, dir)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for n := int64(0); n < 200; n++ {
			image := crashImage(t, image) // a failed open may leave more to do for the next one
			left := atomic.Int64{}
			left.Store(n)
			was := ""
			base := hookFS{FS: vfs.Default, hook: func(op fsOp) error {
				// LOCK and OWNER are information only, or the kernel's.
				if op.name != lockName && op.name != ownerName && op.what != "close" && left.Add(-1) == -1 {
					was = fmt.Sprint(op)
					return syscall.EIO
				}
				return nil
			}}
			s, err := Open(image, Options{Durability: level, fs: base})
			if err == nil {
				err = s.Close()
			}
			if err == nil && left.Load() >= 0 {
				break // there are no more changes
			}
			failed++
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Errorf("%v: change %d, %s: %v, want its cause", level, n, was, err)
			}
			r := openStoreT(t, image, Options{ReadOnly: true})
			if got := checkChain(t, openT(t, r, "one", pistore.ReadOnly)); got != 20 {
				t.Fatalf("%v: %d commits after change %d, %s, failed", level, got, n, was)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if failed < 10 {
			t.Errorf("%v: %d changes failed, too few to tell", level, failed)
		}
		wantChain(t, image, level, 20)
	}
}
