package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// calls is a step that calls tools by name, without arguments.
func calls(names ...string) faux.Step {
	var s faux.Step
	for i, name := range names {
		s.Content = append(s.Content, session.ToolCall{ID: fmt.Sprintf("c%d", i), Name: name, Arguments: "{}"})
	}
	return s
}

// fixed is a tool that returns what it is given.
func fixed(name string, result tool.Result, err error) tool.Tool {
	return tool.Tool{Name: name, Parameters: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) { return result, err }}
}

// The rows around a batch of calls: what each kind of call comes to.
func TestToolRows(t *testing.T) {
	const intent = "op.state assistant effect_pending attempt 1"
	const end = "entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle"
	terminated := "delete op.meta; delete op.state; lane.lastResult completed terminated_tools; lane.state=idle"
	for _, tt := range []struct {
		name   string
		step   faux.Step
		active []string
		want   []string // commits behind the first intent
		result string   // part of the text of the first result
	}{
		{
			name: "all ask to end the run", step: calls("finish", "finish"),
			want: []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.tool_args; op.state tools [effect_pending never, effect_pending never]",
				"entry toolResult; lane.leaf; usage; op.state tools [completed, effect_pending never]",
				"entry toolResult; lane.leaf; usage; delete op.tool_args; delete op.tool_args; " + terminated,
			},
			result: "done",
		},
		{
			name: "some ask to end the run", step: calls("finish", "append"),
			want: []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.tool_args; op.state tools [effect_pending never, effect_pending never]",
				"entry toolResult; lane.leaf; usage; op.state tools [completed, effect_pending never]",
				"entry toolResult; lane.leaf; delete op.tool_args; delete op.tool_args; " + intent,
				end,
			},
			result: "done",
		},
		{
			name: "unknown tool", step: calls("nowhere"),
			want:   []string{"entry assistant toolUse; usage; entry toolResult; lane.leaf; " + intent, end},
			result: `There is no tool named "nowhere".`,
		},
		{
			name: "tool that is not active", step: calls("lookup"), active: []string{"append"},
			want:   []string{"entry assistant toolUse; usage; entry toolResult; lane.leaf; " + intent, end},
			result: `There is no tool named "lookup".`,
		},
		{
			name: "arguments that do not fit", step: faux.Call("append", `{"text":3}`),
			want:   []string{"entry assistant toolUse; usage; entry toolResult; lane.leaf; " + intent, end},
			result: "the arguments of append do not fit its schema",
		},
		{
			name: "refused beside one that runs", step: calls("nowhere", "append"),
			want: []string{
				"entry assistant toolUse; usage; entry toolResult; lane.leaf; op.tool_args; op.state tools [completed, effect_pending never]",
				"entry toolResult; lane.leaf; delete op.tool_args; " + intent,
				end,
			},
			result: `There is no tool named "nowhere".`,
		},
		{
			name: "tool that fails", step: calls("fail"),
			want: []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never]",
				"entry toolResult; lane.leaf; delete op.tool_args; " + intent,
				end,
			},
			result: "the disk of the tool is full",
		},
		{
			name: "tool that panics", step: calls("panic"),
			want: []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never]",
				"entry toolResult; lane.leaf; delete op.tool_args; " + intent,
				end,
			},
			result: "The tool failed: panic: out of cheese",
		},
		{
			name: "tool that ends its goroutine", step: calls("exit"),
			want: []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never]",
				"entry toolResult; lane.leaf; delete op.tool_args; " + intent,
				end,
			},
			result: "The tool failed: it ended its goroutine",
		},
		{
			name: "tool that may run again", step: calls("lookup"),
			want: []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending safe]",
				"entry toolResult; lane.leaf; delete op.tool_args; " + intent,
				end,
			},
			result: "lookup did",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, config{
				script: faux.Script{{Turns: faux.Turns(tt.step, faux.Text("Done."))}}, active: tt.active, drive: harness.Manual,
			})
			result := r.prompt("go")
			r.completed(result)
			if diff := cmp.Diff(tt.want, r.outlines(3)); diff != "" {
				t.Errorf("commits (-want +got):\n%s", diff)
			}
			_, messages := r.messages()
			first := messages[2].(*session.ToolResultMessage)
			if got := session.JoinText(first.Content); !strings.Contains(got, tt.result) {
				t.Errorf("the first result says %q", got)
			}
			checkEnded(r, result)
		})
	}
}

