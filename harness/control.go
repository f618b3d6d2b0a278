package harness

import (
	"context"
	"errors"
	"fmt"

	"pistore"
	"pistore/registers"
)

// Public calls that begin, stop and wait for what a lane does.

// Resume continues a suspended operation and returns its handle. Errors:
// ErrNothingToResume when no operation is open, or it is already going on.
func (l *Lane) Resume(ctx context.Context) (*Handle, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.give()
	if l.position().op == nil || l.driven() {
		return nil, fmt.Errorf("harness: lane %s: %w", l.name, ErrNothingToResume)
	}
	return l.resume(ctx)
}

// ResumeAutomatically is Resume for a host that goes on with whatever it finds
// open, and nobody watches. An operation that was resumed Options.MaxResumes
// times in a row without a durable step forward, as one that takes its process
// down is, stays suspended with the reason crash_loop; Resume goes on with it.
func (l *Lane) ResumeAutomatically(ctx context.Context) (*Handle, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.give()
	p := l.position()
	if p.op == nil || l.driven() {
		return nil, fmt.Errorf("harness: lane %s: %w", l.name, ErrNothingToResume)
	}
	resumes := *registers.ResumesOf(p.op.state)
	if resumes < l.h.maxResumes {
		return l.resume(ctx)
	}
	why := Suspension{SuspendCrashLoop, fmt.Sprintf("resumed %d times without a step forward", resumes)}
	handle := l.handleOf(p.op)
	l.post(RunSuspend{p.about(""), why})
	handle.set(&Result{Suspended: &why})
	return handle, nil
}

// handleOf returns the handle of the open operation, a new one if it has none.
func (l *Lane) handleOf(op *operation) *Handle {
	handle := l.handle()
	if handle == nil || handle.id != op.meta.OperationID {
		handle = newHandle(op.meta.OperationID, l.name)
		l.adopt(handle)
	}
	return handle
}

// resume starts a drive on the open operation, which has none. The caller holds
// the line.
func (l *Lane) resume(ctx context.Context) (*Handle, error) {
	p, err := l.h.withPath(ctx, l.position())
	if err != nil {
		return nil, fmt.Errorf("harness: lane %s: %w", l.name, err)
	}
	l.move(p)
	if err := l.check(ctx); errors.Is(err, pistore.ErrCorrupt) {
		return nil, l.fault(p.about(""), err)
	} else if err != nil {
		return nil, fmt.Errorf("harness: lane %s: %w", l.name, err)
	}
	handle := l.handleOf(p.op)
	handle.set(nil)
	l.post(RunResume{p.about("")})
	l.start(ctx, handle, true)
	return handle, nil
}

// Abort asks the open operation to stop and returns once that is durable, with
// the input that it drained. What is under way is cancelled and settled as
// aborted, accepted writes are placed, and the operation ends as aborted; Wait
// tells when. An operation that was restored is brought to that end by a drive
// that starts no effect. Repeated, it returns the same and writes nothing.
// Errors: ErrNoActiveOperation.
func (l *Lane) Abort(ctx context.Context) (Drained, error) {
	if err := l.take(ctx); err != nil {
		return Drained{}, err
	}
	defer l.give()
	p, err := l.decide(ctx, func(p *position, m mint, c *change) (*position, error) {
		if p.op == nil {
			return nil, ErrNoActiveOperation
		}
		if p.op.cancelled() {
			return p, nil
		}
		return applyAbort(p, m, c), nil
	})
	if err != nil {
		return Drained{}, err
	}
	drained := p.drained()
	if l.signal() {
		return drained, nil
	}
	_, err = l.resume(context.WithoutCancel(ctx))
	return drained, err
}

// signal cancels the effects of the drive that is at work. It is false if none
// is.
func (l *Lane) signal() bool {
	l.mu.Lock()
	d := l.drive
	l.mu.Unlock()
	if d == nil {
		return false
	}
	l.gate.refuse() // first, so that what is parked is settled in its order
	d.abort()
	return true
}

// Finalize ends the open operation as it stands: an administrative call for one
// that cannot or must not be brought to an end of its own. What is under way is
// abandoned: its outcome is stored as unknown, whatever it comes to. Accepted
// writes are placed, other input of the run is dropped. Errors: ErrNoActiveOperation,
// pistore.ErrInvalid for an unknown outcome.
func (l *Lane) Finalize(ctx context.Context, outcome registers.Outcome) (registers.LastResult, error) {
	if err := checkOutcome(outcome); err != nil {
		return registers.LastResult{}, fmt.Errorf("harness: lane %s: %w", l.name, err)
	}
	if err := l.take(ctx); err != nil {
		return registers.LastResult{}, err
	}
	defer l.give()
	var result registers.LastResult
	p, err := l.decide(ctx, func(p *position, m mint, c *change) (*position, error) {
		if p.op == nil {
			return nil, ErrNoActiveOperation
		}
		p = finalize(p, outcome, m, c)
		result = *c.result
		return p, nil
	})
	if err != nil {
		return registers.LastResult{}, err
	}
	l.detach(p)
	if handle := l.handle(); handle != nil && handle.id == result.OperationID {
		handle.set(&Result{Ended: &result})
	}
	return result, nil
}

// WaitIdle returns when the lane has no open operation. Errors: ErrSuspended
// when the operation waits for a Resume, those of [Handle.Wait].
func (l *Lane) WaitIdle(ctx context.Context) error {
	for {
		if err := l.take(ctx); err != nil { // between decisions: an operation has its handle then
			return err
		}
		op, handle := l.position().op, l.handle()
		l.give()
		switch {
		case op == nil:
			return nil
		case handle == nil || handle.id != op.meta.OperationID: // another owner's, found on the way
			return fmt.Errorf("harness: lane %s: %w", l.name, ErrSuspended)
		}
		result, err := handle.Wait(ctx)
		switch {
		case errors.Is(err, ErrUnknownOutcome):
		case err != nil:
			return err
		case result.Suspended != nil:
			return fmt.Errorf("harness: lane %s: %w: %s", l.name, ErrSuspended, result.Suspended.Reason)
		}
	}
}
