package harness_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// cut is a response that stopped at its output limit.
func cut(usage pistore.JSON, content ...session.Block) faux.Step {
	return faux.Step{Content: content, StopReason: session.StopLength, Usage: usage}
}

// The rows around a request: what each kind of response commits and leads to.
func TestResponseRows(t *testing.T) {
	const full, short pistore.JSON = `{"input":1,"output":16384}`, `{"input":1,"output":16383}`
	call := session.ToolCall{ID: "c1", Name: "append", Arguments: `{"text":"one"}`}
	ends := func(outcome string) string {
		return "usage; delete op.meta; delete op.state; lane.lastResult " + outcome + "; lane.state=idle"
	}
	intent := "op.state assistant effect_pending attempt 1"
	for _, tt := range []struct {
		name    string
		turns   []faux.Turn
		want    []string // commits behind acceptance and the first intent
		code    string   // of the failure, empty: the run completes
		message string   // part of that of the failure
	}{
		{
			name: "stop", turns: faux.Turns(faux.Text("Done.")),
			want: []string{"entry assistant stop; lane.leaf; " + ends("completed assistant")},
		},
		{
			name: "tool use", turns: faux.Turns(faux.Step{Content: []session.Block{call}}, faux.Text("Done.")),
			want: []string{
				"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never]",
				"entry toolResult; lane.leaf; delete op.tool_args; " + intent,
				"entry assistant stop; lane.leaf; " + ends("completed assistant"),
			},
		},
		{
			name: "stop with calls", turns: faux.Turns(faux.Step{Content: []session.Block{call}, StopReason: session.StopStop}, faux.Text("Done.")),
			want: []string{
				"entry assistant stop; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never]",
				"entry toolResult; lane.leaf; delete op.tool_args; " + intent,
				"entry assistant stop; lane.leaf; " + ends("completed assistant"),
			},
		},
		{
			name: "tool use without calls", turns: faux.Turns(faux.Step{Content: session.TextContent("Hm."), StopReason: session.StopToolUse}),
			want: []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code: "provider_error", message: "stop reason toolUse",
		},
		{
			name: "genuine length", turns: faux.Turns(cut(full, session.Text{Text: "So"})),
			want: []string{"entry assistant length; lane.leaf; " + ends("completed assistant")},
		},
		{
			name: "genuine length with calls", turns: faux.Turns(cut(full, call, session.ToolCall{ID: "c2", Name: "lookup"}), faux.Text("Done.")),
			want: []string{
				"entry assistant length; usage; entry toolResult; entry toolResult; lane.leaf; " + intent,
				"entry assistant stop; lane.leaf; " + ends("completed assistant"),
			},
		},
		{
			name: "length below the intended limit", turns: faux.Turns(cut(short, call)),
			want: []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code: "context_overflow", message: "stop reason length",
		},
		{
			name: "overflow that the adapter counted", turns: faux.Turns(faux.Step{Content: session.TextContent("Hm."), Overflow: true}),
			want: []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code: "context_overflow", message: "stop reason stop",
		},
		{
			name:  "overflow that the usage shows",
			turns: faux.Turns(faux.Step{Content: session.TextContent("Hm."), Usage: `{"input":150000,"cacheRead":50001,"output":1}`}),
			want:  []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code:  "context_overflow", message: "stop reason stop",
		},
		{
			name:  "a window that is full, and no more",
			turns: faux.Turns(faux.Step{Content: session.TextContent("Hm."), Usage: `{"input":150000,"cacheRead":50000,"output":1}`}),
			want:  []string{"entry assistant stop; lane.leaf; " + ends("completed assistant")},
		},
		{
			name: "overflow by its text", turns: faux.Turns(faux.Fail("prompt is too long: 9 tokens > 8 maximum", true)),
			want: []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code: "context_overflow", message: "prompt is too long",
		},
		{
			name: "retryable, attempts left", turns: []faux.Turn{{faux.Fail("overloaded", true), faux.Text("Done.")}},
			want: []string{
				"entry assistant error; lane.leaf; usage; op.state assistant retry_wait 2",
				"op.state assistant effect_pending attempt 2",
				"entry assistant stop; lane.leaf; " + ends("completed assistant"),
			},
		},
		{
			name: "retryable, attempts spent", turns: faux.Turns(faux.Fail("overloaded", true)),
			want: []string{
				"entry assistant error; lane.leaf; usage; op.state assistant retry_wait 2",
				"op.state assistant effect_pending attempt 2",
				"entry assistant error; lane.leaf; usage; op.state assistant retry_wait 3",
				"op.state assistant effect_pending attempt 3",
				"entry assistant error; lane.leaf; " + ends("failed "),
			},
			code: "provider_error", message: "overloaded",
		},
		{
			name: "another error", turns: faux.Turns(faux.Fail("no such key", false)),
			want: []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code: "provider_error", message: "no such key",
		},
		{
			name: "aborted, and nobody asked", turns: faux.Turns(faux.Step{Content: session.TextContent("Hm."), StopReason: session.StopAborted}),
			want: []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code: "provider_error", message: "stop reason aborted",
		},
		{
			name: "deferred with an invalid handle", turns: faux.Turns(faux.Step{Deferred: &session.DeferredHandle{Provider: "faux", ModelID: "faux-2", API: "faux", ID: "d"}}),
			want: []string{"entry assistant error; lane.leaf; " + ends("failed ")},
			code: "provider_error", message: "stop reason deferred",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, config{script: faux.Script{{Turns: tt.turns}}, retry: registers.RetryPolicy{MaxAttempts: 3, BaseDelayMS: 100}})
			result := r.prompt("go")
			if tt.code == "" {
				r.completed(result)
			} else {
				r.failed(result, tt.code)
				if got := result.Ended.Error.Message; !strings.Contains(got, tt.message) {
					t.Errorf("the failure says %q", got)
				}
			}
			if diff := cmp.Diff(tt.want, r.outlines(3)); diff != "" {
				t.Errorf("commits (-want +got):\n%s", diff)
			}
			if total, _ := r.world.count("lookup"); total != 0 {
				t.Error("a call of a response that was cut ran")
			}
			checkEnded(r, result)
		})
	}
}

