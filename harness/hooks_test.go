package harness_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

var errHook = errors.New("the check is out of order")

// asked writes down which hooks were called.
type asked struct {
	mu    sync.Mutex
	lines []string
}

func (a *asked) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

func (a *asked) said() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.lines...)
}

// noting returns a hook function that writes its call down and changes nothing.
func noting[T any](a *asked, name string) func(context.Context, T) (T, error) {
	return func(_ context.Context, q T) (T, error) {
		a.note("%s", name)
		return q, nil
	}
}

// everyHook has a function in each hook of a run.
func everyHook(a *asked) harness.Hooks {
	return harness.Hooks{
		BeforeRun:        []func(context.Context, harness.RunInput) (harness.RunInput, error){noting[harness.RunInput](a, "before_run")},
		BeforeResume:     []func(context.Context, harness.Resuming) (harness.Resuming, error){noting[harness.Resuming](a, "before_resume")},
		BeforeRunEnd:     []func(context.Context, harness.RunEnding) (harness.RunEnding, error){noting[harness.RunEnding](a, "before_run_end")},
		TransformContext: []func(context.Context, harness.ContextView) (harness.ContextView, error){noting[harness.ContextView](a, "transform_context")},
		BeforeRequest:    []func(context.Context, harness.RequestPlan) (harness.RequestPlan, error){noting[harness.RequestPlan](a, "before_request")},
		BeforePayload:    []func(context.Context, harness.Payload) (harness.Payload, error){noting[harness.Payload](a, "before_payload")},
		AfterResponse:    []func(context.Context, harness.ResponseReview) (harness.ResponseReview, error){noting[harness.ResponseReview](a, "after_response")},
		BeforeTool:       []func(context.Context, harness.ToolPlan) (harness.ToolPlan, error){noting[harness.ToolPlan](a, "before_tool")},
		AfterTool:        []func(context.Context, harness.ToolOutcome) (harness.ToolOutcome, error){noting[harness.ToolOutcome](a, "after_tool")},
	}
}

func hooked(h harness.Hooks) func(*harness.Options) {
	return func(o *harness.Options) { o.Hooks = h }
}

// oneTool is a run of one call and an answer.
var oneTool = faux.Script{{Turns: faux.Turns(faux.Call("append", `{"text":"one"}`), faux.Text("Done."))}}

// Each hook stands in its place, and the gate shows every one before it is
// called.
func TestHooksInTheirPlaces(t *testing.T) {
	a := &asked{}
	r := newRig(t, config{script: oneTool, drive: harness.Manual, options: hooked(everyHook(a))})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	var steps []string
	for {
		r.check(r.lane.Settle(r.ctx))
		before := len(a.said())
		if len(r.lane.Peek()) == 0 {
			break
		}
		e, err := r.lane.Step(r.ctx)
		r.check(err)
		step := string(e.Kind)
		if name, ok := e.Detail.Member("hook"); ok {
			text, _ := name.Text()
			step += " " + text
			if said := a.said()[before:]; len(said) != 1 || said[0] != text {
				t.Errorf("step %s called %q", step, said)
			}
		} else if said := a.said()[before:]; len(said) > 0 {
			t.Errorf("step %s called %q", step, said)
		}
		steps = append(steps, step)
	}
	request := []string{"hook before_request", "commit", "hook transform_context", "hook before_payload", "request", "hook after_response", "commit"}
	want := append([]string{"commit"}, request...)
	want = append(want, "hook before_tool", "commit", "tool", "hook after_tool", "commit")
	want = append(append(want, request...), "hook before_run_end", "commit")
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if got := a.said()[0]; got != "before_run" {
		t.Errorf("the first hook called was %s", got)
	}
}

// A hook that splits where it stands costs one commit each time it is asked;
// the others cost none, and neither do those without functions.
func TestCommitsOfHooks(t *testing.T) {
	count := func(options func(*harness.Options)) int {
		r := newRig(t, config{script: oneTool, options: options})
		r.completed(r.prompt("go"))
		return len(r.store.commits())
	}
	none := count(nil)
	all := everyHook(&asked{})
	for _, c := range []struct {
		name  string
		hooks harness.Hooks
		costs int
	}{
		{"before_run", harness.Hooks{BeforeRun: all.BeforeRun}, 0},
		{"before_resume", harness.Hooks{BeforeResume: all.BeforeResume}, 0},
		{"transform_context", harness.Hooks{TransformContext: all.TransformContext}, 0},
		{"before_payload", harness.Hooks{BeforePayload: all.BeforePayload}, 0},
		{"after_response", harness.Hooks{AfterResponse: all.AfterResponse}, 0},
		{"after_tool", harness.Hooks{AfterTool: all.AfterTool}, 0},
		{"before_request", harness.Hooks{BeforeRequest: all.BeforeRequest}, 2},
		{"before_tool", harness.Hooks{BeforeTool: all.BeforeTool}, 1},
		{"before_run_end", harness.Hooks{BeforeRunEnd: all.BeforeRunEnd}, 1},
		{"all", all, 4},
	} {
		if got := count(hooked(c.hooks)) - none; got != c.costs {
			t.Errorf("%s costs %d commits, want %d", c.name, got, c.costs)
		}
	}
}

