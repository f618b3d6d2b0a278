package registers

import "pistore"

// The namespaces. An application has those that start with [App].
const (
	LaneLeafNS       = "lane.leaf"
	LaneConfigNS     = "lane.config"
	LaneStateNS      = "lane.state"
	LaneLastResultNS = "lane.lastResult"
	OpMetaNS         = "op.meta"
	OpStateNS        = "op.state"
	OpToolArgsNS     = "op.tool_args"
	OpToolOutputNS   = "op.tool_output"
	OpPreparationNS  = "op.preparation"
	PendingEntryNS   = "pending.entry"
	FactNameNS       = "fact.name"
	FactLabelNS      = "fact.label"
	FactCustomNS     = "fact.custom"
	RequestNS        = "request"
	DocNS            = "doc"
	TaskMetaNS       = "task.meta"
	TaskStateNS      = "task.state"
	TimerNS          = "timer"

	App = "app."
)

// MainLane is the lane that every session has.
const MainLane = "main"

// ModelRef names a model of a provider.
type ModelRef struct {
	Provider string `json:"provider"`
	ModelID  string `json:"modelId"`
}

// LaneConfiguration is the total configuration of a lane, in lane.config.
type LaneConfiguration struct {
	Model           ModelRef `json:"model"`
	ThinkingLevel   string   `json:"thinkingLevel"`
	ActiveToolNames []string `json:"activeToolNames"`
}

// LaneState is what a lane does, in lane.state.
type LaneState struct {
	CurrentOperationID pistore.ID   // empty: idle
	PendingNextRun     []pistore.ID // input waiting for the next run
}

// Outcome is how an operation ended.
type Outcome string

// The outcomes.
const (
	Completed Outcome = "completed"
	Failed    Outcome = "failed"
	Aborted   Outcome = "aborted"
	Declined  Outcome = "declined"
)

// RunCompletion says what a completed run ended with.
type RunCompletion string

// The ways to complete a run.
const (
	WithAssistant      RunCompletion = "assistant"
	WithTerminateTools RunCompletion = "terminated_tools"
)

// LastResult is the outcome of the newest ended operation of a lane, in
// lane.lastResult. Only a terminal transaction writes it; recovery never reads it.
type LastResult struct {
	OperationID      pistore.ID
	Kind             Kind
	Outcome          Outcome
	LeafID           pistore.ID    // empty: the lane stands before any entry
	Error            *Failure      // failed only
	FinalAssistantID pistore.ID    // optional
	RunCompletion    RunCompletion // completed runs only
}

// OpMeta is what was accepted, written once, in op.meta.
type OpMeta struct {
	OperationID  pistore.ID
	Lane         string
	SourceLeafID pistore.ID // empty: none
	StartedAt    pistore.UnixMS
	RequestID    string // optional
	Intent       Intent
}

// Intent is what an operation was accepted to do.
type Intent struct {
	Kind Kind
	// PromptEntryIDs are the entries that a run was accepted with.
	PromptEntryIDs []pistore.ID
	// TargetID is where a navigation goes.
	TargetID pistore.ID
	// Summarize says whether a navigation leaves a branch summary.
	Summarize bool
	// CustomInstructions for a compaction or a summary; optional.
	CustomInstructions string
}

// PendingEntry is queued content, in pending.entry under its reserved entry id.
type PendingEntry struct {
	Type       pistore.EntryType `json:"type"`
	CustomType string            `json:"customType,omitempty"`
	Payload    pistore.JSON      `json:"payload"`
}

// Preparation is the frozen input of a summary, in op.preparation.
type Preparation struct {
	// MessagesToSummarize are projected messages, oldest first.
	MessagesToSummarize []pistore.JSON
	PreviousSummary     string // optional
	RetainedTail        []pistore.JSON
	TokensBefore        int64
	FromID              pistore.ID // branch summary: where the left branch ends
	CommonAncestorID    pistore.ID // branch summary; empty: none
}

// ToolOutput is the partial output of a running call, in op.tool_output: a head
// and a tail, with the count of bytes dropped between them.
type ToolOutput struct {
	Head         string       `json:"head"`
	Tail         string       `json:"tail,omitempty"`
	DroppedBytes int64        `json:"droppedBytes,omitempty"`
	Details      pistore.JSON `json:"details,omitempty"`
}
