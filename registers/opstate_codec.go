package registers

import (
	"fmt"

	"pistore"
)

// The words that tell the variants of a sum type apart.
const (
	statusReady         = "ready"
	statusEffectPending = "effect_pending"
	statusRetryWait     = "retry_wait"
	statusSuspended     = "suspended"
)

// EncodeOpState returns the value of an op.state register. The encoding is
// deterministic: equal states have equal text, so states are compared by it. It
// panics on a state that DecodeOpState would refuse.
func EncodeOpState(s OpState) pistore.JSON {
	return encode(OpStateNS, func(f *fields) { f.opState(&s) })
}

// DecodeOpState reads the value of an op.state register. It refuses unknown,
// repeated and missing members, wrong kinds, numbers out of range, ids that
// cannot be stored, and a reserved id with two uses; the error matches
// ErrInvalid and names the path. Empty lists are read as nil.
func DecodeOpState(value pistore.JSON) (OpState, error) {
	var s OpState
	if err := decode(OpStateNS, value, false, func(f *fields) { f.opState(&s) }); err != nil {
		return nil, err
	}
	return s, nil
}

// KindOf returns the kind of an operation by its state.
func KindOf(s OpState) Kind {
	switch s.(type) {
	case *RunState:
		return KindRun
	case *CompactionState:
		return KindCompaction
	case *NavigationState:
		return KindNavigation
	default:
		panic(fmt.Sprintf("registers: unknown operation state %T", s))
	}
}

func (f *fields) opState(s *OpState) {
	var kind Kind
	if f.out != nil {
		kind = KindOf(*s)
	}
	word(f, "kind", &kind, KindRun, KindCompaction, KindNavigation)
	switch kind {
	case KindRun:
		f.run(variant[RunState](f, s))
	case KindCompaction:
		f.compaction(variant[CompactionState](f, s))
	case KindNavigation:
		f.navigation(variant[NavigationState](f, s))
	}
	if *f.fault != nil {
		return
	}
	seen := map[pistore.ID]bool{}
	for _, id := range reserved(*s) {
		if seen[id] {
			f.fail(f.path, "reserved id %q has two uses", string(id))
		}
		seen[id] = true
	}
}

func (f *fields) run(s *RunState) {
	integer(f, "resumes", &s.Resumes, 0)
	f.control(&s.Control)
	f.inner("settings", func(f *fields) {
		f.inner("compaction", func(f *fields) {
			f.flag("enabled", &s.Settings.Compaction.Enabled)
			integer(f, "reserveTokens", &s.Settings.Compaction.ReserveTokens, 0)
			integer(f, "keepRecentTokens", &s.Settings.Compaction.KeepRecentTokens, 0)
		})
		word(f, "steeringMode", &s.Settings.SteeringMode, OneAtATime, All)
		word(f, "followUpMode", &s.Settings.FollowUpMode, OneAtATime, All)
		word(f, "toolExecution", &s.Settings.ToolExecution, Parallel, Sequential)
	})
	f.inner("inbox", func(f *fields) {
		f.ids("steer", &s.Inbox.Steer)
		f.ids("followUp", &s.Inbox.FollowUp)
		f.ids("writes", &s.Inbox.Writes)
	})
	f.nullID("latestAssistantEntryId", &s.LatestAssistantEntryID)
	f.inner("phase", func(f *fields) { f.phase(&s.Phase) })
}

func (f *fields) compaction(s *CompactionState) {
	integer(f, "resumes", &s.Resumes, 0)
	f.control(&s.Control)
	f.optText("customInstructions", &s.CustomInstructions)
	f.inner("summary", func(f *fields) { f.summary(&s.Summary) })
}

func (f *fields) navigation(s *NavigationState) {
	integer(f, "resumes", &s.Resumes, 0)
	f.control(&s.Control)
	f.id("targetId", &s.TargetID)
	f.optText("label", &s.Label)
	summarize := s.Summary != nil
	f.flag("summarize", &summarize)
	if summarize {
		if f.out == nil {
			s.Summary = new(Summary)
		}
		f.inner("summary", func(f *fields) { f.summary(s.Summary) })
	}
}

func (f *fields) control(c *Control) {
	f.inner("control", func(f *fields) {
		status := "running"
		if c.CancelRequested {
			status = "cancel_requested"
		}
		word(f, "status", &status, "running", "cancel_requested")
		if f.out == nil { // who encodes shares the state with others
			c.CancelRequested = status == "cancel_requested"
		}
		if c.CancelRequested {
			integer(f, "requestedAt", &c.RequestedAt, 0)
			f.ids("drainedSteer", &c.DrainedSteer)
			f.ids("drainedFollowUp", &c.DrainedFollowUp)
		}
	})
}

