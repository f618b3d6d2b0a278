package harness

import (
	"fmt"
	"math"
	"strconv"

	"pistore"
	"pistore/session"
)

// How full a context is, in tokens. What a provider reported with the newest
// response is exact for everything up to that response, system prompt and tools
// included. The rest is estimated ([session.EstimateTokens]). The estimate only
// decides when to summarize and where to cut; a request that is too large all the
// same is the overflow's business.

// contextTokens is the size of what a request of the lane with this path holds.
func contextTokens(p *position, path *pathEntry, env *environment) int64 {
	size := 0
	for t := path; t != nil; t = t.prev {
		if n, ok := reportedTokens(t.Message()); ok {
			return storable(n + session.EstimateTokens(size))
		}
		size += env.viewBytes(&t.View)
	}
	return session.EstimateTokens(size + env.preambleBytes(p.configuration(env).ActiveToolNames))
}

// reportedTokens is what a response and its request held, as its provider
// counted. A response that is in no context, or without a count, has none, and
// neither has what a compaction retained: its count was that of the context
// before the compaction.
func reportedTokens(m session.Message) (int64, bool) {
	response, ok := m.(*session.AssistantMessage)
	if !ok || !settledWell(response) {
		return 0, false
	}
	total := usageNumber(response.Usage, "totalTokens")
	if total == 0 {
		for _, name := range []string{"input", "output", "cacheRead", "cacheWrite"} {
			total += usageNumber(response.Usage, name)
		}
	}
	return int64(min(total, pistore.MaxSeq)), total > 0
}

// settledWell reports whether a response is part of later contexts.
func settledWell(m *session.AssistantMessage) bool {
	switch m.StopReason {
	case session.StopError, session.StopAborted, session.StopDeferred:
		return false
	default:
		return true
	}
}

// usageNumber reads a count; what is no count is 0.
func usageNumber(usage pistore.JSON, name string) float64 {
	given, _ := usage.Member(name)
	n, err := strconv.ParseFloat(string(given), 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0
	}
	return n
}

// viewBytes is the size of what an entry adds to a context. One that has no
// projection adds nothing: the request will say so.
func (env *environment) viewBytes(v *session.View) int {
	if v.Entry.Type == pistore.TypeMessage {
		if m := v.Message(); m != nil {
			return messageBytes(m)
		}
		return 0
	}
	messages, err := env.project([]*session.View{v})
	if err != nil {
		return 0
	}
	return projectedBytes(messages)
}

// preambleBytes is the size of what every request starts with.
func (env *environment) preambleBytes(toolNames []string) int {
	size := session.ContentBytes(env.system)
	for _, name := range toolNames {
		if t, ok := env.tools.Lookup(name); ok {
			size += len(t.Name) + len(t.Description) + len(t.Parameters)
		}
	}
	return size
}

func projectedBytes(messages []session.ProjectedMessage) int {
	size := 0
	for _, m := range messages {
		size += messageBytes(m.Message)
	}
	return size
}

// messageBytes is the size of a message as it is sent.
func messageBytes(m session.Message) int {
	switch m := m.(type) {
	case *session.UserMessage:
		return session.ContentBytes(m.Content)
	case *session.AssistantMessage:
		if !settledWell(m) {
			return 0
		}
		return session.ContentBytes(m.Content)
	case *session.ToolResultMessage:
		return session.ContentBytes(m.Content)
	case *session.SystemMessage:
		return session.ContentBytes(m.Content) + len(m.Sections) + len(m.ToolsAdded) + len(m.ToolsRemoved)
	case *session.CustomMessage:
		return session.ContentBytes(m.Content)
	case *session.BashMessage:
		if m.ExcludeFromContext {
			return 0
		}
		return len(bashText(m))
	case *session.SummaryMessage:
		return len(summaryText(m))
	case *session.UnknownMessage:
		return 0 // it is not sent
	default:
		panic(fmt.Sprintf("harness: message %T", m))
	}
}
