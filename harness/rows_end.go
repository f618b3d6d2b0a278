package harness

import (
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// The terminal rows: an operation ends by ceasing to exist.

func applyFinish(p *position, c *change) *position {
	end := p.op.phase().(*registers.Checkpoint).Continuation.(*registers.MayFinish)
	result := registers.LastResult{Outcome: registers.Completed, RunCompletion: registers.WithTerminateTools}
	if end.IncludeFinalAssistant {
		result.RunCompletion = registers.WithAssistant
		result.FinalAssistantID = p.op.run().LatestAssistantEntryID
	}
	return terminate(p, result, c)
}

// applyRunEnding goes on with what before_run_end gave, or ends the run.
func applyRunEnding(p *position, followUp []session.Message, m mint, c *change) *position {
	if len(followUp) == 0 {
		return applyFinish(p, c)
	}
	for _, msg := range followUp {
		p = c.placeMessage(p, m.New(), msg)
	}
	return p.withPhase(&registers.Checkpoint{
		Continuation: &registers.NeedAssistant{}, TriggerEntryID: p.leaf, SkipInboxOnce: true,
	})
}

func applyFail(p *position, c *change) *position {
	failure := p.op.phase().(*registers.FailureDrain).Error
	return terminate(p, registers.LastResult{
		Outcome: registers.Failed, Error: &failure, FinalAssistantID: p.op.run().LatestAssistantEntryID,
	}, c)
}

// terminate writes the outcome, deletes what the operation owns, and frees the
// lane; op.meta and op.state are change.tx's to delete.
func terminate(p *position, result registers.LastResult, c *change) *position {
	result.OperationID, result.Kind, result.LeafID = p.op.meta.OperationID, registers.KindOf(p.op.state), p.leaf
	c.result = &result
	for _, at := range p.op.owned() {
		c.remove(at.Namespace, at.Key)
	}
	if step := stepOf(p.op.phase()); step != "" {
		c.tell(TurnEnd{p.about(step)})
	}
	if ph, ok := p.op.phase().(*registers.RunCompaction); ok {
		c.tell(CompactionEnd{About: p.about(""), Reason: ph.Reason, Error: whyNoSummary(result)})
	}
	c.tell(endOf(p, result))
	ended := registers.QueuedIDs(p.op.state)
	idle := *p.withQueued(func(all map[pistore.ID]registers.PendingEntry) {
		for _, id := range ended {
			delete(all, id)
		}
	})
	idle.op = nil
	idle.state.CurrentOperationID = ""
	return &idle
}

// endOf is the event of the operation at a position, which ended.
func endOf(p *position, result registers.LastResult) Event {
	about := p.about("")
	switch result.Kind {
	case registers.KindRun:
		return RunEnd{about, result}
	case registers.KindNavigation:
		return NavigationEnd{about, result}
	case registers.KindCompaction:
		if result.Outcome == registers.Completed && result.LeafID != p.op.meta.SourceLeafID {
			return CompactionEnd{About: about, EntryID: result.LeafID}
		}
		return CompactionEnd{About: about, Error: whyNoSummary(result)}
	default:
		panic(fmt.Sprintf("harness: operation of kind %q", result.Kind))
	}
}

// whyNoSummary says why an operation ended before its summary was written. One
// that has completed all the same was finalized.
func whyNoSummary(result registers.LastResult) string {
	switch {
	case result.Error != nil:
		return result.Error.Message
	case result.Outcome == registers.Completed:
		return finalizedText
	default:
		return string(result.Outcome)
	}
}

// applyResumed is recovery: what was in flight when the process died is
// unknown, and a stated policy covers it. Everything else goes on as planned.
func applyResumed(p *position, env *environment, m mint, c *change) *position {
	if beyond(p.op) != "" {
		return p // not even what was in flight is ours to settle
	}
	if pend := attemptOf(p.op.state); pend != nil {
		return recoverSummary(p, pend, c)
	}
	switch ph := p.op.phase().(type) {
	case *registers.AssistantPending:
		return recoverRequest(p, ph, m, c)
	case *registers.DeferredSuspended, *registers.DeferredPending:
		return resumeDeferred(p, env, m, c)
	case *registers.Tools:
		for i, call := range ph.Calls {
			if call.Status == registers.CallEffectPending && (p.op.cancelled() || !replayable(call, p.op.batch[i].Name, env)) {
				p = applyToolSettled(p, i, interrupted(p, i, call.ResultEntryID), m, c)
				c.moved = true
			}
		}
	}
	return p
}

// recoverRequest spends the attempt whose outcome is unknown: a later one
// follows under new ids if the captured policy allows, else a synthetic
// response settles the reserved ids.
func recoverRequest(p *position, pend *registers.AssistantPending, m mint, c *change) *position {
	c.moved = true
	if p.op.cancelled() {
		return applyAbortedResponse(p, pend, *syntheticResponse(pend, session.StopAborted, unknownResponseText, m.Now()), c)
	}
	if pend.Attempt < pend.Context.RetryPolicy.MaxAttempts {
		return p.withPhase(&registers.AssistantReady{Context: pend.Context, NextAttempt: pend.Attempt + 1})
	}
	text := fmt.Sprintf("The process ended during attempt %d of %d; the response is unknown.", pend.Attempt, pend.Context.RetryPolicy.MaxAttempts)
	msg := syntheticResponse(pend, session.StopError, text, m.Now())
	return drain(settle(p, pend, msg, c), pend, "interrupted", text, c)
}

// replayable: a call runs again only if it was captured as safe and its tool
// still says so. Until that tool is there, nobody can tell: the call stays in
// flight.
func replayable(call registers.Call, name string, env *environment) bool {
	t, ok := env.tools.Lookup(name)
	return call.Replay == registers.ReplaySafe && (!ok || t.Replay == registers.ReplaySafe)
}

// interrupted is the result of a call whose outcome nobody knows.
func interrupted(p *position, index int, id pistore.ID) toolResult {
	return unfinished(p, index, fmt.Sprintf("The process ended while tool %q ran (call %s). Its effect may have happened, in part or in whole. Check before you repeat it.",
		p.op.batch[index].Name, id))
}

// unfinished is the result of a call that did not come to an end, with what its
// tool had reported until then.
func unfinished(p *position, index int, text string) toolResult {
	out, ok := p.op.output[index]
	if !ok {
		return errorResult(text)
	}
	text += "\nIts output until then:\n" + out.Head
	if out.DroppedBytes > 0 {
		text += fmt.Sprintf("\n[… %d bytes left out …]\n", out.DroppedBytes)
	}
	return errorResult(text + out.Tail)
}
