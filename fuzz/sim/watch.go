package sim

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"pistore"
	"pistore/harness"
	"pistore/registers"
)

// watch is somebody who watches a lane through all lives of the process: in each
// it comes back with the cursor that it has. It is to get every row of the lane
// once and in order, and in between every event.
type watch struct {
	s    *simulation
	name string

	// What it knows of all lives.

	cursor          *harness.Cursor // nil: it has not begun
	entries, billed int             // how many there were when it began
	seen            map[pistore.ID]bool
	last            pistore.Seq

	// Of this life. mu guards it, and what is above while it runs.

	mu       sync.Mutex
	attached chan struct{} // closed at the first snapshot
	open     bool          // it was
	live     []harness.Event
	behind   bool // it fell behind at some time
	mustMiss bool // it has fallen behind, and does not know yet
	inHand   bool // but for one event that it may have taken before
	err      error

	every  int           // it rests behind so many frames; 0: never
	next   chan struct{} // one token: it goes on
	cancel context.CancelFunc
	done   chan struct{}
	from   int // how many events the lane had told before
}

// undelivered is how many events wait for a watcher at most, and one that it
// holds.
const undelivered = 100 + 1

// watching marks the reads of who watches.
type watching struct{}

// watchLane begins to watch a lane in this life, if the program says so. The
// lane is at rest until the snapshot is there.
func (l *life) watchLane(name string) {
	s := l.s
	if !s.program.watched {
		return
	}
	w := s.watches[name]
	if w == nil {
		w = &watch{s: s, name: name, seen: map[pistore.ID]bool{}}
		s.oracle.mu.Lock()
		w.entries, w.billed = len(s.oracle.order), len(s.oracle.billed)
		s.oracle.mu.Unlock()
		s.watches[name] = w
	}
	w.attached, w.open, w.live, w.behind, w.mustMiss, w.err = make(chan struct{}), false, nil, false, false, nil
	w.next, w.done, w.every, w.from = make(chan struct{}, 1), make(chan struct{}), 0, len(l.heardOn(name))
	if r := dice(s.program.seed, "watcher", name, l.n); chance(r, 2) {
		w.every = 1 + r.IntN(20)
	}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.WithValue(context.Background(), watching{}, true))
	l.watches = append(l.watches, w)
	go w.run(ctx, l.lanes[name])
	select {
	case <-w.attached:
	case <-w.done:
	}
	s.count("watch")
}

// run takes what comes until the watch ends.
func (w *watch) run(ctx context.Context, lane *harness.Lane) {
	defer close(w.done)
	n := 0
	for frame, err := range lane.Watch(ctx, w.cursor) {
		if err != nil {
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()
			return
		}
		w.take(frame)
		if n++; w.every > 0 && n%w.every == 0 && w.begun() {
			select {
			case <-w.next:
			case <-ctx.Done():
			}
		}
	}
}

func (w *watch) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// take judges one frame.
func (w *watch) take(f harness.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev := f.Event.(type) {
	case harness.Snapshot:
		w.takeSnapshot(ev)
	case harness.EntryAdded:
		w.takeRow(ev.Entry.ID, ev.Entry.Seq, f.Cursor)
		if n := w.s.oracle.node(ev.Entry.ID); n == nil || n.Payload != ev.Entry.Payload || n.ParentID != ev.Entry.ParentID {
			w.s.find("watch", "lane %s tells of an entry %s that is not so", w.name, ev.Entry.ID)
		}
	case harness.UsageAdded:
		w.takeRow(ev.Row.ID, ev.Row.Seq, f.Cursor)
	default:
		if !w.open || w.cursor == nil || *w.cursor != f.Cursor {
			w.s.find("watch", "lane %s: the event %T comes before the snapshot, or moves the cursor", w.name, ev)
		}
		if w.mustMiss && !w.inHand {
			w.s.find("watch", "lane %s keeps more than %d events for a slow watcher", w.name, undelivered)
		}
	}
	if _, snapshot := f.Event.(harness.Snapshot); w.open && !snapshot {
		w.live = append(w.live, f.Event)
		w.inHand = false
	}
	w.cursor = &f.Cursor
}

func (w *watch) takeSnapshot(snap harness.Snapshot) {
	switch {
	case snap.Discard:
		w.s.find("watch", "lane %s does not know its own cursor", w.name)
	case !w.open:
		if snap.Missed != 0 {
			w.s.find("watch", "lane %s says that %d events were missed before the first", w.name, snap.Missed)
		}
		w.judgeSnapshot(snap)
		w.open = true
		close(w.attached)
	case snap.Missed < undelivered:
		w.s.find("watch", "lane %s gives a snapshot in place of %d events", w.name, snap.Missed)
	default:
		w.s.count("watcher fell behind")
		w.behind, w.mustMiss = true, false
	}
}

// takeRow: each row comes once, by seq.
func (w *watch) takeRow(id pistore.ID, seq pistore.Seq, at harness.Cursor) {
	if w.seen[id] || seq <= w.last || at.Seq != seq {
		w.s.find("watch", "lane %s tells of %s at seq %d behind %d, with a cursor at %d, seen before: %v", w.name, id, seq, w.last, at.Seq, w.seen[id])
	}
	w.seen[id], w.last = true, seq
	if !w.open {
		w.s.count("row behind a cursor")
	}
}

// node returns a stored entry, or nil.
func (o *oracle) node(id pistore.ID) *node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries[id]
}

