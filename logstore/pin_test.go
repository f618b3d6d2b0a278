package logstore

import (
	"errors"
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

var pinOpens = flag.Int("pinopens", 25, "read-only opens of the test beside a writer")

// TestReadOnlyBesideWriter opens a database read-only while it is written to and
// flushed all the time: what is seen is whole, no older than what was
// acknowledged before, and stays as it is; the reader changes nothing.
func TestReadOnlyBesideWriter(t *testing.T) {
	for _, level := range bothLevels {
		t.Run(level.String(), func(t *testing.T) { testReadOnlyBesideWriter(t, level) })
	}
}

func testReadOnlyBesideWriter(t *testing.T, level pistore.Durability) {
	dir := t.TempDir()
	var flushes atomic.Int64
	s := openStoreT(t, dir, Options{
		Durability: level, MemtableBytes: 1, CompressAboveBytes: -1,
		fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
			if op.what == "create" && op.kind == "table" {
				flushes.Add(1)
			}
			return nil
		}},
	})
	const sessions = 3
	var acked [sessions]atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range sessions {
		st := createT(t, s, sessionName(i))
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if _, err := st.Commit(ctx, chainTx(n, 3000)); err != nil {
					t.Error(err)
					return
				}
				acked[i].Store(int64(n + 1))
			}
		})
	}
	watched := hookFS{FS: vfs.Default, hook: func(op fsOp) error {
		if op.what != "close" {
			t.Errorf("a reader did %v", op)
		}
		return nil
	}}
	busy, opens := 0, 0
	for ; opens < *pinOpens || flushes.Load() < 5 && opens < 100_000; opens++ {
		var before [sessions]int
		for i := range acked {
			before[i] = int(acked[i].Load())
		}
		r, err := Open(dir, Options{ReadOnly: true, Durability: level, fs: watched})
		if errors.Is(err, pistore.ErrBusy) {
			busy++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range sessions {
			st := openT(t, r, sessionName(i), pistore.ReadOnly)
			n := checkChain(t, st)
			if n < before[i] {
				t.Errorf("session %d: %d commits are seen, %d were acknowledged before", i, n, before[i])
			}
			if again := checkChain(t, st); again != n {
				t.Errorf("session %d: first %d commits, then %d", i, n, again)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d opens beside %d new tables and %d commits, %d were busy",
		opens, flushes.Load(), acked[0].Load()+acked[1].Load()+acked[2].Load(), busy)
	if flushes.Load() < 5 || busy > opens/5 {
		t.Errorf("%d tables, %d busy opens of %d", flushes.Load(), busy, opens)
	}
}

// changingFS changes a folder behind the back of whoever lists it.
type changingFS struct {
	vfs.FS
	lists atomic.Int64
	each  func(n int64)
}

func (f *changingFS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	f.each(f.lists.Add(1))
	return names, err
}

func (f *changingFS) Unwrap() vfs.FS { return f.FS }

// TestBusyWriter: a writer that flushes between any two looks is ErrBusy in the
// end; one that stops soon is waited for.
func TestBusyWriter(t *testing.T) {
	fs := vfs.NewMem()
	s := openStoreT(t, "db", Options{fs: fs})
	st := createT(t, s, "one")
	commitChain(t, st, 20)
	// A look is three listings, behind the one of the folder's check; the last
	// may not change any more.
	for until, want := range map[int64]error{4: nil, 1000: pistore.ErrBusy} {
		watched := &changingFS{FS: fs}
		watched.each = func(n int64) {
			if n > 1 && n < until {
				commitChain(t, st, 1)
				if err := s.eng.db.Flush(); err != nil {
					t.Error(err)
				}
			}
		}
		r, err := Open("db", Options{fs: watched, ReadOnly: true})
		if !errors.Is(err, want) {
			t.Fatalf("until %d: %v, want %v", until, err, want)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "again later") {
				t.Errorf("%v gives no advice", err)
			}
			continue
		}
		if got, want := checkChain(t, openT(t, r, "one", pistore.ReadOnly)), checkChain(t, st); got != want {
			t.Errorf("%d commits, want %d", got, want)
		}
		if n := watched.lists.Load(); n < 7 {
			t.Errorf("%d listings: it did not look again", n)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
