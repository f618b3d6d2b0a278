package logstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pistore"
)

// fault is the dead flag of one open database and the first cause that set it.
// It is set before anything that waits on the failed work is woken, so whoever
// reads it after an engine call knows whether that call may be believed.
type fault struct {
	dead    atomic.Bool
	tripped chan struct{} // closed with the first cause
	// overdue is closed some time later: calls that are still in the engine
	// then may never come back.
	overdue chan struct{}
	bound   time.Duration

	mu    sync.Mutex // guards cause
	cause error
}

func newFault(bound time.Duration) *fault {
	return &fault{tripped: make(chan struct{}), overdue: make(chan struct{}), bound: bound}
}

// fail records the first cause and sets the flag.
func (f *fault) fail(op string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil {
		return
	}
	f.cause = fmt.Errorf("%s: %w", op, err)
	f.dead.Store(true)
	close(f.tripped)
	time.AfterFunc(f.bound, func() { close(f.overdue) })
}

// err returns nil, or an error that matches ErrFaulted and wraps the cause.
func (f *fault) err() error {
	if !f.dead.Load() {
		return nil
	}
	return fmt.Errorf("logstore: %w: %w", pistore.ErrFaulted, f.reason())
}

func (f *fault) reason() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}
