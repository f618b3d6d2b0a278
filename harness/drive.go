package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// The driver: the only file with goroutines. A drive takes a run from effect to
// effect; what each one means is the machine's to say.

// drive is one stretch of a run, from a Prompt or a Resume to its end or its
// next suspension.
type drive struct {
	l        *Lane
	h        *Harness
	run      *Run
	ctx      context.Context
	resuming bool         // the first commit of a Resume is still to come
	running  map[int]bool // calls of the open batch under way in this process
	done     completions
}

// completions hands finished calls to the drive, first come first served.
type completions struct {
	gate *gate

	mu      sync.Mutex // guards what follows
	settled []toolSettled
	waiting chan struct{} // closed to wake the drive; nil: it does not wait
}

// add never blocks. It counts the drive in before it wakes it.
func (c *completions) add(ev toolSettled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = append(c.settled, ev)
	c.wake()
}

func (c *completions) wake() {
	if c.waiting != nil {
		c.gate.enter()
		close(c.waiting)
		c.waiting = nil
	}
}

// take waits for a finished call. It is false when the context ends first.
func (c *completions) take(ctx context.Context) (toolSettled, bool) {
	for {
		c.mu.Lock()
		if len(c.settled) > 0 {
			ev := c.settled[0]
			c.settled = c.settled[1:]
			c.mu.Unlock()
			return ev, true
		}
		woken := make(chan struct{})
		c.waiting = woken
		c.gate.leave()
		c.mu.Unlock()
		select {
		case <-woken:
		case <-ctx.Done():
			c.mu.Lock()
			c.wake()
			c.mu.Unlock()
			return toolSettled{}, false
		}
	}
}

// start begins to drive the lane's open run. The caller holds the line.
func (l *Lane) start(run *Run, resuming bool) {
	l.mu.Lock()
	l.driving = true
	l.mu.Unlock()
	d := &drive{l: l, h: l.h, run: run, resuming: resuming, running: map[int]bool{}, done: completions{gate: l.gate}}
	l.h.work.Add(1)
	l.gate.enter()
	go func() {
		defer l.h.work.Done()
		defer l.gate.leave()
		ctx, cancel := context.WithCancel(l.h.ctx)
		defer cancel()
		d.ctx = ctx
		d.loop()
	}()
}

// loop runs until the run ends, is suspended, or the harness is sealed.
func (d *drive) loop() {
	var ev event
	if d.resuming {
		ev = resumed{}
	}
	for {
		act, ok := d.advance(ev)
		if !ok {
			return
		}
		switch act := act.(type) {
		case effectRequest:
			ev, ok = d.request()
		case effectTools:
			ev, ok = d.tools(act.calls)
		case effectSleep:
			ev, ok = d.sleep(act.until)
		case suspend:
			d.stop(&Result{Suspended: &Suspension{act.reason, act.detail}})
			return
		default:
			panic(fmt.Sprintf("harness: action %T", act))
		}
		if !ok {
			return
		}
	}
}

// stop ends the drive with what Wait shall return.
func (d *drive) stop(result *Result) {
	about := d.l.position().about("")
	d.l.mu.Lock()
	d.l.driving = false
	d.l.mu.Unlock()
	if s := result.Suspended; s != nil {
		d.l.post(RunSuspend{about, *s})
	}
	d.run.set(result)
	d.l.events.deliver(d.h.emit)
}

