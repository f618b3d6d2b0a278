// Package provider is the contract between a harness and the models of a
// vendor: one request in, deltas and one settled response out. Adapters live in
// the folders below it. It imports the root, registers and session.
package provider

import (
	"context"
	"errors"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Provider streams responses of one vendor's models. It is safe for concurrent
// use: every lane of every session may stream at once.
type Provider interface {
	// Name is the provider's name in a [registers.ModelRef]. It never changes.
	Name() string

	// Model tells what is known of a model, without asking the network. A
	// provider that takes models that it does not know returns false for them.
	Model(id string) (Model, bool)

	// Stream makes one request and returns when its response is settled. There
	// is no error value: whatever goes wrong is in the response. It retries
	// nothing that the vendor has answered; retries are the harness's, which
	// counts them durably.
	//
	// The response is aborted if and only if ctx was cancelled (see
	// [Cancelled]) before the response was complete; a timeout, a refusal or a
	// malformed stream, and a deadline of ctx too, is an error. After a
	// cancellation Stream returns soon.
	//
	// deltas is called with the growth of the response, in order, from one
	// goroutine at a time, never before Stream was called and never after it
	// returned. It may block, which holds the stream. It may be nil. A panic in
	// it is not recovered here.
	//
	// The request is read only. Its slices are the caller's again when Stream
	// returns; nobody ever changes the messages and blocks in them, which may be
	// kept. The response is the caller's.
	Stream(ctx context.Context, req Request, deltas func(Delta)) Response
}

// Model is what is known of a model.
type Model struct {
	ID              string
	API             string // the protocol that it is spoken to with; AssistantMessage.API
	ContextWindow   int64  // tokens of input and output together; 0: unknown
	MaxOutputTokens int64  // the most that one response may have; 0: unknown
	Price           Price
}

// Request is one request for one response.
type Request struct {
	Model         registers.ModelRef // its Provider is the name of the provider asked
	ThinkingLevel string             // the lane's; empty or "off": none
	// System is the system prompt: Text blocks, the same from request to
	// request of a lane. Empty: none.
	System []session.Block
	// Messages are the conversation, oldest first, after projection and
	// conversion: *UserMessage, *AssistantMessage, *ToolResultMessage and
	// *SystemMessage only, with well-formed Unicode. Custom, bash and summary
	// messages came in as user messages. Every tool call is followed by its
	// result. A message of another type is answered with an error. Requests share
	// messages: a provider reads them and changes none.
	Messages []session.Message
	Tools    []ToolSpec   // by the order of the lane's active tool names
	Options  pistore.JSON // the step's stream options, a JSON object; empty: none
	// MaxOutputTokens is the limit that is meant. 0: the model's. An adapter
	// may send a lower one, to fit the window.
	MaxOutputTokens int64
	// Attempt numbers the attempts at one step, from 1. It is durable: after a
	// crash it goes on counting.
	Attempt int64
}

// ToolSpec is a tool as a model is told of it.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  pistore.JSON // a JSON schema of an object
}

// Response is a settled response.
type Response struct {
	// Message is never nil. Its StopReason is one of the session's stop
	// reasons; an error has an ErrorMessage of one line. Usage is a JSON object
	// always, of zeros if nothing was used (see [Usage]). API, Provider, Model
	// and ThinkingLevel are those of the request. Timestamp is 0: the harness
	// stamps it when it commits.
	Message *session.AssistantMessage
	// Retryable says of an error that the same request may succeed later.
	Retryable bool
	// RetryAfterMS is how long the vendor asked to wait, in milliseconds; 0: it
	// did not.
	RetryAfterMS int64
	// Overflow says that the request was larger than the model's context
	// window: the vendor said so in a form that leaves no doubt, or the usage
	// shows it (input + cacheRead above the window). It may come with any stop
	// reason, since some vendors cut the input silently.
	Overflow bool
}

// Delta is the growth of a response: TextDelta, ThinkingDelta, ToolCallStart or
// ToolArgumentsDelta.
//
// Index is the position of the block in the content of the settled message.
// Blocks start in rising order; those of parallel calls may grow in turn. Of
// each block the deltas, joined, are exactly what the settled message has: the
// text, the thinking, the name and id of a call, and its arguments as JSON
// text, insignificant white space aside (no arguments delta at all: {}). A
// block without text (a redacted thinking) may have no delta.
//
// The content of an error or aborted response is what had come until then, up
// to the first call whose arguments are not whole: such a call is left out, and
// everything behind it.
type Delta interface{ isDelta() }

// TextDelta adds to a text block.
type TextDelta struct {
	Index int
	Text  string
}

// ThinkingDelta adds to a thinking block.
type ThinkingDelta struct {
	Index    int
	Thinking string
}

// ToolCallStart starts a call.
type ToolCallStart struct {
	Index int
	ID    string
	Name  string
}

// ToolArgumentsDelta adds to the JSON text of a call's arguments.
type ToolArgumentsDelta struct {
	Index     int
	Arguments string
}

func (TextDelta) isDelta()          {}
func (ThinkingDelta) isDelta()      {}
func (ToolCallStart) isDelta()      {}
func (ToolArgumentsDelta) isDelta() {}

// Cancelled reports whether ctx was cancelled, as against having met its
// deadline. A provider settles as aborted only if this is true.
func Cancelled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// Empty returns a response message to req without content and with zero usage,
// which an adapter fills in, and which stands in for a response that never
// came. errorMessage may be empty.
func Empty(req Request, api string, reason session.StopReason, errorMessage string) *session.AssistantMessage {
	return &session.AssistantMessage{
		API:           api,
		Provider:      req.Model.Provider,
		Model:         req.Model.ModelID,
		ThinkingLevel: req.ThinkingLevel,
		Usage:         Usage{}.JSON(Price{}),
		StopReason:    reason,
		ErrorMessage:  errorMessage,
	}
}

// Set is the providers that a harness may use, by name.
type Set map[string]Provider

// NewSet collects providers. It panics if two have the same name.
func NewSet(providers ...Provider) Set {
	s := Set{}
	for _, p := range providers {
		if s[p.Name()] != nil {
			panic("provider: two providers named " + p.Name())
		}
		s[p.Name()] = p
	}
	return s
}

// Model looks a model up. The provider is nil if there is none of that name;
// known is false if it does not know the model.
func (s Set) Model(ref registers.ModelRef) (p Provider, m Model, known bool) {
	p = s[ref.Provider]
	if p == nil {
		return nil, Model{}, false
	}
	m, known = p.Model(ref.ModelID)
	return p, m, known
}