// checkEnded checks what holds behind every end: the lane is idle, its last
// result is the outcome, nothing of the operation is left, each response has
// its usage row and each call one result, in the store too.
func checkEnded(r *rig, result harness.Result) {
	r.t.Helper()
	last, err := r.lane.LastResult(r.ctx)
	r.check(err)
	if diff := cmp.Diff(result.Ended, last); diff != "" {
		r.t.Errorf("lane.lastResult: %s", diff)
	}
	if last.LeafID != r.lane.Leaf() {
		r.t.Errorf("the run ended at leaf %s, the lane stands on %s", last.LeafID, r.lane.Leaf())
	}
	for _, row := range r.rows() {
		if reg, ok := row.(pistore.Register); ok && strings.HasPrefix(reg.Namespace, "op.") {
			r.t.Errorf("register %s %s outlives its operation", reg.Namespace, reg.Key)
		}
	}
	checkInside(r.t, r.store)
	verifyClean(r.t, r.store)
}

// Calls of a response that was cut are answered with what to do, in call order.
func TestCutCallsAreExplained(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(
		cut(`{"output":20000}`, session.ToolCall{ID: "a", Name: "append", Arguments: `{"text":"1"}`}, session.ToolCall{ID: "b", Name: "nowhere"}),
		faux.Text("Done."),
	)}}})
	r.completed(r.prompt("go"))
	ids, messages := r.messages()
	leader, _ := ids[1].Time()
	for i, want := range []string{"a", "b"} {
		result := messages[2+i].(*session.ToolResultMessage)
		if result.ToolCallID != want || !result.IsError || !strings.Contains(session.JoinText(result.Content), "was not executed") {
			t.Errorf("result %d: %+v", i, result)
		}
		if follower, _ := ids[2+i].Time(); follower != leader {
			t.Errorf("result %d carries %d, its response %d", i, follower, leader)
		}
	}
	if total, _ := r.world.count("append"); total != 0 {
		t.Error("a call of a response that was cut ran")
	}
}