// advance commits what an event leads to and returns the effect that comes
// next. It is false when there is none for this drive: the run ended, or the
// harness is sealed.
func (d *drive) advance(ev event) (action, bool) {
	ids := &reserve{h: d.h}
	if d.l.gate.manual {
		p, c, act := d.fold(ev, ids)
		if !c.moved {
			return act, true
		}
		t := d.l.gate.announce(EffectCommit, d.l.name, func() pistore.JSON { return describeTx(c.tx(p)) })
		if d.l.gate.pass(d.ctx, t) != nil {
			return nil, false
		}
	}
	if d.l.take(d.ctx) != nil {
		return nil, false
	}
	defer d.l.give()
	for {
		ids.rewind()
		p, c, act := d.fold(ev, ids)
		if !c.moved {
			return act, true
		}
		// What is admitted finishes, whatever is cancelled meanwhile.
		err := d.l.commit(context.WithoutCancel(d.ctx), p, c)
		switch {
		case err == nil:
			d.resuming = false
			if _, over := act.(ended); over {
				d.stop(&Result{Ended: c.result})
				return nil, false
			}
			return act, true
		case errors.Is(err, pistore.ErrConflict):
			if !d.reload() {
				return nil, false
			}
		default:
			d.h.fault(c.from.about(""), err)
			return nil, false
		}
	}
}

// fold is the machine's fold with the count of resumes: one more in the first
// commit of a Resume, none in every other. A rerun of a safe call needs no
// commit but this one, which bounds a loop of crashes.
func (d *drive) fold(ev event, ids *reserve) (*position, *change, action) {
	from := d.l.position()
	p, c, act := fold(from, ev, &d.h.env, ids)
	if _, rerun := act.(effectTools); rerun && d.resuming {
		c.moved = true
	}
	if p.op != nil && c.moved {
		next, op := *p, *p.op
		op.run.Resumes = 0
		if d.resuming {
			op.run.Resumes = from.op.run.Resumes + 1
		}
		next.op = &op
		p = &next
	}
	return p, c, act
}

// reload looks at what is stored after a conflict. It reports whether the run
// stands where it stood, so that the same event can be planned again; if it
// does not, the drive is over and nothing more is written.
func (d *drive) reload() bool {
	old := d.l.position()
	fresh, err := d.l.restore(context.WithoutCancel(d.ctx))
	if err != nil {
		d.h.fault(old.about(""), err)
		return false
	}
	d.l.move(fresh)
	switch {
	case fresh.op == nil || fresh.op.meta.OperationID != d.run.id:
		d.endedElsewhere()
		return false
	case fresh.op.seq == old.op.seq: // it was the configuration that changed
		return true
	default:
		d.stop(&Result{Suspended: &Suspension{Reason: SuspendChanged}})
		return false
	}
}

// endedElsewhere answers Wait from lane.lastResult.
func (d *drive) endedElsewhere() {
	last, err := d.l.LastResult(context.WithoutCancel(d.ctx))
	d.l.mu.Lock()
	d.l.driving = false
	d.l.mu.Unlock()
	switch {
	case err != nil:
		d.run.seal(err)
	case last == nil || last.OperationID != d.run.id:
		d.run.seal(fmt.Errorf("harness: run %s: %w", d.run.id, ErrUnknownOutcome))
	default:
		d.run.set(&Result{Ended: last})
	}
}

// request makes the request that the run's state announces.
func (d *drive) request() (event, bool) {
	p := d.l.position()
	pend := p.op.run.Phase.(*registers.AssistantPending)
	about := p.about(pend.Context.StepID)
	t := d.l.gate.announce(EffectRequest, d.l.name, func() pistore.JSON { return describeRequest(pend) })
	if d.l.gate.pass(d.ctx, t) != nil {
		return nil, false
	}
	req, err := d.h.buildRequest(d.ctx, p.leaf, pend)
	if err != nil {
		if d.ctx.Err() == nil {
			d.h.fault(about, err)
		}
		return nil, false
	}
	if pend.Attempt > 1 {
		d.l.emit(RetryStart{about, pend.Attempt})
	}
	d.l.emit(MessageStart{about, pend.ResponseEntryID, pend.Attempt})
	model, _, _ := d.h.env.providers.Model(pend.Context.Configuration.Model)
	resp, panicked := d.stream(model, req, func(delta provider.Delta) {
		d.l.emit(MessageUpdate{about, pend.ResponseEntryID, delta})
	})
	if d.ctx.Err() != nil {
		return nil, false // closed: the attempt stays in flight
	}
	if panicked != nil {
		d.l.emit(HandlerError{about, "provider " + req.Model.Provider, panicked})
	}
	ev := settledResponse(resp, req, d.h.clock.Read())
	d.l.emit(MessageEnd{about, pend.ResponseEntryID, ev.message})
	return ev, true
}

