package conformance

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// crew is goroutines that use a store at the same time. A panic in one of them is
// the backend's as a rule; it ends the row, not the process.
type crew struct {
	working  sync.WaitGroup
	mu       sync.Mutex // guards panicked
	panicked string     // what the first panic said
}

func (c *crew) start(work func()) {
	c.working.Add(1)
	go func() {
		defer c.working.Done()
		defer func() {
			if r := recover(); r != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.panicked == "" {
					c.panicked = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
				}
			}
		}()
		work()
	}()
}

// broken reports whether one has panicked, so that nobody waits for what it was to do.
func (c *crew) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.panicked != ""
}

// wait waits until all have ended, and ends the row if one panicked.
func (c *crew) wait(p *probe) {
	c.working.Wait()
	if c.broken() {
		p.failf("%s", c.panicked)
	}
}
