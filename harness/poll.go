package harness

import (
	"context"
	"fmt"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
)

// poll asks the provider for a deferred response, as the run's state announces.
func (d *drive) poll() (event, bool) {
	p := d.at
	pend := p.op.phase().(*registers.DeferredPending)
	about := p.about(pend.StepID)
	t := d.l.gate.announce(EffectRequest, d.l.name, func() pistore.JSON {
		return describe(map[string]any{
			"model": pend.Configuration.Model, "poll": pend.Poll, "handle": p.op.handle.ID, "responseEntryId": pend.ResponseEntryID,
		})
	})
	if d.l.gate.pass(d.signal, t) != nil {
		msg := syntheticResponse(asAttempt(pend), session.StopAborted, abortedResponseText, d.h.clock.Read())
		return polled{responded{message: msg}}, d.alive()
	}
	d.l.emit(MessageStart{about, pend.ResponseEntryID, pend.Poll})
	req := provider.Request{
		Model: pend.Configuration.Model, ThinkingLevel: pend.Configuration.ThinkingLevel, Options: pend.StreamOptions, Attempt: pend.Poll,
	}
	resp := d.callPoll(about, pend, req, *p.op.handle)
	if !d.alive() {
		return nil, false // closed: the poll stays in flight
	}
	ev := settledResponse(resp, req, d.h.clock.Read())
	ev.message = d.afterResponse(about, pend.ResponseEntryID, ev.message)
	if !d.alive() {
		return nil, false
	}
	d.l.emit(MessageEnd{about, pend.ResponseEntryID, ev.message})
	return polled{ev}, true
}

// callPoll calls the provider; a panic in it is an error response.
func (d *drive) callPoll(about About, pend *registers.DeferredPending, req provider.Request, handle session.DeferredHandle) (resp provider.Response) {
	name := "provider " + req.Model.Provider
	defer d.h.handler(name)()
	ctx, end := d.l.begin(d.trail.ctx, Span{Kind: SpanRequest, About: about, Model: req.Model, Attempt: pend.Poll, EntryID: pend.ResponseEntryID})
	defer func() { end(endOfResponse(resp.Message)) }()
	deferrer, ok := d.h.env().deferrer(req.Model)
	if !ok { // the machine asks for no poll then
		panic(fmt.Sprintf("harness: provider %s cannot be polled", req.Model.Provider))
	}
	if err := apart(func() { resp = deferrer.Poll(ctx, req, handle) }); err != nil {
		d.l.emit(HandlerError{about, name, err})
		resp = provider.Response{Message: provider.Empty(req, "", session.StopError, "The provider failed: "+err.Error())}
	}
	return resp
}

// cancelDeferred tells the provider that nobody waits for a deferred response
// any more. The operation is cancelled already; this call is cut short by Close
// alone.
func (d *drive) cancelDeferred() (event, bool) {
	p := d.at
	ph := p.op.phase().(*registers.DeferredSuspended)
	about := p.about(ph.StepID)
	t := d.l.gate.announce(EffectCancel, d.l.name, func() pistore.JSON {
		return describe(map[string]any{"model": ph.Configuration.Model, "handle": p.op.handle.ID})
	})
	if d.l.gate.pass(d.ctx, t) != nil {
		return nil, d.alive() // turned back by another Abort: asked again
	}
	name := "provider " + ph.Configuration.Model.Provider
	defer d.h.handler(name)()
	deferrer, ok := d.h.env().deferrer(ph.Configuration.Model)
	if !ok { // the machine does not ask then
		panic(fmt.Sprintf("harness: provider %s cannot cancel", ph.Configuration.Model.Provider))
	}
	var err error
	// The signal of the operation has ended, and must not end this call.
	within := carrying{d.ctx, context.WithoutCancel(d.trail.ctx)}
	ctx, end := d.l.begin(within, Span{Kind: SpanCancel, About: about, Model: ph.Configuration.Model})
	if ended := apart(func() { err = deferrer.Cancel(ctx, *p.op.handle) }); ended != nil {
		err = ended
	}
	end(endOfHook(ctx, err))
	if err != nil {
		d.l.emit(HandlerError{about, name, fmt.Errorf("cancel a deferred response: %w", err)})
	}
	return cancelCalled{}, d.alive()
}
