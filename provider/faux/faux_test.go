package faux_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/provider/providertest"
	"pistore/registers"
	"pistore/session"
)

func request(messages ...session.Message) provider.Request {
	return provider.Request{
		Model:    registers.ModelRef{Provider: "faux", ModelID: "faux-1"},
		Messages: messages, Attempt: 1,
	}
}

func user(text string) session.Message {
	return &session.UserMessage{Content: session.TextContent(text)}
}

func result(call session.ToolCall) session.Message {
	return &session.ToolResultMessage{ToolCallID: call.ID, ToolName: call.Name, Content: session.TextContent("done")}
}

// ask streams and checks.
func ask(t *testing.T, p *faux.Provider, req provider.Request) (provider.Response, []provider.Delta) {
	t.Helper()
	var deltas []provider.Delta
	r := p.Stream(context.Background(), req, func(d provider.Delta) { deltas = append(deltas, d) })
	if err := providertest.Check(req, deltas, r); err != nil {
		t.Fatal(err)
	}
	return r, deltas
}

func TestConformance(t *testing.T) {
	scene := func(prompt string, step faux.Step) faux.Scene {
		return faux.Scene{Match: faux.Prompt(prompt), Turns: faux.Turns(step)}
	}
	broken := faux.Text("it begins well and then it is cut")
	broken.Content = append(broken.Content, session.ToolCall{Name: "read", Arguments: `{"path":"a long enough name"}`})
	broken.Error, broken.ErrorAfterDeltas = "stream ended early", 5
	stuck := faux.Text("one delta, then silence")
	stuck.Incidents = []faux.Incident{{AfterDeltas: 1, Do: faux.Hang}}
	p := faux.New(faux.Options{ChunkRunes: 7, Script: faux.Script{
		scene("text", faux.Text("Grüße, 世界: an answer of some length.")),
		scene("thinking", faux.Step{Content: []session.Block{
			session.Thinking{Thinking: "let me think about it", Signature: "sig"}, session.Thinking{Redacted: true, Signature: "x"}, session.Text{Text: "yes"}}}),
		scene("tools", faux.Step{Content: []session.Block{
			session.Text{Text: "I look."}, session.ToolCall{Name: "read", Arguments: `{"path": "a.txt"}`}, session.ToolCall{ID: "mine", Name: "now"}}}),
		scene("length", faux.Step{Content: session.TextContent("cut sho"), StopReason: session.StopLength}),
		scene("refused", faux.Fail("no", false)),
		scene("busy", faux.Step{Error: "overloaded", Retryable: true, RetryAfterMS: 1500}),
		scene("broken", broken),
		scene("stuck", stuck),
		scene("deferred", faux.Defer(faux.Pending(), faux.Text("here it is"))),
	}})
	providertest.Run(t, providertest.Kit{
		Provider: p,
		Text:     request(user("text")), Thinking: request(user("thinking")), Tools: request(user("tools")),
		Length: request(user("length")), Refused: request(user("refused")), Busy: request(user("busy")),
		Broken: request(user("broken")), Stuck: request(user("stuck")),
		Overflow: request(user(strings.Repeat("a long story ", 100_000))),
		Deferred: request(user("deferred")),
	})
}

// play asks until no call is left open, as a harness would, and returns the
// texts of the responses.
func play(t *testing.T, p *faux.Provider, context []session.Message) ([]session.Message, []string) {
	t.Helper()
	var texts []string
	for {
		r, _ := ask(t, p, request(context...))
		texts = append(texts, session.JoinText(r.Message.Content))
		if r.Message.StopReason == session.StopError {
			return context, append(texts, r.Message.ErrorMessage)
		}
		context = append(context, r.Message)
		calls := r.Message.ToolCalls()
		if len(calls) == 0 {
			return context, texts
		}
		for _, c := range calls {
			context = append(context, result(c))
		}
	}
}

func call(text string) faux.Step {
	return faux.Step{Content: []session.Block{session.Text{Text: text}, session.ToolCall{Name: "read"}}}
}

