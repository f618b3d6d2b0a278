package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// seen is what a watcher got, and the error that it ended with.
type seen struct {
	frames []harness.Frame
	err    error
}

// watch collects what a watcher gets until it ends or enough returns true.
func watch(ctx context.Context, l *harness.Lane, from *harness.Cursor, enough func(harness.Frame) bool) seen {
	var s seen
	for f, err := range l.Watch(ctx, from) {
		if err != nil {
			s.err = err
			break
		}
		s.frames = append(s.frames, f)
		if enough != nil && enough(f) {
			break
		}
	}
	return s
}

// durable are the rows that frames tell of, by seq and id.
func durable(frames []harness.Frame) []string {
	var out []string
	for _, f := range frames {
		switch ev := f.Event.(type) {
		case harness.EntryAdded:
			out = append(out, fmt.Sprintf("%d entry %s", ev.Entry.Seq, ev.Entry.ID))
		case harness.UsageAdded:
			out = append(out, fmt.Sprintf("%d usage %s", ev.Row.Seq, ev.Row.ID))
		}
	}
	return out
}

// stored are the rows of the session, as durable tells of them.
func (r *rig) stored() []string {
	r.t.Helper()
	var frames []harness.Frame
	for _, row := range r.rows() {
		switch row := row.(type) {
		case pistore.Entry:
			frames = append(frames, harness.Frame{Event: harness.EntryAdded{Entry: row}})
		case pistore.UsageRow:
			frames = append(frames, harness.Frame{Event: harness.UsageAdded{Row: row}})
		}
	}
	return durable(frames)
}

func ended(f harness.Frame) bool {
	_, end := f.Event.(harness.RunEnd)
	return end
}

// start is the cursor before all rows.
func (r *rig) start() *harness.Cursor {
	return &harness.Cursor{Generation: r.store.Info().Generation}
}

// Several watchers get the snapshot and then what the listener gets, in order,
// and end with Close.
func TestWatchersSeeEveryEvent(t *testing.T) {
	log := &eventLog{}
	r := newRig(t, config{script: toolRun, onEvent: log.hear})
	const watchers = 3
	var began, done sync.WaitGroup
	got := make([]seen, watchers)
	began.Add(watchers)
	for i := range watchers {
		done.Go(func() {
			got[i] = watch(r.ctx, r.lane, nil, func(f harness.Frame) bool {
				if _, first := f.Event.(harness.Snapshot); first {
					began.Done()
				}
				return false
			})
		})
	}
	began.Wait()
	r.completed(r.prompt("go"))
	r.check(r.h.Close(r.ctx))
	done.Wait()
	for i, s := range got {
		if !errors.Is(s.err, pistore.ErrClosed) {
			t.Errorf("watcher %d ended with %v", i, s.err)
		}
		if snap, ok := s.frames[0].Event.(harness.Snapshot); !ok || snap.Leaf != nil || snap.Kind != "" || snap.Missed != 0 || snap.Discard {
			t.Errorf("watcher %d began with %+v", i, s.frames[0])
		}
		var events []harness.Event
		for _, f := range s.frames[1:] {
			events = append(events, f.Event)
		}
		if diff := cmp.Diff(log.events, events); diff != "" {
			t.Errorf("watcher %d (-listener +watcher):\n%s", i, diff)
		}
		if diff := cmp.Diff(r.stored(), durable(s.frames)); diff != "" {
			t.Errorf("watcher %d (-stored +told):\n%s", i, diff)
		}
	}
}