// Whatever a provider returns, the run ends, what is stored can be read, and
// the lane takes the next prompt.
func TestMalformedResponses(t *testing.T) {
	message := func(stop session.StopReason, content ...session.Block) *session.AssistantMessage {
		return &session.AssistantMessage{Content: content, StopReason: stop}
	}
	with := func(m *session.AssistantMessage, change func(*session.AssistantMessage)) *session.AssistantMessage {
		change(m)
		return m
	}
	call := session.ToolCall{ID: "c", Name: "append", Arguments: "{}"}
	many := make([]session.Block, 5000)
	for i := range many {
		many[i] = session.ToolCall{ID: fmt.Sprint(i), Name: "append", Arguments: "{}"}
	}
	deep := pistore.JSON(strings.Repeat(`{"a":`, 999) + "1" + strings.Repeat("}", 999))
	for name, m := range map[string]*session.AssistantMessage{
		"nothing":                   nil,
		"no stop reason":            message("", session.Text{Text: "Hi."}),
		"pending":                   message("pending"),
		"a nil block":               message(session.StopStop, nil),
		"a pointer to a block":      message(session.StopStop, &session.Text{Text: "Hi."}),
		"a call without id":         message(session.StopToolUse, session.ToolCall{Name: "append", Arguments: "{}"}),
		"a call without name":       message(session.StopToolUse, session.ToolCall{ID: "c", Arguments: "{}"}),
		"two calls of one id":       message(session.StopToolUse, call, call),
		"ids that are stored alike": message(session.StopToolUse, session.ToolCall{ID: "\xff", Name: "append"}, session.ToolCall{ID: "\xfe", Name: "append"}),
		"a call hidden in a block":  message(session.StopToolUse, call, session.UnknownBlock{Raw: `{"type":"toolCall","id":"c","name":"append"}`}),
		"arguments that are a list": message(session.StopToolUse, session.ToolCall{ID: "c", Name: "append", Arguments: "[]"}),
		"arguments cut off":         message(session.StopToolUse, session.ToolCall{ID: "c", Name: "append", Arguments: `{"text":"o`}),
		"arguments too deep":        message(session.StopToolUse, session.ToolCall{ID: "c", Name: "append", Arguments: deep}),
		"an id too long":            message(session.StopToolUse, session.ToolCall{ID: strings.Repeat("c", 1<<20), Name: "append", Arguments: "{}"}),
		"too many calls":            message(session.StopToolUse, many...),
		"usage that is no JSON":     with(message(session.StopStop), func(m *session.AssistantMessage) { m.Usage = `{"input":` }),
		"usage that is a number":    with(message(session.StopStop), func(m *session.AssistantMessage) { m.Usage = "1" }),
		"a block that is no JSON":   message(session.StopStop, session.UnknownBlock{Raw: `}`}),
		"a handle that is no JSON": with(message(session.StopDeferred), func(m *session.AssistantMessage) {
			m.Deferred = &session.DeferredHandle{Data: "{"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, config{provider: answer(provider.Response{Message: m, Retryable: true, RetryAfterMS: -5})})
			for range 2 {
				result := r.prompt("go")
				r.failed(result, "provider_error")
				if !strings.Contains(result.Ended.Error.Message, "malformed response") {
					t.Errorf("the failure says %q", result.Ended.Error.Message)
				}
				checkEnded(r, result)
			}
		})
	}
}

// What a malformed response cost is in the ledger.
func TestMalformedResponseIsBilled(t *testing.T) {
	r := newRig(t, config{provider: answer(provider.Response{Message: &session.AssistantMessage{
		Content: []session.Block{nil}, StopReason: session.StopStop, Usage: `{"input": 7,"cost":{"total":0.5}}`,
	}})})
	r.failed(r.prompt("go"), "provider_error")
	if rows := r.usage(); len(rows) != 1 || rows[0].Usage != `{"input":7,"cost":{"total":0.5}}` {
		t.Errorf("the ledger holds %+v", rows)
	}
}

// Odd responses that can be stored are taken as they would be read again.
func TestOddResponses(t *testing.T) {
	r := newRig(t, config{script: nil, provider: answer(provider.Response{Message: &session.AssistantMessage{
		Content:    []session.Block{session.Text{Text: "a\xffb"}, session.UnknownBlock{Raw: `{ "type": "chart" }`}},
		StopReason: session.StopStop, Usage: "null", Timestamp: -7,
		Deferred: &session.DeferredHandle{ExpiresAt: -1, PollAfterMS: -1},
	}})})
	result := r.prompt("go")
	r.completed(result)
	checkEnded(r, result)
	_, messages := r.messages()
	got := messages[1].(*session.AssistantMessage)
	if session.JoinText(got.Content) != "a\uFFFDb" || got.Timestamp != r.clock.read() {
		t.Errorf("stored as %+v", got)
	}
	if usage := r.usage(); len(usage) != 1 || usage[0].Usage != session.ZeroUsage || usage[0].EntryID != r.lane.Leaf() {
		t.Errorf("usage %+v", usage)
	}
}