// A tool's usage is a row of the ledger that says whose it is, and not the
// model's.
func TestToolUsage(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(calls("finish"))}}})
	result := r.prompt("go")
	r.completed(result)
	rows := r.usage()
	if len(rows) != 2 {
		t.Fatalf("%d usage rows", len(rows))
	}
	want := fmt.Sprintf(`{"lane":"main","operationId":%q,"purpose":"tool","toolName":"finish"}`, result.Ended.OperationID)
	if rows[1].Details != pistore.JSON(want) || rows[1].EntryID != r.lane.Leaf() || rows[1].Usage != `{"input":1,"cost":{"total":0.5}}` {
		t.Errorf("the tool's row is %+v", rows[1])
	}
	want = fmt.Sprintf(`{"lane":"main","operationId":%q,"purpose":"assistant","provider":"faux","modelId":"faux-1"}`, result.Ended.OperationID)
	if rows[0].Details != pistore.JSON(want) {
		t.Errorf("the model's row has the details %s", rows[0].Details)
	}
	if result.Ended.FinalAssistantID != "" {
		t.Errorf("a run that its tools ended has the final response %s", result.Ended.FinalAssistantID)
	}
}

// A result that cannot be stored becomes one that says so: the effect happened.
func TestResultsThatCannotBeStored(t *testing.T) {
	for name, result := range map[string]tool.Result{
		"usage that is a list":     {Usage: "[]"},
		"usage that is no JSON":    {Usage: `{"input":`},
		"details that are no JSON": {Details: `}`},
		"a nil block":              {Content: []session.Block{nil}},
		"a pointer to a block":     {Content: []session.Block{&session.Text{Text: "x"}}},
		"a block that is no JSON":  {Content: []session.Block{session.UnknownBlock{Raw: "]"}}},
		"a call":                   {Content: []session.Block{session.ToolCall{ID: "c", Name: "append"}}},
		"a thought":                {Content: []session.Block{session.Thinking{Thinking: "hm"}}},
		"details too deep":         {Details: pistore.JSON(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, config{
				script: faux.Script{{Turns: faux.Turns(calls("odd"), faux.Text("Done."))}},
				extra:  []tool.Tool{fixed("odd", result, nil)},
			})
			ended := r.prompt("go")
			r.completed(ended)
			_, messages := r.messages()
			got := messages[2].(*session.ToolResultMessage)
			if !got.IsError || !strings.HasPrefix(session.JoinText(got.Content), "The tool ran, but its result cannot be stored: ") {
				t.Errorf("the result is %+v", got)
			}
			checkEnded(r, ended)
		})
	}
}

// The text of an error may have any length; its result has room all the same.
func TestLongErrorsAreCut(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	r := newRig(t, config{
		script: faux.Script{{Turns: faux.Turns(calls("error", "burst"), faux.Text("Done."))}},
		extra: []tool.Tool{
			fixed("error", tool.Result{}, errors.New(long)),
			{Name: "burst", Parameters: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) { panic(long) }},
		},
	})
	ended := r.prompt("go")
	r.completed(ended)
	_, messages := r.messages()
	for _, m := range messages[2:4] {
		if text := session.JoinText(m.(*session.ToolResultMessage).Content); len(text) > 70_000 || strings.Contains(text, "\uFFFD") {
			t.Errorf("a result of %d bytes, ending in %q", len(text), text[len(text)-10:])
		}
	}
	checkEnded(r, ended)
}

// Parallel calls are committed as they finish, and projected in call order.
func TestCompletionOrder(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(calls("append", "lookup", "fail"), faux.Text("Done."))}}, drive: harness.Manual})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	for range 3 { // intent, request, settlement
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
	parked := r.lane.Peek()
	if len(parked) != 3 {
		t.Fatalf("%d calls are parked", len(parked))
	}
	slices.Reverse(parked)
	for _, e := range parked {
		_, err := r.lane.StepEffect(r.ctx, e.ID)
		r.check(err)
	}
	r.completed(r.finish())
	var stored []string
	_, messages := r.messages()
	for _, m := range messages[2:5] {
		stored = append(stored, m.(*session.ToolResultMessage).ToolName)
	}
	if diff := cmp.Diff([]string{"fail", "lookup", "append"}, stored); diff != "" {
		t.Errorf("stored order: %s", diff)
	}
	last := r.faux.Requests()[1]
	var sent []string
	for _, m := range last.Messages[2:] {
		sent = append(sent, m.(*session.ToolResultMessage).ToolName)
	}
	if diff := cmp.Diff([]string{"append", "lookup", "fail"}, sent); diff != "" {
		t.Errorf("order sent: %s", diff)
	}
}

