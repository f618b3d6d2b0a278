package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"pistore"
	"pistore/registers"
)

// Lane is a named cursor into the conversation with at most one open run.
type Lane struct {
	h    *Harness
	name string
	gate *gate

	callers int // who ask for the lane; guarded by the harness

	// line is the lane mutation line: whoever holds its one token decides,
	// commits at most once, and updates memory. Waiters are served in order.
	// No request, tool or sleep happens while it is held.
	line chan struct{}

	mu      sync.Mutex // guards what follows; written only by the holder of line
	pos     *position  // nil until restored
	current *Handle    // of the newest operation, nil before the first
	drive   *drive     // at work on current; nil: none

	events eventQueue
}

func newLane(h *Harness, name string) *Lane {
	return &Lane{h: h, name: name, gate: newGate(h.drive == Manual), line: make(chan struct{}, 1)}
}

// Name returns the name of the lane.
func (l *Lane) Name() string { return l.name }

// take takes the lane mutation line. It fails when the context ends first or
// the harness is closed or faulted.
func (l *Lane) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.line <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.h.admit(); err != nil {
		<-l.line
		return err
	}
	return nil
}

// give gives the line on and then delivers what was posted while it was held,
// so that a listener may call back into the lane.
func (l *Lane) give() {
	<-l.line
	l.deliver()
	l.h.leave()
}

func (l *Lane) position() *position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pos
}

func (l *Lane) handle() *Handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// driven reports whether a drive is at work on the lane's operation.
func (l *Lane) driven() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drive != nil
}

func (l *Lane) move(p *position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pos = p
}

// restoreOnce restores the lane unless that was done.
func (l *Lane) restoreOnce(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if l.position() != nil {
		return nil
	}
	p, err := l.restore(ctx)
	if err != nil {
		return err
	}
	l.move(p)
	if p.op != nil {
		handle := newHandle(p.op.meta.OperationID, l.name)
		why := &Suspension{Reason: SuspendRestored}
		if what := beyond(p.op); what != "" {
			why = &Suspension{SuspendUnsupported, what}
		}
		handle.set(&Result{Suspended: why})
		l.adopt(handle)
	}
	return nil
}

// adopt makes run the lane's run, and seals it if the harness was sealed in
// the meantime and so did not see it.
func (l *Lane) adopt(handle *Handle) {
	l.mu.Lock()
	l.current = handle
	l.mu.Unlock()
	if err := l.h.sealedBy(); err != nil {
		handle.seal(err)
	}
}

// Handle returns the lane's newest run, suspended ones found by restore included,
// or nil if there was none in the life of this handle.
func (l *Lane) Handle() *Handle { return l.handle() }

// Leaf returns the entry that the lane stands on, empty before any.
func (l *Lane) Leaf() pistore.ID { return l.position().leaf }

// LastResult reads the outcome of the lane's newest ended operation, nil if
// none has ended.
func (l *Lane) LastResult(ctx context.Context) (*registers.LastResult, error) {
	at := pistore.Address{Namespace: registers.LaneLastResultNS, Key: l.name}
	found, err := l.h.storage.Registers(ctx, []pistore.Address{at})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	result, err := registers.DecodeLastResult(found[0].Value)
	if err != nil {
		return nil, l.h.corrupt(at, 7, err.Error())
	}
	return &result, nil
}

// rejected tells a refusal, after which everything goes on, from a failure,
// after which nothing does.
func (l *Lane) rejected(ctx context.Context, err error) error {
	for _, refusal := range []error{
		pistore.ErrInvalid, pistore.ErrTooLarge, pistore.ErrConflict, pistore.ErrReadOnly,
		context.Canceled, context.DeadlineExceeded, // before admission
	} {
		if errors.Is(err, refusal) && !errors.Is(err, pistore.ErrFaulted) {
			return fmt.Errorf("harness: lane %s: %w", l.name, err)
		}
	}
	if sealed := l.h.sealedBy(); sealed != nil {
		return sealed
	}
	return l.fault(About{Lane: l.name}, err)
}

// fault stops every lane: the outcome of a commit is unknown, or what is stored
// is not what it must be. It tells of it once, when the caller delivers.
func (l *Lane) fault(about About, cause error) error {
	err := fmt.Errorf("harness: %w", cause)
	if !errors.Is(cause, pistore.ErrFaulted) {
		err = fmt.Errorf("harness: %w: %w", pistore.ErrFaulted, cause)
	}
	if l.h.seal(err) {
		l.post(Fault{about, cause})
	}
	return l.h.sealedBy()
}

