package logstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// stallFS lets a test hold the writes of the log.
type stall struct {
	on      atomic.Bool
	reached chan struct{}
	release chan struct{}
}

func newStall() *stall {
	return &stall{reached: make(chan struct{}, 1000), release: make(chan struct{})}
}

func (s *stall) hook(op fsOp) error {
	if s.on.Load() && op.kind == "log" && op.what == "write" {
		s.reached <- struct{}{}
		<-s.release
	}
	return nil
}

// TestCancelledCommit: before admission a cancelled context writes nothing;
// after it the commit reports what really happened.
func TestCancelledCommit(t *testing.T) {
	hold := newStall()
	s := openStoreT(t, t.TempDir(), Options{fs: hookFS{FS: vfs.Default, hook: hold.hook}})
	st := createT(t, s, "one")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := st.Commit(cancelled, chainTx(0, 10))
	wantErr(t, "commit under a cancelled context", err, context.Canceled)

	// Admitted, then cancelled while the log is being written.
	hold.on.Store(true)
	during, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		_, err := st.Commit(during, chainTx(0, 10))
		done <- err
	}()
	<-hold.reached
	cancel()
	close(hold.release)
	if err := <-done; err != nil {
		t.Errorf("admitted commit: %v", err)
	}
	if n := checkChain(t, st); n != 1 {
		t.Errorf("%d commits, want 1", n)
	}

	// Waiting for the turn, then cancelled or closed.
	<-st.commits.turn
	waiting, cancel := context.WithCancel(ctx)
	go func() {
		_, err := st.Commit(waiting, chainTx(1, 10))
		done <- err
	}()
	cancel()
	wantErr(t, "commit cancelled in the queue", <-done, context.Canceled)
	entered := make(chan struct{})
	go func() {
		close(entered)
		_, err := st.Commit(ctx, chainTx(1, 10))
		done <- err
	}()
	<-entered
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "commit in the queue of a session that closes", <-done, pistore.ErrClosed)
	again := openT(t, s, "one", pistore.ReadWrite)
	if n := checkChain(t, again); n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
}

// TestCloseWaitsForAdmitted: a commit whose log write is under way is finished
// and acknowledged before Close returns.
func TestCloseWaitsForAdmitted(t *testing.T) {
	hold := newStall()
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{fs: hookFS{FS: vfs.Default, hook: hold.hook}})
	st := createT(t, s, "one")
	hold.on.Store(true)
	done, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := st.Commit(ctx, chainTx(0, 10))
		done <- err
	}()
	<-hold.reached
	go func() { closed <- s.Close() }()
	<-s.gate.sealed
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait for an admitted commit: %v", err)
	default:
	}
	close(hold.release)
	if err := errors.Join(<-done, <-closed); err != nil {
		t.Fatal(err)
	}
	s = openStoreT(t, dir, Options{})
	if n := checkChain(t, openT(t, s, "one", pistore.ReadOnly)); n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
}

// TestSessionsDoNotWaitForEachOther: with one session's commit held before it is
// applied, others commit.
func TestSessionsDoNotWaitForEachOther(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	held, free := createT(t, s, "held"), createT(t, s, "free")
	<-held.commits.turn
	commitChain(t, free, 5)
	held.commits.turn <- struct{}{}
	commitChain(t, held, 5)
}

