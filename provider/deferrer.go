package provider

import (
	"context"

	"pistore/registers"
	"pistore/session"
)

// Deferrer is a provider that may settle a response later: Stream returns one
// with the stop reason deferred and a handle, and Poll asks what became of it.
// Who asked may have died meanwhile; the handle is all that is needed.
type Deferrer interface {
	Provider

	// Poll makes one request about a deferred response. While that is pending,
	// the answer is deferred with a handle that is [SameHandle] as the one
	// given, whose other members may be new; it replaces the one given. Else the
	// answer is the response itself, settled as by Stream, or an error. Nothing
	// is streamed. Aborted and errors are as for Stream; no error is retryable,
	// since a later poll is the caller's to make.
	//
	// Of req only Model, ThinkingLevel and Options are set, as for the request
	// that was deferred, and Attempt, which numbers the polls from 1. The usage
	// of an answer is what this poll adds to what was reported before.
	Poll(ctx context.Context, req Request, handle session.DeferredHandle) Response

	// Cancel tells the vendor that nobody waits for the response any more. It is
	// tried once, nothing depends on its success, and it may come again for the
	// same handle after a crash. The end of an aborted run waits for it, so it
	// returns soon, whatever the vendor does.
	Cancel(ctx context.Context, handle session.DeferredHandle) error
}

// ValidHandle reports whether a deferred response of a model can be polled by
// its handle.
func ValidHandle(h *session.DeferredHandle, model registers.ModelRef) bool {
	return h != nil && h.ID != "" && h.Provider == model.Provider && h.ModelID == model.ModelID
}

// SameHandle reports whether two handles name one response. Until when it is
// kept, when to ask again and the provider's own data may differ.
func SameHandle(a, b session.DeferredHandle) bool {
	return a.Provider == b.Provider && a.ModelID == b.ModelID && a.API == b.API && a.ID == b.ID
}