// decide runs a job on the lane's line, which the caller holds: it plans a
// change of the position and commits it, if the plan moved anything. After a
// conflict it plans again, from what is stored. It returns the position that it
// leaves.
func (l *Lane) decide(ctx context.Context, plan func(*position, mint, *change) (*position, error)) (*position, error) {
	ids := &reserve{h: l.h}
	for {
		ids.rewind()
		c := &change{from: l.position()}
		next, err := func() (next *position, err error) {
			defer catchUnsound(&err)
			return plan(c.from, ids, c)
		}()
		switch {
		case errors.Is(err, errUnsound):
			return nil, l.fault(c.from.about(""), err)
		case err != nil:
			return nil, fmt.Errorf("harness: lane %s: %w", l.name, err)
		}
		if !c.moved {
			return c.from, nil
		}
		err = l.commit(ctx, next, c)
		if errors.Is(err, pistore.ErrConflict) {
			if err = l.reload(ctx, nil); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, l.rejected(ctx, err)
		}
		return l.position(), nil
	}
}

// reload looks at what is stored after a conflict. An operation that ended
// elsewhere, or was changed there, is not this lane's to drive any more. by is
// the drive that asks, nil for another caller.
func (l *Lane) reload(ctx context.Context, by *drive) error {
	old := l.position()
	fresh, err := l.restore(ctx)
	if err != nil {
		return err
	}
	same := fresh.op != nil && old.op != nil && fresh.op.seq == old.op.seq
	if same { // it was the lane that changed; what is in memory of the operation stays
		fresh.op, fresh.path = old.op, old.path
	}
	switch {
	case same && l.driven():
		if fresh, err = l.h.withPath(ctx, fresh); err != nil {
			return err
		}
		l.move(fresh)
	case same || old.op == nil:
		l.move(fresh)
	case fresh.op == nil || fresh.op.meta.OperationID != old.op.meta.OperationID:
		handle := l.handle()
		l.detach(fresh)
		l.endedElsewhere(ctx, handle, old, by)
	default:
		driven := l.detach(fresh)
		if handle := l.handle(); driven && handle != nil {
			why := Suspension{Reason: SuspendChanged}
			l.post(RunSuspend{fresh.about(""), why})
			handle.answer(Result{Suspended: &why}, by)
		}
	}
	return nil
}

// endedElsewhere answers a handle from lane.lastResult.
func (l *Lane) endedElsewhere(ctx context.Context, handle *Handle, old *position, by *drive) {
	id := old.op.meta.OperationID
	if handle == nil || handle.id != id {
		return
	}
	last, err := l.LastResult(ctx)
	switch {
	case err != nil:
		handle.seal(err)
	case last == nil || last.OperationID != id:
		handle.seal(fmt.Errorf("harness: operation %s: %w", id, ErrUnknownOutcome))
	default:
		l.post(endOf(old, *last))
		handle.answer(Result{Ended: last}, by)
	}
}

// detach moves the lane to p and ends the drive on it, if there is one: what it
// has under way is cancelled, and it commits nothing any more.
func (l *Lane) detach(p *position) (driven bool) {
	l.mu.Lock()
	d := l.drive
	l.pos, l.drive = p, nil
	l.mu.Unlock()
	if d == nil {
		return false
	}
	d.cancel()
	l.gate.refuse()
	return true
}

// commit makes a change durable and moves the lane to p. The caller holds the
// line.
func (l *Lane) commit(ctx context.Context, p *position, c *change) error {
	tx, err := c.tx(p)
	if err != nil {
		return err
	}
	// What a change settles belongs to the turn that it was made from, whatever
	// turn it leads to.
	about := p.about("")
	if c.from.op != nil {
		about = c.from.about(stepOf(c.from.op.phase()))
	}
	r, err := l.write(ctx, about, tx)
	if err != nil {
		return err
	}
	l.move(c.advance(p, tx, r))
	if l.h.checks {
		if err := l.check(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	for _, ev := range committed(about, c.from, p, tx, r, c.news) {
		l.post(ev)
	}
	return nil
}

// write commits a transaction: every one that a lane makes comes through here.
func (l *Lane) write(ctx context.Context, about About, tx pistore.Tx) (pistore.Receipt, error) {
	ctx, end := l.begin(ctx, Span{Kind: SpanCommit, About: about, Writes: len(tx.Writes)})
	r, err := l.h.storage.Commit(ctx, tx)
	end(endOfCommit(err))
	return r, err
}
