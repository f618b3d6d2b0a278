package harness

import (
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Rows of the transition table around control. An operation that was asked to
// stop settles what was intended, applies the writes that it accepted, and ends;
// it starts no request, no call and no decision any more.

// endAborted ends an operation that was asked to stop.
type endAborted struct{}

func (endAborted) isEvent()  {}
func (endAborted) isAction() {}

// applyAbort marks an operation as asked to stop. What steered it or would have
// followed it is drained: it stays durable until the operation ends, and is
// placed no more.
func applyAbort(p *position, m mint, c *change) *position {
	c.moved = true
	p = p.withState(func(s registers.OpState) {
		control := registers.Control{CancelRequested: true, RequestedAt: m.Now()}
		if run, ok := s.(*registers.RunState); ok {
			control.DrainedSteer, control.DrainedFollowUp = run.Inbox.Steer, run.Inbox.FollowUp
			run.Inbox.Steer, run.Inbox.FollowUp = nil, nil
		}
		*registers.ControlOf(s) = control
	})
	control := registers.ControlOf(p.op.state)
	c.tell(RunAbort{p.about(stepOf(p.op.phase())), control.DrainedSteer, control.DrainedFollowUp})
	return p
}

// nextCancelled is what an operation that was asked to stop still does. A
// request or a call that is under way is waited for; one that was not started
// is the driver's to settle without.
func nextCancelled(p *position, env *environment) action {
	switch ph := p.op.phase().(type) {
	case *registers.AssistantPending:
		return effectRequest{}
	case *registers.DeferredPending:
		return effectPoll{}
	case *registers.DeferredSuspended:
		if _, ok := env.deferrer(ph.Configuration.Model); ok {
			return effectCancel{}
		}
	case *registers.RunCompaction:
		return nextOfSummary(p, env)
	case *registers.Tools:
		var running []int
		for i, call := range ph.Calls {
			switch call.Status {
			case registers.CallPlanned:
				return rejectCall{i, abortedCallText}
			case registers.CallEffectPending:
				running = append(running, i)
			}
		}
		if len(running) > 0 {
			return effectTools{ph.StepID, running, -1}
		}
		return endBatch{}
	}
	if run, ok := p.op.state.(*registers.RunState); ok {
		if act, waits := take(run, queueWrites); waits {
			return act
		}
	}
	return endAborted{}
}

const (
	abortedCallText     = "This call was not executed: the run was aborted."
	cancelledCallText   = "The run was aborted while this call ran; its effect may have happened in part"
	abortedResponseText = "The run was aborted before the request was made."
	unknownResponseText = "The run was aborted; whether the request was answered is unknown."

	finalizedText         = "The operation was ended by an administrative call."
	finalizedResponseText = "The run was ended by an administrative call; whether the request was answered is unknown."
	finalizedCallText     = "This call was not executed: the run was ended by an administrative call."
	finalizedRunningText  = "The run was ended by an administrative call while this call ran; its effect may have happened, in part or in whole."
)

// applyAbortedResponse settles the attempt in flight of a run that was asked to
// stop. What the response calls is not executed.
func applyAbortedResponse(p *position, pend *registers.AssistantPending, msg session.AssistantMessage, c *change) *position {
	msg = normalized(msg, session.StopAborted)
	p = settle(p, pend, &msg, c)
	c.tell(TurnEnd{p.about(pend.Context.StepID)})
	return p.withPhase(&registers.Checkpoint{
		Continuation:   &registers.MayFinish{IncludeFinalAssistant: true},
		TriggerEntryID: pend.Context.TriggerEntryID,
	})
}

func applyEndAborted(p *position, c *change) *position {
	result := registers.LastResult{Outcome: registers.Aborted}
	if run, ok := p.op.state.(*registers.RunState); ok {
		result.FinalAssistantID = run.LatestAssistantEntryID
	}
	return terminate(p, result, c)
}

// finalize ends an operation wherever it stands, as an administrator says. What
// was in flight is settled as unknown under its reserved ids, and accepted
// writes are placed, so that nothing is left open behind it.
func finalize(p *position, outcome registers.Outcome, m mint, c *change) *position {
	c.moved = true
	p = settleUnknown(p, m, c)
	result := registers.LastResult{Outcome: outcome}
	if outcome == registers.Failed {
		result.Error = &registers.Failure{Code: "finalized", Message: finalizedText}
	}
	if run, ok := p.op.state.(*registers.RunState); ok {
		result.FinalAssistantID = run.LatestAssistantEntryID
		p = c.placeFrom(p, queueWrites, len(run.Inbox.Writes))
	}
	return terminate(p, result, c)
}

// settleUnknown settles everything that an operation has in flight.
func settleUnknown(p *position, m mint, c *change) *position {
	unknown := func(pend *registers.AssistantPending) *position {
		return settle(p, pend, syntheticResponse(pend, session.StopError, finalizedResponseText, m.Now()), c)
	}
	if pend := attemptOf(p.op.state); pend != nil {
		endAttempt(p.about(""), pend.Attempt, finalizedText, c)
		if pend.Request != nil {
			billSummary(p, pend, session.ZeroUsage, c)
		}
		return p
	}
	switch ph := p.op.phase().(type) {
	case *registers.AssistantPending:
		return unknown(ph)
	case *registers.DeferredPending:
		return unknown(asAttempt(ph))
	case *registers.Tools:
		for i, call := range ph.Calls {
			switch call.Status {
			case registers.CallPlanned:
				p = applyToolSettled(p, i, errorResult(finalizedCallText), m, c)
			case registers.CallEffectPending:
				p = applyToolSettled(p, i, unfinished(p, i, finalizedRunningText), m, c)
			}
		}
	}
	return p
}

// Queued is content that waits for its place, or waited for it.
type Queued struct {
	EntryID pistore.ID
	Content registers.PendingEntry
}

// Drained is what an Abort took out of the queues of a run.
type Drained struct{ Steer, FollowUp []Queued }

// drained is what was taken out of the queues of the open operation.
func (p *position) drained() Drained {
	with := func(ids []pistore.ID) []Queued {
		out := make([]Queued, len(ids))
		for i, id := range ids {
			out[i] = Queued{id, p.queued[id]}
		}
		return out
	}
	control := registers.ControlOf(p.op.state)
	return Drained{with(control.DrainedSteer), with(control.DrainedFollowUp)}
}

func checkOutcome(o registers.Outcome) error {
	switch o {
	case registers.Completed, registers.Failed, registers.Aborted, registers.Declined:
		return nil
	default:
		return fmt.Errorf("%w: outcome %.40q", pistore.ErrInvalid, string(o))
	}
}
