package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"pistore"
	"pistore/registers"
)

// The driver: the only file with goroutines. A drive takes a run from effect to
// effect; what each one means is the machine's to say.

// drive is one stretch of a run, from a Prompt or a Resume to its end or its
// next suspension.
type drive struct {
	l        *Lane
	h        *Harness
	handle   *Handle
	ctx      context.Context // ends with the drive
	cancel   context.CancelFunc
	signal   context.Context // of its effects: ends with ctx, or with an Abort
	abort    context.CancelFunc
	at       *position    // what the effect under way was asked for
	resuming bool         // the first commit of a Resume is still to come
	running  map[int]bool // calls of the open batch under way in this process
	// interrupted are the results of calls that were started before the drive.
	interrupted map[pistore.ID]bool
	judging     judgement // the planned call that before_tool judges
	done        completions
	trail       trail
}

// judgement names a planned call that before_tool is asked about.
type judgement struct {
	step  pistore.ID // empty: none
	index int
}

// completions hands finished calls and judgements to the drive, first come
// first served.
type completions struct {
	gate *gate

	mu      sync.Mutex // guards what follows
	settled []event
	waiting chan struct{} // closed to wake the drive; nil: it does not wait
}

// add never blocks. It counts the drive in before it wakes it.
func (c *completions) add(ev event) {
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

// take waits for the next one. It is false when the context ends first.
func (c *completions) take(ctx context.Context) (event, bool) {
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
			return nil, false
		}
	}
}

// start begins to drive the lane's open operation. Its spans lie in those that
// ctx carries, which has no other bearing. The caller holds the line.
func (l *Lane) start(ctx context.Context, handle *Handle, resuming bool) {
	within := l.h.ctx
	if l.h.tracer != nil {
		within = carrying{l.h.ctx, context.WithoutCancel(ctx)}
	}
	d := &drive{l: l, h: l.h, handle: handle, resuming: resuming, running: map[int]bool{}, done: completions{gate: l.gate}}
	d.ctx, d.cancel = context.WithCancel(within)
	d.signal, d.abort = context.WithCancel(d.ctx)
	at := l.position()
	if at.op.cancelled() {
		d.abort()
	}
	if resuming {
		d.interrupted = at.op.started()
	}
	l.mu.Lock()
	l.drive = d
	l.mu.Unlock()
	l.h.enter()
	l.gate.enter()
	go func() {
		defer l.h.leave()
		defer l.gate.leave()
		defer d.cancel()
		d.trail = trail{l: l, ctx: d.signal}
		d.trail.begin(at, resuming)
		defer func() { d.trail.finish(d.left()) }()
		d.loop()
	}()
}

// loop runs until the run ends, is suspended, or the harness is sealed.
func (d *drive) loop() {
	var ev event
	if d.resuming {
		ev = resumed{}
	}
	greeted := !d.resuming || len(d.h.hooks.BeforeResume) == 0
	for {
		act, ok := d.advance(ev)
		if ok && !greeted && isEffect(act) {
			greeted = true
			if ok = d.beforeResume(); ok {
				act, ok = d.advance(nil) // public calls may have come meanwhile
			}
		}
		if !ok {
			return
		}
		switch act := act.(type) {
		case effectRequest:
			ev, ok = d.request()
		case effectPoll:
			ev, ok = d.poll()
		case effectCancel:
			ev, ok = d.cancelDeferred()
		case effectSummary:
			ev, ok = d.summarize()
		case effectTools:
			ev, ok = d.tools(act)
		case effectHook:
			ev, ok = d.hook(act.name)
		case effectSleep:
			ev, ok = d.sleep(act.until)
		case suspend:
			ev, ok = nil, !d.suspend(act)
		default:
			panic(fmt.Sprintf("harness: action %T", act))
		}
		if !ok {
			return
		}
	}
}

// suspend stops where the operation needs what this process cannot give. It is
// false if the operation was asked to stop meanwhile, which needs nothing.
func (d *drive) suspend(act suspend) bool {
	if d.l.take(d.ctx) != nil {
		return true
	}
	defer d.l.give()
	p, mine := d.position()
	if mine && p.op.cancelled() && !d.at.op.cancelled() {
		return false
	}
	if mine {
		d.stop(&Result{Suspended: &Suspension{act.reason, act.detail}})
	}
	return true
}

