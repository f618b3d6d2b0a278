package harness

import (
	"context"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// Hooks are awaited calls into application code at fixed points of an
// operation. The functions of a hook run in the order of its slice; each gets
// what the one before it returned. Of what a function returns only what its
// hook may change counts. A function that fails, panics, or returns what cannot
// be used is told by [HandlerError] and passed over, as if it had returned what
// it got; that of before_tool blocks the call instead.
//
// A hook is an effect: it passes the gate of manual drive (before_run excepted,
// which is part of its public call), no lane is held up by it but its own, and
// public calls to that lane may come meanwhile. What it decides is stored in
// the transaction that consumes it and nowhere before, so after a crash it may
// run again, with the same question. If meanwhile nobody asks any more (the
// operation was aborted, the run got other input) its answer is dropped. A hook
// that has functions may split one transaction in two where it stands; one that
// has none costs nothing.
//
// Its context ends with the operation's work: by an abort, Close, or a fault.
// Slices are the function's own; messages and blocks are shared: they are
// replaced, never changed.
type Hooks struct {
	// BeforeRun is called by Prompt before anything is stored, and may change
	// the messages. A crash forgets the prompt with it.
	BeforeRun []func(context.Context, RunInput) (RunInput, error)
	// BeforeResume is called by each Resume before its first effect, when what a
	// crash left in flight is settled and the Resume is counted. It decides
	// nothing: it is where an application gets ready what the operation works
	// with. A crash makes the next Resume call it again.
	BeforeResume []func(context.Context, Resuming) (Resuming, error)
	// BeforeRunEnd is called when nothing is left to do, and may add messages:
	// they are stored and the run goes on with them. It is not called for a run
	// that failed or was aborted.
	BeforeRunEnd []func(context.Context, RunEnding) (RunEnding, error)
	// TransformContext is called for each request of a turn behind its intent,
	// and may replace the projected conversation in this request alone; nothing
	// of it is stored. Results are paired with their calls again afterwards. A
	// crash spends the attempt; the next one calls it again.
	TransformContext []func(context.Context, ContextView) (ContextView, error)
	// BeforeRequest is called before the intent of each attempt, and may change
	// its output limit, which the intent stores. It is where an application
	// waits its turn. A crash spends no attempt.
	BeforeRequest []func(context.Context, RequestPlan) (RequestPlan, error)
	// BeforePayload is called behind TransformContext with the whole request,
	// and may change system prompt, messages, tools and options in this request
	// alone; nothing of it is stored. A crash spends the attempt.
	BeforePayload []func(context.Context, Payload) (Payload, error)
	// AfterResponse is called with each response of a turn or a poll that was
	// not cancelled, before it is stored, and may replace its content. A crash
	// loses the response: the attempt is spent.
	AfterResponse []func(context.Context, ResponseReview) (ResponseReview, error)
	// BeforeTool is called for each call that names an active tool and passes
	// its schema, one call of a batch after the other, while those before it
	// may run already. It may rewrite the arguments, which must pass the schema
	// again, or block the call. What runs is stored in op.tool_args before it
	// starts. A function that fails blocks the call. A crash before that asks
	// again.
	BeforeTool []func(context.Context, ToolPlan) (ToolPlan, error)
	// AfterTool is called with what a call that ran returned, before it is
	// stored, and may change content, details, error mark and the wish to
	// terminate. After a crash the call is interrupted, or, if it is safe, runs
	// again, and AfterTool with it.
	AfterTool []func(context.Context, ToolOutcome) (ToolOutcome, error)
	// BeforeCompaction is called when what a compaction summarizes is frozen,
	// and may decline it or supply the summary. The choice of a model's summary
	// is stored, and it is not called for this compaction again.
	BeforeCompaction []func(context.Context, SummaryPlan) (SummaryPlan, error)
	// BeforeNavigation is the same for a navigation with a branch summary.
	BeforeNavigation []func(context.Context, SummaryPlan) (SummaryPlan, error)
}

// HookName names a hook at the gate and in reports.
type HookName string

// The hooks.
const (
	HookBeforeRun        HookName = "before_run"
	HookBeforeResume     HookName = "before_resume"
	HookBeforeRunEnd     HookName = "before_run_end"
	HookTransformContext HookName = "transform_context"
	HookBeforeRequest    HookName = "before_request"
	HookBeforePayload    HookName = "before_payload"
	HookAfterResponse    HookName = "after_response"
	HookBeforeTool       HookName = "before_tool"
	HookAfterTool        HookName = "after_tool"
	HookBeforeCompaction HookName = "before_compaction"
	HookBeforeNavigation HookName = "before_navigation"
)

type (
	// RunInput is a prompt about to be accepted.
	RunInput struct {
		Lane     string
		Messages []session.Message // may change; of the kinds that a Prompt holds
	}
	// Resuming is an operation about to go on.
	Resuming struct {
		About
		State registers.OpState // read only
	}
	// RunEnding is a run about to complete.
	RunEnding struct {
		About
		FinalAssistantID pistore.ID        // the run's answer; empty: tools terminated it
		FollowUp         []session.Message // may change; of the kinds that a Prompt holds
	}
	// ContextView is the conversation that a request shows a model, before it is
	// converted to a provider's messages.
	ContextView struct {
		About
		Messages []session.ProjectedMessage // may change; only Message of each counts
	}
	// RequestPlan is an attempt at a response about to be announced.
	RequestPlan struct {
		About
		Configuration   registers.LaneConfiguration
		Attempt         int64
		MaxOutputTokens int64 // may change; 0: the model's
	}
	// Payload is a request about to be sent.
	Payload struct {
		About
		EntryID pistore.ID       // reserved for the response
		Request provider.Request // System, Messages, Tools and Options may change
	}
	// ResponseReview is a response about to be stored.
	ResponseReview struct {
		About
		EntryID pistore.ID
		Message *session.AssistantMessage // its Content may change, in a copy
	}
	// ToolPlan is a call about to start.
	ToolPlan struct {
		About
		Call  session.ToolCall // Arguments may change
		Block string           // may change; not empty: the call does not run, and the model is told this
	}
	// ToolOutcome is the result of a call about to be stored.
	ToolOutcome struct {
		About
		ResultEntryID pistore.ID
		Call          session.ToolCall
		Result        tool.Result // all but Usage may change
	}
	// SummaryPlan is a summary about to be written by a model.
	SummaryPlan struct {
		About
		Reason      registers.CompactionReason // of a compaction within a run
		Preparation registers.Preparation      // what is summarized, frozen; read only
		// Decline may change; true: there is to be no summary.
		Decline bool
		// Supplied may change; not nil: this is the summary, and no model is asked.
		Supplied *SuppliedSummary
	}
	// SuppliedSummary is a summary that a hook wrote.
	SuppliedSummary struct {
		Text  string
		Usage pistore.JSON // a JSON object for the ledger; empty: none
	}
)
