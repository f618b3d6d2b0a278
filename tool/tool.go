// Package tool is the contract between a harness and the tools that a model may
// call. Tools live in the folders below it. It imports the root, registers and
// session.
package tool

import (
	"context"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Tool is something that a model may call.
type Tool struct {
	// Name is what the model calls it by: 1 to 64 letters, digits, underscores
	// and hyphens, which every vendor takes.
	Name string
	// Description tells the model what the tool does and when to use it.
	Description string
	// Parameters is a JSON schema (draft 2020-12 unless it says otherwise) of
	// the arguments, which are an object always.
	Parameters pistore.JSON
	// Replay says whether a call may run again when its process died before the
	// outcome was durable. Empty is never. Safe is a promise: however often the
	// call runs, the world ends up as if it had run once.
	Replay registers.Replay
	// Sequential makes the calls of a response run one after the other if any
	// of them is to this tool.
	Sequential bool
	// Execute runs a call. It returns soon after ctx is cancelled, with or
	// without an error. An error, and a panic, becomes the text of an error
	// result, so its text is written for the model: one sentence. Calls may run
	// beside each other.
	Execute func(ctx context.Context, call Call) (Result, error)
}

// Call is one call of a tool.
type Call struct {
	ID string // the model's id of the call, unique within its response only
	// Arguments are a JSON object that [Set.Validate] has passed.
	Arguments pistore.JSON
	// IdempotencyKey is the same whenever this very call runs again, and of no
	// other call: the reserved id of its result. It is the key to hand to an
	// outside service.
	IdempotencyKey string
	// Progress reports output as it comes: text is added to what was reported
	// before. It is never nil, may be called from any goroutine, does not wait
	// for a reader, and does nothing once Execute has returned. What is
	// reported need not be in the result, and the other way around.
	Progress func(text string)
}

// Result is the outcome of a call.
type Result struct {
	Content []session.Block // Text and Image blocks, for the model
	Details pistore.JSON    // any JSON, for people and programs; empty: none
	Usage   pistore.JSON    // a JSON object for the ledger; empty: none
	// Terminate asks to end the run after this batch of calls; it ends if all
	// calls of the batch ask for it.
	Terminate bool
	// IsError tells the model that the call failed.
	IsError bool
}

// Text returns a result of one text block.
func Text(text string) Result { return Result{Content: session.TextContent(text)} }
