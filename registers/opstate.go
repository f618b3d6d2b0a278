package registers

import "pistore"

// OpState is the total state of an open operation, the value of its op.state
// register: *RunState, *CompactionState or *NavigationState. Everything needed
// to pick the next action is in it or named by it through an exact id or key.
type OpState interface{ isOpState() }

func (*RunState) isOpState()        {}
func (*CompactionState) isOpState() {}
func (*NavigationState) isOpState() {}

// Kind is the kind of an operation.
type Kind string

// The kinds of operation.
const (
	KindRun        Kind = "run"
	KindCompaction Kind = "compaction"
	KindNavigation Kind = "navigation"
)

// RunState is an accepted prompt through all its automatic continuations.
type RunState struct {
	Resumes                int64
	Control                Control
	Settings               Settings
	Inbox                  Inbox
	LatestAssistantEntryID pistore.ID // empty: none yet
	Phase                  Phase
}

// CompactionState is a standalone compaction.
type CompactionState struct {
	Resumes            int64
	Control            Control
	CustomInstructions string // optional
	Summary            Summary
}

// NavigationState is a move of the leaf; Summary is nil unless the left branch
// is summarized.
type NavigationState struct {
	Resumes  int64
	Control  Control
	TargetID pistore.ID
	Label    string // optional
	Summary  *Summary
}

// Control says whether an operation goes on or was asked to stop.
type Control struct {
	CancelRequested bool // the rest is set only when it is true
	RequestedAt     pistore.UnixMS
	DrainedSteer    []pistore.ID
	DrainedFollowUp []pistore.ID
}

// Settings are captured when a run is accepted.
type Settings struct {
	Compaction    CompactionSettings
	SteeringMode  QueueMode
	FollowUpMode  QueueMode
	ToolExecution ToolExecution
}

// CompactionSettings say when and how far context is compacted, in tokens.
type CompactionSettings struct {
	Enabled          bool  `json:"enabled"`
	ReserveTokens    int64 `json:"reserveTokens"`
	KeepRecentTokens int64 `json:"keepRecentTokens"`
}

// QueueMode says how much of a queue one checkpoint takes.
type QueueMode string

// The queue modes.
const (
	OneAtATime QueueMode = "one_at_a_time"
	All        QueueMode = "all"
)

// ToolExecution says whether the calls of one response run beside each other.
type ToolExecution string

// The ways to execute tools.
const (
	Parallel   ToolExecution = "parallel"
	Sequential ToolExecution = "sequential"
)

// Inbox is input waiting in an open run, by reserved entry id.
type Inbox struct {
	Steer    []pistore.ID `json:"steer"`
	FollowUp []pistore.ID `json:"followUp"`
	Writes   []pistore.ID `json:"writes"`
}

// Phase is where a run stands: *Checkpoint, *AssistantReady,
// *AssistantPending, *AssistantRetryWait, *Tools, *RunCompaction,
// *DeferredSuspended, *DeferredPending or *FailureDrain.
type Phase interface{ isPhase() }

func (*Checkpoint) isPhase()         {}
func (*AssistantReady) isPhase()     {}
func (*AssistantPending) isPhase()   {}
func (*AssistantRetryWait) isPhase() {}
func (*Tools) isPhase()              {}
func (*RunCompaction) isPhase()      {}
func (*DeferredSuspended) isPhase()  {}
func (*DeferredPending) isPhase()    {}
func (*FailureDrain) isPhase()       {}

// Checkpoint is the state between turns.
type Checkpoint struct {
	Continuation   Continuation
	TriggerEntryID pistore.ID
	SkipInboxOnce  bool
	// ThresholdCheckedTriggerEntryID is the trigger for which the compaction
	// threshold was checked; empty: none.
	ThresholdCheckedTriggerEntryID pistore.ID
}

// Continuation says whether an assistant turn is still owed: *NeedAssistant or
// *MayFinish.
type Continuation interface{ isContinuation() }

func (*NeedAssistant) isContinuation() {}
func (*MayFinish) isContinuation()     {}

// NeedAssistant owes a turn.
type NeedAssistant struct{ OverflowRecoveryUsed bool }

// MayFinish owes none; IncludeFinalAssistant says whether the latest response
// is the run's answer.
type MayFinish struct{ IncludeFinalAssistant bool }

// Context is what a step captured when it started; every retry of the step
// uses it.
type Context struct {
	StepID               pistore.ID        `json:"stepId"`
	TriggerEntryID       pistore.ID        `json:"triggerEntryId"`
	Configuration        LaneConfiguration `json:"configuration"`
	StreamOptions        pistore.JSON      `json:"streamOptions"` // a JSON object
	RetryPolicy          RetryPolicy       `json:"retryPolicy"`
	OverflowRecoveryUsed bool              `json:"overflowRecoveryUsed"`
}

