package faux

import (
	"fmt"

	"pistore/provider"
	"pistore/session"
)

// sizes are the bytes of a request. What stands before the newest response was
// sent with an earlier request, so it counts as read from a cache: a rule that
// needs the request alone.
type sizes struct{ cached, fresh int }

// tokens estimates: four bytes are a token.
func tokens(sizeBytes int) int64 { return int64(sizeBytes+3) / 4 }

func (s sizes) total() int64 { return tokens(s.cached) + tokens(s.fresh) }

// usage is that of a response with this content.
func (s sizes) usage(content []session.Block) provider.Usage {
	thinking := 0
	for _, b := range content {
		if t, ok := b.(session.Thinking); ok {
			thinking += len(t.Thinking)
		}
	}
	return provider.Usage{
		Input: tokens(s.fresh), CacheRead: tokens(s.cached),
		Output: tokens(contentBytes(content)), Reasoning: tokens(thinking),
	}
}

// measure sizes a request. It fails for a message that no request may have.
func measure(req provider.Request) (sizes, error) {
	size := contentBytes(req.System)
	for _, t := range req.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	cached := 0
	for i, m := range req.Messages {
		switch m := m.(type) {
		case *session.UserMessage:
			size += contentBytes(m.Content)
		case *session.ToolResultMessage:
			size += contentBytes(m.Content)
		case *session.SystemMessage:
			size += contentBytes(m.Content) + len(m.Sections) + len(m.ToolsAdded) + len(m.ToolsRemoved)
		case *session.AssistantMessage:
			cached = size
			size += contentBytes(m.Content)
		default:
			return sizes{}, fmt.Errorf("message %d has the type %T, which a request may not have", i, m)
		}
	}
	return sizes{cached: cached, fresh: size - cached}, nil
}

// imageBytes is what an image counts as, whatever its size.
const imageBytes = 4800

func contentBytes(content []session.Block) int {
	size := 0
	for _, b := range content {
		switch b := b.(type) {
		case session.Text:
			size += len(b.Text)
		case session.Thinking:
			size += len(b.Thinking)
		case session.ToolCall:
			size += len(b.Name) + len(b.Arguments)
		case session.Image:
			size += imageBytes
		case session.UnknownBlock:
			size += len(b.Raw)
		default:
			panic(fmt.Sprintf("faux: impossible block %T", b))
		}
	}
	return size
}