// alive reports whether the drive goes on: what an Abort cut short is settled
// without.
func (d *drive) alive() bool { return d.ctx.Err() == nil }

// stop ends the drive with what Wait shall return. The caller holds the line: a
// Resume comes before or after all of it.
func (d *drive) stop(result *Result) {
	about := d.l.position().about("")
	d.l.mu.Lock()
	d.l.drive = nil
	d.l.mu.Unlock()
	if s := result.Suspended; s != nil {
		d.l.post(RunSuspend{about, *s})
	}
	d.handle.answer(*result, d)
}

// answer ends what Wait waits for, behind the spans of the drive that it comes
// from, if one is given.
func (h *Handle) answer(result Result, from *drive) {
	if from != nil {
		from.trail.finish(endOfRun(result))
	}
	h.set(&result)
}

// left is how the drive ends that did not stop by itself: with its operation,
// which ended elsewhere, or abandoned.
func (d *drive) left() SpanEnd {
	if result := d.handle.settled(); result != nil {
		return endOfRun(*result)
	}
	return SpanEnd{Status: SpanAbandoned}
}

// position is the lane's, and whether it is still this drive's to go on from: a
// call that ends the operation moves the lane first and takes the drive off it
// behind that.
func (d *drive) position() (*position, bool) {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	p := d.l.pos
	return p, d.l.drive == d && p.op != nil && p.op.meta.OperationID == d.handle.id
}

// advance commits what an event leads to and returns the effect that comes
// next. It is false when there is none for this drive: the operation ended, or
// goes on elsewhere, or the harness is sealed.
func (d *drive) advance(ev event) (action, bool) {
	ids := &reserve{h: d.h}
	for again := d.l.gate.manual; again; {
		from, mine := d.position()
		if !mine {
			return nil, false
		}
		ids.rewind()
		p, c, act, err := d.fold(from, ev, ids)
		if err != nil {
			break // to fault on the line
		}
		if !c.moved {
			d.at = p
			return act, true
		}
		tx, err := c.tx(p)
		if err != nil {
			break
		}
		t := d.l.gate.announce(EffectCommit, d.l.name, func() pistore.JSON { return describeTx(tx) })
		err = d.l.gate.pass(d.ctx, t)
		if again = errors.Is(err, errRefused); !again && err != nil {
			return nil, false
		}
	}
	if d.l.take(d.ctx) != nil {
		return nil, false
	}
	defer d.l.give()
	for {
		from, mine := d.position()
		if !mine {
			return nil, false
		}
		ids.rewind()
		p, c, act, err := d.fold(from, ev, ids)
		if err != nil {
			_ = d.l.fault(from.about(""), err)
			return nil, false
		}
		if !c.moved {
			d.at = p
			return act, true
		}
		// What is admitted finishes, whatever is cancelled meanwhile.
		err = d.l.commit(context.WithoutCancel(d.trail.ctx), p, c)
		if errors.Is(err, pistore.ErrConflict) {
			if err = d.l.reload(context.WithoutCancel(d.ctx), d); err == nil {
				continue
			}
		}
		if err != nil {
			_ = d.l.fault(from.about(""), err)
			return nil, false
		}
		d.trail.follow(p)
		d.resuming, d.at = false, d.l.position()
		if _, over := act.(ended); over {
			d.stop(&Result{Ended: c.result})
			return nil, false
		}
		return act, true
	}
}

// fold is the machine's fold with the count of resumes: one more in the first
// commit of a Resume, none in every other. A rerun of a safe call, and a hook,
// need no commit but this one, which bounds a loop of crashes.
func (d *drive) fold(from *position, ev event, ids *reserve) (p *position, c *change, act action, err error) {
	defer catchUnsound(&err)
	p, c, act = d.h.planner.fold(from, ev, d.h.env(), ids)
	if d.resuming && d.callsOut(act) {
		c.moved = true
	}
	if p.op != nil && c.moved {
		var resumes int64
		if d.resuming {
			resumes = min(*registers.ResumesOf(from.op.state)+1, pistore.MaxSeq)
		}
		p = p.withState(func(s registers.OpState) { *registers.ResumesOf(s) = resumes })
	}
	return p, c, act, nil
}

// callsOut reports whether an action that needs no commit of its own calls
// application code, which may take the process down.
func (d *drive) callsOut(act action) bool {
	switch act.(type) {
	case effectTools, effectHook, effectCancel:
		return true
	default:
		return len(d.h.hooks.BeforeResume) > 0 && isEffect(act)
	}
}

