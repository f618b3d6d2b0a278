package harness

import (
	"context"
	"fmt"
	"sync"

	"pistore"
	"pistore/registers"
)

// SuspendReason says why an open operation does not go on by itself.
type SuspendReason string

// The reasons for a suspension.
const (
	// SuspendRestored: the operation was found open when its lane was
	// restored; Resume continues it.
	SuspendRestored SuspendReason = "restored"
	// SuspendMissingIdentities: a model or tool that it needs is not there.
	SuspendMissingIdentities SuspendReason = "missing_identities"
	// SuspendUnsupported: the operation is in a state that this harness does
	// not execute; it is left as it is.
	SuspendUnsupported SuspendReason = "unsupported"
	// SuspendChanged: another owner changed the operation.
	SuspendChanged SuspendReason = "changed_elsewhere"
)

// Suspension is why an operation waits for a Resume.
type Suspension struct {
	Reason SuspendReason
	Detail string // what is missing, or empty
}

// Result is what a run came to: exactly one of the two is set.
type Result struct {
	Ended     *registers.LastResult
	Suspended *Suspension
}

// Run is the handle of an accepted run. It stays valid across suspensions.
type Run struct {
	id   pistore.ID
	lane string

	mu      sync.Mutex // guards what follows
	result  *Result    // nil while the run goes on
	err     error      // closed, faulted, or the outcome is unknown
	changed chan struct{}
}

func newRun(id pistore.ID, lane string) *Run {
	return &Run{id: id, lane: lane, changed: make(chan struct{})}
}

// OperationID returns the id of the run's operation.
func (r *Run) OperationID() pistore.ID { return r.id }

// Wait returns when the run has ended or is suspended. After a suspension a
// new Wait follows the resumed run. Ending the context ends the wait, never
// the run. Errors: pistore.ErrClosed after Close, pistore.ErrFaulted after a
// fault, ErrUnknownOutcome.
func (r *Run) Wait(ctx context.Context) (Result, error) {
	for {
		r.mu.Lock()
		result, err, changed := r.result, r.err, r.changed
		r.mu.Unlock()
		switch {
		case result != nil && result.Ended != nil: // an end is an end, closed or not
			return *result, nil
		case err != nil:
			return Result{}, err
		case result != nil:
			return *result, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Result{}, fmt.Errorf("harness: wait for run %s: %w", r.id, ctx.Err())
		}
	}
}

// rests reports whether Wait would return at once.
func (r *Run) rests() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result != nil || r.err != nil
}

// set changes what Wait returns; nil lets it wait.
func (r *Run) set(result *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = result
	close(r.changed)
	r.changed = make(chan struct{})
}

// seal makes Wait fail unless the run has ended. A nil run is none.
func (r *Run) seal(err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		close(r.changed)
		r.changed = make(chan struct{})
	}
}
