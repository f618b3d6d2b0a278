package logstore

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

var compactions = flag.Int("compactions", 3, "compactions under load")

// TestCompactUnderLoad compacts again and again while several sessions commit:
// nothing that was acknowledged is lost, in this process or for the next one.
func TestCompactUnderLoad(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		dir := t.TempDir()
		s := openStoreT(t, dir, Options{Durability: level, MemtableBytes: 4 << 20, CompressAboveBytes: -1})
		const sessions = 4
		var acked [sessions]int
		var stop atomic.Bool
		var wg sync.WaitGroup
		var open [sessions]*session
		for i := range sessions {
			open[i] = createT(t, s, sessionName(i))
			wg.Go(func() {
				for ; !stop.Load(); acked[i]++ {
					if _, err := open[i].Commit(ctx, chainTx(acked[i], 300)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for n := range *compactions {
			var err error
			if n%2 == 0 {
				_, err = s.Compact(ctx)
			} else {
				_, err = open[n%sessions].Compact(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		}
		stop.Store(true)
		wg.Wait()
		image := crashImage(t, dir)
		total := 0
		for i, st := range open {
			if n := checkChain(t, st); n != acked[i] {
				t.Errorf("%v: session %d has %d commits, %d were acknowledged", level, i, n, acked[i])
			}
			total += acked[i]
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStoreT(t, image, Options{Durability: level})
		for i := range open {
			if n := checkChain(t, openT(t, s, sessionName(i), pistore.ReadWrite)); n != acked[i] {
				t.Errorf("%v: session %d has %d commits after a kill, %d were acknowledged", level, i, n, acked[i])
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %d compactions beside %d commits", level, *compactions, total)
	}
}

// TestCompact gives space back under load, and changes no digest.
func TestCompact(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{MemtableBytes: 1, CompressAboveBytes: -1})
	still, busy := createT(t, s, "still"), createT(t, s, "busy")
	noise := make([]byte, 20_000)
	rng := newChaCha(1)
	for range 60 { // a register is one cell, whatever was in it before
		_, _ = rng.Read(noise)
		commitT(t, still, pistore.SetRegister{Namespace: "app", Key: "x", Value: pistore.JSON(fmt.Sprintf("%q", fmt.Sprintf("%x", noise)))})
	}
	want := digestT(t, still)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; !stop.Load(); n++ {
			if _, err := busy.Commit(ctx, chainTx(n, 500)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	compacter, ok := pistore.Find[pistore.Compacter](pistore.Storage(still))
	if !ok {
		t.Fatal("no Compacter")
	}
	result, err := compacter.Compact(ctx)
	if err != nil || result.BytesAfter <= 0 || result.BytesAfter > result.BytesBefore {
		t.Errorf("compacted %+v, error %v", result, err)
	}
	if got := digestT(t, still); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	stop.Store(true)
	wg.Wait()
	checkChain(t, busy)
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "busy"); err != nil {
		t.Fatal(err)
	}
	result, err = s.Compact(ctx)
	if err != nil || result.BytesAfter >= result.BytesBefore {
		t.Errorf("compacted %+v after a delete, error %v", result, err)
	}
	wantErr(t, "compact of a closed session", errOf(busy.Compact(ctx)), pistore.ErrClosed)
	wantErr(t, "compact of a reader", errOf(openT(t, s, "still", pistore.ReadOnly).Compact(ctx)), pistore.ErrReadOnly)
}

func errOf(_ pistore.CompactResult, err error) error { return err }

// TestCompactFails: a fault during a compaction ends it, and it does not hang.
func TestCompactFails(t *testing.T) {
	var broken atomic.Bool
	s := openStoreT(t, t.TempDir(), Options{MemtableBytes: 1, fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
		if broken.Load() && op.kind == "table" && op.what == "write" {
			return syscall.ENOSPC
		}
		return nil
	}}})
	st := createT(t, s, "one")
	commitChain(t, st, 300)
	broken.Store(true)
	err := errOf(st.Compact(ctx))
	wantErr(t, "compact", err, pistore.ErrFaulted)
	wantErr(t, "compact", err, syscall.ENOSPC)
	wantErr(t, "close", s.Close(), pistore.ErrFaulted)
}

// TestBackup copies a database under load: the copy is whole, holds what was
// acknowledged before, and opens for writing.
func TestBackup(t *testing.T) {
	for _, level := range bothLevels {
		s := openStoreT(t, t.TempDir(), Options{Durability: level, MemtableBytes: 1})
		st := createT(t, s, "one")
		var acked atomic.Int64
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if _, err := st.Commit(ctx, chainTx(n, 3000)); err != nil {
					t.Error(err)
					return
				}
				acked.Store(int64(n + 1))
			}
		})
		for i := range 5 {
			before := int(acked.Load())
			dir := filepath.Join(t.TempDir(), "sub", fmt.Sprint(i))
			if err := s.Backup(ctx, dir); err != nil {
				t.Fatal(err)
			}
			wantErr(t, "backup into a folder that exists", s.Backup(ctx, dir), fs.ErrExist)
			b := openStoreT(t, dir, Options{Durability: level})
			copied := openT(t, b, "one", pistore.ReadWrite)
			if n := checkChain(t, copied); n < before {
				t.Errorf("%v: %d commits in the backup, %d were acknowledged before", level, n, before)
			}
			commitChain(t, copied, 3)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		stop.Store(true)
		wg.Wait()
		wantErr(t, "backup into itself", s.Backup(ctx, filepath.Join(s.dir, "b")), pistore.ErrInvalid)
		checkChain(t, st)
	}
}

// TestBackupFails: an error of the place that a backup goes to leaves nothing
// there, and the database as it was.
func TestBackupFails(t *testing.T) {
	var armed atomic.Bool
	var left atomic.Int64
	s := openStoreT(t, t.TempDir(), Options{fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
		if armed.Load() && op.what != "close" && left.Add(-1) < 0 {
			return syscall.ENOSPC
		}
		return nil
	}}})
	st := createT(t, s, "one")
	commitChain(t, st, 20)
	failed := 0
	for n := int64(1); ; n++ { // the first change is the log's own
		dir := filepath.Join(t.TempDir(), "backup")
		left.Store(n)
		armed.Store(true)
		err := s.Backup(ctx, dir)
		armed.Store(false)
		if err == nil {
			break
		}
		failed++
		wantErr(t, "backup", err, syscall.ENOSPC)
		if errors.Is(err, pistore.ErrFaulted) {
			t.Fatalf("failure %d poisoned the database: %v", n, err)
		}
		if names := list(t, filepath.Dir(dir)); len(names) != 0 {
			t.Errorf("failure %d left %v", n, names)
		}
	}
	if failed < 5 {
		t.Errorf("%d changes failed, too few to tell", failed)
	}
	commitChain(t, st, 1)
}

// TestMetrics: the counts are those of what was done.
func TestMetrics(t *testing.T) {
	for _, level := range bothLevels {
		s := openStoreT(t, t.TempDir(), Options{Durability: level})
		before := s.Metrics()
		st := createT(t, s, "one")
		commitChain(t, st, 50)
		m := s.Metrics()
		sum := int64(0)
		for _, b := range m.CommitLatency {
			sum += b.Count
		}
		if m.Commits != 50 || sum != 50 || m.OpenSessions != 1 || m.WrittenBytes < before.WrittenBytes+50*200 || m.DiskBytes <= 0 {
			t.Errorf("%v: %+v", level, m)
		}
		if syncs := m.Syncs - before.Syncs; level == pistore.Power && syncs < 50 || level == pistore.Process && syncs > 5 {
			t.Errorf("%v: %d syncs for 50 commits", level, syncs)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if m := s.Metrics(); m.Commits != 50 {
			t.Errorf("after Close: %+v", m)
		}
	}
}