func TestPositionFollowsFromTheRequest(t *testing.T) {
	script := faux.Script{
		{Name: "plan", Match: faux.Prompt("plan"), Turns: faux.Turns(call("p0"), call("p1"), faux.Text("p2"))},
		{Turns: faux.Turns(call("m0"), faux.Text("m1"), faux.Text("m2"))},
	}
	p := faux.New(faux.Options{Script: script})
	context, texts := play(t, p, []session.Message{user("hello")})
	if diff := cmp.Diff([]string{"m0", "m1"}, texts); diff != "" {
		t.Error(diff)
	}
	context, texts = play(t, p, append(context, user("plan")))
	if diff := cmp.Diff([]string{"p0", "p1", "p2"}, texts); diff != "" {
		t.Error(diff)
	}
	afterPlan := context
	context, texts = play(t, p, append(context, user("more")))
	if diff := cmp.Diff([]string{"m2"}, texts); diff != "" {
		t.Error("the scene without Match goes on over other scenes:", diff)
	}
	_, texts = play(t, p, append(context, user("plan")))
	if diff := cmp.Diff([]string{"p0", "p1", "p2"}, texts); diff != "" {
		t.Error("a matched scene starts anew with each prompt:", diff)
	}
	_, texts = play(t, p, append(context, user("and on")))
	if diff := cmp.Diff([]string{"", "faux: scene s1 ends before turn 3"}, texts); diff != "" {
		t.Error(diff)
	}

	t.Run("every prefix in a fresh process", func(t *testing.T) {
		for n := range afterPlan {
			if _, isResponse := afterPlan[n].(*session.AssistantMessage); !isResponse {
				continue
			}
			r, _ := ask(t, faux.New(faux.Options{Script: script}), request(afterPlan[:n]...))
			if diff := cmp.Diff(afterPlan[n], session.Message(r.Message)); diff != "" {
				t.Errorf("after %d messages: %s", n, diff)
			}
		}
	})
	t.Run("compaction took the prompt", func(t *testing.T) {
		// user hello, m0, result, m1, user plan, p0, result: p0 and its result are kept.
		kept := append([]session.Message{user("summary of it all")}, afterPlan[5:7]...)
		r, _ := ask(t, p, request(kept...))
		if text := session.JoinText(r.Message.Content); text != "p1" {
			t.Errorf("got %q", text)
		}
	})
	t.Run("other providers do not count", func(t *testing.T) {
		foreign := &session.AssistantMessage{Provider: "other", ResponseID: "faux-1-s1", Content: session.TextContent("x")}
		imported := &session.AssistantMessage{Provider: "faux", ResponseID: "msg_1", Content: session.TextContent("x")}
		r, _ := ask(t, p, request(user("a"), foreign, user("b"), imported, user("c")))
		if text := session.JoinText(r.Message.Content); text != "m0" {
			t.Errorf("got %q", text)
		}
	})
}

func TestAttempts(t *testing.T) {
	p := faux.New(faux.Options{Script: faux.Script{{Turns: []faux.Turn{
		{faux.Fail("overloaded", true), faux.Fail("overloaded again", true), faux.Text("at last")},
	}}}})
	for attempt, want := range []string{"overloaded", "overloaded", "overloaded again", "at last", "at last"} {
		req := request(user("hi"))
		req.Attempt = int64(attempt)
		r, _ := ask(t, p, req)
		if got := r.Message.ErrorMessage + session.JoinText(r.Message.Content); got != want {
			t.Errorf("attempt %d: %q, want %q", attempt, got, want)
		}
	}
	if n := len(p.Requests()); n != 5 || p.Requests()[3].Attempt != 3 {
		t.Errorf("%d requests recorded", n)
	}
}

func TestRestAndNoScene(t *testing.T) {
	p := faux.New(faux.Options{Script: faux.Script{{Name: "echo", Match: faux.Contains("echo"),
		Rest: func(_ provider.Request, at faux.Position) faux.Step {
			return faux.Text(fmt.Sprintf("%s %d %d", at.Scene, at.Turn, at.Attempt))
		}}}})
	r, _ := ask(t, p, request(user("echo this")))
	if text := session.JoinText(r.Message.Content); text != "echo 0 1" {
		t.Errorf("got %q", text)
	}
	r, _ = ask(t, p, request(user("other")))
	if r.Message.StopReason != session.StopError || r.Retryable {
		t.Errorf("got %+v", r.Message)
	}
	req := request(user("echo"))
	req.Model.ModelID = "unheard of"
	if r, _ = ask(t, p, req); r.Message.StopReason != session.StopError {
		t.Errorf("got %+v", r.Message)
	}
}

func TestUsage(t *testing.T) {
	p := faux.New(faux.Options{Script: faux.Script{{Turns: faux.Turns(call("1234"), faux.Text("12345678"))}}})
	first := request(user("12345678"))
	first.System = session.TextContent("1234")
	r, _ := ask(t, p, first)
	want := pistore.JSON(`{"input":3,"output":3,"cacheRead":0,"cacheWrite":0,"totalTokens":6,` +
		`"cost":{"input":0.000009,"output":0.000045,"cacheRead":0,"cacheWrite":0,"total":0.000054}}`)
	if diff := cmp.Diff(want, r.Message.Usage); diff != "" {
		t.Error(diff)
	}
	second := request(first.Messages[0], r.Message, result(r.Message.ToolCalls()[0]))
	second.System = first.System
	r, _ = ask(t, p, second)
	want = `{"input":4,"output":2,"cacheRead":3,"cacheWrite":0,"totalTokens":9,` +
		`"cost":{"input":0.000012,"output":0.00003,"cacheRead":0.0000009,"cacheWrite":0,"total":0.0000429}}`
	if diff := cmp.Diff(want, r.Message.Usage); diff != "" {
		t.Error("what was sent before counts as read from the cache:", diff)
	}
}

