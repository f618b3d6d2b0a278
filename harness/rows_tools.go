package harness

import (
	"maps"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// Rows of the transition table around a batch of tool calls.

// toolResult is what a call came to.
type toolResult struct {
	content   []session.Block
	details   pistore.JSON
	usage     pistore.JSON
	isError   bool
	terminate bool
}

// given is the result as a tool would have returned it.
func (r toolResult) given() tool.Result {
	return tool.Result{Content: r.content, Details: r.details, Usage: r.usage, IsError: r.isError, Terminate: r.terminate}
}

// errorResult is an error in words. They are cut, since the text of an error
// may have any length, and a result must have room in a transaction.
func errorResult(text string) toolResult {
	const maxBytes = 64 << 10
	if len(text) > maxBytes {
		text = strings.ToValidUTF8(text[:maxBytes], "") + "…"
	}
	return toolResult{content: session.TextContent(text), isError: true}
}

// withCall returns a copy of p in which one call of the open batch is changed.
func (p *position) withCall(index int, change func(*registers.Call)) *position {
	batch := *p.op.phase().(*registers.Tools)
	batch.Calls = slices.Clone(batch.Calls)
	change(&batch.Calls[index])
	return p.withPhase(&batch)
}

// argsKey is the key of a call in op.tool_args and op.tool_output.
func (p *position) argsKey(step pistore.ID, index int) string {
	return registers.ToolKey(p.op.meta.OperationID, step, int64(index))
}

// applyClearCall is the intent of a call: its effective arguments and its
// replay policy are durable before it starts.
func applyClearCall(p *position, index int, arguments pistore.JSON, env *environment, c *change) *position {
	batch := p.op.phase().(*registers.Tools)
	call := p.op.batch[index]
	replay := registers.ReplayNever
	if t, ok := env.tools.Lookup(call.Name); ok && t.Replay == registers.ReplaySafe {
		replay = registers.ReplaySafe
	}
	c.set(registers.OpToolArgsNS, p.argsKey(batch.StepID, index), arguments)
	p = p.withCall(index, func(k *registers.Call) { k.Status, k.Replay = registers.CallEffectPending, replay })
	p.op.args = maps.Clone(p.op.args)
	p.op.args[index] = arguments
	return p
}

// applyToolSettled places a call's result under its reserved id, whether the
// call ran, was refused, or was interrupted.
func applyToolSettled(p *position, index int, r toolResult, m mint, c *change) *position {
	batch := p.op.phase().(*registers.Tools)
	call, id := p.op.batch[index], batch.Calls[index].ResultEntryID
	p = c.place(p, session.Content{ID: id, Type: pistore.TypeMessage, Payload: session.ToolResultPayload(&session.ToolResultMessage{
		ToolCallID: call.ID, ToolName: call.Name, Content: r.content, IsError: r.isError,
		Details: r.details, Usage: r.usage, Timestamp: m.Now(),
	}, r.terminate)})
	if r.usage != "" {
		c.content = append(c.content, pistore.InsertUsage{
			ID: m.New(), EntryID: id, Usage: r.usage,
			Details: usageDetails{Lane: p.lane, OperationID: p.op.meta.OperationID, Purpose: "tool", Tool: call.Name}.encode(),
		})
	}
	if _, partial := p.op.output[index]; partial {
		c.remove(registers.OpToolOutputNS, p.argsKey(batch.StepID, index))
	}
	return p.withCall(index, func(k *registers.Call) {
		*k = registers.Call{Status: registers.CallCompleted, SourceIndex: k.SourceIndex, ResultEntryID: id, Terminate: r.terminate}
	})
}

// applyEndBatch leaves a batch whose calls are all completed.
func applyEndBatch(p *position, c *change) *position {
	batch := p.op.phase().(*registers.Tools)
	terminate := true
	for i, call := range batch.Calls {
		terminate = terminate && call.Terminate
		if _, started := p.op.args[i]; started {
			c.remove(registers.OpToolArgsNS, p.argsKey(batch.StepID, i))
		}
	}
	c.tell(TurnEnd{p.about(batch.StepID)})
	at := &registers.Checkpoint{Continuation: &registers.NeedAssistant{}, TriggerEntryID: p.leaf}
	if terminate {
		at.Continuation = &registers.MayFinish{IncludeFinalAssistant: false}
	}
	return p.withPhase(at)
}