// A watcher goes on from the cursor of any frame with exactly the durable rows
// behind it, in another process too, and from there on with a snapshot.
func TestWatchGoesOnFromEveryCursor(t *testing.T) {
	r := newRig(t, config{script: toolRun})
	heard := make(chan seen, 1)
	ready := make(chan struct{})
	go func() {
		heard <- watch(r.ctx, r.lane, nil, func(f harness.Frame) bool {
			if _, ok := f.Event.(harness.Snapshot); ok {
				close(ready)
			}
			return ended(f)
		})
	}()
	await(r, ready)
	r.completed(r.prompt("go"))
	whole := await(r, heard)
	all := durable(whole.frames)
	again := newRig(t, config{rows: r.rows()})
	for i, f := range append([]harness.Frame{{Cursor: *r.start()}}, whole.frames...) {
		told := len(durable(whole.frames[:i]))
		s := watch(r.ctx, again.lane, &f.Cursor, func(f harness.Frame) bool { _, ok := f.Event.(harness.Snapshot); return ok })
		if s.err != nil {
			t.Fatal(s.err)
		}
		if got := durable(s.frames); !slices.Equal(all[told:], got) {
			t.Fatalf("from frame %d, %T (-want +got):\n%s", i, f.Event, cmp.Diff(all[told:], got))
		}
		snap := s.frames[len(s.frames)-1].Event.(harness.Snapshot)
		if snap.Discard || snap.Leaf == nil || snap.Leaf.ID != again.lane.Leaf() {
			t.Fatalf("snapshot %+v", snap)
		}
	}
}

// A cursor that is not of this history gives a snapshot that says so, and
// nothing else.
func TestWatchWithAForeignCursor(t *testing.T) {
	r := newRig(t, config{script: oneTool})
	r.completed(r.prompt("go"))
	first := func(l *harness.Lane, from *harness.Cursor) harness.Frame {
		return watch(r.ctx, l, from, func(harness.Frame) bool { return true }).frames[0]
	}
	at := first(r.lane, nil).Cursor
	for name, change := range map[string]func(*harness.Cursor){
		"generation": func(c *harness.Cursor) { c.Generation = "another" },
		"seq":        func(c *harness.Cursor) { c.Seq++ },
		"future":     func(c *harness.Cursor) { c.Seq = pistore.MaxSeq },
		"negative":   func(c *harness.Cursor) { c.Seq = -1 },
		"tail":       func(c *harness.Cursor) { c.Tail = "x" + c.Tail[1:] },
	} {
		c := at
		change(&c)
		f := first(r.lane, &c)
		if snap, ok := f.Event.(harness.Snapshot); !ok || !snap.Discard || f.Cursor != at {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := first(r.lane, &at); f.Event.(harness.Snapshot).Discard {
		t.Errorf("the cursor itself: %+v", f)
	}
}

// A watcher that is slow misses no durable event: in place of what it missed it
// gets those from the store, and one snapshot that says how many it was.
func TestSlowWatcher(t *testing.T) {
	const deltas = 5000
	p := &funcProvider{stream: func(_ context.Context, req provider.Request, grow func(provider.Delta)) provider.Response {
		m := provider.Empty(req, "faux", session.StopStop, "")
		for range deltas {
			grow(provider.TextDelta{Text: "x"})
		}
		m.Content = session.TextContent(strings.Repeat("x", deltas))
		return provider.Response{Message: m}
	}}
	r := newRig(t, config{provider: p, drive: harness.Manual})
	next, stop := iter.Pull2(r.lane.Watch(r.ctx, nil))
	defer stop()
	var frames []harness.Frame
	take := func() {
		f, err, _ := next()
		r.check(err)
		frames = append(frames, f)
	}
	take()
	r.completed(r.prompt("one"))
	r.completed(r.prompt("two"))
	for {
		take()
		if _, ok := frames[len(frames)-1].Event.(harness.Snapshot); ok {
			break
		}
	}
	snap := frames[len(frames)-1].Event.(harness.Snapshot)
	if snap.Missed < 2*deltas || snap.Leaf.ID != r.lane.Leaf() {
		t.Errorf("snapshot %+v", snap)
	}
	if diff := cmp.Diff(r.stored(), durable(frames)); diff != "" {
		t.Errorf("(-stored +told):\n%s", diff)
	}
	if len(frames) != len(r.stored())+2 {
		t.Errorf("%d frames", len(frames))
	}
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "three"}) // and it goes on
	r.check(err)
	take()
	if _, ok := frames[len(frames)-1].Event.(harness.RunStart); !ok {
		t.Errorf("goes on with %T", frames[len(frames)-1].Event)
	}
	r.completed(r.finish())
}

