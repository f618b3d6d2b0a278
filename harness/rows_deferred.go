package harness

import (
	"fmt"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
)

// Rows of the transition table around a response that a provider settles
// later. The run is suspended, and each Resume polls once.

type (
	// effectPoll asks for the answer to the poll that effect_pending announced.
	effectPoll struct{}
	// polled settles the poll in flight.
	polled struct{ responded }
	// effectCancel asks to tell the provider that nobody waits any more.
	effectCancel struct{}
	// cancelCalled: the provider was told, or could not be.
	cancelCalled struct{}
)

func (effectPoll) isAction()   {}
func (polled) isEvent()        {}
func (effectCancel) isAction() {}
func (cancelCalled) isEvent()  {}

func (cancelCalled) answers(act action) bool { return act == effectCancel{} }

// deferrer is the provider of a model, if it can be polled.
func (env *environment) deferrer(ref registers.ModelRef) (provider.Deferrer, bool) {
	d, ok := env.providers[ref.Provider].(provider.Deferrer)
	return d, ok
}

// unlessUnpollable suspends a run whose provider, in this process, settles
// nothing later.
func unlessUnpollable(env *environment, c registers.LaneConfiguration, act action) action {
	if _, ok := env.deferrer(c.Model); !ok {
		return suspend{SuspendMissingIdentities, "provider " + c.Model.Provider + " that can be polled"}
	}
	return act
}

// withHandle returns a copy of p whose run stands in a phase of a deferred
// response with this newest handle.
func (p *position) withHandle(ph registers.Phase, handle session.DeferredHandle) *position {
	return p.withPhase(ph).with(func(op *operation) { op.handle = &handle })
}

// applyDeferred suspends a run whose response is to come.
func applyDeferred(p *position, pend *registers.AssistantPending, handle session.DeferredHandle) *position {
	return p.withHandle(&registers.DeferredSuspended{
		StepID: pend.Context.StepID, SourceEntryID: pend.ResponseEntryID,
		Configuration: pend.Context.Configuration, StreamOptions: pend.Context.StreamOptions,
	}, handle)
}

// resumeDeferred announces the next poll. One whose answer is not known, since
// the process died, is repeated under its number and new ids: a poll changes
// nothing, and the handle that it was made with is still the newest.
func resumeDeferred(p *position, env *environment, m mint, c *change) *position {
	var pend registers.DeferredPending
	switch ph := p.op.phase().(type) {
	case *registers.DeferredSuspended:
		if p.op.cancelled() {
			return p
		}
		pend = registers.DeferredPending{
			StepID: ph.StepID, SourceEntryID: ph.SourceEntryID, Poll: min(ph.Poll+1, pistore.MaxSeq),
			Configuration: ph.Configuration, StreamOptions: ph.StreamOptions,
		}
	case *registers.DeferredPending:
		if p.op.cancelled() {
			c.moved = true
			attempt := asAttempt(ph)
			return applyAbortedResponse(p, attempt, *syntheticResponse(attempt, session.StopAborted, unknownResponseText, m.Now()), c)
		}
		pend = *ph
	default:
		panic(fmt.Sprintf("harness: phase %T", ph))
	}
	if _, ok := env.deferrer(pend.Configuration.Model); !ok {
		return p
	}
	c.moved = true
	pend.ResponseEntryID, pend.UsageID = m.New(), m.New()
	return p.withHandle(&pend, *p.op.handle)
}

// applyCancelCalled leaves a deferred response that nobody waits for. Nothing of
// the call is stored, so that a crash before the end repeats it.
func applyCancelCalled(p *position) *position {
	source := p.op.phase().(*registers.DeferredSuspended).SourceEntryID
	return p.withPhase(&registers.Checkpoint{
		Continuation: &registers.MayFinish{IncludeFinalAssistant: true}, TriggerEntryID: source,
	})
}

// asAttempt is a poll as the attempt at a response that it is.
func asAttempt(pend *registers.DeferredPending) *registers.AssistantPending {
	return &registers.AssistantPending{
		Context: registers.Context{
			StepID: pend.StepID, TriggerEntryID: pend.ResponseEntryID,
			Configuration: pend.Configuration, StreamOptions: pend.StreamOptions,
		},
		Attempt: pend.Poll, ResponseEntryID: pend.ResponseEntryID, UsageID: pend.UsageID,
	}
}

// applyPolled settles a poll: still pending, ready, or failed for good.
func applyPolled(p *position, ev polled, m mint, c *change) *position {
	poll := p.op.phase().(*registers.DeferredPending)
	pend := asAttempt(poll)
	msg := *ev.message
	if p.op.cancelled() {
		return applyAbortedResponse(p, pend, msg, c)
	}
	class := classify(ev.responded, pend)
	switch class {
	case classDeferred:
		if provider.SameHandle(*msg.Deferred, *p.op.handle) {
			next := registers.DeferredSuspended{
				StepID: poll.StepID, SourceEntryID: poll.ResponseEntryID, Poll: poll.Poll,
				Configuration: poll.Configuration, StreamOptions: poll.StreamOptions,
			}
			return settle(p, pend, &msg, c).withHandle(&next, *msg.Deferred)
		}
		msg = normalized(msg, session.StopError)
		msg.ErrorMessage = "The answer to a poll names another response. " + msg.ErrorMessage
	case classTools, classCutTools, classStop:
		return goOn(settle(p, pend, &msg, c), pend, class, msg.ToolCalls(), m, c)
	default:
		msg = normalized(msg, session.StopError)
	}
	return drain(settle(p, pend, &msg, c), pend, "provider_error", msg.ErrorMessage, c)
}