// phaseWords returns what tells a phase apart; a phase that has one form only
// has no status.
func phaseWords(p Phase) (kind, status string) {
	switch p.(type) {
	case *Checkpoint:
		return "checkpoint", ""
	case *AssistantReady:
		return "assistant", statusReady
	case *AssistantPending:
		return "assistant", statusEffectPending
	case *AssistantRetryWait:
		return "assistant", statusRetryWait
	case *Tools:
		return "tools", ""
	case *RunCompaction:
		return "compaction", ""
	case *DeferredSuspended:
		return "deferred", statusSuspended
	case *DeferredPending:
		return "deferred", statusEffectPending
	case *FailureDrain:
		return "failure_drain", ""
	default:
		panic(fmt.Sprintf("registers: unknown phase %T", p))
	}
}

func (f *fields) phase(p *Phase) {
	var kind, status string
	if f.out != nil {
		kind, status = phaseWords(*p)
	}
	word(f, "kind", &kind, "checkpoint", "assistant", "tools", "compaction", "deferred", "failure_drain")
	switch kind {
	case "checkpoint":
		f.checkpointMembers(variant[Checkpoint](f, p))
	case "assistant":
		f.assistant(p, status)
	case "tools":
		f.tools(variant[Tools](f, p))
	case "compaction":
		f.runCompaction(variant[RunCompaction](f, p))
	case "deferred":
		f.deferred(p, status)
	case "failure_drain":
		f.failureDrain(variant[FailureDrain](f, p))
	}
}

// checkpointMembers visits a checkpoint behind its kind.
func (f *fields) checkpointMembers(p *Checkpoint) {
	f.inner("continuation", func(f *fields) { f.continuation(&p.Continuation) })
	f.id("triggerEntryId", &p.TriggerEntryID)
	f.optFlag("skipInboxOnce", &p.SkipInboxOnce)
	f.optID("thresholdCheckedTriggerEntryId", &p.ThresholdCheckedTriggerEntryID)
}

func (f *fields) continuation(c *Continuation) {
	var kind string
	if f.out != nil {
		switch (*c).(type) {
		case *NeedAssistant:
			kind = "need_assistant"
		case *MayFinish:
			kind = "may_finish"
		default:
			panic(fmt.Sprintf("registers: unknown continuation %T", *c))
		}
	}
	word(f, "kind", &kind, "need_assistant", "may_finish")
	switch kind {
	case "need_assistant":
		f.flag("overflowRecoveryUsed", &variant[NeedAssistant](f, c).OverflowRecoveryUsed)
	case "may_finish":
		f.flag("includeFinalAssistant", &variant[MayFinish](f, c).IncludeFinalAssistant)
	}
}

func (f *fields) assistant(p *Phase, status string) {
	word(f, "status", &status, statusReady, statusEffectPending, statusRetryWait)
	switch status {
	case statusReady:
		p := variant[AssistantReady](f, p)
		f.stepContext(&p.Context, true)
		integer(f, "nextAttempt", &p.NextAttempt, 1)
	case statusEffectPending:
		p := variant[AssistantPending](f, p)
		f.stepContext(&p.Context, true)
		integer(f, "attempt", &p.Attempt, 1)
		f.id("responseEntryId", &p.ResponseEntryID)
		f.id("usageId", &p.UsageID)
		integer(f, "intendedOutputLimit", &p.IntendedOutputLimit, 0)
		integer(f, "contextWindow", &p.ContextWindow, 0)
	case statusRetryWait:
		p := variant[AssistantRetryWait](f, p)
		f.stepContext(&p.Context, true)
		integer(f, "nextAttempt", &p.NextAttempt, 1)
		integer(f, "notBefore", &p.NotBefore, 0)
		f.text("errorMessage", &p.ErrorMessage)
	}
}

// stepContext visits what a step captured. A summary need not have a trigger:
// outside of a run nothing triggered it.
func (f *fields) stepContext(c *Context, trigger bool) {
	f.inner("context", func(f *fields) {
		f.keyID("stepId", &c.StepID)
		if trigger {
			f.id("triggerEntryId", &c.TriggerEntryID)
		} else {
			f.optID("triggerEntryId", &c.TriggerEntryID)
		}
		f.configurationIn("configuration", &c.Configuration)
		f.object("streamOptions", &c.StreamOptions)
		f.inner("retryPolicy", func(f *fields) {
			integer(f, "maxAttempts", &c.RetryPolicy.MaxAttempts, 1)
			integer(f, "baseDelayMs", &c.RetryPolicy.BaseDelayMS, 0)
		})
		f.flag("overflowRecoveryUsed", &c.OverflowRecoveryUsed)
	})
}

func (f *fields) tools(p *Tools) {
	f.keyID("stepId", &p.StepID)
	f.id("assistantEntryId", &p.AssistantEntryID)
	f.configurationIn("configuration", &p.Configuration)
	list(f, "calls", &p.Calls, (*fields).call)
	at := f.at("calls")
	if len(p.Calls) == 0 {
		f.fail(at, "is empty")
	}
	for i := range p.Calls {
		if i > 0 && p.Calls[i].SourceIndex <= p.Calls[i-1].SourceIndex {
			f.fail(&step{up: &step{up: at, index: i}, name: "sourceIndex"}, "is not above the one before it")
		}
	}
}

