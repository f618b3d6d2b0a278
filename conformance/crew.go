package conformance

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"sync"
)

// crew is goroutines that use a store at the same time. A panic in one of them, or
// runtime.Goexit, is the backend's as a rule; it ends the row, not the process.
type crew struct {
	working  sync.WaitGroup
	mu       sync.Mutex // guards panicked
	panicked string     // what the first panic said
}

// goexit is why a row fails in which a call neither returned nor panicked.
const goexit = "the store ended its caller's goroutine: runtime.Goexit was called"

// adviceOnPanic is what there is to say about a store that panics, whatever the
// row is about.
const adviceOnPanic = "the stack above tells where; a store panics on nothing and ends no goroutine of its caller, it returns an error"

func (c *crew) start(work func()) {
	c.working.Add(1)
	go func() {
		defer c.working.Done()
		why := goexit // unless work returns
		defer func() {
			if r := recover(); r != nil {
				why = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.panicked = cmp.Or(c.panicked, why)
		}()
		work()
		why = ""
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
		panic(verdict{outcome: Fail, why: c.panicked, advice: adviceOnPanic})
	}
}