// TestConcurrentCommitters: commits of one session take effect one after the
// other whoever makes them, and share syncs.
func TestConcurrentCommitters(t *testing.T) {
	for _, level := range bothLevels {
		var syncs atomic.Int64
		s := openStoreT(t, t.TempDir(), Options{Durability: level, fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
			if op.kind == "log" && op.what == "sync" {
				syncs.Add(1)
			}
			return nil
		}}})
		st := createT(t, s, "one")
		syncs.Store(0)
		const committers, each = 32, 20
		var firsts sync.Map
		var wg sync.WaitGroup
		for c := range committers {
			wg.Go(func() {
				for n := range each {
					id := pistore.ID(fmt.Sprintf("%d-%d", c, n))
					r, err := st.Commit(ctx, pistore.Tx{Writes: []pistore.Write{
						message(id, "", 50), pistore.SetRegister{Namespace: "app", Key: string(id), Value: "1"},
					}})
					if err != nil {
						t.Error(err)
						return
					}
					if _, twice := firsts.LoadOrStore(r.FirstSeq, true); twice || r.Seqs[1] != r.Seqs[0]+1 {
						t.Errorf("seqs %v", r.Seqs)
					}
					if r.Stats.Entries != int64(r.FirstSeq+1)/2 {
						t.Errorf("statistics %+v at seq %d", r.Stats, r.FirstSeq)
					}
				}
			})
		}
		wg.Wait()
		stats, err := st.Stats(ctx)
		if err != nil || stats.Entries != committers*each {
			t.Errorf("statistics %+v, error %v", stats, err)
		}
		if n := syncs.Load(); n > committers*each*9/10 {
			t.Errorf("%v: %d syncs for %d commits", level, n, committers*each)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoSessionStarves: where there are more sessions than cores, each gets its
// share, and not the one that has just committed all of them.
func TestNoSessionStarves(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const sessions, commits = 64, 6400
	s := openStoreT(t, t.TempDir(), Options{Durability: pistore.Process})
	var total atomic.Int64
	var wg sync.WaitGroup
	begin, done := make(chan struct{}), make([]int, sessions)
	for i := range sessions {
		st := createT(t, s, pistore.SessionID(fmt.Sprint(i)))
		wg.Go(func() {
			<-begin
			for total.Add(1) <= commits {
				if _, err := st.Commit(ctx, pistore.Tx{Writes: []pistore.Write{
					message(pistore.ID(fmt.Sprint(done[i])), "", 50),
				}}); err != nil {
					t.Error(err)
					return
				}
				done[i]++
			}
		})
	}
	close(begin)
	wg.Wait()
	if slices.Min(done) < commits/sessions/2 {
		t.Errorf("of %d commits the sessions did %v", commits, done)
	}
}

// TestReadersBesideAClose: iterators that are open when the store closes end
// with ErrClosed, and Close does not wait for them.
func TestReadersBesideAClose(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	st := createT(t, s, "one")
	commitChain(t, st, 300)
	ends := map[string]error{}
	closeAfter := func(name string, n int, err error) {
		if n == 1 && name == "export" {
			if cerr := s.Close(); cerr != nil {
				t.Errorf("close: %v", cerr)
			}
		}
		ends[name] = err
	}
	n := 0
	for _, err := range st.ScanEntries(ctx, pistore.ScanQuery{}) {
		n++
		if n == 1 {
			m := 0
			for _, err := range st.Export(ctx) {
				m++
				closeAfter("export", m, err)
			}
		}
		closeAfter("scan", n, err)
	}
	for name, err := range ends {
		if !errors.Is(err, pistore.ErrClosed) {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	if n >= 300 {
		t.Error("the scan went on after Close")
	}
}

// TestSnapshotsOfScans: a scan shows what was there when it began.
func TestSnapshotsOfScans(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	st := createT(t, s, "one")
	commitChain(t, st, 100)
	n := 100
	for what, rows := range map[string]func() int{
		"entries": func() (seen int) {
			for range st.ScanEntries(ctx, pistore.ScanQuery{}) {
				seen++
				commitT(t, st, chainTx(n, 10).Writes...)
				n++
			}
			return seen
		},
		"export": func() (seen int) {
			for row := range st.Export(ctx) {
				if _, ok := row.(pistore.Entry); ok {
					seen++
					commitT(t, st, chainTx(n, 10).Writes...)
					n++
				}
			}
			return seen
		},
	} {
		before := n
		if got := rows(); got != before {
			t.Errorf("%s: %d rows, want the %d of its start", what, got, before)
		}
	}
}