// Calls run one after the other if the run says so, or a tool among them.
func TestSequentialCalls(t *testing.T) {
	for name, c := range map[string]config{
		"by the option": {tools: registers.Sequential, script: faux.Script{{Turns: faux.Turns(calls("one", "two", "one"), faux.Text("Done."))}}},
		"by a tool":     {script: faux.Script{{Turns: faux.Turns(calls("one", "two", "alone"), faux.Text("Done."))}}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			running, most := 0, 0
			body := func(context.Context, tool.Call) (tool.Result, error) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				defer func() { mu.Lock(); running--; mu.Unlock() }()
				return tool.Text("did"), nil
			}
			c.extra = []tool.Tool{{Name: "one", Parameters: anyObject, Execute: body}, {Name: "two", Parameters: anyObject, Execute: body}}
			r := newRig(t, c)
			r.completed(r.prompt("go"))
			if most != 1 {
				t.Errorf("%d ran at once", most)
			}
			want := []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never, planned, planned]",
				"entry toolResult; lane.leaf; op.tool_args; op.state tools [completed, effect_pending never, planned]",
				"entry toolResult; lane.leaf; op.tool_args; op.state tools [completed, completed, effect_pending never]",
			}
			if diff := cmp.Diff(want, r.outlines(3)[:3]); diff != "" {
				t.Errorf("commits (-want +got):\n%s", diff)
			}
		})
	}
}

// Parallel calls run beside each other: each waits for the other to start.
func TestParallelCalls(t *testing.T) {
	var meet sync.WaitGroup
	meet.Add(2)
	body := func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		meet.Done()
		met := make(chan struct{})
		go func() { meet.Wait(); close(met) }()
		select {
		case <-met:
			return tool.Text("met"), nil
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}
	r := newRig(t, config{
		script: faux.Script{{Turns: faux.Turns(calls("one", "two"), faux.Text("Done."))}},
		extra:  []tool.Tool{{Name: "one", Parameters: anyObject, Execute: body}, {Name: "two", Parameters: anyObject, Execute: body}},
	})
	r.completed(r.prompt("go"))
}

// A call gets the key of its result, the same whenever it runs again, and its
// arguments as they were accepted.
func TestRerunOfASafeCall(t *testing.T) {
	type seen struct {
		key  string
		args pistore.JSON
	}
	var mu sync.Mutex
	var runs []seen
	safe := tool.Tool{Name: "safe", Parameters: anyObject, Replay: registers.ReplaySafe, Execute: func(_ context.Context, c tool.Call) (tool.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		runs = append(runs, seen{c.IdempotencyKey, c.Arguments})
		return tool.Text("did"), nil
	}}
	script := faux.Script{{Turns: faux.Turns(faux.Call("safe", `{"text":"x","n":1.50}`), faux.Text("Done."))}}
	first := newRig(t, config{script: script, extra: []tool.Tool{safe}, drive: harness.Manual})
	_, err := first.lane.Prompt(first.ctx, harness.Prompt{Text: "go"})
	first.check(err)
	for range 4 { // intent, request, settlement, call
		_, err := first.lane.Step(first.ctx)
		first.check(err)
	}
	again := newRig(t, config{script: script, extra: []tool.Tool{safe}, rows: first.rows(), seed: 1})
	_, err = again.lane.Resume(again.ctx)
	again.check(err)
	again.completed(again.finish())
	if len(runs) != 2 || runs[0] != runs[1] || runs[0].args != `{"text":"x","n":1.50}` {
		t.Errorf("ran as %+v", runs)
	}
	if key := pistore.ID(runs[0].key); key != again.outcomeOf("safe") {
		t.Errorf("the key is %s, the result %s", key, again.outcomeOf("safe"))
	}

	// A tool that is no longer safe does not run again; the call of one that is
	// not there waits for it.
	for name, now := range map[string]tool.Tool{"unsafe now": fixed("safe", tool.Text("did"), nil), "gone": fixed("another", tool.Text("did"), nil)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, config{script: script, extra: []tool.Tool{now}, rows: first.rows(), seed: 2, active: []string{}})
			_, err := r.lane.Resume(r.ctx)
			r.check(err)
			result := r.finish()
			if name == "gone" {
				if result.Suspended == nil || result.Suspended.Reason != harness.SuspendMissingIdentities || result.Suspended.Detail != "tool safe" {
					t.Fatalf("the run came to %s", describe(result))
				}
				back := newRig(t, config{script: script, extra: []tool.Tool{safe}, rows: r.rows(), seed: 3})
				_, err := back.lane.Resume(back.ctx)
				back.check(err)
				back.completed(back.finish())
				if n := len(runs); n != 3 || runs[2] != runs[0] {
					t.Errorf("ran as %+v", runs)
				}
				return
			}
			r.completed(result)
			if got := r.transcript(); !slices.Contains(got, "result of safe: interrupted") {
				t.Errorf("transcript %q", got)
			}
		})
	}
}

