package harness

import (
	"context"
	"fmt"
	"sync"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// What the driver does for each effect, in the goroutine that it has for it:
// requests, executions, sleeps. Polls are in poll.go, hooks in hook_calls.go.

// request makes the request that the run's state announces.
func (d *drive) request() (event, bool) {
	p := d.at
	pend := p.op.phase().(*registers.AssistantPending)
	about := p.about(pend.Context.StepID)
	projected, err := d.h.env().project(p.path.views())
	if err == nil {
		projected = d.transformContext(about, projected)
	}
	req := d.h.buildRequest(projected, pend)
	if err == nil {
		req = d.beforePayload(about, pend.ResponseEntryID, req)
	}
	t := d.l.gate.announce(EffectRequest, d.l.name, func() pistore.JSON { return describeRequest(pend) })
	if d.l.gate.pass(d.signal, t) != nil {
		return responded{message: syntheticResponse(pend, session.StopAborted, abortedResponseText, d.h.clock.Read())}, d.alive()
	}
	d.l.emit(MessageStart{about, pend.ResponseEntryID, pend.Attempt})
	var resp provider.Response
	if err != nil {
		resp.Message = provider.Empty(req, "", session.StopError, fmt.Sprintf("The context cannot be sent: %v", err))
	} else {
		resp = d.stream(about, pend, req)
	}
	if !d.alive() {
		return nil, false // closed: the attempt stays in flight
	}
	ev := settledResponse(resp, req, d.h.clock.Read())
	ev.message = d.afterResponse(about, pend.ResponseEntryID, ev.message)
	if !d.alive() {
		return nil, false
	}
	d.l.emit(MessageEnd{about, pend.ResponseEntryID, ev.message})
	return ev, true
}

// stream makes a request and tells how its response grows.
func (d *drive) stream(about About, pend *registers.AssistantPending, req provider.Request) provider.Response {
	updates := &reports{d: d}
	defer updates.end()
	span := Span{Kind: SpanRequest, About: about, Model: req.Model, Attempt: pend.Attempt, EntryID: pend.ResponseEntryID}
	return d.ask(span, req, func(delta provider.Delta) { updates.emit(MessageUpdate{about, pend.ResponseEntryID, delta}) })
}

// ask calls the provider; a panic in it is an error response.
func (d *drive) ask(span Span, req provider.Request, deltas func(provider.Delta)) (resp provider.Response) {
	name := "provider " + req.Model.Provider
	defer d.h.handler(name)()
	ctx, end := d.l.begin(d.trail.ctx, span)
	defer func() { end(endOfResponse(resp.Message)) }()
	err := apart(func() { resp = d.h.env().providers[req.Model.Provider].Stream(ctx, req, deltas) })
	if err != nil {
		d.l.emit(HandlerError{span.About, name, err})
		resp = provider.Response{Message: provider.Empty(req, "", session.StopError, "The provider failed: "+err.Error())}
	}
	return resp
}

// summarize makes the request that a summary's state announces.
func (d *drive) summarize() (event, bool) {
	p := d.at
	g := registers.SummaryOf(p.op.state).Generating
	pend := g.Generation.(*registers.GenerationPending)
	about := p.about("")
	req := summaryRequest(p)
	t := d.l.gate.announce(EffectRequest, d.l.name, func() pistore.JSON { return describeSummary(g, pend) })
	if d.l.gate.pass(d.signal, t) != nil {
		unsent := provider.Response{Message: provider.Empty(req, "", session.StopAborted, abortedResponseText)}
		return summaryResponded{settledResponse(unsent, req, d.h.clock.Read())}, d.alive()
	}
	span := Span{Kind: SpanRequest, About: about, Model: req.Model, Attempt: pend.Attempt, EntryID: g.ResultEntryID}
	resp := d.ask(span, req, nil)
	if !d.alive() {
		return nil, false // closed: the attempt stays in flight
	}
	return summaryResponded{settledResponse(resp, req, d.h.clock.Read())}, true
}

// reports are what application code tells while it runs. Behind its end, and
// when the harness is closed, they are dropped.
type reports struct {
	d  *drive
	mu sync.Mutex // guards over
	// over: the code returned, and its end was or will be told.
	over bool
}

func (r *reports) emit(ev Event) {
	r.mu.Lock()
	drop := r.over || !r.d.alive()
	if !drop {
		r.d.l.post(ev)
	}
	r.mu.Unlock()
	if !drop {
		r.d.l.deliver()
	}
}

func (r *reports) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// execute runs one call; an error or a panic of the tool is an error result.
func (d *drive) execute(ctx context.Context, about About, id pistore.ID, call session.ToolCall) (result toolResult) {
	t, ok := d.h.env().tools.Lookup(call.Name)
	if !ok {
		return errorResult(fmt.Sprintf("There is no tool named %q.", call.Name))
	}
	name := "tool " + call.Name
	defer d.h.handler(name)()
	updates := &reports{d: d}
	defer updates.end()
	ctx, end := d.l.begin(ctx, Span{Kind: SpanTool, About: about, Name: call.Name, EntryID: id})
	defer func() { end(endOfTool(ctx, result)) }()
	err := apart(func() {
		out, err := t.Execute(ctx, tool.Call{
			ID: call.ID, Arguments: call.Arguments, IdempotencyKey: string(id),
			Progress: func(text string) { updates.emit(ToolUpdate{about, id, text}) },
		})
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", cancelledCallText, err)
		}
		result = settledResult(call, out, err)
	})
	if err != nil {
		d.l.emit(HandlerError{about, name, err})
		result = errorResult("The tool failed: " + err.Error())
	}
	return result
}

// sleep waits until a retry is due.
func (d *drive) sleep(until pistore.UnixMS) (event, bool) {
	t := d.l.gate.announce(EffectSleep, d.l.name, func() pistore.JSON {
		return pistore.JSON(fmt.Sprintf(`{"until":%d}`, until))
	})
	if d.l.gate.pass(d.signal, t) != nil {
		return nil, d.alive()
	}
	p := d.at
	turn, _, _ := stageOf(p.op)
	ctx, end := d.l.begin(d.trail.ctx, Span{Kind: SpanSleep, About: p.about(turn), WaitMS: int64(max(0, until-d.h.clock.Read()))})
	d.sleepUntil(ctx, p.about(turn), until)
	if ctx.Err() != nil {
		end(SpanEnd{Status: SpanAborted})
		return nil, d.alive()
	}
	end(SpanEnd{Status: SpanOK})
	return due{}, true
}

// sleepUntil sleeps as the application does it. Where that fails, the wait is
// not over: it goes on by a timer.
func (d *drive) sleepUntil(ctx context.Context, about About, until pistore.UnixMS) {
	defer d.h.handler("sleep")()
	var err error
	if ended := apart(func() { err = d.h.sleep(ctx, until) }); ended != nil {
		err = ended
	}
	if err != nil && ctx.Err() == nil {
		d.l.emit(HandlerError{about, "sleep", err})
		_ = d.h.sleepReally(ctx, until)
	}
}