func (f *fields) call(c *Call) {
	word(f, "status", &c.Status, CallPlanned, CallEffectPending, CallCompleted)
	integer(f, "sourceIndex", &c.SourceIndex, 0)
	f.id("resultEntryId", &c.ResultEntryID)
	switch c.Status {
	case CallEffectPending:
		word(f, "replay", &c.Replay, ReplayNever, ReplaySafe)
	case CallCompleted:
		f.flag("terminate", &c.Terminate)
	}
}

func (f *fields) runCompaction(p *RunCompaction) {
	word(f, "reason", &p.Reason, ReasonThreshold, ReasonOverflow)
	f.inner("summary", func(f *fields) { f.summary(&p.Summary) })
	f.inner("resumeAfter", func(f *fields) {
		kind := "checkpoint"
		word(f, "kind", &kind, "checkpoint")
		f.checkpointMembers(&p.ResumeAfter)
	})
}

func (f *fields) summary(s *Summary) {
	f.keyID("summaryId", &s.SummaryID)
	status := "deciding"
	if s.Generating != nil {
		status = "generating"
	}
	word(f, "status", &status, "deciding", "generating")
	if status != "generating" {
		return
	}
	if f.out == nil {
		s.Generating = new(Generating)
	}
	g := s.Generating
	f.id("resultEntryId", &g.ResultEntryID)
	f.stepContext(&g.Context, false)
	f.inner("generation", func(f *fields) { f.generation(&g.Generation) })
}

func (f *fields) generation(g *Generation) {
	var status string
	if f.out != nil {
		switch (*g).(type) {
		case *GenerationReady:
			status = statusReady
		case *GenerationPending:
			status = statusEffectPending
		case *GenerationRetryWait:
			status = statusRetryWait
		default:
			panic(fmt.Sprintf("registers: unknown generation %T", *g))
		}
	}
	word(f, "status", &status, statusReady, statusEffectPending, statusRetryWait)
	switch status {
	case statusReady:
		g := variant[GenerationReady](f, g)
		integer(f, "nextAttempt", &g.NextAttempt, 1)
		f.ids("usageIds", &g.UsageIDs)
	case statusEffectPending:
		g := variant[GenerationPending](f, g)
		integer(f, "attempt", &g.Attempt, 1)
		optional(f, "request", &g.Request, func(f *fields, r *NestedRequest) {
			integer(f, "index", &r.Index, 0)
			f.id("usageId", &r.UsageID)
		})
		f.ids("usageIds", &g.UsageIDs)
	case statusRetryWait:
		g := variant[GenerationRetryWait](f, g)
		integer(f, "nextAttempt", &g.NextAttempt, 1)
		integer(f, "notBefore", &g.NotBefore, 0)
		f.text("errorMessage", &g.ErrorMessage)
		f.ids("usageIds", &g.UsageIDs)
	}
}

func (f *fields) deferred(p *Phase, status string) {
	word(f, "status", &status, statusSuspended, statusEffectPending)
	switch status {
	case statusSuspended:
		p := variant[DeferredSuspended](f, p)
		f.keyID("stepId", &p.StepID)
		f.id("sourceEntryId", &p.SourceEntryID)
		integer(f, "poll", &p.Poll, 0)
		f.configurationIn("configuration", &p.Configuration)
		f.object("streamOptions", &p.StreamOptions)
	case statusEffectPending:
		p := variant[DeferredPending](f, p)
		f.keyID("stepId", &p.StepID)
		f.id("sourceEntryId", &p.SourceEntryID)
		f.configurationIn("configuration", &p.Configuration)
		f.object("streamOptions", &p.StreamOptions)
		integer(f, "poll", &p.Poll, 1)
		f.id("responseEntryId", &p.ResponseEntryID)
		f.id("usageId", &p.UsageID)
	}
}

func (f *fields) failureDrain(p *FailureDrain) {
	f.inner("error", func(f *fields) { f.failure(&p.Error) })
	f.inner("provenance", func(f *fields) {
		kind := "response"
		if p.Provenance.ResponseEntryID != "" && p.Provenance.SummaryID != "" {
			f.fail(f.path, "names a response and a summary")
		}
		if p.Provenance.SummaryID != "" {
			kind = "summary"
		}
		word(f, "kind", &kind, "response", "summary")
		switch kind {
		case "response":
			f.id("entryId", &p.Provenance.ResponseEntryID)
		case "summary":
			f.keyID("summaryId", &p.Provenance.SummaryID)
		}
	})
}

func (f *fields) failure(e *Failure) {
	f.text("code", &e.Code)
	f.text("message", &e.Message)
}
