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

func (s sizes) total() int64 {
	return session.EstimateTokens(s.cached) + session.EstimateTokens(s.fresh)
}

// usage is that of a response with this content.
func (s sizes) usage(content []session.Block) provider.Usage {
	thinking := 0
	for _, b := range content {
		if t, ok := b.(session.Thinking); ok {
			thinking += len(t.Thinking)
		}
	}
	return provider.Usage{
		Input: session.EstimateTokens(s.fresh), CacheRead: session.EstimateTokens(s.cached),
		Output: session.EstimateTokens(session.ContentBytes(content)), Reasoning: session.EstimateTokens(thinking),
	}
}

// measure sizes a request. It fails for a message that no request may have.
func measure(req provider.Request) (sizes, error) {
	size := session.ContentBytes(req.System)
	for _, t := range req.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	cached := 0
	for i, m := range req.Messages {
		switch m := m.(type) {
		case *session.UserMessage:
			size += session.ContentBytes(m.Content)
		case *session.ToolResultMessage:
			size += session.ContentBytes(m.Content)
		case *session.SystemMessage:
			size += session.ContentBytes(m.Content) + len(m.Sections) + len(m.ToolsAdded) + len(m.ToolsRemoved)
		case *session.AssistantMessage:
			cached = size
			size += session.ContentBytes(m.Content)
		default:
			return sizes{}, fmt.Errorf("message %d has the type %T, which a request may not have", i, m)
		}
	}
	return sizes{cached: cached, fresh: size - cached}, nil
}
