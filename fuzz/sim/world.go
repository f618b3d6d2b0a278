package sim

import (
	"fmt"
	"sync"

	"pistore"
	"pistore/registers"
)

// world is what lies outside the process, and so outlives it: what tools have
// done, what the provider was asked.
type world struct {
	mu        sync.Mutex // guards what follows
	runs      map[pistore.ID]int
	requested map[pistore.ID]bool // announced requests that were made
	contexts  map[string][]string // of the newest request of each lane
	hangs     map[string]int      // by what hung
	wandered  map[string]bool     // lanes that may stand anywhere
	// uncertain says of a lane what happened to it that makes its conversation
	// another one.
	uncertain map[string]string
}

func newWorld() *world {
	return &world{
		runs: map[pistore.ID]int{}, requested: map[pistore.ID]bool{}, contexts: map[string][]string{},
		hangs: map[string]int{}, wandered: map[string]bool{}, uncertain: map[string]string{},
	}
}

// doubt notes what makes the conversation of a lane another one.
func (w *world) doubt(lane, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uncertain[lane] == "" {
		w.uncertain[lane] = why
	}
}

// wander notes that a lane navigates, or that its operation is ended from outside:
// it may stand in the middle of a turn then.
func (w *world) wander(lane string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wandered[lane] = true
}

// hung counts how often something hung.
func (w *world) hung(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hangs[what]++
	return w.hangs[what]
}

// judgeRequest checks a request that is being made against what is durable, and
// returns what it is for; nil: it was not announced.
func (o *oracle) judgeRequest(lane string, attempt int64) *pending {
	w := o.world
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.openLocked(lane)
	if op == nil {
		o.find("intent", "lane %s makes a request, and has no operation", lane)
		return nil
	}
	o.judgeEffect(op, "a request")
	p := pendingOf(op.state)
	if p == nil {
		o.find("intent", "lane %s makes a request that was not announced", lane)
		return nil
	}
	o.count("request for a " + string(p.purpose))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.requested[p.usage]:
		o.find("intent", "lane %s makes the request for %s twice", lane, p.usage)
	case p.attempt != attempt:
		o.find("intent", "lane %s makes attempt %d, and announced attempt %d", lane, attempt, p.attempt)
	case cancelled(op.state):
		o.find("cancellation", "lane %s makes a request after its cancellation", lane)
	}
	w.requested[p.usage] = true
	return p
}

// judgeEffect counts an effect of an operation. In a life that resumed it the
// count of resumes is durable before anything that may take the process down.
func (o *oracle) judgeEffect(op *record, what string) {
	op.effects++
	if op.resumed {
		o.find("resumes", "%s of operation %s starts before the Resume is durable", what, op.id)
	}
}

// judgeCall checks a call that is being made against what is durable.
func (o *oracle) judgeCall(key pistore.ID, arguments pistore.JSON, safe bool) {
	w := o.world
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, op := range o.ops {
		batch := batchOf(op.state)
		if batch == nil {
			continue
		}
		for _, call := range batch.Calls {
			if call.ResultEntryID != key {
				continue
			}
			o.judgeEffect(op, "a call")
			args := o.cells[pistore.Address{Namespace: registers.OpToolArgsNS, Key: registers.ToolKey(id, batch.StepID, call.SourceIndex)}]
			switch {
			case call.Status != registers.CallEffectPending:
				o.find("intent", "call %s runs and is %s", key, call.Status)
			case args != arguments:
				o.find("intent", "call %s runs with %s, and %q was announced", key, arguments, args)
			case cancelled(op.state):
				o.find("cancellation", "call %s starts after the cancellation", key)
			}
			w.mu.Lock()
			w.runs[key]++
			n := w.runs[key]
			w.mu.Unlock()
			if n > 1 && (call.Replay != registers.ReplaySafe || !safe) {
				o.find("unsafe effect", "call %s runs %d times; it was captured as %s and its tool is safe: %v", key, n, call.Replay, safe)
			}
			return
		}
	}
	o.find("intent", "call %s runs and was never announced", key)
}

// judgeContext checks that a request extends the one before it in its lane
// (invariant 20). What moved the leaf or replaced old context has forgotten it.
func (o *oracle) judgeContext(lane string, messages []string) {
	w := o.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, want := range w.contexts[lane] {
		if i >= len(messages) || messages[i] != want {
			got := "nothing"
			if i < len(messages) {
				got = messages[i]
			}
			o.find("invariant 20", "a request of lane %s has, at %d, %s and not %s as the one before", lane, i, got, want)
			return
		}
	}
	w.contexts[lane] = messages
	o.count("context extended")
}

// forget lets the next request of a lane start anew.
func (w *world) forget(lane string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.contexts, lane)
}

func turnKey(lane, text string, turn int) string { return fmt.Sprintf("%s/%s/%d", lane, text, turn) }
