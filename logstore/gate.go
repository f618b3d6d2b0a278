package logstore

import "sync"

// opGate counts the calls inside a handle, so that closing it can refuse new
// ones and wait for those.
type opGate struct {
	sealed chan struct{} // closed when no call gets in any more

	mu     sync.Mutex // guards what follows
	closed bool
	inside int
	empty  chan struct{} // closed when sealed and nobody is inside
}

func newOpGate() *opGate {
	return &opGate{sealed: make(chan struct{}), empty: make(chan struct{})}
}

// enter reports whether the call may go on; then it has to leave.
func (g *opGate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *opGate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// seal refuses new calls. It reports whether this call was the one that did.
func (g *opGate) seal() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.closed = true
	close(g.sealed)
	if g.inside == 0 {
		close(g.empty)
	}
	return true
}

// wait waits until nobody is inside a sealed gate, or until a database that is
// dead has had its time.
func (g *opGate) wait(f *fault) {
	select {
	case <-g.empty:
	case <-f.overdue:
	}
}