// Watchers that begin at any moment, some of them slow, get every row of their
// lane once and in order, and none of another.
func TestWatchersBeginAnywhere(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Rest: func(_ provider.Request, at faux.Position) faux.Step {
		if at.Turn%3 == 2 {
			return faux.Text("Done with it, after all that was said.")
		}
		return faux.Call("lookup", `{"text":"two"}`)
	}}}})
	other := r.open("other")[1]
	const runs, watchers = 8, 6
	var wg, beside sync.WaitGroup
	got := make([]seen, watchers)
	told := make(chan int, 10_000) // a watcher was told of one more row
	beside.Go(func() {
		for range runs {
			handle, err := other.Prompt(r.ctx, harness.Prompt{Text: "there"})
			if err == nil {
				_, err = handle.Wait(r.ctx)
			}
			if err != nil {
				t.Errorf("prompt: %v", err)
			}
		}
	})
	for i := range watchers {
		wg.Go(func() {
			got[i] = watch(r.ctx, r.lane, r.start(), func(f harness.Frame) bool {
				for range i * 300 {
					_ = fmt.Sprint(i)
				}
				for range durable([]harness.Frame{f}) {
					told <- i
				}
				return false
			})
		})
	}
	for range runs {
		r.completed(r.prompt("here"))
	}
	want := r.rowsOf(r.lane)
	for range watchers * len(want) {
		await(r, told)
	}
	beside.Wait()
	r.check(r.h.Close(r.ctx))
	wg.Wait()
	for i, s := range got {
		if !errors.Is(s.err, pistore.ErrClosed) {
			t.Errorf("watcher %d: %v", i, s.err)
		}
		if diff := cmp.Diff(want, durable(s.frames)); diff != "" {
			t.Errorf("watcher %d (-stored +told):\n%s", i, diff)
		}
	}
}

// rowsOf are the rows of a lane: the entries of its path and the usage rows that
// name it.
func (r *rig) rowsOf(l *harness.Lane) []string {
	r.t.Helper()
	onPath := map[string]bool{}
	for e, err := range r.store.Branch(r.ctx, pistore.BranchQuery{Start: l.Leaf()}) {
		r.check(err)
		onPath[fmt.Sprintf("%d entry %s", e.Seq, e.ID)] = true
	}
	for _, row := range r.usage() {
		if name, _ := row.Details.Member("lane"); name == pistore.QuoteJSON(l.Name()) {
			onPath[fmt.Sprintf("%d usage %s", row.Seq, row.ID)] = true
		}
	}
	return slices.DeleteFunc(r.stored(), func(row string) bool { return !onPath[row] })
}

// A snapshot says in words where the lane stands.
func TestSnapshotOfAnOpenRun(t *testing.T) {
	r := newRig(t, config{script: oneTool, drive: harness.Manual})
	look := func() harness.Snapshot {
		t.Helper()
		s := watch(r.ctx, r.lane, nil, func(harness.Frame) bool { return true })
		r.check(s.err)
		return s.frames[0].Event.(harness.Snapshot)
	}
	handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	_, err = r.lane.Step(r.ctx)
	r.check(err)
	ids, err := r.lane.Steer(r.ctx, harness.Prompt{Text: "and"})
	r.check(err)
	snap := look()
	if snap.Kind != registers.KindRun || snap.Phase != "assistant effect_pending" || snap.OperationID != handle.OperationID() || snap.TurnID == "" {
		t.Errorf("snapshot %+v", snap)
	}
	if !slices.Equal(snap.Queues.Steer, ids) || snap.Suspended != nil || snap.Configuration.Model.ModelID != "faux-1" {
		t.Errorf("snapshot %+v", snap)
	}
	again := newRig(t, config{rows: r.rows(), seed: 1})
	r.completed(r.finish())
	if snap := look(); snap.Kind != "" || snap.Phase != "" || snap.Leaf.ID != r.lane.Leaf() {
		t.Errorf("idle: %+v", snap)
	}
	s := watch(r.ctx, again.lane, nil, func(harness.Frame) bool { return true })
	if why := s.frames[0].Event.(harness.Snapshot).Suspended; why == nil || why.Reason != harness.SuspendRestored {
		t.Errorf("restored: %+v", s.frames[0])
	}
}