// judgeSnapshot holds the first snapshot of a life against what is durable; the
// lane is at rest.
func (w *watch) judgeSnapshot(snap harness.Snapshot) {
	o := w.s.oracle
	leaf, op := o.leaf(w.name), o.open(w.name)
	told := pistore.ID("")
	if snap.Leaf != nil {
		told = snap.Leaf.ID
	}
	queues := slices.Concat(snap.Queues.NextRun, snap.Queues.Steer, snap.Queues.FollowUp, snap.Queues.Writes)
	good := told == leaf && slices.Equal(queues, o.waiting(w.name)) && reflect.DeepEqual(snap.Configuration, o.configuration(w.name))
	if op == nil {
		good = good && snap.Kind == "" && snap.Suspended == nil
	} else {
		good = good && snap.Kind == op.meta.Intent.Kind && snap.OperationID == op.id && snap.Phase == registers.Words(op.state) &&
			snap.CancelRequested == cancelled(op.state) && snap.Suspended != nil
	}
	if !good {
		w.s.find("watch", "lane %s: the snapshot %+v is not where the lane stands", w.name, snap)
	}
}

// goOn lets those who rest take more.
func (l *life) goOn() {
	for _, w := range l.watches {
		w.mu.Lock()
		if waiting := len(l.heardOn(w.name)) - w.from - len(w.live); !w.behind && waiting > undelivered {
			w.inHand = w.inHand || !w.mustMiss
			w.mustMiss = true
		}
		w.mu.Unlock()
		select {
		case w.next <- struct{}{}:
		default:
		}
	}
}

// heardOn is what the listener was told of a lane in this life.
func (l *life) heardOn(name string) []harness.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[name]
}

// endWatches waits, behind the end of the harness, for those who watch, and holds
// what they got against what the listener got; told is how much that was before.
func (l *life) endWatches(told map[string]int) {
	for _, w := range l.watches {
		l.free(w)
		if w.err != nil && !errors.Is(w.err, pistore.ErrClosed) && !errors.Is(w.err, pistore.ErrFaulted) {
			l.s.find("watch", "the watch of lane %s ends with %v", w.name, w.err)
		}
		if !w.open {
			continue // the store failed, or the process died
		}
		heard := l.heardOn(w.name)[w.from:]
		if w.behind {
			w.judgeSome(heard)
			continue
		}
		if at := firstUnlike(heard, w.live); at >= 0 {
			l.s.find("watch", "lane %s: frame %d is not the event that the listener got", w.name, at)
		}
		// A fault ends the watch by itself, and is told of behind that.
		if lost := told[w.name] - w.from - len(w.live); lost > 0 && lost < undelivered && l.guard.failing() == nil {
			l.s.find("watch", "lane %s: %d events that were told before the end do not come", w.name, lost)
		}
	}
}

// free waits for a watcher, who does not rest any more.
func (l *life) free(w *watch) {
	for {
		select {
		case <-w.done:
			w.cancel()
			return
		case w.next <- struct{}{}:
		}
	}
}

// firstUnlike returns where got is not the beginning of want, -1: nowhere.
func firstUnlike(want, got []harness.Event) int {
	for i, ev := range got {
		if i >= len(want) || !reflect.DeepEqual(ev, want[i]) {
			return i
		}
	}
	return -1
}

// judgeSome: what came in between to one who fell behind is of what was told, in
// order. Rows are judged where they come.
func (w *watch) judgeSome(heard []harness.Event) {
	for _, ev := range w.live {
		switch ev.(type) {
		case harness.EntryAdded, harness.UsageAdded:
			continue
		}
		at := slices.IndexFunc(heard, func(h harness.Event) bool { return reflect.DeepEqual(h, ev) })
		if at < 0 {
			w.s.find("watch", "lane %s: %T comes out of order to one who fell behind", w.name, ev)
			return
		}
		heard = heard[at+1:]
	}
}

// endWatching lets everybody who watches come back once more, and checks that no
// row of a lane was kept from them.
func (s *simulation) endWatching() {
	for _, w := range s.life.watches {
		w.cancel()
		<-w.done
		w.mu.Lock()
		w.open = false
		w.attached = make(chan struct{})
		w.mu.Unlock()
		ctx := context.WithValue(s.ctx, watching{}, true)
		for frame, err := range s.life.lanes[w.name].Watch(ctx, w.cursor) {
			if err != nil {
				s.find("watch", "lane %s cannot be watched from the cursor: %v", w.name, err)
				break
			}
			w.take(frame)
			if w.begun() {
				break
			}
		}
		w.judgeComplete()
	}
	s.life.watches = nil
}

// judgeComplete: every bill of the lane came, and every entry of its path; but
// one who was away does not get those of a branch that was left and taken up
// again.
func (w *watch) judgeComplete() {
	o := w.s.oracle
	path := o.path(o.leaf(w.name))
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.billed[w.billed:] {
		lane, _ := o.usage[id].Details.Member("lane")
		if name, _ := lane.Text(); name == w.name && !w.seen[id] {
			w.s.find("watch", "nobody who watches lane %s is told of the usage row %s", w.name, id)
		}
	}
	if w.s.world.wandered[w.name] {
		return
	}
	before := map[pistore.ID]bool{}
	for _, id := range o.order[:w.entries] {
		before[id] = true
	}
	for _, n := range path {
		if !before[n.ID] && !w.seen[n.ID] {
			w.s.find("watch", "nobody who watches lane %s is told of the entry %s", w.name, n.ID)
		}
	}
}
