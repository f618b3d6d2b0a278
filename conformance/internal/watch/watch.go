// Package watch stands between a kit and the store that it tests. It knows which
// calls have not returned, and it notes what no caller can work with: nothing in
// place of a session or an iterator, and an iterator without an end.
package watch

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Watch is what is known of the calls of one row. Its zero value is ready; it is
// safe for concurrent use.
type Watch struct {
	// MaxRows is after how many rows an iterator counts as endless: more than the
	// row writes. 0: never.
	MaxRows int64

	mu    sync.Mutex // guards what follows
	open  []*call    // in the order in which they began
	fault *Fault     // the first
}

// Fault is a call that gave what no caller can work with.
type Fault struct {
	What    string // was given
	Advice  string // to who wrote the store
	Endless bool   // an iterator that does not end: it took long to find out
}

func (f *Fault) Error() string { return f.What }

// Before is why a row failed that met the fault and then, unless it is empty or
// tells the fault itself, failed for why.
func (f *Fault) Before(why string) string {
	switch {
	case why == "":
		return f.What
	case strings.Contains(why, f.What):
		return why
	default:
		return f.What + "; then: " + why
	}
}

// Fault returns the first fault, nil if there was none.
func (w *Watch) Fault() *Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// note keeps the first fault and returns the one that is given.
func (w *Watch) note(f *Fault) *Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		w.fault = f
	}
	return f
}

// call is one that is under way. That of an iterator begins when it is ranged over.
type call struct {
	name     string
	began    time.Time
	iterator bool
	rows     atomic.Int64 // that the iterator has yielded
	moved    atomic.Int64 // how long after began it was entered or left last
	away     atomic.Bool  // the kit is at work on a row that it yielded
}

func (c *call) move(away bool) {
	c.moved.Store(int64(time.Since(c.began)))
	c.away.Store(away)
}

func (w *Watch) begin(name string, iterator bool) *call {
	c := &call{name: name, began: time.Now(), iterator: iterator}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, c)
	return c
}

func (w *Watch) end(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.open, c)
	w.open = slices.Delete(w.open, i, i+1)
}

// Begin tells that something is waited for, until the function that it returns is
// called.
func (w *Watch) Begin(what string) (end func()) {
	c := w.begin(what, false)
	return func() { w.end(c) }
}

// stuck names what has been under way for long, in a sentence; empty: nothing is.
func (w *Watch) stuck(long time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	times := map[string]int{}
	for _, c := range w.open {
		what, ok := c.stuck(long)
		if !ok {
			continue
		}
		if times[what]++; times[what] == 1 {
			all = append(all, what)
		}
	}
	for i, what := range all {
		if n := times[what]; n > 1 {
			all[i] = fmt.Sprintf("%s (%d calls)", what, n)
		}
	}
	return strings.Join(all, ", and ")
}

// stuck tells what the call keeps its caller from, if it does so for long.
func (c *call) stuck(long time.Duration) (what string, ok bool) {
	age := time.Since(c.began)
	still := age - time.Duration(c.moved.Load())
	switch {
	case age < long:
		return "", false
	case !c.iterator:
		return fmt.Sprintf("%s has not returned for %v", c.name, age.Round(time.Second)), true
	case still < long:
		return fmt.Sprintf("the iterator of %s has not ended for %v, behind %d rows", c.name, age.Round(time.Second), c.rows.Load()), true
	case c.away.Load():
		return "", false // another call keeps the kit from asking for the next row
	default:
		return fmt.Sprintf("the iterator of %s has not come on for %v, behind %d rows", c.name, still.Round(time.Second), c.rows.Load()), true
	}
}
