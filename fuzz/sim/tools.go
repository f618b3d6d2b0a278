package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"pistore"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// toolKind is a tool and how often it is called.
type toolKind struct {
	name       string
	weight     int
	safe       bool
	sequential bool
	run        func(l *life, ctx context.Context, call tool.Call) (tool.Result, error)
}

// aloneTool is the tool whose calls run alone.
const aloneTool = "alone"

// toolKinds are the tools of every life; that look may be repeated is not said in
// each of them.
var toolKinds = []toolKind{
	{name: "append", weight: 6, run: says},
	{name: "look", weight: 6, safe: true, run: says},
	{name: aloneTool, weight: 2, sequential: true, run: says},
	{name: "finish", weight: 3, run: func(_ *life, _ context.Context, call tool.Call) (tool.Result, error) {
		r := tool.Text("done")
		r.Terminate = true
		return r, nil
	}},
	{name: "pay", weight: 2, safe: true, run: func(_ *life, _ context.Context, call tool.Call) (tool.Result, error) {
		r := tool.Text("paid")
		r.Usage, r.Details = `{"input":3,"cost":{"total":0.125}}`, `{"by":"card"}`
		return r, nil
	}},
	{name: "fail", weight: 2, run: func(*life, context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, errors.New("the disk of the tool is full")
	}},
	{name: "panic", weight: 1, run: func(*life, context.Context, tool.Call) (tool.Result, error) { panic("out of cheese") }},
	{name: "odd", weight: 1, run: func(*life, context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Details: "no JSON"}, nil
	}},
	{name: "hang", weight: 2, run: func(l *life, ctx context.Context, call tool.Call) (tool.Result, error) {
		// Calls beside it are in flight or not, in one drive or the other.
		if l.s.program.mode != Drives || l.s.program.tools == registers.Sequential {
			l.hang(ctx, l.lane(), "call "+string(call.Arguments))
		}
		return tool.Text("it hung"), ctx.Err()
	}},
}

func says(_ *life, _ context.Context, call tool.Call) (tool.Result, error) {
	call.Progress("half way")
	return tool.Text("did " + string(call.Arguments)), nil
}

const toolParameters pistore.JSON = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

// rollCall makes a call, of which some are to no tool and some have arguments
// that their tool does not take.
func rollCall(r *rand.Rand) session.ToolCall {
	weights := make([]int, len(toolKinds))
	for i, k := range toolKinds {
		weights[i] = k.weight
	}
	call := session.ToolCall{
		Name: toolKinds[weighted(r, weights)].name, Arguments: pistore.JSON(fmt.Sprintf(`{"n":%d}`, r.IntN(1_000_000))),
	}
	switch r.IntN(16) {
	case 0:
		call.Arguments = `{"n":"one"}`
	case 1:
		call.Name = "ghost"
	}
	return call
}

func newTools(l *life) (*tool.Set, error) {
	var all []tool.Tool
	for _, k := range toolKinds {
		if l.missing[toolName(k.name)] {
			continue
		}
		t := tool.Tool{Name: k.name, Description: "The tool " + k.name + ".", Parameters: toolParameters, Sequential: k.sequential}
		if k.safe && (k.name != "look" || l.lookIsSafe) {
			t.Replay = registers.ReplaySafe
		}
		t.Execute = func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return l.execute(ctx, k, t.Replay, call)
		}
		all = append(all, t)
	}
	return tool.NewSet(all...)
}

// execute runs a call, unless the process is dead.
func (l *life) execute(ctx context.Context, k toolKind, replay registers.Replay, call tool.Call) (tool.Result, error) {
	if l.guard.isDead() {
		return tool.Result{}, context.Canceled
	}
	key := pistore.ID(call.IdempotencyKey)
	if l.automatic() {
		l.s.oracle.waitTurn(ctx, l.lane(), key)
	}
	l.s.oracle.judgeCall(key, call.Arguments, replay == registers.ReplaySafe)
	l.s.count("call " + k.name)
	l.s.say("  %s: tool %s runs with %s", l.lane(), k.name, call.Arguments)
	return k.run(l, ctx, call)
}
