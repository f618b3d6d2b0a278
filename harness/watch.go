package harness

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"pistore"
	"pistore/registers"
)

// maxUndelivered is how many events wait for a watcher that is slow. More are
// given up, and it gets one [Snapshot] in their place.
const maxUndelivered = 100

// Cursor is a place behind a durable row of a session, an entry or a usage row.
type Cursor struct {
	Generation string      // of the session; empty until its history is rewritten
	Seq        pistore.Seq // of the row; 0: before all rows
	Tail       string      // the end of the row's id
}

// Frame is one thing that a watcher gets.
type Frame struct {
	Event Event
	// Cursor is where to go on from behind this frame.
	Cursor Cursor
}

// Snapshot is where a lane stands. Only watchers get it.
type Snapshot struct {
	About
	Leaf            *pistore.Entry // the entry that the lane stands on; nil: none
	Configuration   registers.LaneConfiguration
	Kind            registers.Kind // of the open operation; empty: the lane is idle
	Phase           string         // where that stands, in the words of its stored state
	CancelRequested bool           // it was asked to stop
	Suspended       *Suspension    // it waits for a Resume, for this reason
	Queues          Queues
	// Missed is how many events this snapshot is in place of, because the
	// watcher was slow.
	Missed int64
	// Discard says that the cursor is of no use: what the watcher holds may be
	// of a history that was replaced. Nothing was given for it.
	Discard bool
}

func (Snapshot) isHarnessEvent() {}

// Watch yields a snapshot of the lane and then every later event, once and in
// order. Events are shared and read only. Any number may watch; each begins when
// it ranges, holds at most 100 undelivered events, and ends when it breaks.
//
// With a cursor (not nil), the durable events behind it come first, from what is stored:
// EntryAdded for the entries of the path that the lane stands on, and UsageAdded
// for the rows that name the lane, each once, by seq, without operation and
// turn. An entry on a branch that was left meanwhile is not among them. The
// cursor of a session whose generation is another, or that names a row that is
// not there, gives a snapshot with Discard.
//
// A watcher that falls behind goes on as if it came back with its cursor: it
// misses no durable event, and gets a snapshot with Missed in place of the
// others.
//
// It ends with an error: the context's, pistore.ErrClosed after Close,
// pistore.ErrFaulted after a fault, or that of reading the store.
func (l *Lane) Watch(ctx context.Context, from *Cursor) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		w := &watcher{l: l, ctx: ctx, back: from != nil, wake: make(chan struct{}, 1)}
		if from != nil {
			w.at = *from
		}
		defer l.events.forget(w)
		for w.follow(yield) {
		}
	}
}

// watcher is one who watches. The queue's lock guards waiting and missed.
type watcher struct {
	l    *Lane
	ctx  context.Context
	at   Cursor
	back bool // at is where it comes back to
	wake chan struct{}

	waiting []Event
	missed  int64 // events given up since it fell behind; 0: it has not
}