// Recovery from every point of a run with all hooks, and of its recoveries.
func TestHookedRunRecoversFromEveryPoint(t *testing.T) {
	for _, mode := range []registers.ToolExecution{registers.Sequential, registers.Parallel} {
		t.Run(string(mode), func(t *testing.T) {
			recoverFromEveryPoint(t, config{script: toolRun, tools: mode, options: hooked(everyHook(&asked{}))}, 30)
		})
	}
}

// Both drives leave the same commits with hooks too.
func TestDrivesWithHooksLeaveEqualStores(t *testing.T) {
	run := func(drive harness.Drive) (string, string) {
		r := newRig(t, config{script: toolRun, tools: registers.Sequential, drive: drive, options: hooked(everyHook(&asked{}))})
		r.completed(r.prompt("go"))
		digest, err := pistore.Digest(r.ctx, r.store)
		r.check(err)
		return digest, trace(r.store.commits())
	}
	automaticDigest, automatic := run(harness.Automatic)
	manualDigest, manual := run(harness.Manual)
	if diff := cmp.Diff(automatic, manual); diff != "" || automaticDigest != manualDigest {
		t.Errorf("traces differ (-automatic +manual):\n%s", diff)
	}
}

// One function sees what the one before it returned; one that fails is told and
// passed over, whatever it returned.
func TestHookFunctionsInOrder(t *testing.T) {
	say := func(text string, err error) func(context.Context, harness.RunInput) (harness.RunInput, error) {
		return func(_ context.Context, q harness.RunInput) (harness.RunInput, error) {
			q.Messages = append(q.Messages, &session.UserMessage{Content: session.TextContent(text)})
			return q, err
		}
	}
	broken := map[string]func(context.Context, harness.RunInput) (harness.RunInput, error){
		"error":  say("lost", errHook),
		"panic":  func(context.Context, harness.RunInput) (harness.RunInput, error) { panic(errHook.Error()) },
		"goexit": func(context.Context, harness.RunInput) (q harness.RunInput, _ error) { runtime.Goexit(); return q, nil },
		"output": func(_ context.Context, q harness.RunInput) (harness.RunInput, error) {
			q.Messages = append(q.Messages, &session.AssistantMessage{})
			return q, nil
		},
		"in place": func(_ context.Context, q harness.RunInput) (harness.RunInput, error) {
			q.Messages[0] = nil
			return q, errHook
		},
	}
	for name, f := range broken {
		t.Run(name, func(t *testing.T) {
			log := &eventLog{}
			r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}, onEvent: log.hear, options: hooked(harness.Hooks{
				BeforeRun: []func(context.Context, harness.RunInput) (harness.RunInput, error){say("one", nil), f, say("two", nil)},
			})})
			r.completed(r.prompt("go"))
			r.check(r.h.Close(r.ctx))
			want := []string{"user: go", "user: one", "user: two", "assistant: Hi."}
			if diff := cmp.Diff(want, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			if failed, ok := log.events[0].(harness.HandlerError); !ok || failed.Handler != "hook before_run" || failed.Err == nil {
				t.Errorf("told %+v", log.events[0])
			}
		})
	}
}

// What a hook changes in place is gone with its request: the lane's conversation
// stays as it is stored.
func TestHooksOwnTheirMessages(t *testing.T) {
	var saw []string
	deface := func(m session.Message) {
		u := m.(*session.UserMessage)
		saw = append(saw, session.JoinText(u.Content))
		u.Content[0] = session.Text{Text: "defaced"}
	}
	transform := func(_ context.Context, q harness.ContextView) (harness.ContextView, error) {
		deface(q.Messages[0].Message)
		return q, nil
	}
	before := func(_ context.Context, q harness.Payload) (harness.Payload, error) {
		deface(q.Request.Messages[0])
		return q, nil
	}
	for name, hooks := range map[string]harness.Hooks{
		"transform_context": {TransformContext: []func(context.Context, harness.ContextView) (harness.ContextView, error){transform}},
		"before_payload":    {BeforePayload: []func(context.Context, harness.Payload) (harness.Payload, error){before}},
	} {
		saw = nil
		r := newRig(t, config{script: toolRun, options: func(o *harness.Options) { o.Hooks = hooks }})
		r.completed(r.prompt("go"))
		if len(saw) < 2 || slices.ContainsFunc(saw, func(text string) bool { return text != "go" }) {
			t.Errorf("%s: it was shown %q", name, saw)
		}
	}
}

