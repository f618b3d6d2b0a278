package logstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// faultPoint is a kind of change that begins to fail while commits run.
type faultPoint struct {
	name   string
	op     string
	kind   string
	levels []pistore.Durability
	// skip lets that many of them through first.
	skip int64
}

var bothLevels = []pistore.Durability{pistore.Process, pistore.Power}

var faultPoints = []faultPoint{
	{"log write", "write", "log", bothLevels, 7},
	{"log sync", "sync", "log", []pistore.Durability{pistore.Power}, 7},
	{"log sync at close", "sync", "log", []pistore.Durability{pistore.Process}, 0},
	{"log create", "create", "log", bothLevels, 1},
	{"log close", "close", "log", bothLevels, 1},
	{"log remove", "remove", "log", bothLevels, 0},
	{"manifest write", "write", "manifest", bothLevels, 1},
	{"manifest sync", "sync", "manifest", bothLevels, 1},
	{"table create", "create", "table", bothLevels, 1},
	{"table write", "write", "table", bothLevels, 3},
	{"table sync", "sync", "table", bothLevels, 1},
	{"table close", "close", "table", bothLevels, 0},
	{"folder sync", "sync", "dir", bothLevels, 2},
}

// TestFault makes each kind of change fail under load. The commits that notice
// get ErrFaulted, none succeeds any more, Close returns, and the same process
// finds every acknowledged commit again.
func TestFault(t *testing.T) {
	t.Parallel()
	for _, point := range faultPoints {
		for _, level := range point.levels {
			for _, sessions := range []int{1, 64} {
				t.Run(fmt.Sprintf("%s/%s/%d", point.name, level, sessions), func(t *testing.T) {
					testFault(t, point, level, sessions)
				})
			}
		}
	}
}

func testFault(t *testing.T, point faultPoint, level pistore.Durability, sessions int) {
	var armed atomic.Bool
	var seen atomic.Int64
	base := hookFS{FS: vfs.Default, hook: func(op fsOp) error {
		if armed.Load() && op.what == point.op && op.kind == point.kind && seen.Add(1) > point.skip {
			return syscall.EIO
		}
		return nil
	}}
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{Durability: level, MemtableBytes: 1, CompressAboveBytes: -1, fs: base})
	var open []*session
	for i := range sessions {
		open = append(open, createT(t, s, pistore.SessionID(fmt.Sprint(i))))
	}
	armed.Store(true)
	acked := make([]int, sessions)
	var wg sync.WaitGroup
	for i, st := range open {
		wg.Go(func() { acked[i] = commitUntilFault(t, st) })
	}
	waitOrHang(t, &wg)
	for _, st := range open {
		_, err := st.Commit(ctx, pistore.Tx{Writes: []pistore.Write{message("late", "", 10)}})
		wantErr(t, "commit after the fault", err, pistore.ErrFaulted)
		_, err = st.Stats(ctx)
		wantErr(t, "read after the fault", err, pistore.ErrFaulted)
	}
	_, err := s.Create(ctx, pistore.Info{})
	wantErr(t, "create after the fault", err, pistore.ErrFaulted)
	err = s.Close()
	wantErr(t, "close", err, pistore.ErrFaulted)
	wantErr(t, "close", err, syscall.EIO)
	if errors.Is(err, errAbandoned) {
		t.Fatal("the engine did not come back from Close")
	}

	s = openStoreT(t, dir, Options{Durability: level})
	for i := range sessions {
		st := openT(t, s, pistore.SessionID(fmt.Sprint(i)), pistore.ReadWrite)
		if n := checkChain(t, st); n < acked[i] || n > acked[i]+1 {
			t.Errorf("session %d has %d commits, %d were acknowledged", i, n, acked[i])
		}
		commitChain(t, st, 2)
	}
}

// waitOrHang fails the test instead of hanging with it.
func waitOrHang(t *testing.T, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("commits hang")
	}
}

// commitUntilFault commits a chain until a commit fails, which has to be by a
// fault, and returns how many were acknowledged.
func commitUntilFault(t *testing.T, st pistore.Storage) int {
	for n := 0; ; n++ {
		if _, err := st.Commit(ctx, chainTx(n, 2000)); err != nil {
			if !errors.Is(err, pistore.ErrFaulted) || !errors.Is(err, syscall.EIO) {
				t.Errorf("commit %d: %v, want ErrFaulted and its cause", n, err)
			}
			return n
		}
	}
}

// chainTx is the nth transaction of a session that can be checked after a
// crash: an entry under the one before, a usage row, and a register that counts.
func chainTx(n, size int) pistore.Tx {
	id := func(what string, n int) pistore.ID { return pistore.ID(fmt.Sprintf("%s-%08d", what, n)) }
	parent := pistore.ID("")
	if n > 0 {
		parent = id("entry", n-1)
	}
	return pistore.Tx{Writes: []pistore.Write{
		message(id("entry", n), parent, size),
		usageRow(id("usage", n), id("entry", n)),
		pistore.SetRegister{Namespace: "app", Key: "n", Value: pistore.JSON(fmt.Sprint(n))},
	}}
}

// commitChain commits more transactions of a chain.
func commitChain(t testing.TB, st pistore.Storage, more int) {
	t.Helper()
	n := checkChain(t, st)
	for i := range more {
		if _, err := st.Commit(ctx, chainTx(n+i, 200)); err != nil {
			t.Fatal(err)
		}
	}
	if got := checkChain(t, st); got != n+more {
		t.Fatalf("%d commits, want %d", got, n+more)
	}
}

// checkChain checks that a session holds whole transactions of a chain, in
// order and without a gap, and returns how many.
func checkChain(t testing.TB, st pistore.Storage) int {
	t.Helper()
	entries := drain(t, st.ScanEntries(ctx, pistore.ScanQuery{}))
	usage := drain(t, st.ScanUsage(ctx, pistore.ScanQuery{}))
	for i, e := range entries {
		want := chainTx(i, 0).Writes[0].(pistore.InsertEntry)
		if e.ID != want.ID || e.ParentID != want.ParentID || e.Seq != pistore.Seq(3*i+1) {
			t.Fatalf("commit %d: entry %s under %q at seq %d", i, e.ID, e.ParentID, e.Seq)
		}
		if i < len(usage) && (usage[i].EntryID != e.ID || usage[i].Seq != e.Seq+1) {
			t.Fatalf("commit %d: usage row %s at seq %d", i, usage[i].ID, usage[i].Seq)
		}
	}
	if len(usage) != len(entries) {
		t.Fatalf("%d entries and %d usage rows", len(entries), len(usage))
	}
	at, err := st.Registers(ctx, []pistore.Address{{Namespace: "app", Key: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		if want := pistore.JSON(fmt.Sprint(len(entries) - 1)); len(at) != 1 || at[0].Value != want {
			t.Fatalf("%d entries, register %v", len(entries), at)
		}
	}
	stats, err := st.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(len(entries)); stats.Entries != n || stats.Messages != n || stats.Usage.Rows != n ||
		stats.Usage.TotalTokens != pistore.Decimal(fmt.Sprint(1562*n)) {
		t.Fatalf("%d entries, statistics %+v", len(entries), stats)
	}
	if len(entries) > 0 {
		path := drain(t, st.Branch(ctx, pistore.BranchQuery{Start: entries[len(entries)-1].ID, StructureOnly: true}))
		if len(path) != len(entries) {
			t.Fatalf("%d entries, branch of %d", len(entries), len(path))
		}
	}
	return len(entries)
}