// outcomeOf is the entry of the first result of a tool.
func (r *rig) outcomeOf(name string) pistore.ID {
	r.t.Helper()
	ids, messages := r.messages()
	for i, m := range messages {
		if m, ok := m.(*session.ToolResultMessage); ok && m.ToolName == name {
			return ids[i]
		}
	}
	r.t.Fatalf("no result of %s", name)
	return ""
}

// What a tool reports once it returned is dropped.
func TestLateProgress(t *testing.T) {
	var late func(string)
	var mu sync.Mutex
	var heard []string
	r := newRig(t, config{
		script: faux.Script{{Turns: faux.Turns(calls("chatty"), faux.Text("Done."))}},
		extra: []tool.Tool{{Name: "chatty", Parameters: anyObject, Execute: func(_ context.Context, c tool.Call) (tool.Result, error) {
			late = c.Progress
			c.Progress("one")
			return tool.Text("did"), nil
		}}},
		onEvent: func(ev harness.Event) {
			if ev, ok := ev.(harness.ToolUpdate); ok {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, ev.Text)
			}
		},
	})
	r.completed(r.prompt("go"))
	late("two")
	r.check(r.h.Close(r.ctx))
	if diff := cmp.Diff([]string{"one"}, heard); diff != "" {
		t.Error(diff)
	}
}

// Output that a call had committed before its process died is in its
// interrupted result, and its register goes.
func TestInterruptedWithOutput(t *testing.T) {
	script := faux.Script{{Turns: faux.Turns(calls("append"), faux.Text("Done."))}}
	first := newRig(t, config{script: script, drive: harness.Manual})
	_, err := first.lane.Prompt(first.ctx, harness.Prompt{Text: "go"})
	first.check(err)
	for range 3 {
		_, err := first.lane.Step(first.ctx)
		first.check(err)
	}
	args := ""
	for _, row := range first.rows() {
		if reg, ok := row.(pistore.Register); ok && reg.Namespace == registers.OpToolArgsNS {
			args = reg.Key
		}
	}
	_, err = first.store.Commit(first.ctx, pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{
		Namespace: registers.OpToolOutputNS, Key: args,
		Value: registers.EncodeToolOutput(registers.ToolOutput{Head: "began", Tail: "was at it", DroppedBytes: 7}),
	}}})
	first.check(err)
	r := newRig(t, config{script: script, rows: first.rows(), seed: 1})
	_, err = r.lane.Resume(r.ctx)
	r.check(err)
	result := r.finish()
	r.completed(result)
	r.hasOutput(`"append"`, string(r.outcomeOf("append")))
	checkEnded(r, result)

	r = newRig(t, config{script: script, rows: first.rows(), seed: 1})
	ended, err := r.lane.Finalize(r.ctx, registers.Aborted)
	r.check(err)
	r.hasOutput()
	checkEnded(r, harness.Result{Ended: &ended})
}

// hasOutput expects the parts of an output, and others, in the first result.
func (r *rig) hasOutput(others ...string) {
	r.t.Helper()
	_, messages := r.messages()
	text := session.JoinText(messages[2].(*session.ToolResultMessage).Content)
	for _, part := range append(others, "began", "7 bytes left out", "was at it") {
		if !strings.Contains(text, part) {
			r.t.Errorf("the result lacks %q: %s", part, text)
		}
	}
}