// What each hook may change, and where it is seen.
func TestWhatHooksChange(t *testing.T) {
	set := func(text string) []session.Block { return session.TextContent(text) }
	for _, c := range []struct {
		name  string
		hooks harness.Hooks
		want  func(*rig) (got, want string)
	}{
		{"transform_context", harness.Hooks{TransformContext: []func(context.Context, harness.ContextView) (harness.ContextView, error){
			func(_ context.Context, q harness.ContextView) (harness.ContextView, error) {
				if n := len(q.Messages); n > 1 {
					q.Messages = q.Messages[:n-1] // the call loses its result
				}
				q.Messages = append(q.Messages, session.ProjectedMessage{Message: &session.UserMessage{Content: set("now")}})
				return q, nil
			},
		}}, func(r *rig) (string, string) {
			var got []string
			for _, req := range r.faux.Requests() {
				for _, m := range req.Messages {
					got = append(got, string(m.Role()))
				}
			}
			return strings.Join(got, " "), "user user user assistant toolResult user"
		}},
		{"before_payload", harness.Hooks{BeforePayload: []func(context.Context, harness.Payload) (harness.Payload, error){
			func(_ context.Context, q harness.Payload) (harness.Payload, error) {
				q.Request.System, q.Request.Tools, q.Request.Options = set("be brief"), nil, `{"x":1}`
				q.Request.Attempt, q.Request.MaxOutputTokens = 77, 77
				return q, nil
			},
		}}, func(r *rig) (string, string) {
			req := r.faux.Requests()[0]
			return fmt.Sprint(session.JoinText(req.System), len(req.Tools), req.Options, req.Attempt, req.MaxOutputTokens), `be brief0{"x":1}1 16384`
		}},
		{"before_request", harness.Hooks{BeforeRequest: []func(context.Context, harness.RequestPlan) (harness.RequestPlan, error){
			func(_ context.Context, q harness.RequestPlan) (harness.RequestPlan, error) {
				q.MaxOutputTokens /= 2
				return q, nil
			},
			func(_ context.Context, q harness.RequestPlan) (harness.RequestPlan, error) {
				q.MaxOutputTokens = -1
				return q, nil
			},
		}}, func(r *rig) (string, string) {
			return fmt.Sprint(r.faux.Requests()[0].MaxOutputTokens, strings.Contains(trace(r.store.commits()), `"intendedOutputLimit":8192`)), "8192 true"
		}},
		{"after_response", harness.Hooks{AfterResponse: []func(context.Context, harness.ResponseReview) (harness.ResponseReview, error){
			func(_ context.Context, q harness.ResponseReview) (harness.ResponseReview, error) {
				q.Message.Content, q.Message.Usage, q.Message.Model = set("All is said."), `{"input":9}`, "another"
				return q, nil
			},
		}}, func(r *rig) (string, string) {
			_, messages := r.messages()
			m := messages[len(messages)-1].(*session.AssistantMessage)
			return strings.Join(r.transcript(), "|") + string(m.StopReason) + m.Model, "user: go|assistant: All is said.stopfaux-1"
		}},
		{"before_tool", harness.Hooks{BeforeTool: []func(context.Context, harness.ToolPlan) (harness.ToolPlan, error){
			func(_ context.Context, q harness.ToolPlan) (harness.ToolPlan, error) {
				q.Call.Arguments, q.Call.Name = `{ "text": "two" }`, "panic"
				return q, nil
			},
		}}, func(r *rig) (string, string) {
			stored := strings.Contains(trace(r.store.commits()), `:0 = {"text":"two"}`)
			return fmt.Sprint(strings.Join(r.transcript(), "|"), stored),
				`user: go|assistant:  [append {"text":"one"}]|result of append: append did "two"|assistant: Done.true`
		}},
		{"after_tool", harness.Hooks{AfterTool: []func(context.Context, harness.ToolOutcome) (harness.ToolOutcome, error){
			func(_ context.Context, q harness.ToolOutcome) (harness.ToolOutcome, error) {
				q.Result.Content, q.Result.IsError, q.Result.Terminate, q.Result.Usage = set("hidden"), true, true, `{"input":1}`
				return q, nil
			},
			func(_ context.Context, q harness.ToolOutcome) (harness.ToolOutcome, error) {
				q.Result.Details = `{`
				return q, nil
			},
		}}, func(r *rig) (string, string) {
			return fmt.Sprint(strings.Join(r.transcript(), "|"), len(r.usage())), `user: go|assistant:  [append {"text":"one"}]|result of append: hidden (error)1`
		}},
		{"before_run_end", harness.Hooks{BeforeRunEnd: []func(context.Context, harness.RunEnding) (harness.RunEnding, error){
			func(_ context.Context, q harness.RunEnding) (harness.RunEnding, error) {
				q.FollowUp = append(q.FollowUp, &session.UserMessage{Content: set("go on")})
				return q, nil
			},
			func(_ context.Context, q harness.RunEnding) (harness.RunEnding, error) {
				if q.FinalAssistantID == "" {
					return q, errHook
				}
				return q, nil
			},
		}}, func(r *rig) (string, string) { // the script has no answer to a third turn
			return r.transcript()[4], "user: go on"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, config{script: oneTool, active: []string{"append"}, options: hooked(c.hooks)})
			if result := r.prompt("go"); result.Ended == nil {
				t.Fatalf("the run came to %s", describe(result))
			}
			if got, want := c.want(r); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// before_tool blocks what it says, and fails closed.
func TestBeforeToolBlocks(t *testing.T) {
	type judge = func(context.Context, harness.ToolPlan) (harness.ToolPlan, error)
	pass := func(_ context.Context, q harness.ToolPlan) (harness.ToolPlan, error) { return q, nil }
	block := func(_ context.Context, q harness.ToolPlan) (harness.ToolPlan, error) {
		q.Block = "Not today."
		return q, nil
	}
	unblock := func(_ context.Context, q harness.ToolPlan) (harness.ToolPlan, error) {
		q.Block = ""
		return q, nil
	}
	arguments := func(text pistore.JSON) judge {
		return func(_ context.Context, q harness.ToolPlan) (harness.ToolPlan, error) {
			q.Call.Arguments = text
			return q, nil
		}
	}
	for name, c := range map[string]struct {
		judges []judge
		want   string
	}{
		"blocked":         {[]judge{block, pass}, "Not today."},
		"never unblocked": {[]judge{block, unblock}, "Not today."},
		"error":           {[]judge{func(_ context.Context, q harness.ToolPlan) (harness.ToolPlan, error) { return q, errHook }, pass}, errHook.Error()},
		"panic":           {[]judge{func(context.Context, harness.ToolPlan) (harness.ToolPlan, error) { panic("out of cheese") }}, "out of cheese"},
		"no JSON":         {[]judge{arguments(`{`)}, "check of it failed"},
		"misfit":          {[]judge{arguments(`{"text":3}`)}, "do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, config{script: oneTool, options: hooked(harness.Hooks{BeforeTool: c.judges})})
			r.completed(r.prompt("go"))
			if got := r.transcript()[2]; !strings.Contains(got, c.want) || !strings.HasSuffix(got, "(error)") {
				t.Errorf("%s", got)
			}
			if total, _ := r.world.count("append"); total != 0 {
				t.Errorf("the call ran %d times", total)
			}
			if strings.Contains(trace(r.store.commits()), "op.tool_args") {
				t.Error("arguments were stored for a call that did not run")
			}
		})
	}
}

// What runs does not wait for the judgement of a call behind it.
func TestJudgingHoldsNoCall(t *testing.T) {
	release := make(chan struct{})
	judge := func(ctx context.Context, q harness.ToolPlan) (harness.ToolPlan, error) {
		if q.Call.Name == "lookup" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return q, nil
	}
	settled := make(chan struct{})
	r := newRig(t, config{script: toolRun, options: hooked(harness.Hooks{
		BeforeTool: []func(context.Context, harness.ToolPlan) (harness.ToolPlan, error){judge},
	}), onEvent: func(ev harness.Event) {
		if added, ok := ev.(harness.EntryAdded); ok && strings.Contains(string(added.Entry.Payload), "append did") {
			close(settled)
		}
	}})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	await(r, settled)
	close(release)
	r.completed(r.finish())
}

// before_resume is called when what was in flight is settled, and counts as a
// step that a crash may have come from.
func TestBeforeResume(t *testing.T) {
	for _, point := range []string{"checkpoint", "assistant effect_pending", "tools"} {
		t.Run(point, func(t *testing.T) {
			var seen []registers.OpState
			r := newRig(t, config{script: toolRun, rows: stoppedAt(t, point), options: hooked(harness.Hooks{
				BeforeResume: []func(context.Context, harness.Resuming) (harness.Resuming, error){func(_ context.Context, q harness.Resuming) (harness.Resuming, error) {
					seen = append(seen, q.State)
					return q, errHook
				}},
			})})
			resumeThrough(r, nil)
			if len(seen) != 1 {
				t.Fatalf("called %d times", len(seen))
			}
			if run := seen[0].(*registers.RunState); run.Resumes != 1 {
				t.Errorf("the resume stands at %d when the hook is called", run.Resumes)
			}
		})
	}
}

// Close ends hooks, and names one that does not end.
func TestCloseInAHook(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	stuck := func(context.Context, harness.RequestPlan) (q harness.RequestPlan, _ error) {
		close(called)
		<-release
		return q, nil
	}
	r := newRig(t, config{script: oneTool, options: hooked(harness.Hooks{
		BeforeRequest: []func(context.Context, harness.RequestPlan) (harness.RequestPlan, error){stuck},
	})})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	await(r, called)
	before := len(r.store.commits())
	soon, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := r.h.Close(soon); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "hook before_request") {
		t.Errorf("close: %v", err)
	}
	close(release)
	r.check(r.h.Close(r.ctx))
	if got := len(r.store.commits()); got != before {
		t.Errorf("%d commits behind Close", got-before)
	}
}

// A prompt that the lane refuses asks no hook, and one whose context ends in the
// hook is not accepted.
func TestBeforeRunOfNoRun(t *testing.T) {
	a := &asked{}
	ctx, cancel := context.WithCancel(context.Background())
	hook := func(_ context.Context, q harness.RunInput) (harness.RunInput, error) {
		a.note("called")
		cancel()
		return q, nil
	}
	r := newRig(t, config{script: oneTool, drive: harness.Manual, options: hooked(harness.Hooks{
		BeforeRun: []func(context.Context, harness.RunInput) (harness.RunInput, error){hook},
	})})
	before := len(r.store.commits())
	if _, err := r.lane.Prompt(ctx, harness.Prompt{Text: "go"}); !errors.Is(err, context.Canceled) {
		t.Errorf("prompt: %v", err)
	}
	if got := len(r.store.commits()); got != before {
		t.Error("it was accepted")
	}
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	if _, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"}); !errors.Is(err, harness.ErrLaneBusy) {
		t.Errorf("prompt: %v", err)
	}
	if said := a.said(); len(said) != 2 {
		t.Errorf("asked %d times", len(said))
	}
	r.completed(r.finish())
}