func TestStops(t *testing.T) {
	handle := session.DeferredHandle{Provider: "faux", ModelID: "faux-1", API: "faux", ID: "later"}
	for _, c := range []struct {
		step faux.Step
		want session.StopReason
	}{
		{faux.Step{}, session.StopStop},
		{faux.Step{Deferred: &handle}, session.StopDeferred},
		{faux.Step{StopReason: session.StopAborted}, session.StopAborted},
		{faux.Step{StopReason: session.StopError}, session.StopError},
		{faux.Step{Content: call("x").Content, StopReason: session.StopLength}, session.StopLength},
		{faux.Step{Usage: `{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`}, session.StopStop},
	} {
		p := faux.New(faux.Options{Script: faux.Script{{Turns: faux.Turns(c.step)}}})
		r, _ := ask(t, p, request(user("x")))
		if r.Message.StopReason != c.want || c.step.Usage != "" && r.Message.Usage != c.step.Usage {
			t.Errorf("%+v: %+v", c.step, r.Message)
		}
		if (r.Message.Deferred != nil) != (c.step.Deferred != nil) {
			t.Errorf("%+v: handle %+v", c.step, r.Message.Deferred)
		}
	}
}

func TestDelaysAndIncidents(t *testing.T) {
	var trace []string
	step := faux.Text("aabbc")
	step.DelayMS = 20
	note := func(text string) func(context.Context) {
		return func(context.Context) { trace = append(trace, text) }
	}
	step.Incidents = []faux.Incident{{0, note("first")}, {2, note("middle")}, {99, note("last")}}
	p := faux.New(faux.Options{ChunkRunes: 2, Script: faux.Script{{Turns: faux.Turns(step)}},
		Sleep: func(_ context.Context, ms int64) { trace = append(trace, fmt.Sprint("sleep ", ms)) }})
	p.Stream(context.Background(), request(user("x")), func(d provider.Delta) {
		trace = append(trace, d.(provider.TextDelta).Text)
	})
	want := []string{"first", "sleep 20", "aa", "sleep 20", "bb", "middle", "sleep 20", "c", "last"}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error(diff)
	}
}

func TestAbortAtEveryDelta(t *testing.T) {
	step := faux.Step{Content: []session.Block{
		session.Thinking{Thinking: "think a bit", Signature: "s"}, session.Text{}, session.Text{Text: "say something"},
		session.ToolCall{Name: "read", Arguments: `{"path":"x"}`}, session.ToolCall{Name: "now"}, session.Text{Text: "bye"}}}
	p := faux.New(faux.Options{ChunkRunes: 3, Script: faux.Script{{Turns: faux.Turns(step)}}})
	_, all := ask(t, p, request(user("x")))
	for n := 1; n <= len(all); n++ {
		ctx, cancel := context.WithCancel(context.Background())
		var deltas []provider.Delta
		r := p.Stream(ctx, request(user("x")), func(d provider.Delta) {
			if deltas = append(deltas, d); len(deltas) == n {
				cancel()
			}
		})
		if err := providertest.Check(request(user("x")), deltas, r); err != nil || len(deltas) != n || r.Message.StopReason != session.StopAborted {
			t.Errorf("cancelled at delta %d of %d: %d deltas, stop reason %s, %v", n, len(all), len(deltas), r.Message.StopReason, err)
		}
	}
}

func TestScriptsThatPanic(t *testing.T) {
	for name, script := range map[string]faux.Script{
		"two names":     {{Name: "a", Match: faux.Prompt("")}, {Name: "a"}},
		"two mains":     {{}, {}},
		"no steps":      {{Turns: []faux.Turn{{}}}},
		"a bad name":    {{Name: "a/b"}},
		"a taken place": {{Name: "s1"}, {Match: faux.Prompt("")}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			faux.New(faux.Options{Script: script})
		})
	}
}

// TestKill proves that the process dies, between the deltas it should die
// between, and that a new one goes on with the second attempt.
func TestKill(t *testing.T) {
	step := faux.Text("aabbcc")
	step.Incidents = []faux.Incident{{AfterDeltas: 2, Do: faux.Kill}}
	p := faux.New(faux.Options{ChunkRunes: 2, Script: faux.Script{{Turns: []faux.Turn{{step, faux.Text("alive")}}}}})
	req := request(user("x"))
	if os.Getenv("FAUX_KILL") != "" {
		p.Stream(context.Background(), req, func(d provider.Delta) { fmt.Println(d.(provider.TextDelta).Text) })
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKill$")
	child.Env = append(os.Environ(), "FAUX_KILL=1")
	output, err := child.Output()
	status, ok := child.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !ok || status.Signal() != syscall.SIGKILL || string(output) != "aa\nbb\n" {
		t.Errorf("output %q, %v", output, err)
	}
	req.Attempt = 2
	if r, _ := ask(t, p, req); session.JoinText(r.Message.Content) != "alive" {
		t.Errorf("got %+v", r.Message)
	}
}
