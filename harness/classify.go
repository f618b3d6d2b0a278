package harness

import (
	"regexp"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
)

// class is what a settled response means for the run.
type class int

const (
	classStop      class = iota // stop, or length without calls
	classTools                  // tool calls to execute
	classCutTools               // length with calls: none is executed
	classDeferred               // the response comes later
	classRetryable              // an error that another attempt may not meet
	classOverflow               // more context than the model takes
	classError                  // any other error
	classUnusable               // a stop reason that the run cannot go on from
)

// classify judges a response; the first match wins.
func classify(ev responded, pend *registers.AssistantPending) class {
	msg := ev.message
	calls := len(msg.ToolCalls()) > 0
	switch {
	case overflowed(ev, pend):
		return classOverflow
	case msg.StopReason == session.StopDeferred && provider.ValidHandle(msg.Deferred, pend.Context.Configuration.Model):
		return classDeferred
	case msg.StopReason == session.StopError && ev.retryable:
		return classRetryable
	case msg.StopReason == session.StopError:
		return classError
	case msg.StopReason == session.StopLength && calls:
		return classCutTools
	case msg.StopReason == session.StopToolUse && calls:
		return classTools
	case msg.StopReason == session.StopStop && calls:
		return classTools
	case msg.StopReason == session.StopStop || msg.StopReason == session.StopLength:
		return classStop
	default: // aborted that nobody asked for, an invalid handle, tool use without calls
		return classUnusable
	}
}

// overflowed looks for the three signals of a context that is too large, in
// falling reliability: a count of more input than the window holds, which the
// adapter made or the usage shows; the text of an error; and an output shorter
// than the limit that was meant.
func overflowed(ev responded, pend *registers.AssistantPending) bool {
	msg := ev.message
	switch {
	case ev.overflow, pend.ContextWindow > 0 && sentTokens(msg.Usage) > pend.ContextWindow:
		return true
	case msg.StopReason == session.StopError:
		return overflowText.MatchString(msg.ErrorMessage)
	case msg.StopReason == session.StopLength:
		_, counted := msg.Usage.Member("output")
		return counted && usageNumber(msg.Usage, "output") < float64(pend.IntendedOutputLimit)
	default:
		return false
	}
}

// sentTokens is how many tokens a request held by its usage, as far as they
// count against the window in every vendor's usage.
func sentTokens(usage pistore.JSON) int64 {
	return int64(min(usageNumber(usage, "input")+usageNumber(usage, "cacheRead"), pistore.MaxSeq))
}

// overflowText matches what providers say of a context that is too long.
var overflowText = regexp.MustCompile(`(?i)(prompt|input|context|request) (is |was )?too (long|large)|` +
	`context[ _-]?(length|window|limit|size)( is| was)?[ _-]?(exceed|reached)|` +
	`exceeds? (the |this |its )?(model'?s? )?(maximum |max )?(context|input token|prompt token)|` +
	`maximum context length|too many (input )?tokens|input token count .* exceeds|maximum prompt length`)

// normalized gives a response another stop reason and keeps the original one,
// with its text, in the error message.
func normalized(msg session.AssistantMessage, to session.StopReason) session.AssistantMessage {
	if msg.StopReason != to {
		was := "stop reason " + string(msg.StopReason)
		if msg.ErrorMessage != "" {
			was += ": " + msg.ErrorMessage
		}
		msg.StopReason, msg.ErrorMessage = to, was
	}
	return msg
}

// retryDelayMS is base · 2^(attempt-1), at most a minute; a provider's own wish
// wins if it is longer.
func retryDelayMS(policy registers.RetryPolicy, attempt, retryAfterMS int64) int64 {
	const maxDelayMS = 60_000
	delay := policy.BaseDelayMS
	for range min(attempt-1, 32) {
		if delay = delay * 2; delay >= maxDelayMS {
			break
		}
	}
	return max(min(delay, maxDelayMS), retryAfterMS)
}

// syntheticResponse settles an attempt whose outcome is not known.
func syntheticResponse(pend *registers.AssistantPending, reason session.StopReason, text string, at pistore.UnixMS) *session.AssistantMessage {
	model := pend.Context.Configuration.Model
	return &session.AssistantMessage{
		Provider: model.Provider, Model: model.ModelID, ThinkingLevel: pend.Context.Configuration.ThinkingLevel,
		Usage: session.ZeroUsage, StopReason: reason, ErrorMessage: text, Timestamp: at,
	}
}

// usageDetails says what a usage row was for.
type usageDetails struct {
	Lane        string
	OperationID pistore.ID
	Purpose     string
	Provider    string
	ModelID     string
	Tool        string
}

func (d usageDetails) encode() pistore.JSON {
	text := `{"lane":` + string(pistore.QuoteJSON(d.Lane))
	if d.OperationID != "" {
		text += `,"operationId":` + string(pistore.QuoteJSON(string(d.OperationID)))
	}
	text += `,"purpose":` + string(pistore.QuoteJSON(d.Purpose))
	for _, m := range []struct{ name, value string }{{"provider", d.Provider}, {"modelId", d.ModelID}, {"toolName", d.Tool}} {
		if m.value != "" {
			text += `,"` + m.name + `":` + string(pistore.QuoteJSON(m.value))
		}
	}
	return pistore.JSON(text + "}")
}
