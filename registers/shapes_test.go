package registers_test

import (
	"pistore"
	. "pistore/registers"
)

// Every shape of op.state, by the name of its golden.

var (
	config = LaneConfiguration{Model: ModelRef{"faux", "faux-1"}, ThinkingLevel: "off", ActiveToolNames: []string{"read", "bash"}}
	ctx    = Context{
		StepID: "S1", TriggerEntryID: "E1", Configuration: config, StreamOptions: `{"temperature":0.50}`,
		RetryPolicy: RetryPolicy{MaxAttempts: 4, BaseDelayMS: 2000},
	}
	settings = Settings{
		Compaction:   CompactionSettings{Enabled: true, ReserveTokens: 16384, KeepRecentTokens: 20000},
		SteeringMode: OneAtATime, FollowUpMode: OneAtATime, ToolExecution: Parallel,
	}
	need = &NeedAssistant{}
)

func run(phase Phase) *RunState { return &RunState{Settings: settings, Phase: phase} }

func generating(g Generation) Summary {
	return Summary{SummaryID: "T1", Generating: &Generating{ResultEntryID: "E9", Context: ctx, Generation: g}}
}

func shapes() map[string]OpState {
	cancelled := Control{CancelRequested: true, RequestedAt: 1700000000000, DrainedSteer: []pistore.ID{"P1"}, DrainedFollowUp: []pistore.ID{"P2", "P3"}}
	queues := run(&Checkpoint{Continuation: &NeedAssistant{}, TriggerEntryID: "E1"})
	queues.Inbox = Inbox{Steer: []pistore.ID{"P1"}, FollowUp: []pistore.ID{"P2"}, Writes: []pistore.ID{"P3", "P4"}}
	queues.Resumes, queues.LatestAssistantEntryID = 3, "E0"
	queues.Settings.SteeringMode, queues.Settings.ToolExecution = All, Sequential
	cancelledRun := run(&AssistantPending{
		Context: ctx, Attempt: 2, ResponseEntryID: "E2", UsageID: "U1", IntendedOutputLimit: 16384, ContextWindow: 200000,
	})
	cancelledRun.Control = cancelled
	noTrigger := generating(&GenerationReady{NextAttempt: 1})
	noTrigger.Generating.Context.TriggerEntryID = ""
	branch := generating(&GenerationReady{NextAttempt: 1, UsageIDs: []pistore.ID{"U3"}})
	return map[string]OpState{
		"checkpoint-need-assistant": run(&Checkpoint{Continuation: need, TriggerEntryID: "E1", SkipInboxOnce: true}),
		"checkpoint-may-finish": run(&Checkpoint{
			Continuation: &MayFinish{IncludeFinalAssistant: true}, TriggerEntryID: "E2", ThresholdCheckedTriggerEntryID: "E2",
		}),
		"checkpoint-queues": queues,
		"assistant-ready":   run(&AssistantReady{Context: ctx, NextAttempt: 1}),
		"assistant-effect-pending": run(&AssistantPending{
			Context: ctx, Attempt: 1, ResponseEntryID: "E2", UsageID: "U1", IntendedOutputLimit: 16384, ContextWindow: 200000,
		}),
		"assistant-retry-wait": run(&AssistantRetryWait{
			Context: ctx, NextAttempt: 2, NotBefore: 1700000002000, ErrorMessage: "overloaded <b>&</b> \u2028",
		}),
		"tools": run(&Tools{StepID: "S1", AssistantEntryID: "E2", Configuration: config, Calls: []Call{
			{Status: CallPlanned, SourceIndex: 0, ResultEntryID: "E3"},
			{Status: CallEffectPending, SourceIndex: 1, ResultEntryID: "E4", Replay: ReplayNever},
			{Status: CallCompleted, SourceIndex: 2, ResultEntryID: "E5"},
			{Status: CallCompleted, SourceIndex: 3, ResultEntryID: "E6", Terminate: true},
			{Status: CallEffectPending, SourceIndex: 4, ResultEntryID: "E7", Replay: ReplaySafe},
		}}),
		"run-compaction-overflow": run(&RunCompaction{
			Reason: ReasonOverflow, Summary: generating(&GenerationPending{Attempt: 1, Request: &NestedRequest{Index: 0, UsageID: "U3"}}),
			ResumeAfter: Checkpoint{Continuation: &NeedAssistant{OverflowRecoveryUsed: true}, TriggerEntryID: "E1"},
		}),
		"run-compaction-threshold": run(&RunCompaction{
			Reason: ReasonThreshold, Summary: Summary{SummaryID: "T1"},
			ResumeAfter: Checkpoint{Continuation: need, TriggerEntryID: "E1", SkipInboxOnce: true, ThresholdCheckedTriggerEntryID: "E1"},
		}),
		"deferred-suspended": run(&DeferredSuspended{StepID: "S1", SourceEntryID: "E2", Configuration: config, StreamOptions: "{}"}),
		"deferred-effect-pending": run(&DeferredPending{
			StepID: "S1", SourceEntryID: "E2", Poll: 1, Configuration: config, StreamOptions: "{}", ResponseEntryID: "E3", UsageID: "U2",
		}),
		"failure-drain-response": run(&FailureDrain{
			Error: Failure{Code: "provider_error", Message: "no"}, Provenance: Provenance{ResponseEntryID: "E2"},
		}),
		"failure-drain-summary": run(&FailureDrain{
			Error: Failure{Code: "summary_failed"}, Provenance: Provenance{SummaryID: "T1"},
		}),
		"cancel-requested":      cancelledRun,
		"compaction-deciding":   &CompactionState{CustomInstructions: "keep the plan", Summary: Summary{SummaryID: "T1"}},
		"compaction-ready":      &CompactionState{Summary: noTrigger},
		"compaction-pending":    &CompactionState{Summary: generating(&GenerationPending{Attempt: 2, UsageIDs: []pistore.ID{"U3", "U4"}})},
		"compaction-retry-wait": &CompactionState{Control: cancelled, Summary: generating(&GenerationRetryWait{NextAttempt: 2, NotBefore: 5, ErrorMessage: "slow", UsageIDs: []pistore.ID{"U3"}})},
		"navigation":            &NavigationState{TargetID: "E1", Label: "before the detour"},
		"navigation-summary":    &NavigationState{Resumes: 1, TargetID: "E1", Summary: &branch},
	}
}

