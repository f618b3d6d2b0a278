package harness

import (
	"regexp"
	"strconv"

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
// falling reliability: the adapter's own count, the text of an error, and an
// output shorter than the limit that was meant.
func overflowed(ev responded, pend *registers.AssistantPending) bool {
	msg := ev.message
	switch {
	case ev.overflow:
		return true
	case msg.StopReason == session.StopError:
		return overflowText.MatchString(msg.ErrorMessage)
	case msg.StopReason == session.StopLength:
		given, _ := msg.Usage.Member("output")
		output, err := strconv.ParseFloat(string(given), 64)
		return err == nil && output < float64(pend.IntendedOutputLimit)
	default:
		return false
	}
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
func syntheticResponse(pend *registers.AssistantPending, text string, at pistore.UnixMS) *session.AssistantMessage {
	model := pend.Context.Configuration.Model
	return &session.AssistantMessage{
		Provider: model.Provider, Model: model.ModelID, ThinkingLevel: pend.Context.Configuration.ThinkingLevel,
		Usage: session.ZeroUsage, StopReason: session.StopError, ErrorMessage: text, Timestamp: at,
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
	text := `{"lane":` + string(pistore.QuoteJSON(d.Lane)) + `,"operationId":` + string(pistore.QuoteJSON(string(d.OperationID))) +
		`,"purpose":` + string(pistore.QuoteJSON(d.Purpose))
	for _, m := range []struct{ name, value string }{{"provider", d.Provider}, {"modelId", d.ModelID}, {"toolName", d.Tool}} {
		if m.value != "" {
			text += `,"` + m.name + `":` + string(pistore.QuoteJSON(m.value))
		}
	}
	return pistore.JSON(text + "}")
}
