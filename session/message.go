package session

import (
	"pistore"
)

// Role is the role of a message.
type Role string

// The roles that messages are stored with, and the two that a projection gives
// to summaries. A message may have any other role; it is kept.
const (
	RoleUser              Role = "user"
	RoleAssistant         Role = "assistant"
	RoleToolResult        Role = "toolResult"
	RoleSystem            Role = "system"
	RoleCustom            Role = "custom"
	RoleBashExecution     Role = "bashExecution"
	RoleCompactionSummary Role = "compactionSummary"
	RoleBranchSummary     Role = "branchSummary"
)

// StopReason says why a response ended.
type StopReason string

// The stop reasons.
const (
	StopStop     StopReason = "stop"
	StopLength   StopReason = "length"
	StopToolUse  StopReason = "toolUse"
	StopError    StopReason = "error"
	StopAborted  StopReason = "aborted"
	StopDeferred StopReason = "deferred"
)

// Message is one message of a conversation: *UserMessage, *AssistantMessage,
// *ToolResultMessage, *SystemMessage, *CustomMessage, *BashMessage,
// *SummaryMessage or *UnknownMessage. A parsed message is a view: what the
// view does not know stays in the stored JSON, which is never rewritten.
type Message interface {
	Role() Role
	isMessage()
}

// UserMessage is input of the user: Text and Image blocks.
type UserMessage struct {
	Content   []Block
	Timestamp pistore.UnixMS
}

// AssistantMessage is one response of a model: Text, Thinking and ToolCall
// blocks.
type AssistantMessage struct {
	Content       []Block
	API           string
	Provider      string
	Model         string
	ResponseModel string // what the provider says that it used; optional
	ResponseID    string // optional
	ThinkingLevel string // optional
	Usage         pistore.JSON
	StopReason    StopReason
	ErrorMessage  string // optional
	Deferred      *DeferredHandle
	Timestamp     pistore.UnixMS
}

// ToolCalls returns the calls of a response in call order.
func (m *AssistantMessage) ToolCalls() []ToolCall {
	var calls []ToolCall
	for _, b := range m.Content {
		if c, ok := b.(ToolCall); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// DeferredHandle names a response that the provider delivers later.
type DeferredHandle struct {
	Provider    string         `json:"provider"`
	ModelID     string         `json:"modelId"`
	API         string         `json:"api"`
	ID          string         `json:"id"`
	ExpiresAt   pistore.UnixMS `json:"expiresAt,omitempty"`
	PollAfterMS int64          `json:"pollAfterMs,omitempty"`
	Data        pistore.JSON   `json:"data,omitempty"`
}

// ToolResultMessage is the result of one tool call: Text and Image blocks.
type ToolResultMessage struct {
	ToolCallID string
	ToolName   string
	Content    []Block
	IsError    bool
	Details    pistore.JSON // optional
	Usage      pistore.JSON // optional
	Timestamp  pistore.UnixMS
}

// SystemMessage sets or changes the system prompt and the tools.
type SystemMessage struct {
	Content      []Block
	Sections     pistore.JSON // optional: name → text or null
	ToolsAdded   pistore.JSON // optional
	ToolsRemoved pistore.JSON // optional
	Timestamp    pistore.UnixMS
}

// CustomMessage is an application's message, sent as user content.
type CustomMessage struct {
	CustomType string
	Content    []Block
	Display    bool
	Details    pistore.JSON // optional
	Timestamp  pistore.UnixMS
}

// BashMessage is a command that the user ran, sent as user text unless
// ExcludeFromContext is set.
type BashMessage struct {
	Command            string
	Output             string
	ExitCode           *int64 // nil: none
	Cancelled          bool
	Truncated          bool
	ExcludeFromContext bool
	Timestamp          pistore.UnixMS
}

// SummaryMessage is a compaction or a branch summary in a projection.
type SummaryMessage struct {
	Kind         Role // RoleCompactionSummary or RoleBranchSummary
	Summary      string
	TokensBefore pistore.JSON // compaction only, as stored; empty when absent
	FromID       string       // branch summary only
}

// UnknownMessage is a message whose role has no view here.
type UnknownMessage struct {
	RoleName Role
	Raw      pistore.JSON
}

// Role returns user.
func (*UserMessage) Role() Role { return RoleUser }

// Role returns assistant.
func (*AssistantMessage) Role() Role { return RoleAssistant }

// Role returns toolResult.
func (*ToolResultMessage) Role() Role { return RoleToolResult }

// Role returns system.
func (*SystemMessage) Role() Role { return RoleSystem }

// Role returns custom.
func (*CustomMessage) Role() Role { return RoleCustom }

// Role returns bashExecution.
func (*BashMessage) Role() Role { return RoleBashExecution }

// Role returns the kind of the summary.
func (m *SummaryMessage) Role() Role { return m.Kind }

// Role returns the stored role.
func (m *UnknownMessage) Role() Role { return m.RoleName }

func (*UserMessage) isMessage()       {}
func (*AssistantMessage) isMessage()  {}
func (*ToolResultMessage) isMessage() {}
func (*SystemMessage) isMessage()     {}
func (*CustomMessage) isMessage()     {}
func (*BashMessage) isMessage()       {}
func (*SummaryMessage) isMessage()    {}
func (*UnknownMessage) isMessage()    {}

// Block is one block of content: Text, Image, Thinking, ToolCall or
// UnknownBlock.
type Block interface{ isBlock() }

// Text is a text block.
type Text struct{ Text string }

// Image is an image block; Data is base64.
type Image struct{ Data, MIMEType string }

// Thinking is a model's reasoning. Signature is opaque and goes back to the
// provider as it came.
type Thinking struct {
	Thinking  string
	Signature string // optional
	Redacted  bool
}

// ToolCall is a call that a model asks for. Arguments is a JSON object as the
// model gave it.
type ToolCall struct {
	ID        string
	Name      string
	Arguments pistore.JSON
	Signature string // optional and opaque, thoughtSignature in the stored form
}

// UnknownBlock is a block whose type has no view here.
type UnknownBlock struct{ Raw pistore.JSON }

func (Text) isBlock()         {}
func (Image) isBlock()        {}
func (Thinking) isBlock()     {}
func (ToolCall) isBlock()     {}
func (UnknownBlock) isBlock() {}

// TextContent returns content of one text block.
func TextContent(text string) []Block { return []Block{Text{text}} }

// JoinText returns the text of content: its text blocks, joined by newlines.
func JoinText(content []Block) string {
	joined := ""
	for _, b := range content {
		if t, ok := b.(Text); ok {
			if joined != "" {
				joined += "\n"
			}
			joined += t.Text
		}
	}
	return joined
}