// Every other register that has a codec here: what it is, as it is written.
func cells() map[string]cell {
	return map[string]cell{
		"lane-leaf":      cellOf(LaneLeafNS, "main", pistore.ID("E1"), EncodeLaneLeaf, DecodeLaneLeaf),
		"lane-leaf-null": cellOf(LaneLeafNS, "main", pistore.ID(""), EncodeLaneLeaf, DecodeLaneLeaf),
		"lane-config":    cellOf(LaneConfigNS, "main", config, EncodeLaneConfiguration, DecodeLaneConfiguration),
		"lane-config-no-tools": cellOf(LaneConfigNS, "main", LaneConfiguration{Model: ModelRef{"a", "b"}, ThinkingLevel: "high"},
			EncodeLaneConfiguration, DecodeLaneConfiguration),
		"lane-state-idle": cellOf(LaneStateNS, "main", LaneState{}, EncodeLaneState, DecodeLaneState),
		"lane-state-open": cellOf(LaneStateNS, "main", LaneState{CurrentOperationID: "O", PendingNextRun: []pistore.ID{"P1", "P2"}},
			EncodeLaneState, DecodeLaneState),
		"last-result": cellOf(LaneLastResultNS, "main", LastResult{
			OperationID: "O", Kind: KindRun, Outcome: Completed, LeafID: "E4", FinalAssistantID: "E4", RunCompletion: WithAssistant,
		}, EncodeLastResult, DecodeLastResult),
		"last-result-failed": cellOf(LaneLastResultNS, "main", LastResult{
			OperationID: "O", Kind: KindCompaction, Outcome: Failed, Error: &Failure{Code: "summary_failed", Message: "no model"},
		}, EncodeLastResult, DecodeLastResult),
		"op-meta-run": cellOf(OpMetaNS, "O", OpMeta{
			OperationID: "O", Lane: "thread 7", StartedAt: 1700000000000, RequestID: "slack-1",
			Intent: Intent{Kind: KindRun, PromptEntryIDs: []pistore.ID{"E1"}},
		}, EncodeOpMeta, DecodeOpMeta),
		"op-meta-compaction": cellOf(OpMetaNS, "O", OpMeta{
			OperationID: "O", Lane: MainLane, SourceLeafID: "E8", Intent: Intent{Kind: KindCompaction, CustomInstructions: "be brief"},
		}, EncodeOpMeta, DecodeOpMeta),
		"op-meta-navigation": cellOf(OpMetaNS, "O", OpMeta{
			OperationID: "O", Lane: MainLane, SourceLeafID: "E8", Intent: Intent{Kind: KindNavigation, TargetID: "E1", Summarize: true},
		}, EncodeOpMeta, DecodeOpMeta),
		"pending-entry": cellOf(PendingEntryNS, "P1", PendingEntry{
			Type: pistore.TypeMessage, Payload: `{"message":{"role":"user","content":"hi","timestamp":1}}`,
		}, EncodePendingEntry, DecodePendingEntry),
		"pending-entry-custom": cellOf(PendingEntryNS, "P1", PendingEntry{Type: pistore.TypeCustom, CustomType: "note", Payload: "{}"},
			EncodePendingEntry, DecodePendingEntry),
		"preparation": cellOf(OpPreparationNS, "O:T1", Preparation{
			MessagesToSummarize: []pistore.JSON{`{"role":"user","content":"\ud800"}`}, PreviousSummary: "before",
			RetainedTail: []pistore.JSON{`{"role":"user","content":"last"}`}, TokensBefore: 90000,
		}, EncodePreparation, DecodePreparation),
		"preparation-branch": cellOf(OpPreparationNS, "O:T1", Preparation{FromID: "E8", CommonAncestorID: "E1"},
			EncodePreparation, DecodePreparation),
		"tool-output": cellOf(OpToolOutputNS, "O:S1:0", ToolOutput{Head: "a\n", Tail: "z\n", DroppedBytes: 100, Details: `{"exit":null}`},
			EncodeToolOutput, DecodeToolOutput),
		"tool-output-short": cellOf(OpToolOutputNS, "O:S1:0", ToolOutput{}, EncodeToolOutput, DecodeToolOutput),
		"fact-name":         cellOf(FactNameNS, "", "a name", EncodeText, DecodeText),
	}
}

type cell struct {
	namespace, key string
	value          any
	encoded        pistore.JSON
	decode         func(pistore.JSON) (any, error)
}

func cellOf[T any](namespace, key string, value T, encode func(T) pistore.JSON, decode func(pistore.JSON) (T, error)) cell {
	return cell{namespace, key, value, encode(value), func(v pistore.JSON) (any, error) { return decode(v) }}
}
