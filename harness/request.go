package harness

import (
	"context"
	"fmt"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// What goes out to a provider or a tool, and what comes back, brought into the
// form that the machine takes.

// buildRequest projects the conversation up to the leaf into a request.
func (h *Harness) buildRequest(ctx context.Context, leaf pistore.ID, pend *registers.AssistantPending) (provider.Request, error) {
	projected, err := session.ProjectBranch(ctx, h.storage, leaf, h.projectors)
	if err != nil {
		return provider.Request{}, err
	}
	c := pend.Context
	req := provider.Request{
		Model: c.Configuration.Model, ThinkingLevel: c.Configuration.ThinkingLevel, System: h.system,
		Messages: forProvider(projected), Options: c.StreamOptions,
		MaxOutputTokens: pend.IntendedOutputLimit, Attempt: pend.Attempt,
	}
	for _, name := range c.Configuration.ActiveToolNames {
		if t, ok := h.env.tools.Lookup(name); ok {
			req.Tools = append(req.Tools, provider.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
		}
	}
	return req, nil
}

// settledResponse checks what a provider returned. A malformed response becomes
// an error response, which is never retried.
func settledResponse(resp provider.Response, req provider.Request, now pistore.UnixMS) responded {
	ev := responded{message: resp.Message, retryable: resp.Retryable, retryAfterMS: max(resp.RetryAfterMS, 0), overflow: resp.Overflow}
	if problem := malformed(resp.Message); problem != "" {
		ev = responded{message: provider.Empty(req, "", session.StopError, "The provider gave a malformed response: "+problem)}
	}
	msg := *ev.message
	if msg.Usage == "" {
		msg.Usage = zeroUsage
	}
	msg.Timestamp = now
	ev.message = &msg
	return ev
}

// malformed names what keeps a response from being stored and executed, or is
// empty.
func malformed(msg *session.AssistantMessage) string {
	if msg == nil {
		return "no message"
	}
	switch msg.StopReason {
	case session.StopStop, session.StopLength, session.StopToolUse, session.StopError, session.StopAborted, session.StopDeferred:
	default:
		return fmt.Sprintf("stop reason %.40q", string(msg.StopReason))
	}
	seen := map[string]bool{}
	for _, call := range msg.ToolCalls() {
		switch {
		case call.ID == "" || call.Name == "":
			return "a tool call without id or name"
		case seen[call.ID]:
			return fmt.Sprintf("two tool calls with the id %.80q", call.ID)
		}
		seen[call.ID] = true
		if _, err := pistore.CompactJSON(string(call.Arguments)); err != nil || !call.Arguments.IsObject() {
			return fmt.Sprintf("the arguments of tool call %.80q are not a JSON object", call.ID)
		}
	}
	if msg.Usage != "" {
		if _, err := pistore.CompactJSON(string(msg.Usage)); err != nil || !msg.Usage.IsObject() {
			return "the usage is not a JSON object"
		}
	}
	if _, err := pistore.CheckEntry(pistore.TypeMessage, "", session.MessagePayload(msg)); err != nil {
		return err.Error()
	}
	return ""
}

// settledResult brings the outcome of a call into the form that is stored. A
// result that cannot be stored is replaced by one that says so: the effect
// happened, and the model must know that.
func settledResult(call session.ToolCall, out tool.Result, err error) toolResult {
	if err != nil {
		return errorResult(err.Error())
	}
	r := toolResult{content: out.Content, details: out.Details, usage: out.Usage, isError: out.IsError, terminate: out.Terminate}
	problem := ""
	if r.usage != "" {
		if _, err := pistore.CompactJSON(string(r.usage)); err != nil || !r.usage.IsObject() {
			problem = "its usage is not a JSON object"
		}
	}
	if r.details != "" {
		if _, err := pistore.CompactJSON(string(r.details)); err != nil {
			problem = "its details are not JSON"
		}
	}
	if problem == "" {
		payload := session.MessagePayload(&session.ToolResultMessage{
			ToolCallID: call.ID, ToolName: call.Name, Content: r.content, Details: r.details, Usage: r.usage,
		})
		if _, err := pistore.CheckEntry(pistore.TypeMessage, "", payload); err != nil {
			problem = err.Error()
		}
	}
	if problem != "" {
		return errorResult("The tool ran, but its result cannot be stored: " + problem)
	}
	return r
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

func describeCall(call session.ToolCall, result pistore.ID) pistore.JSON {
	return describe(map[string]any{
		"toolCallId": call.ID, "toolName": call.Name, "arguments": call.Arguments, "resultEntryId": result,
	})
}