// push hands an event to the watcher, or gives up on all that wait.
func (w *watcher) push(ev Event) {
	switch {
	case w.missed > 0:
		w.missed++
	case len(w.waiting) == maxUndelivered:
		w.missed = int64(len(w.waiting)) + 1
		w.waiting = nil
	default:
		w.waiting = append(w.waiting, ev)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// follow yields what is stored behind the cursor, a snapshot, and events until
// the watcher falls behind. It is false when the watch is over.
func (w *watcher) follow(yield func(Frame, error) bool) bool {
	snap, head, err := w.attach()
	if err != nil {
		yield(Frame{}, err)
		return false
	}
	if w.back && !snap.Discard && !w.replay(snap, head, yield) {
		return false
	}
	if !w.back || snap.Discard || head.Seq > w.at.Seq { // else the newest row is of a branch that was left
		w.at = head
	}
	w.back = true
	if !yield(Frame{snap, w.at}, nil) {
		return false
	}
	for {
		ev, err := w.next()
		switch {
		case err != nil:
			yield(Frame{}, err)
			return false
		case ev == nil:
			return true
		case !w.give(ev, yield):
			return false
		}
	}
}

// give yields an event with the cursor behind it.
func (w *watcher) give(ev Event, yield func(Frame, error) bool) bool {
	switch ev := ev.(type) {
	case EntryAdded:
		w.at = w.cursor(ev.Entry.Seq, ev.Entry.ID)
	case UsageAdded:
		w.at = w.cursor(ev.Row.Seq, ev.Row.ID)
	}
	return yield(Frame{ev, w.at}, nil)
}

// next waits for an event; nil: the watcher has fallen behind.
func (w *watcher) next() (Event, error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		sealed := w.l.h.sealedBy() // before a last look at what waits
		if ev, missed := w.l.events.pop(w); ev != nil || missed > 0 && sealed == nil {
			return ev, nil
		}
		if sealed != nil {
			return nil, sealed
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
		case <-w.l.h.ctx.Done():
		}
	}
}

// attach begins to collect events and says where the lane stands then, and
// behind which row. All of it is of one instant, since nothing is committed on
// the lane while its line is held.
func (w *watcher) attach() (snap Snapshot, head Cursor, err error) {
	l := w.l
	if err := l.take(w.ctx); err != nil {
		return snap, head, err
	}
	defer l.give()
	missed := l.events.watch(w)
	snap = l.snapshot()
	snap.Missed = missed
	if head, err = w.head(&snap); err == nil && w.back {
		var known bool
		known, err = w.known()
		snap.Discard = !known
	}
	if err != nil {
		return snap, head, fmt.Errorf("harness: lane %s: watch: %w", l.name, err)
	}
	return snap, head, nil
}

// snapshot says where the lane stands; its leaf is still to be read. The caller
// holds the line.
func (l *Lane) snapshot() Snapshot {
	p := l.position()
	s := Snapshot{About: p.about(""), Configuration: l.Configuration(), Queues: p.queues()}
	if p.op == nil {
		return s
	}
	s.TurnID = stepOf(p.op.phase())
	s.Kind, s.Phase = registers.KindOf(p.op.state), registers.Words(p.op.state)
	s.CancelRequested = p.op.cancelled()
	if h := l.handle(); h != nil {
		if result := h.settled(); result != nil {
			s.Suspended = result.Suspended
		}
	}
	return s
}

// head reads the lane's leaf and returns the place behind the newest row: of
// the leaf and the ledger, since every other row of the lane is before one of
// the two.
func (w *watcher) head(s *Snapshot) (Cursor, error) {
	h := w.l.h
	head := w.cursor(0, "")
	if leaf := w.l.position().leaf; leaf != "" {
		found, err := h.storage.Entries(w.ctx, []pistore.ID{leaf})
		if err != nil {
			return head, err
		}
		if len(found) == 0 {
			return head, fmt.Errorf("%w: entry %s", pistore.ErrNotFound, leaf)
		}
		s.Leaf = &found[0]
		head = w.cursor(found[0].Seq, found[0].ID)
	}
	for row, err := range h.storage.ScanUsage(w.ctx, pistore.ScanQuery{Order: pistore.Reversed, Limit: 1}) {
		if err != nil {
			return head, err
		}
		if row.Seq > head.Seq {
			head = w.cursor(row.Seq, row.ID)
		}
	}
	return head, nil
}

func (w *watcher) cursor(seq pistore.Seq, id pistore.ID) Cursor {
	const tailBytes = 12
	tail := string(id)
	if cut := len(tail) - tailBytes; cut > 0 {
		for !utf8.RuneStart(tail[cut]) {
			cut++
		}
		tail = tail[cut:]
	}
	return Cursor{Generation: w.l.h.storage.Info().Generation, Seq: seq, Tail: tail}
}

// known reports whether the watcher's cursor is of this history.
func (w *watcher) known() (bool, error) {
	h, at := w.l.h, w.at
	if at.Generation != h.storage.Info().Generation || at.Seq < 0 {
		return false, nil
	}
	if at.Seq == 0 {
		return true, nil
	}
	there := pistore.ScanQuery{FromSeq: at.Seq, ToSeq: at.Seq, StructureOnly: true}
	for e, err := range h.storage.ScanEntries(w.ctx, there) {
		return err == nil && strings.HasSuffix(string(e.ID), at.Tail), err
	}
	there.StructureOnly = false
	for row, err := range h.storage.ScanUsage(w.ctx, there) {
		return err == nil && strings.HasSuffix(string(row.ID), at.Tail), err
	}
	return false, nil
}

// errEnough ends a replay that its consumer has left.
var errEnough = errors.New("enough")

// replay yields the durable rows of the lane behind the cursor, up to the head,
// by seq. It is false when the watch is over.
func (w *watcher) replay(snap Snapshot, head Cursor, yield func(Frame, error) bool) bool {
	rows, stop := iter.Pull2(w.usage(head))
	defer stop()
	row, err, more := rows()
	// before gives the usage rows that come before an entry.
	before := func(seq pistore.Seq) error {
		for ; more && err == nil && row.Seq < seq; row, err, more = rows() {
			if !w.give(UsageAdded{About{Lane: w.l.name}, row}, yield) {
				return errEnough
			}
		}
		return err
	}
	for e, failed := range w.entries(snap.Leaf) {
		if failed == nil {
			failed = before(e.Seq)
		}
		if failed == nil && !w.give(EntryAdded{About{Lane: w.l.name}, e}, yield) {
			failed = errEnough
		}
		if failed != nil {
			return w.over(failed, yield)
		}
	}
	if failed := before(pistore.MaxSeq); failed != nil {
		return w.over(failed, yield)
	}
	return true
}

// over ends a watch with an error, unless its consumer has left. It is false.
func (w *watcher) over(err error, yield func(Frame, error) bool) bool {
	if !errors.Is(err, errEnough) {
		yield(Frame{}, fmt.Errorf("harness: lane %s: watch: %w", w.l.name, err))
	}
	return false
}

// entries are those of the path behind the cursor, oldest first.
func (w *watcher) entries(leaf *pistore.Entry) iter.Seq2[pistore.Entry, error] {
	if leaf == nil {
		return func(func(pistore.Entry, error) bool) {}
	}
	return w.l.h.storage.Branch(w.ctx, pistore.BranchQuery{Start: leaf.ID, Order: pistore.Reversed, Cursor: w.at.Seq})
}

// usage are the rows of the ledger behind the cursor that name the lane.
func (w *watcher) usage(head Cursor) iter.Seq2[pistore.UsageRow, error] {
	return func(yield func(pistore.UsageRow, error) bool) {
		if w.at.Seq >= head.Seq {
			return
		}
		query := pistore.ScanQuery{FromSeq: w.at.Seq + 1, ToSeq: head.Seq}
		for row, err := range w.l.h.storage.ScanUsage(w.ctx, query) {
			if err == nil && laneOf(row.Details) != w.l.name {
				continue
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// laneOf is the lane that the details of a usage row name, empty for none.
func laneOf(details pistore.JSON) string {
	if !details.IsObject() {
		return ""
	}
	lane, _ := details.Member("lane")
	name, _ := lane.Text()
	return name
}