// isEffect tells effects from ends.
func isEffect(act action) bool {
	switch act.(type) {
	case suspend, ended:
		return false
	default:
		return true
	}
}

// tools starts those of the pending calls that do not run yet, in source
// order, lets a planned one be judged, and waits for the first of all these to
// be done.
func (d *drive) tools(act effectTools) (event, bool) {
	for _, i := range act.calls {
		if !d.running[i] {
			d.running[i] = true
			d.startTool(i)
		}
	}
	if asked := (judgement{act.step, act.judge}); act.judge >= 0 && d.judging != asked {
		d.judging = asked
		d.startJudging(act.judge)
	}
	ev, ok := d.done.take(d.ctx)
	switch ev := ev.(type) {
	case toolSettled:
		delete(d.running, ev.index)
	case callJudged:
		if d.judging == (judgement{ev.step, ev.index}) {
			d.judging = judgement{}
		}
	}
	return ev, ok
}

// startJudging asks before_tool about a planned call.
func (d *drive) startJudging(index int) {
	p := d.at
	batch := p.op.phase().(*registers.Tools)
	call, id := p.op.batch[index], batch.Calls[index].ResultEntryID
	ctx := d.trail.ctx
	d.h.enter()
	d.l.gate.enter()
	t := d.l.gate.announce(EffectHook, d.l.name, func() pistore.JSON {
		return describeHook(HookBeforeTool, describeCall(call, id))
	})
	go func() {
		defer d.h.leave()
		defer d.l.gate.leave()
		ev := callJudged{step: batch.StepID, index: index, block: abortedCallText}
		if d.l.gate.pass(d.signal, t) == nil {
			ev = d.beforeTool(ctx, p.about(batch.StepID), index, call)
		}
		if d.alive() {
			d.done.add(ev)
		}
	}()
}

func (d *drive) startTool(index int) {
	p := d.at
	batch := p.op.phase().(*registers.Tools)
	call, id := p.op.batch[index], batch.Calls[index].ResultEntryID
	call.Arguments = p.op.args[index]
	about := p.about(batch.StepID)
	ctx := d.trail.ctx
	t := d.l.gate.announce(EffectTool, d.l.name, func() pistore.JSON { return describeCall(call, id) })
	unstarted := func() {
		result := errorResult(abortedCallText)
		if d.interrupted[id] { // it is its rerun that does not start
			result = interrupted(p, index, id)
		}
		d.done.add(toolSettled{index, result})
	}
	d.l.gate.whenRefused(t, unstarted)
	d.h.enter()
	d.l.gate.enter()
	go func() {
		defer d.h.leave()
		defer d.l.gate.leave()
		if err := d.l.gate.pass(d.signal, t); err != nil {
			if d.alive() && !errors.Is(err, errRefused) {
				unstarted()
			}
			return
		}
		d.l.emit(ToolStart{about, id, call})
		result := d.execute(ctx, about, id, call)
		if d.alive() {
			result = d.afterTool(ctx, about, id, call, result)
		}
		if !d.alive() {
			return // closed: the call stays in flight
		}
		d.l.emit(ToolEnd{about, id, result.isError})
		d.done.add(toolSettled{index, result})
	}()
}

// deliver hands on what waits for the listener, unless somebody does already.
// What comes in meanwhile is for a goroutine of its own, so that nobody is kept
// by the news of others. The caller is counted in and does not hold the line.
func (l *Lane) deliver() {
	n := l.events.claim()
	if n == 0 {
		return
	}
	for range n {
		ev, _ := l.events.next()
		l.hand(ev)
	}
	if !l.events.rest() {
		return
	}
	l.h.enter()
	l.gate.enter()
	go func() {
		defer l.h.leave()
		defer l.gate.leave()
		for ev, ok := l.events.next(); ok; ev, ok = l.events.next() {
			l.hand(ev)
		}
	}()
}

// apart runs application code in a goroutine of its own and waits for it. What
// ends that goroutine (a panic; runtime.Goexit, and with it the FailNow of a
// test) comes back as an error and takes no lane along.
func apart(code func()) error {
	ended := make(chan error, 1)
	go func() {
		err := errors.New("it ended its goroutine (runtime.Goexit)")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
			}
			ended <- err
		}()
		code()
		err = nil
	}()
	return <-ended
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
