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
	// SuspendDeferred: the provider settles the response later; each Resume asks
	// it once. The detail is the id of the provider's handle, which the newest
	// entry holds, with the wait that it asks for.
	SuspendDeferred SuspendReason = "deferred"
	// SuspendCrashLoop: it was resumed again and again without a step forward;
	// Resume goes on all the same.
	SuspendCrashLoop SuspendReason = "crash_loop"
	// SuspendChanged: another owner changed the operation.
	SuspendChanged SuspendReason = "changed_elsewhere"
)

// Suspension is why an operation waits for a Resume.
type Suspension struct {
	Reason SuspendReason
	Detail string // what is missing, or empty
}

// Result is what an operation came to: exactly one of the two is set.
type Result struct {
	Ended     *registers.LastResult
	Suspended *Suspension
}

// Handle follows an accepted operation. It stays valid across suspensions.
type Handle struct {
	id   pistore.ID
	lane string

	mu      sync.Mutex // guards what follows
	result  *Result    // nil while the operation goes on
	err     error      // closed, faulted, or the outcome is unknown
	changed chan struct{}
}

func newHandle(id pistore.ID, lane string) *Handle {
	return &Handle{id: id, lane: lane, changed: make(chan struct{})}
}

// OperationID returns the id of the operation.
func (h *Handle) OperationID() pistore.ID { return h.id }

// Wait returns when the operation has ended or is suspended. After a suspension
// a new Wait follows the resumed operation. Ending the context ends the wait,
// never the work. Errors: pistore.ErrClosed after Close, pistore.ErrFaulted
// after a fault, ErrUnknownOutcome.
func (h *Handle) Wait(ctx context.Context) (Result, error) {
	for {
		h.mu.Lock()
		result, err, changed := h.result, h.err, h.changed
		h.mu.Unlock()
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
			return Result{}, fmt.Errorf("harness: wait for operation %s: %w", h.id, ctx.Err())
		}
	}
}

// settled is what Wait would return at once, nil if it would wait or fail.
func (h *Handle) settled() *Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.result
}

// rests reports whether Wait would return at once.
func (h *Handle) rests() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.result != nil || h.err != nil
}

// set changes what Wait returns; nil lets it wait.
func (h *Handle) set(result *Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.result = result
	close(h.changed)
	h.changed = make(chan struct{})
}

// seal makes Wait fail unless the operation has ended. A nil handle is none.
func (h *Handle) seal(err error) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		close(h.changed)
		h.changed = make(chan struct{})
	}
}