// Empty arguments of a call are an empty object.
func TestEmptyArguments(t *testing.T) {
	calls := 0
	p := &funcProvider{stream: func(_ context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
		m := provider.Empty(req, "", session.StopStop, "")
		if calls++; calls == 1 {
			m.StopReason, m.Content = session.StopToolUse, []session.Block{session.ToolCall{ID: "c", Name: "append"}}
		}
		return provider.Response{Message: m}
	}}
	r := newRig(t, config{provider: p})
	r.completed(r.prompt("go"))
	if total, _ := r.world.count("append"); total != 1 {
		t.Errorf("the call ran %d times", total)
	}
}

// What a provider says of its models, and of when to come back, may be any
// number.
func TestOddNumbersOfProviders(t *testing.T) {
	const most = 1<<63 - 1
	calls := 0
	p := &funcProvider{
		model: provider.Model{ContextWindow: -1, MaxOutputTokens: most},
		stream: func(_ context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
			if calls++; calls == 1 {
				return provider.Response{Message: provider.Empty(req, "", session.StopError, "later"), Retryable: true, RetryAfterMS: most}
			}
			return provider.Response{Message: provider.Empty(req, "", session.StopStop, "")}
		},
	}
	r := newRig(t, config{provider: p})
	r.completed(r.prompt("go"))
	if r.clock.read() != pistore.MaxSeq {
		t.Errorf("the retry was at %d", r.clock.read())
	}
}

// A provider that panics, or ends its goroutine, fails its run and nothing else.
func TestProviderThrows(t *testing.T) {
	for name, throw := range map[string]func(){"panic": func() { panic("out of cheese") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) { testProviderThrows(t, throw) })
	}
}

func testProviderThrows(t *testing.T, throw func()) {
	var heard []harness.HandlerError
	p := &funcProvider{stream: func(_ context.Context, _ provider.Request, deltas func(provider.Delta)) provider.Response {
		deltas(provider.TextDelta{Text: "Hm"})
		throw()
		return provider.Response{}
	}}
	r := newRig(t, config{provider: p, onEvent: func(ev harness.Event) {
		if ev, ok := ev.(harness.HandlerError); ok {
			heard = append(heard, ev)
		}
	}})
	result := r.prompt("go")
	r.failed(result, "provider_error")
	checkEnded(r, result)
	r.check(r.h.Close(r.ctx))
	if len(heard) != 1 || heard[0].Handler != "provider faux" || heard[0].Lane != "main" || heard[0].OperationID != result.Ended.OperationID {
		t.Errorf("heard %+v", heard)
	}
}

type panickingModels struct{ provider.Provider }

func (panickingModels) Name() string                        { return "faux" }
func (panickingModels) Model(string) (provider.Model, bool) { panic("out of cheese") }

func TestModelLookupPanics(t *testing.T) {
	r := newRig(t, config{provider: panickingModels{}})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	if !isError(err, harness.ErrMissingIdentities) {
		t.Errorf("prompt: %v", err)
	}
}

// A context that has no projection fails the run that needs it, not the
// harness.
func TestContextThatCannotBeSent(t *testing.T) {
	t.Run("a projector panics", func(t *testing.T) {
		r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}, noLane: true, options: func(o *harness.Options) {
			o.Projectors = session.Projectors{"note": func(pistore.Entry) (session.Message, bool) { panic("out of cheese") }}
		}})
		r.check(session.Init(r.ctx, r.store))
		_, err := r.other().Append(r.ctx, "main", session.CustomContent("note1", "note", ""))
		r.check(err)
		r.lane, err = r.h.Lane(r.ctx, "main")
		r.check(err)
		r.failed(r.prompt("go"), "provider_error")
		if len(r.faux.Requests()) != 0 {
			t.Error("a request was sent")
		}
	})
	t.Run("a compaction that cannot be read", func(t *testing.T) {
		r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}, noLane: true})
		r.check(session.Init(r.ctx, r.store))
		_, err := r.other().Append(r.ctx, "main", session.Content{ID: "c1", Type: pistore.TypeCompaction, Payload: `{"summary":1}`})
		r.check(err)
		r.lane, err = r.h.Lane(r.ctx, "main")
		r.check(err)
		r.failed(r.prompt("go"), "provider_error")
	})
}
