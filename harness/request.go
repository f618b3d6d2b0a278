package harness

import (
	"fmt"
	"reflect"
	"strings"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// What goes out to a provider or a tool, and what comes back, brought into the
// form that the machine takes.

// buildRequest makes the request that an intent announces, of what the model is
// to see.
func (h *Harness) buildRequest(projected []session.ProjectedMessage, pend *registers.AssistantPending) provider.Request {
	c := pend.Context
	req := provider.Request{
		Model: c.Configuration.Model, ThinkingLevel: c.Configuration.ThinkingLevel, System: h.env().system,
		Options: c.StreamOptions, MaxOutputTokens: pend.IntendedOutputLimit, Attempt: pend.Attempt,
		Messages: forProvider(projected),
	}
	for _, name := range c.Configuration.ActiveToolNames {
		if t, ok := h.env().tools.Lookup(name); ok {
			req.Tools = append(req.Tools, provider.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
		}
	}
	return req
}

// settledResponse checks what a provider returned. A malformed response becomes
// an error response, which is never retried; what it cost is kept.
func settledResponse(resp provider.Response, req provider.Request, now pistore.UnixMS) responded {
	ev := responded{retryable: resp.Retryable, retryAfterMS: resp.RetryAfterMS, overflow: resp.Overflow}
	msg, problem := wellFormed(resp.Message)
	if problem != "" {
		ev = responded{}
		msg = provider.Empty(req, "", session.StopError, "The provider gave a malformed response: "+problem)
		if resp.Message != nil {
			billed := *msg
			billed.Usage = resp.Message.Usage
			if stored, problem := wellFormed(&billed); problem == "" {
				msg = stored
			}
		}
	}
	if msg.Usage == "" {
		msg.Usage = session.ZeroUsage
	}
	msg.Timestamp = now
	ev.message = msg
	return ev
}

// Bounds of what a response may call. op.state names each call of a batch and is
// written anew whenever one settles, and a result repeats id and name.
const (
	maxCalls     = 4096
	maxNameBytes = 16 << 10
)

// wellFormed returns a response as a restart would read it, so that what is
// executed is what is stored, or names what keeps it from being either.
func wellFormed(given *session.AssistantMessage) (msg *session.AssistantMessage, problem string) {
	if given == nil {
		return nil, "no message"
	}
	stored, err := readBack(given)
	if err != nil {
		return nil, err.Error()
	}
	msg = stored.(*session.AssistantMessage)
	switch msg.StopReason {
	case session.StopStop, session.StopLength, session.StopToolUse, session.StopError, session.StopAborted, session.StopDeferred:
	default:
		return nil, fmt.Sprintf("stop reason %.40q", string(msg.StopReason))
	}
	calls := msg.ToolCalls()
	if len(calls) > maxCalls {
		return nil, fmt.Sprintf("%d tool calls, more than %d", len(calls), maxCalls)
	}
	seen := map[string]bool{}
	for _, call := range calls {
		if seen[call.ID] {
			return nil, fmt.Sprintf("two tool calls with the id %.80q", call.ID)
		}
		seen[call.ID] = true
		if len(call.ID) > maxNameBytes || len(call.Name) > maxNameBytes {
			return nil, fmt.Sprintf("the id or name of tool call %.80q is too long", call.ID)
		}
	}
	if msg.Usage != "" && !msg.Usage.IsObject() {
		return nil, "the usage is not a JSON object"
	}
	return msg, ""
}

// readBack returns a message as it comes back from the store. Blocks that have
// no stored form, JSON that is none, and what a reader would refuse are errors
// that match ErrInvalid or ErrTooLarge.
func readBack(m session.Message) (stored session.Message, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", pistore.ErrInvalid, r)
		}
	}()
	if v := reflect.ValueOf(m); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: no message, but nil", pistore.ErrInvalid)
	}
	payload, err := pistore.CheckEntry(pistore.TypeMessage, "", session.MessagePayload(m))
	if err != nil {
		return nil, err
	}
	raw, _ := payload.Member("message")
	if stored, err = session.ParseMessage(raw); err != nil {
		return nil, err
	}
	var content []session.Block
	switch stored := stored.(type) {
	case *session.UserMessage:
		content = stored.Content
	case *session.ToolResultMessage:
		content = stored.Content
	}
	for i, b := range content {
		switch b.(type) {
		case session.Thinking, session.ToolCall:
			return nil, fmt.Errorf("%w: content[%d] is a block of a response", pistore.ErrInvalid, i)
		}
	}
	return stored, nil
}

// settledResult brings the outcome of a call into the form that is stored. A
// result that cannot be stored is replaced by one that says so: the effect
// happened, and the model must know that.
func settledResult(call session.ToolCall, out tool.Result, err error) toolResult {
	if err != nil {
		return errorResult(err.Error())
	}
	r, err := storableResult(call, out)
	if err != nil {
		return errorResult("The tool ran, but its result cannot be stored: " + err.Error())
	}
	return r
}

func storableResult(call session.ToolCall, out tool.Result) (toolResult, error) {
	r := toolResult{content: out.Content, details: out.Details, usage: out.Usage, isError: out.IsError, terminate: out.Terminate}
	_, err := readBack(&session.ToolResultMessage{
		ToolCallID: call.ID, ToolName: call.Name, Content: r.content, Details: r.details, Usage: r.usage,
	})
	if err == nil && r.usage != "" && !strings.HasPrefix(strings.TrimSpace(string(r.usage)), "{") {
		err = fmt.Errorf("%w: its usage is no JSON object", pistore.ErrInvalid)
	}
	return r, err
}

// describeTx shows a transaction at the gate: what it writes, in order.
func describeTx(tx pistore.Tx) pistore.JSON {
	type write struct {
		Op        string       `json:"op"`
		ID        pistore.ID   `json:"id,omitempty"`
		Namespace string       `json:"namespace,omitempty"`
		Key       string       `json:"key,omitempty"`
		Value     pistore.JSON `json:"value,omitempty"`
	}
	var writes []write
	for _, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			writes = append(writes, write{Op: "entry", ID: w.ID, Value: w.Payload})
		case pistore.InsertUsage:
			writes = append(writes, write{Op: "usage", ID: w.ID, Value: w.Usage})
		case pistore.SetRegister:
			writes = append(writes, write{Op: "set", Namespace: w.Namespace, Key: w.Key, Value: w.Value})
		case pistore.DeleteRegister:
			writes = append(writes, write{Op: "delete", Namespace: w.Namespace, Key: w.Key})
		default:
			panic(fmt.Sprintf("harness: write %T", w))
		}
	}
	return describe(map[string]any{"writes": writes})
}

func describeRequest(pend *registers.AssistantPending) pistore.JSON {
	return describe(map[string]any{
		"model": pend.Context.Configuration.Model, "attempt": pend.Attempt, "responseEntryId": pend.ResponseEntryID,
	})
}

func describeSummary(g *registers.Generating, pend *registers.GenerationPending) pistore.JSON {
	return describe(map[string]any{
		"model": g.Context.Configuration.Model, "attempt": pend.Attempt, "summaryEntryId": g.ResultEntryID, "index": pend.Request.Index,
	})
}

func describeCall(call session.ToolCall, result pistore.ID) pistore.JSON {
	return describe(map[string]any{
		"toolCallId": call.ID, "toolName": call.Name, "arguments": call.Arguments, "resultEntryId": result,
	})
}