// RetryPolicy bounds the attempts of one step. MaxAttempts counts the first.
type RetryPolicy struct {
	MaxAttempts int64 `json:"maxAttempts"`
	BaseDelayMS int64 `json:"baseDelayMs"`
}

// AssistantReady is before the intent of a request.
type AssistantReady struct {
	Context     Context
	NextAttempt int64
}

// AssistantPending is behind the intent of a request and before its settlement.
type AssistantPending struct {
	Context             Context
	Attempt             int64
	ResponseEntryID     pistore.ID
	UsageID             pistore.ID
	IntendedOutputLimit int64 // tokens; the limit that was meant
	ContextWindow       int64 // tokens
}

// AssistantRetryWait waits before the next attempt.
type AssistantRetryWait struct {
	Context      Context
	NextAttempt  int64
	NotBefore    pistore.UnixMS
	ErrorMessage string
}

// Tools is a batch of calls that one response made.
type Tools struct {
	StepID           pistore.ID
	AssistantEntryID pistore.ID
	Configuration    LaneConfiguration
	Calls            []Call
}

// CallStatus is where a call stands.
type CallStatus string

// The states of a call.
const (
	CallPlanned       CallStatus = "planned"
	CallEffectPending CallStatus = "effect_pending"
	CallCompleted     CallStatus = "completed"
)

// Replay says whether a call may run again when its outcome is unknown.
type Replay string

// The replay policies.
const (
	ReplayNever Replay = "never"
	ReplaySafe  Replay = "safe"
)

// Call is one call of a batch.
type Call struct {
	Status        CallStatus
	SourceIndex   int64 // position among the calls of the response, from 0
	ResultEntryID pistore.ID
	Replay        Replay // effect_pending only
	Terminate     bool   // completed only
}

// Summary is the shared machinery of compaction and branch summaries:
// deciding until Generating is set.
type Summary struct {
	SummaryID  pistore.ID
	Generating *Generating
}

// Generating is a summary that a model writes.
type Generating struct {
	ResultEntryID pistore.ID
	Context       Context
	Generation    Generation
}

// Generation is where the attempt at a summary stands: *GenerationReady,
// *GenerationPending or *GenerationRetryWait.
type Generation interface {
	// Settled returns the ids of the usage rows of the requests settled so far.
	// The caller does not write to it.
	Settled() []pistore.ID
	isGeneration()
}

func (*GenerationReady) isGeneration()     {}
func (*GenerationPending) isGeneration()   {}
func (*GenerationRetryWait) isGeneration() {}

// Settled implements [Generation].
func (g *GenerationReady) Settled() []pistore.ID { return g.UsageIDs }

// Settled implements [Generation].
func (g *GenerationPending) Settled() []pistore.ID { return g.UsageIDs }

// Settled implements [Generation].
func (g *GenerationRetryWait) Settled() []pistore.ID { return g.UsageIDs }

// GenerationReady is before an attempt.
type GenerationReady struct {
	NextAttempt int64
	UsageIDs    []pistore.ID
}

// GenerationPending is inside an attempt; Request is nil between its nested
// requests.
type GenerationPending struct {
	Attempt  int64
	Request  *NestedRequest
	UsageIDs []pistore.ID
}

// NestedRequest is the intent of one request of a summary.
type NestedRequest struct {
	Index   int64      `json:"index"`
	UsageID pistore.ID `json:"usageId"`
}

// GenerationRetryWait waits before the next attempt.
type GenerationRetryWait struct {
	NextAttempt  int64
	NotBefore    pistore.UnixMS
	ErrorMessage string
	UsageIDs     []pistore.ID
}

// CompactionReason says what made a run compact.
type CompactionReason string

// The reasons for a compaction within a run.
const (
	ReasonThreshold CompactionReason = "threshold"
	ReasonOverflow  CompactionReason = "overflow"
)

// RunCompaction is a compaction within a run.
type RunCompaction struct {
	Reason      CompactionReason
	Summary     Summary
	ResumeAfter Checkpoint
}

// DeferredSuspended waits for the next Resume to poll.
type DeferredSuspended struct {
	StepID        pistore.ID
	SourceEntryID pistore.ID // the response that holds the newest handle
	Poll          int64      // polls so far
	Configuration LaneConfiguration
	StreamOptions pistore.JSON
}

// DeferredPending is behind the intent of a poll and before its settlement.
type DeferredPending struct {
	StepID          pistore.ID
	SourceEntryID   pistore.ID
	Poll            int64
	Configuration   LaneConfiguration
	StreamOptions   pistore.JSON
	ResponseEntryID pistore.ID
	UsageID         pistore.ID
}

// FailureDrain is a run that failed and first consumes what waits in its inbox.
type FailureDrain struct {
	Error      Failure
	Provenance Provenance
}

// Failure is why an operation failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Provenance names what failed: exactly one of the two is set.
type Provenance struct {
	ResponseEntryID pistore.ID
	SummaryID       pistore.ID
}
