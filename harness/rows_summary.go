package harness

import (
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Rows of the transition table around a summary: the way from a frozen
// preparation to the entry that stands for it, the same for a compaction asked
// for, a compaction within a run, and the summary that a navigation leaves.

type (
	beginThreshold struct{} // checkpoint: the context is too full
	chooseModel    struct{} // deciding: a model is to write the summary
	intendSummary  struct{} // the next request of an attempt is to be announced
	abandonSummary struct{} // cancelled, and nothing is in flight

	// effectSummary asks for the response that generation effect_pending
	// announced.
	effectSummary struct{}

	// summaryDecided is what a hook makes of deciding: it declined, or supplied
	// the summary, or neither, and then a model is chosen.
	summaryDecided struct {
		declined bool
		supplied *SuppliedSummary
	}
	// summaryResponded settles the request in flight. The message is well formed.
	summaryResponded struct{ responded }
)

func (beginThreshold) isEvent()   {}
func (chooseModel) isEvent()      {}
func (intendSummary) isEvent()    {}
func (abandonSummary) isEvent()   {}
func (summaryDecided) isEvent()   {}
func (summaryResponded) isEvent() {}

func (beginThreshold) isAction() {}
func (chooseModel) isAction()    {}
func (intendSummary) isAction()  {}
func (abandonSummary) isAction() {}
func (effectSummary) isAction()  {}

// summaryWork is what a summary needs in memory beside its state. What belongs
// to an attempt is nowhere else: an attempt that a crash cuts off starts again.
type summaryWork struct {
	preparation *registers.Preparation
	cut         summaryCut // of the attempt, from its first request on
	draft       string     // of the newest settled request of the attempt
	settled     int64      // requests of the attempt
}

// again is the work of an attempt that has not begun.
func (w summaryWork) again() summaryWork { return summaryWork{preparation: w.preparation} }

// nextOfSummary says what a summary asks for.
func nextOfSummary(p *position, env *environment) action {
	sum := registers.SummaryOf(p.op.state)
	pend := attemptOf(p.op.state)
	switch {
	case pend != nil && pend.Request != nil:
		return effectSummary{}
	case registers.ControlOf(p.op.state).CancelRequested:
		return abandonSummary{}
	case sum.Generating == nil:
		return env.unlessHooked(decisionHook(p.op.state), chooseModel{})
	}
	switch g := sum.Generating.Generation.(type) {
	case *registers.GenerationReady, *registers.GenerationPending:
		if name := env.missingModel(sum.Generating.Context.Configuration); name != "" {
			return suspend{SuspendMissingIdentities, name}
		}
		return intendSummary{}
	case *registers.GenerationRetryWait:
		return effectSleep{g.NotBefore}
	default:
		panic(fmt.Sprintf("harness: generation %T", g))
	}
}

// attemptOf is the attempt at a summary that an operation is in, nil if it is in
// none.
func attemptOf(s registers.OpState) *registers.GenerationPending {
	sum := registers.SummaryOf(s)
	if sum == nil || sum.Generating == nil {
		return nil
	}
	pend, _ := sum.Generating.Generation.(*registers.GenerationPending)
	return pend
}

// decisionHook is the hook that decides on a summary.
func decisionHook(s registers.OpState) HookName {
	if _, navigation := s.(*registers.NavigationState); navigation {
		return HookBeforeNavigation
	}
	return HookBeforeCompaction
}

func (summaryDecided) answers(act action) bool {
	return act == effectHook{HookBeforeCompaction} || act == effectHook{HookBeforeNavigation}
}

// withSummary returns a copy of p whose summary is changed.
func (p *position) withSummary(change func(*registers.Summary)) *position {
	return p.withState(func(s registers.OpState) {
		switch s := s.(type) {
		case *registers.RunState:
			ph := *s.Phase.(*registers.RunCompaction)
			change(&ph.Summary)
			s.Phase = &ph
		case *registers.CompactionState:
			change(&s.Summary)
		case *registers.NavigationState:
			sum := *s.Summary
			change(&sum)
			s.Summary = &sum
		default:
			panic(fmt.Sprintf("harness: operation state %T", s))
		}
	})
}

// withGeneration returns a copy of p whose summary stands elsewhere.
func (p *position) withGeneration(g registers.Generation) *position {
	return p.withSummary(func(sum *registers.Summary) {
		generating := *sum.Generating
		generating.Generation = g
		sum.Generating = &generating
	})
}

// withWork returns a copy of p that works on a summary in another way.
func (p *position) withWork(work summaryWork) *position {
	return p.with(func(op *operation) { op.summary = work })
}

// beginSummary freezes what a summary is made of and returns its id.
func beginSummary(op pistore.ID, prep *registers.Preparation, m mint, c *change) registers.Summary {
	sum := registers.Summary{SummaryID: m.New()}
	c.set(registers.OpPreparationNS, registers.PreparationKey(op, sum.SummaryID), registers.EncodePreparation(*prep))
	return sum
}

// beginRunCompaction turns a run to a compaction.
func beginRunCompaction(p *position, reason registers.CompactionReason, prep *registers.Preparation, after registers.Checkpoint, m mint, c *change) *position {
	sum := beginSummary(p.op.meta.OperationID, prep, m, c)
	c.tell(CompactionStart{p.about(""), reason})
	return p.withPhase(&registers.RunCompaction{Reason: reason, Summary: sum, ResumeAfter: after}).withWork(summaryWork{preparation: prep})
}

// tooFull reports whether a checkpoint is to compact: the context is above the
// threshold, and that was not checked for its trigger. It was if the trigger
// stands before the newest compaction, and, behind its response, if the context
// that the response was asked with was above the threshold.
func tooFull(p *position, at *registers.Checkpoint, env *environment) bool {
	s := p.op.run().Settings.Compaction
	if !s.Enabled || at.ThresholdCheckedTriggerEntryID == at.TriggerEntryID {
		return false
	}
	threshold := limitsOf(s, env.window(p)).threshold
	if threshold == 0 || contextTokens(p, p.path, env) <= threshold {
		return false
	}
	asked := p.path.upTo(at.TriggerEntryID)
	if asked == nil {
		return false
	}
	_, finishing := at.Continuation.(*registers.MayFinish)
	return !finishing || asked == p.path || contextTokens(p, asked, env) <= threshold
}

// applyThreshold marks the trigger as checked, and compacts if there is anything
// to summarize.
func applyThreshold(p *position, env *environment, m mint, c *change) *position {
	after := *p.op.phase().(*registers.Checkpoint)
	after.ThresholdCheckedTriggerEntryID = after.TriggerEntryID
	prep := compactionOf(p, limitsOf(p.op.run().Settings.Compaction, env.window(p)), env)
	if prep == nil {
		return p.withPhase(&after)
	}
	return beginRunCompaction(p, registers.ReasonThreshold, prep, after, m, c)
}

// applyOverflow goes from a request that was too large to a compaction, and is
// nil when there is none to make: one per trigger, and only of something.
func applyOverflow(p *position, pend *registers.AssistantPending, env *environment, m mint, c *change) *position {
	s := p.op.run().Settings.Compaction
	if !s.Enabled || pend.Context.OverflowRecoveryUsed {
		return nil
	}
	window := pend.ContextWindow
	if window == 0 { // at most what was sent
		window = contextTokens(p, p.path, env)
	}
	prep := compactionOf(p, limitsOf(s, window), env)
	if prep == nil {
		return nil
	}
	c.tell(TurnEnd{p.about(pend.Context.StepID)})
	after := registers.Checkpoint{
		Continuation:   &registers.NeedAssistant{OverflowRecoveryUsed: true},
		TriggerEntryID: pend.Context.TriggerEntryID,
	}
	return beginRunCompaction(p, registers.ReasonOverflow, prep, after, m, c)
}

// compactionOf prepares the compaction of a path. It is nil when there is
// nothing to summarize, or nothing that can be stored: the run then goes on as
// far as it gets.
func compactionOf(p *position, l limits, env *environment) *registers.Preparation {
	messages, err := env.project(p.path.views())
	if err != nil {
		return nil // the request will say so
	}
	prep := prepareCompaction(messages, contextTokens(p, p.path, env), l.keep)
	if prep == nil || checkPreparation(prep) != nil {
		return nil
	}
	return prep
}

// applyChooseModel captures what the summary is generated with: from here on
// nothing is decided again.
func applyChooseModel(p *position, env *environment, m mint) *position {
	trigger := pistore.ID("")
	if ph, ok := p.op.phase().(*registers.RunCompaction); ok {
		trigger = ph.ResumeAfter.TriggerEntryID
	}
	generating := &registers.Generating{
		ResultEntryID: m.New(),
		Context: registers.Context{
			StepID: m.New(), TriggerEntryID: trigger, Configuration: p.configuration(env),
			StreamOptions: env.streamOptions, RetryPolicy: env.retryPolicy,
		},
		Generation: &registers.GenerationReady{NextAttempt: 1},
	}
	return p.withSummary(func(sum *registers.Summary) { sum.Generating = generating })
}

// applyIntendSummary announces the first request of an attempt, or the next. All
// requests of an attempt are of one cut, whatever becomes of the model meanwhile.
func applyIntendSummary(p *position, env *environment, m mint, c *change) *position {
	if work := p.op.summary; work.cut.parts == nil {
		work.cut = cutSummary(p, env)
		p = p.withWork(work)
	}
	request := &registers.NestedRequest{Index: p.op.summary.settled, UsageID: m.New()}
	switch g := registers.SummaryOf(p.op.state).Generating.Generation.(type) {
	case *registers.GenerationReady:
		beginAttempt(p.about(""), g.NextAttempt, c)
		return p.withGeneration(&registers.GenerationPending{Attempt: g.NextAttempt, Request: request, UsageIDs: g.UsageIDs})
	case *registers.GenerationPending:
		return p.withGeneration(&registers.GenerationPending{Attempt: g.Attempt, Request: request, UsageIDs: g.UsageIDs})
	default:
		panic(fmt.Sprintf("harness: generation %T", g))
	}
}

// applySummaryResponse settles the request in flight with its usage.
func applySummaryResponse(p *position, ev summaryResponded, m mint, c *change) *position {
	g := registers.SummaryOf(p.op.state).Generating
	pend := g.Generation.(*registers.GenerationPending)
	usageIDs := billSummary(p, pend, ev.message.Usage, c)
	work := p.op.summary
	text := strings.TrimSpace(session.JoinText(ev.message.Content))
	switch {
	case registers.ControlOf(p.op.state).CancelRequested:
		return applyAbandonSummary(p, c)
	case ev.message.StopReason == session.StopError && ev.retryable && pend.Attempt < g.Context.RetryPolicy.MaxAttempts:
		wait := &registers.GenerationRetryWait{
			NextAttempt: pend.Attempt + 1, NotBefore: retryAt(g.Context.RetryPolicy, pend.Attempt, ev.responded, m),
			ErrorMessage: ev.message.ErrorMessage, UsageIDs: usageIDs,
		}
		endAttempt(p.about(""), pend.Attempt, failureOf(ev.message), c)
		c.tell(RetryScheduled{p.about(""), wait.NextAttempt, wait.NotBefore, wait.ErrorMessage})
		return p.withGeneration(wait).withWork(work.again())
	case !settledWell(ev.message):
		why := normalized(*ev.message, session.StopError).ErrorMessage
		return failAttempt(p, pend, "summary_failed", "The summary failed: "+why, c)
	case text == "":
		return failAttempt(p, pend, "summary_failed", "The model gave an empty summary.", c)
	}
	p = p.withGeneration(&registers.GenerationPending{Attempt: pend.Attempt, UsageIDs: usageIDs}).
		withWork(summaryWork{work.preparation, work.cut, text, work.settled + 1})
	if p.op.summary.settled < int64(len(work.cut.parts)) {
		return p
	}
	endAttempt(p.about(""), pend.Attempt, "", c)
	return applySummary(p, g.ResultEntryID, text, false, c)
}

// billSummary writes the usage row that a request announced, and returns the
// ids of all rows of the summary.
func billSummary(p *position, pend *registers.GenerationPending, usage pistore.JSON, c *change) []pistore.ID {
	model := registers.SummaryOf(p.op.state).Generating.Context.Configuration.Model
	c.content = append(c.content, pistore.InsertUsage{ID: pend.Request.UsageID, Usage: usage, Details: usageDetails{
		Lane: p.lane, OperationID: p.op.meta.OperationID, Purpose: summaryPurpose(p.op.state),
		Provider: model.Provider, ModelID: model.ModelID,
	}.encode()})
	return append(slices.Clone(pend.UsageIDs), pend.Request.UsageID)
}

func summaryPurpose(s registers.OpState) string {
	if _, navigation := s.(*registers.NavigationState); navigation {
		return "branch_summary"
	}
	return "compaction"
}

func applySummaryDue(p *position, wait *registers.GenerationRetryWait) *position {
	return p.withGeneration(&registers.GenerationReady{NextAttempt: wait.NextAttempt, UsageIDs: wait.UsageIDs})
}

// applyDecided goes on as a hook decided.
func applyDecided(p *position, ev summaryDecided, env *environment, m mint, c *change) *position {
	switch {
	case ev.declined:
		return applyDeclined(p, c)
	case ev.supplied == nil:
		return applyChooseModel(p, env, m)
	}
	if ev.supplied.Usage != "" {
		c.content = append(c.content, pistore.InsertUsage{ID: m.New(), Usage: ev.supplied.Usage, Details: usageDetails{
			Lane: p.lane, OperationID: p.op.meta.OperationID, Purpose: summaryPurpose(p.op.state),
		}.encode()})
	}
	return applySummary(p, m.New(), ev.supplied.Text, true, c)
}

// applySummary places the summary, and goes on to what it was made for.
func applySummary(p *position, id pistore.ID, text string, fromHook bool, c *change) *position {
	if _, ok := p.op.state.(*registers.NavigationState); ok {
		return applyArriveWith(p, id, text, fromHook, c)
	}
	prep := p.op.summary.preparation
	content := session.Content{ID: id, Type: pistore.TypeCompaction, Payload: session.CompactionPayload(session.Compaction{
		Summary: text, RetainedTail: prep.RetainedTail, TokensBefore: prep.TokensBefore,
		FromHook: fromHook, SystemMessage: systemInForce(prep.MessagesToSummarize),
	})}
	if _, err := pistore.CheckEntry(content.Type, "", content.Payload); err != nil {
		return failSummary(p, "summary_failed", fmt.Sprintf("The summary cannot be stored: %v", err), c)
	}
	p = c.place(p, content)
	ph, inRun := p.op.phase().(*registers.RunCompaction)
	if !inRun {
		return terminate(p, registers.LastResult{Outcome: registers.Completed}, c)
	}
	c.tell(CompactionEnd{About: p.about(""), Reason: ph.Reason, EntryID: id})
	return leaveSummary(p, &ph.ResumeAfter, c)
}

// leaveSummary ends a compaction within a run.
func leaveSummary(p *position, to registers.Phase, c *change) *position {
	key := registers.PreparationKey(p.op.meta.OperationID, registers.SummaryOf(p.op.state).SummaryID)
	c.remove(registers.OpPreparationNS, key)
	return p.withPhase(to).withWork(summaryWork{})
}

// failAttempt ends a summary with the attempt that it failed in.
func failAttempt(p *position, pend *registers.GenerationPending, code, message string, c *change) *position {
	endAttempt(p.about(""), pend.Attempt, message, c)
	return failSummary(p, code, message, c)
}

// failSummary ends a summary that failed for good.
func failSummary(p *position, code, message string, c *change) *position {
	failure := registers.Failure{Code: code, Message: message}
	ph, inRun := p.op.phase().(*registers.RunCompaction)
	if !inRun {
		return terminate(p, registers.LastResult{Outcome: registers.Failed, Error: &failure}, c)
	}
	c.tell(CompactionEnd{About: p.about(""), Reason: ph.Reason, Error: message})
	return leaveSummary(p, &registers.FailureDrain{
		Error: failure, Provenance: registers.Provenance{SummaryID: ph.Summary.SummaryID},
	}, c)
}

// applyDeclined: nothing is summarized. A run goes on without, unless its
// context is too large for that.
func applyDeclined(p *position, c *change) *position {
	ph, inRun := p.op.phase().(*registers.RunCompaction)
	switch {
	case !inRun:
		return terminate(p, registers.LastResult{Outcome: registers.Declined}, c)
	case ph.Reason == registers.ReasonOverflow:
		return failSummary(p, "context_overflow", "The context is too large, and a hook declined to compact it.", c)
	default:
		c.tell(CompactionEnd{About: p.about(""), Reason: ph.Reason, Error: string(registers.Declined)})
		return leaveSummary(p, &ph.ResumeAfter, c)
	}
}

// applyAbandonSummary: the operation is cancelled, and no entry is made.
func applyAbandonSummary(p *position, c *change) *position {
	if pend := attemptOf(p.op.state); pend != nil {
		endAttempt(p.about(""), pend.Attempt, string(registers.Aborted), c)
	}
	ph, inRun := p.op.phase().(*registers.RunCompaction)
	if !inRun {
		return terminate(p, registers.LastResult{Outcome: registers.Aborted}, c)
	}
	c.tell(CompactionEnd{About: p.about(""), Reason: ph.Reason, Error: string(registers.Aborted)})
	return leaveSummary(p, &registers.Checkpoint{
		Continuation: &registers.MayFinish{IncludeFinalAssistant: true}, TriggerEntryID: ph.ResumeAfter.TriggerEntryID,
	}, c)
}

// recoverSummary spends the attempt whose outcome is unknown, whichever of its
// requests was under way: a later one follows if the captured policy allows,
// else a row without cost settles the reserved id. Nothing is unknown where no
// request was under way and the drafts are in memory: the summary was suspended
// between two requests and not restored, and the attempt goes on.
func recoverSummary(p *position, pend *registers.GenerationPending, c *change) *position {
	policy := registers.SummaryOf(p.op.state).Generating.Context.RetryPolicy
	if pend.Request == nil && p.op.summary.settled > 0 {
		return p
	}
	c.moved = true
	cancelled := registers.ControlOf(p.op.state).CancelRequested
	if !cancelled && pend.Attempt < policy.MaxAttempts {
		return p.withGeneration(&registers.GenerationReady{NextAttempt: pend.Attempt + 1, UsageIDs: pend.UsageIDs}).
			withWork(p.op.summary.again())
	}
	if pend.Request != nil {
		billSummary(p, pend, session.ZeroUsage, c)
	}
	if cancelled {
		return applyAbandonSummary(p, c)
	}
	return failAttempt(p, pend, "interrupted",
		fmt.Sprintf("The process ended during attempt %d of %d at the summary.", pend.Attempt, policy.MaxAttempts), c)
}