// A before_run that leaves nothing of a prompt is passed over.
func TestBeforeRunLeavesNothing(t *testing.T) {
	var failed []harness.HandlerError
	r := newRig(t, config{script: oneTool, options: hooked(harness.Hooks{
		BeforeRun: []func(context.Context, harness.RunInput) (harness.RunInput, error){
			func(_ context.Context, q harness.RunInput) (harness.RunInput, error) {
				q.Messages = nil
				return q, nil
			},
		},
	}), onEvent: func(ev harness.Event) {
		if ev, ok := ev.(harness.HandlerError); ok {
			failed = append(failed, ev)
		}
	}})
	r.completed(r.prompt("go"))
	r.check(r.h.Close(r.ctx))
	if len(failed) != 1 || !errors.Is(failed[0].Err, harness.ErrInvalidMessage) {
		t.Errorf("reported %v", failed)
	}
}

// After_tool is asked of calls that ran, and of no others.
func TestAfterToolOfCallsThatRan(t *testing.T) {
	var mu sync.Mutex
	got := map[string]tool.Result{}
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(
		faux.Step{Content: []session.Block{
			session.ToolCall{Name: "append", Arguments: `{"text":"one"}`}, session.ToolCall{Name: "append", Arguments: `{"text":3}`},
			session.ToolCall{Name: "fail"}, session.ToolCall{Name: "panic"}, session.ToolCall{Name: "nowhere"},
		}}, faux.Text("Done."),
	)}}, options: hooked(harness.Hooks{AfterTool: []func(context.Context, harness.ToolOutcome) (harness.ToolOutcome, error){
		func(_ context.Context, q harness.ToolOutcome) (harness.ToolOutcome, error) {
			mu.Lock()
			defer mu.Unlock()
			got[q.Call.Name] = q.Result
			return q, nil
		},
	}})})
	r.completed(r.prompt("go"))
	if len(got) != 3 || got["append"].IsError || !got["fail"].IsError || !got["panic"].IsError {
		t.Errorf("asked about %+v", got)
	}
}
