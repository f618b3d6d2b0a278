package harness

import (
	"context"
	"errors"
)

// Peek returns the effects that are parked, in the order in which they were
// asked for. In automatic drive there are none. While effects are parked the
// lane writes nothing and calls nothing.
func (l *Lane) Peek() []Effect { return l.gate.peek() }

// Settle waits until nothing of the lane moves: every effect asked for is
// parked, or there is none.
func (l *Lane) Settle(ctx context.Context) error { return l.gate.settle(ctx) }

// Step releases the oldest parked effect and returns it when the lane is at
// rest again. ErrNotParked when nothing is parked.
func (l *Lane) Step(ctx context.Context) (Effect, error) { return l.StepEffect(ctx, 0) }

// StepEffect releases the parked effect with an id, which is how a test scripts
// the order in which parallel calls complete. ErrNotParked when it is not
// parked.
func (l *Lane) StepEffect(ctx context.Context, id int64) (Effect, error) {
	if err := l.gate.settle(ctx); err != nil {
		return Effect{}, err
	}
	e, err := l.gate.release(id)
	if err != nil {
		return e, err
	}
	return e, l.gate.settle(ctx)
}

// RunToCompletion steps until the lane's run ends or is suspended.
func (l *Lane) RunToCompletion(ctx context.Context) (Result, error) {
	handle := l.handle()
	if handle == nil {
		return Result{}, ErrNothingToResume
	}
	for l.gate.manual && !handle.rests() {
		if _, err := l.Step(ctx); errors.Is(err, ErrNotParked) {
			break
		} else if err != nil {
			return Result{}, err
		}
	}
	return handle.Wait(ctx)
}