// A watch ends with its context, with a fault, and when the store cannot be
// read.
func TestWatchEnds(t *testing.T) {
	t.Run("context", func(t *testing.T) {
		r := newRig(t, config{script: oneTool})
		ctx, cancel := context.WithCancel(r.ctx)
		s := watch(ctx, r.lane, nil, func(harness.Frame) bool { cancel(); return false })
		if !errors.Is(s.err, context.Canceled) || len(s.frames) != 1 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("closed before", func(t *testing.T) {
		r := newRig(t, config{script: oneTool})
		r.check(r.h.Close(r.ctx))
		if s := watch(r.ctx, r.lane, nil, nil); !errors.Is(s.err, pistore.ErrClosed) || len(s.frames) != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("fault", func(t *testing.T) {
		var broken *failing
		r := newRig(t, config{script: oneTool, wrap: func(s pistore.Storage) pistore.Storage {
			broken = &failing{Storage: s}
			return broken
		}})
		s := watch(r.ctx, r.lane, nil, func(f harness.Frame) bool {
			if _, ok := f.Event.(harness.Snapshot); ok {
				broken.fail(pistore.ErrFaulted)
				if _, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"}); !errors.Is(err, pistore.ErrFaulted) {
					t.Errorf("prompt: %v", err)
				}
			}
			return false
		})
		if !errors.Is(s.err, pistore.ErrFaulted) {
			t.Errorf("ended with %v", s.err)
		}
		if _, ok := s.frames[len(s.frames)-1].Event.(harness.Fault); !ok {
			t.Errorf("the last event was %T", s.frames[len(s.frames)-1].Event)
		}
	})
	t.Run("reading", func(t *testing.T) {
		broken := errors.New("the disk is gone")
		var bad *unreadable
		r := newRig(t, config{script: oneTool, wrap: func(s pistore.Storage) pistore.Storage {
			bad = &unreadable{Storage: s}
			return bad
		}})
		r.completed(r.prompt("go"))
		for _, from := range []*harness.Cursor{nil, r.start()} {
			bad.err = broken
			if s := watch(r.ctx, r.lane, from, nil); !errors.Is(s.err, broken) {
				t.Errorf("%+v", s)
			}
			bad.err = nil
		}
		bad.branch = broken
		if s := watch(r.ctx, r.lane, r.start(), nil); !errors.Is(s.err, broken) {
			t.Errorf("%+v", s)
		}
	})
}

// failing fails every commit once it is told to.
type failing struct {
	pistore.Storage
	mu  sync.Mutex
	err error
}

func (f *failing) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return pistore.Receipt{}, err
	}
	return f.Storage.Commit(ctx, tx)
}

// unreadable fails scans of the ledger, or walks.
type unreadable struct {
	pistore.Storage
	err, branch error
}

func (u *unreadable) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	if u.err == nil {
		return u.Storage.ScanUsage(ctx, q)
	}
	return func(yield func(pistore.UsageRow, error) bool) { yield(pistore.UsageRow{}, u.err) }
}

func (u *unreadable) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	if u.branch == nil {
		return u.Storage.Branch(ctx, q)
	}
	return func(yield func(pistore.Entry, error) bool) { yield(pistore.Entry{}, u.branch) }
}
