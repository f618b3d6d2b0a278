package harness

import (
	"cmp"
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Rows of the transition table around a request.

func applyBeginStep(p *position, env *environment, m mint, c *change) *position {
	at := p.op.phase().(*registers.Checkpoint)
	need := at.Continuation.(*registers.NeedAssistant)
	step := registers.Context{
		StepID:               m.New(),
		TriggerEntryID:       at.TriggerEntryID,
		Configuration:        p.configuration(env),
		StreamOptions:        env.streamOptions,
		RetryPolicy:          env.retryPolicy,
		OverflowRecoveryUsed: need.OverflowRecoveryUsed,
	}
	c.tell(TurnStart{p.about(step.StepID)})
	return p.withPhase(&registers.AssistantReady{Context: step, NextAttempt: 1})
}

// applyIntend announces an attempt; an output limit of 0 is the model's.
func applyIntend(p *position, outputLimit int64, env *environment, m mint, c *change) *position {
	ready := p.op.phase().(*registers.AssistantReady)
	beginAttempt(p.about(ready.Context.StepID), ready.NextAttempt, c)
	model, _ := env.model(ready.Context.Configuration.Model)
	if outputLimit == 0 {
		outputLimit = storable(model.MaxOutputTokens)
	}
	return p.withPhase(&registers.AssistantPending{
		Context:             ready.Context,
		Attempt:             ready.NextAttempt,
		ResponseEntryID:     m.New(),
		UsageID:             m.New(),
		IntendedOutputLimit: outputLimit,
		ContextWindow:       storable(model.ContextWindow),
	})
}

// storable brings a number that a provider gave into the range that op.state
// takes.
func storable(n int64) int64 { return min(max(n, 0), pistore.MaxSeq) }

// applyResponse settles the attempt in flight: response, usage and what comes
// next become durable together.
func applyResponse(p *position, ev responded, env *environment, m mint, c *change) *position {
	pend := p.op.phase().(*registers.AssistantPending)
	msg := *ev.message
	if p.op.cancelled() {
		return applyAbortedResponse(p, pend, msg, c)
	}
	class := classify(ev, pend)
	if class == classOverflow || class == classUnusable {
		msg = normalized(msg, session.StopError)
	}
	p = settle(p, pend, &msg, c)
	calls := msg.ToolCalls()
	switch class {
	case classTools, classCutTools, classStop:
		return goOn(p, pend, class, calls, m, c)
	case classDeferred:
		return applyDeferred(p, pend, *msg.Deferred)
	case classRetryable:
		if pend.Attempt < pend.Context.RetryPolicy.MaxAttempts {
			return applyRetry(p, pend, ev, m, c)
		}
		return drain(p, pend, "provider_error", msg.ErrorMessage, c)
	case classOverflow:
		if compacting := applyOverflow(p, pend, env, m, c); compacting != nil {
			return compacting
		}
		return drain(p, pend, "context_overflow", msg.ErrorMessage, c)
	case classError, classUnusable:
		return drain(p, pend, "provider_error", msg.ErrorMessage, c)
	default:
		panic(fmt.Sprintf("harness: class %d", class))
	}
}

// goOn leads on from a response that is whole.
func goOn(p *position, pend *registers.AssistantPending, class class, calls []session.ToolCall, m mint, c *change) *position {
	switch class {
	case classTools:
		return planBatch(p, pend, calls, m)
	case classCutTools:
		p = planBatch(p, pend, calls, m)
		for i := range calls {
			p = applyToolSettled(p, i, errorResult(cutCallText), m, c)
		}
		return p
	case classStop:
		c.tell(TurnEnd{p.about(pend.Context.StepID)})
		return p.withPhase(&registers.Checkpoint{
			Continuation:   &registers.MayFinish{IncludeFinalAssistant: true},
			TriggerEntryID: pend.Context.TriggerEntryID,
		})
	default:
		panic(fmt.Sprintf("harness: class %d", class))
	}
}

const cutCallText = "This call was not executed: the response that holds it reached its output limit, so its arguments may be cut off. Make the call again, with shorter arguments."

// settle places the response and its usage row under the reserved ids.
func settle(p *position, pend *registers.AssistantPending, msg *session.AssistantMessage, c *change) *position {
	p = c.placeMessage(p, pend.ResponseEntryID, msg)
	model := pend.Context.Configuration.Model
	purpose := "assistant"
	if _, poll := p.op.phase().(*registers.DeferredPending); poll {
		purpose = "deferred"
	} else {
		endAttempt(p.about(pend.Context.StepID), pend.Attempt, failureOf(msg), c)
	}
	c.content = append(c.content, pistore.InsertUsage{
		ID: pend.UsageID, EntryID: pend.ResponseEntryID, Usage: msg.Usage,
		Details: usageDetails{
			Lane: p.lane, OperationID: p.op.meta.OperationID, Purpose: purpose,
			Provider: model.Provider, ModelID: model.ModelID,
		}.encode(),
	})
	return p.withRun(func(run *registers.RunState) { run.LatestAssistantEntryID = pend.ResponseEntryID })
}

// beginAttempt tells of an attempt that is announced, if it is a retry.
func beginAttempt(about About, attempt int64, c *change) {
	if attempt > 1 {
		c.tell(RetryStart{about, attempt})
	}
}

// endAttempt tells of an attempt that is settled, if it was a retry.
func endAttempt(about About, attempt int64, failure string, c *change) {
	if attempt > 1 {
		c.tell(RetryEnd{about, attempt, failure})
	}
}

// failureOf is what is wrong with a response, empty if nothing is.
func failureOf(msg *session.AssistantMessage) string {
	switch msg.StopReason {
	case session.StopError, session.StopAborted:
		return cmp.Or(msg.ErrorMessage, string(msg.StopReason))
	default:
		return ""
	}
}

// planBatch reserves a result for each call; results are followers of their
// response, so that they sort with it.
func planBatch(p *position, pend *registers.AssistantPending, calls []session.ToolCall, m mint) *position {
	at, ok := pend.ResponseEntryID.Time()
	if !ok {
		at = m.Now()
	}
	batch := &registers.Tools{
		StepID:           pend.Context.StepID,
		AssistantEntryID: pend.ResponseEntryID,
		Configuration:    pend.Context.Configuration,
	}
	for i := range calls {
		batch.Calls = append(batch.Calls, registers.Call{Status: registers.CallPlanned, SourceIndex: int64(i), ResultEntryID: m.At(at)})
	}
	p = p.withPhase(batch)
	p.op.batch, p.op.args, p.op.output = calls, map[int]pistore.JSON{}, nil
	return p
}

func applyRetry(p *position, pend *registers.AssistantPending, ev responded, m mint, c *change) *position {
	wait := &registers.AssistantRetryWait{
		Context:      pend.Context,
		NextAttempt:  pend.Attempt + 1,
		NotBefore:    retryAt(pend.Context.RetryPolicy, pend.Attempt, ev, m),
		ErrorMessage: ev.message.ErrorMessage,
	}
	c.tell(RetryScheduled{p.about(pend.Context.StepID), wait.NextAttempt, wait.NotBefore, wait.ErrorMessage})
	return p.withPhase(wait)
}

// retryAt is the instant of the next attempt.
func retryAt(policy registers.RetryPolicy, attempt int64, ev responded, m mint) pistore.UnixMS {
	return min(m.Now()+pistore.UnixMS(retryDelayMS(policy, attempt, storable(ev.retryAfterMS))), pistore.MaxSeq)
}

func applyDue(p *position) *position {
	if sum := registers.SummaryOf(p.op.state); sum != nil {
		return applySummaryDue(p, sum.Generating.Generation.(*registers.GenerationRetryWait))
	}
	wait := p.op.phase().(*registers.AssistantRetryWait)
	return p.withPhase(&registers.AssistantReady{Context: wait.Context, NextAttempt: wait.NextAttempt})
}

// drain sends a run that failed with a response to failure_drain.
func drain(p *position, pend *registers.AssistantPending, code, message string, c *change) *position {
	c.tell(TurnEnd{p.about(pend.Context.StepID)})
	return p.withPhase(&registers.FailureDrain{
		Error:      registers.Failure{Code: code, Message: message},
		Provenance: registers.Provenance{ResponseEntryID: pend.ResponseEntryID},
	})
}