// stream calls the provider; a panic in it is an error response.
func (d *drive) stream(p provider.Provider, req provider.Request, deltas func(provider.Delta)) (resp provider.Response, panicked error) {
	defer d.h.handler("provider " + p.Name())()
	defer func() {
		if r := recover(); r != nil {
			panicked = fmt.Errorf("panic: %v", r)
			resp = provider.Response{Message: provider.Empty(req, "", session.StopError, "The provider failed: "+panicked.Error())}
		}
	}()
	return p.Stream(d.ctx, req, deltas), nil
}

// tools starts those of the pending calls that do not run yet, in source
// order, and waits for the first of all that run to settle.
func (d *drive) tools(pending []int) (event, bool) {
	for _, i := range pending {
		if !d.running[i] {
			d.running[i] = true
			d.startTool(i)
		}
	}
	ev, ok := d.done.take(d.ctx)
	delete(d.running, ev.index)
	return ev, ok
}

func (d *drive) startTool(index int) {
	p := d.l.position()
	batch := p.op.run.Phase.(*registers.Tools)
	call, id := p.op.batch[index], batch.Calls[index].ResultEntryID
	call.Arguments = p.op.args[index]
	about := p.about(batch.StepID)
	t := d.l.gate.announce(EffectTool, d.l.name, func() pistore.JSON { return describeCall(call, id) })
	d.h.work.Add(1)
	d.l.gate.enter()
	go func() {
		defer d.h.work.Done()
		defer d.l.gate.leave()
		if d.l.gate.pass(d.ctx, t) != nil {
			return
		}
		d.l.emit(ToolStart{about, id, call})
		result := d.execute(about, id, call)
		if d.ctx.Err() != nil {
			return // closed: the call stays in flight
		}
		d.l.emit(ToolEnd{about, id, result.isError})
		d.done.add(toolSettled{index, result})
	}()
}

// execute runs one call; an error or a panic of the tool is an error result.
func (d *drive) execute(about About, id pistore.ID, call session.ToolCall) (result toolResult) {
	t, ok := d.h.env.tools.Lookup(call.Name)
	if !ok {
		return errorResult(fmt.Sprintf("There is no tool named %q.", call.Name))
	}
	defer d.h.handler("tool " + call.Name)()
	var over atomic.Bool
	defer over.Store(true)
	defer func() {
		if r := recover(); r != nil {
			d.l.emit(HandlerError{about, "tool " + call.Name, fmt.Errorf("panic: %v", r)})
			result = errorResult(fmt.Sprintf("The tool failed: panic: %v", r))
		}
	}()
	out, err := t.Execute(d.ctx, tool.Call{
		ID: call.ID, Arguments: call.Arguments, IdempotencyKey: string(id),
		Progress: func(text string) {
			if !over.Load() {
				d.l.emit(ToolUpdate{about, id, text})
			}
		},
	})
	return settledResult(call, out, err)
}

// sleep waits until a retry is due.
func (d *drive) sleep(until pistore.UnixMS) (event, bool) {
	t := d.l.gate.announce(EffectSleep, d.l.name, func() pistore.JSON {
		return pistore.JSON(fmt.Sprintf(`{"until":%d}`, until))
	})
	if d.l.gate.pass(d.ctx, t) != nil || d.h.sleep(d.ctx, until) != nil {
		return nil, false
	}
	return due{}, true
}

// handler counts application code in, by name, and returns what counts it out.
func (h *Harness) handler(name string) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active[name]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.active[name]--; h.active[name] == 0 {
			delete(h.active, name)
		}
	}
}

// describe makes the JSON of an effect at the gate.
func describe(v any) pistore.JSON {
	text, err := json.Marshal(v)
	if err != nil {
		panic("harness: describe: " + err.Error())
	}
	return pistore.JSON(text)
}
