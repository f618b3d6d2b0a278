package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

func abort(r *rig) {
	r.t.Helper()
	_, err := r.lane.Abort(r.ctx)
	r.check(err)
}

// twoCalls calls a tool that may not run twice and one that may, then answers.
var twoCalls = faux.Script{{Turns: faux.Turns(calls("append", "lookup")), Rest: echo[0].Rest}}

const abortEnd = "delete op.meta; delete op.state; lane.lastResult aborted ; lane.state=idle"

// abortScenes are runs that are aborted at each kind of point, with what they
// write behind the prompt and what a model would see at their end.
var abortScenes = []struct {
	name       string
	scene      scene
	commits    []string
	transcript []string
}{{
	name:  "before the first intent",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){0: abort}},
	commits: []string{
		"op.state checkpoint need_assistant skipInboxOnce, cancelled",
		abortEnd,
	},
	transcript: []string{"user: go"},
}, {
	name:  "while the request is parked",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){1: abort}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"op.state assistant effect_pending attempt 1, cancelled",
		"entry assistant aborted; lane.leaf; usage; " + abortEnd,
	},
	transcript: []string{"user: go"},
}, {
	name:  "while the settlement is parked",
	scene: scene{config: config{script: twoCalls}, calls: map[int]func(*rig){2: abort}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"op.state assistant effect_pending attempt 1, cancelled",
		"entry assistant aborted; lane.leaf; usage; " + abortEnd,
	},
	transcript: []string{"user: go"},
}, {
	name:  "while both calls are parked",
	scene: scene{config: config{script: twoCalls}, calls: map[int]func(*rig){3: abort}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.tool_args; op.state tools [effect_pending never, effect_pending safe]",
		"op.state tools [effect_pending never, effect_pending safe], cancelled",
		"entry toolResult; lane.leaf; op.state tools [completed, effect_pending safe], cancelled",
		"entry toolResult; lane.leaf; delete op.tool_args; delete op.tool_args; " + abortEnd,
	},
	transcript: []string{"user: go", `assistant:  [append {}] [lookup {}]`,
		"result of append: This call was not executed: the run was aborted. (error)",
		"result of lookup: This call was not executed: the run was aborted. (error)"},
}, {
	name:  "while one call is parked and one planned",
	scene: scene{config: config{script: twoCalls, tools: registers.Sequential}, calls: map[int]func(*rig){3: abort}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never, planned]",
		"op.state tools [effect_pending never, planned], cancelled",
		"entry toolResult; entry toolResult; lane.leaf; delete op.tool_args; " + abortEnd,
	},
	transcript: []string{"user: go", `assistant:  [append {}] [lookup {}]`,
		"result of append: This call was not executed: the run was aborted. (error)",
		"result of lookup: This call was not executed: the run was aborted. (error)"},
}, {
	name:  "while the result of the first call is parked",
	scene: scene{config: config{script: twoCalls, tools: registers.Sequential}, calls: map[int]func(*rig){4: abort}},
	transcript: []string{"user: go", `assistant:  [append {}] [lookup {}]`,
		"result of append: append did ", "result of lookup: This call was not executed: the run was aborted. (error)"},
}, {
	name: "while a retry is due",
	scene: scene{config: config{script: faux.Script{{Turns: []faux.Turn{{faux.Fail("overloaded", true), faux.Text("Done.")}}}}},
		calls: map[int]func(*rig){3: abort}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"entry assistant error; lane.leaf; usage; op.state assistant retry_wait 2",
		"op.state assistant retry_wait 2, cancelled",
		abortEnd,
	},
	transcript: []string{"user: go"},
}, {
	name:  "while the failure is parked",
	scene: scene{config: config{script: failThenEcho}, calls: map[int]func(*rig){2: all(followUp("later"), abort)}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with follow-up",
		"op.state assistant effect_pending attempt 1 with drained, cancelled",
		"entry assistant aborted; lane.leaf; usage; delete pending.entry; " + abortEnd,
	},
	transcript: []string{"user: go"},
}, {
	name:  "with everything in the inbox",
	scene: scene{config: config{script: toolThenEcho}, calls: map[int]func(*rig){1: all(steer("now"), followUp("later"), write("fact"), note, abort, abort, write("late"))}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer, follow-up",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer, follow-up, write",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer, follow-up, write, write",
		"op.state assistant effect_pending attempt 1 with write, write, drained, drained, cancelled",
		"pending.entry; op.state assistant effect_pending attempt 1 with write, write, write, drained, drained, cancelled",
		"entry assistant aborted; usage; entry custom; entry custom; entry custom; lane.leaf; " +
			"delete pending.entry; delete pending.entry; delete pending.entry; delete pending.entry; delete pending.entry; " + abortEnd,
	},
	transcript: []string{"user: go", "custom: fact", "custom: late"},
}}

func TestAbort(t *testing.T) {
	for _, tt := range abortScenes {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.scene.rig(t, 0, nil)
			var requests, started int
			played, counted := tt.scene, map[int]func(*rig){}
			for step, call := range tt.scene.calls {
				counted[step] = func(r *rig) {
					call(r)
					requests, started = len(r.faux.Requests()), r.started()
				}
			}
			played.calls = counted
			result := played.play(r, nil)
			checkEnded(r, result)
			if result.Ended == nil || result.Ended.Outcome != registers.Aborted {
				t.Errorf("the run came to %s", describe(result))
			}
			if len(r.faux.Requests()) != requests || r.started() != started {
				t.Error("an effect started behind the abort")
			}
			if diff := cmp.Diff(tt.commits, r.outlines(2)); tt.commits != nil && diff != "" {
				t.Errorf("commits (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.transcript, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

// started counts all executions of tools.
func (r *rig) started() int {
	a, _ := r.world.count("append")
	b, _ := r.world.count("lookup")
	return a + b
}

func TestAbortRecoversFromEveryPoint(t *testing.T) {
	for _, tt := range abortScenes {
		t.Run(tt.name, tt.scene.recovers)
	}
}

// Abort returns what it drained, again and again, and writes it once.
func TestAbortDrains(t *testing.T) {
	r := newRig(t, config{script: echo, drive: harness.Manual})
	_, err := r.lane.Abort(r.ctx)
	if !errors.Is(err, harness.ErrNoActiveOperation) {
		t.Fatalf("abort of an idle lane: %v", err)
	}
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	all(steer("a", "b"), followUp("c"))(r)
	texts := func(d harness.Drained) (out []string) {
		for _, q := range append(d.Steer, d.FollowUp...) {
			raw, _ := q.Content.Payload.Member("message")
			m, err := session.ParseMessage(raw)
			r.check(err)
			out = append(out, session.JoinText(m.(*session.UserMessage).Content))
		}
		return out
	}
	first, err := r.lane.Abort(r.ctx)
	r.check(err)
	commits := len(r.store.commits())
	if diff := cmp.Diff([]string{"a", "b", "c"}, texts(first)); diff != "" {
		t.Errorf("drained: %s", diff)
	}
	second, err := r.lane.Abort(r.ctx)
	r.check(err)
	if diff := cmp.Diff(first, second); diff != "" || len(r.store.commits()) != commits {
		t.Errorf("the second abort made %d commits and drained: %s", len(r.store.commits())-commits, diff)
	}
	for _, into := range []func(context.Context, harness.Prompt) ([]pistore.ID, error){r.lane.Steer, r.lane.FollowUp} {
		if _, err := into(r.ctx, harness.Prompt{Text: "more"}); !errors.Is(err, harness.ErrNoActiveRun) {
			t.Errorf("input behind the abort: %v", err)
		}
	}
	r.cancelQueued(first.Steer[0].EntryID, false)

	// A process that finds it so gives the same.
	again := newRig(t, config{script: echo, drive: harness.Manual, rows: r.rows(), seed: 1})
	third, err := again.lane.Abort(again.ctx)
	again.check(err)
	if diff := cmp.Diff(first, third); diff != "" || len(again.store.commits()) != 0 {
		t.Errorf("behind a restart: %d commits, drained %s", len(again.store.commits()), diff)
	}
	result := again.finish()
	checkEnded(again, result)
}

// Abort of a restored operation brings it to its end without an effect: a
// request in flight is settled as aborted, a call as interrupted.
func TestAbortOfRestored(t *testing.T) {
	for _, tt := range []struct {
		phase string
		want  []string
	}{
		{"checkpoint", []string{"user: go"}},
		{"assistant effect_pending", []string{"user: go"}},
		{"assistant retry_wait", nil},
		{"tools [effect_pending never", []string{"user: go",
			`assistant: Working. [append {"text":"one"}] [lookup {"text":"two"}] [append {"text":3}]`,
			"result of append: interrupted", "result of lookup: interrupted", "result of append: the arguments of append do not fit"}},
	} {
		for _, drive := range []harness.Drive{harness.Automatic, harness.Manual} {
			t.Run(tt.phase, func(t *testing.T) {
				r := newRig(t, config{script: toolRun, rows: stoppedAt(t, tt.phase), drive: drive, seed: 1, options: func(o *harness.Options) {
					o.Providers, o.Tools = nil, nil // nothing is needed to stop
				}})
				abort(r)
				result := r.finish()
				checkEnded(r, result)
				if result.Ended == nil || result.Ended.Outcome != registers.Aborted {
					t.Fatalf("the run came to %s", describe(result))
				}
				if n := r.started(); n != 0 || len(r.faux.Requests()) != 0 {
					t.Errorf("%d calls and %d requests started", n, len(r.faux.Requests()))
				}
				got := r.transcript()
				for i, want := range tt.want {
					if i >= len(got) || !strings.HasPrefix(got[i], want) {
						t.Errorf("line %d of %q, want %q", i, got, want)
					}
				}
			})
		}
	}
}

// A call that a crash left started is not said to be unexecuted, wherever an
// abort meets its rerun: before it is asked for, parked, or behind before_resume.
func TestAbortOfRerun(t *testing.T) {
	script := faux.Script{{Turns: faux.Turns(calls("lookup"), faux.Text("Done."))}}
	for _, hooked := range []bool{false, true} {
		for _, drive := range []harness.Drive{harness.Automatic, harness.Manual} {
			if !hooked && drive == harness.Automatic {
				continue // the rerun is over before an abort
			}
			t.Run(fmt.Sprint(drive, hooked), func(t *testing.T) {
				crashed := newRig(t, config{script: script, drive: harness.Manual})
				_, err := crashed.lane.Prompt(crashed.ctx, harness.Prompt{Text: "go"})
				crashed.check(err)
				for range 4 { // intent, request, settlement, and the call
					_, err := crashed.lane.Step(crashed.ctx)
					crashed.check(err)
				}
				in := make(chan struct{})
				r := newRig(t, config{script: script, drive: drive, rows: crashed.rows(), seed: 1, options: func(o *harness.Options) {
					if !hooked {
						return
					}
					o.Hooks.BeforeResume = append(o.Hooks.BeforeResume, func(ctx context.Context, q harness.Resuming) (harness.Resuming, error) {
						close(in)
						<-ctx.Done()
						return q, nil
					})
				}})
				_, err = r.lane.Resume(r.ctx)
				r.check(err)
				switch {
				case drive == harness.Manual:
					drainUntil(r, map[bool]harness.EffectKind{true: harness.EffectHook, false: harness.EffectTool}[hooked])
				default:
					await(r, in)
				}
				abort(r)
				checkEnded(r, r.finish())
				if got := r.transcript(); !slices.Contains(got, "result of lookup: interrupted") || r.started() != 0 {
					t.Errorf("%d calls started, and it came to %q", r.started(), got)
				}
			})
		}
	}
}

// A request and a call that are under way are cancelled, waited for, and settled
// with what they came to.
func TestAbortCancelsHandlers(t *testing.T) {
	t.Run("provider", func(t *testing.T) {
		p, called := hanging()
		r := newRig(t, config{provider: p})
		handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		await(r, called)
		abort(r)
		result, err := handle.Wait(r.ctx)
		r.check(err)
		checkEnded(r, result)
		_, messages := r.messages()
		response := messages[1].(*session.AssistantMessage)
		if response.StopReason != session.StopAborted || result.Ended.Outcome != registers.Aborted {
			t.Errorf("the response is %+v, the run came to %s", response, describe(result))
		}
		r.check(r.lane.WaitIdle(r.ctx))
	})
	t.Run("tool", func(t *testing.T) {
		started := make(chan struct{})
		r := newRig(t, config{
			script: faux.Script{{Turns: faux.Turns(calls("slow", "append"), faux.Text("Done."))}}, tools: registers.Sequential,
			extra: []tool.Tool{{Name: "slow", Parameters: anyObject, Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				close(started)
				<-ctx.Done()
				return tool.Result{}, ctx.Err()
			}}},
		})
		handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		await(r, started)
		abort(r)
		result, err := handle.Wait(r.ctx)
		r.check(err)
		checkEnded(r, result)
		_, messages := r.messages()
		for i, want := range []string{"aborted while this call ran", "was not executed"} {
			if text := session.JoinText(messages[2+i].(*session.ToolResultMessage).Content); !strings.Contains(text, want) {
				t.Errorf("result %d: %s", i, text)
			}
		}
	})
	t.Run("sleep", func(t *testing.T) {
		sleeping := make(chan struct{})
		r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Fail("overloaded", true))}}, options: func(o *harness.Options) {
			o.Sleep = func(ctx context.Context, _ pistore.UnixMS) error {
				close(sleeping)
				<-ctx.Done()
				return ctx.Err()
			}
		}})
		handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		await(r, sleeping)
		abort(r)
		result, err := handle.Wait(r.ctx)
		r.check(err)
		checkEnded(r, result)
	})
}

// Both orders of the races of an abort.
func TestAbortRaces(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script faux.Script
		steps  int // released before the abort
		idle   bool
		want   []string
	}{
		{"before a response settles", echo, 2, false, []string{"user: go"}},
		{"behind a response that ended the run", echo, 3, true, []string{"user: go", "assistant: answer 0"}},
		{"behind a response that goes on", toolThenEcho, 3, false, []string{"user: go", `assistant:  [append {"text":"one"}]`,
			"result of append: This call was not executed: the run was aborted. (error)"}},
		{"before a result settles", toolThenEcho, 4, false, []string{"user: go", `assistant:  [append {"text":"one"}]`, `result of append: append did "one"`}},
		{"behind a result", toolThenEcho, 5, false, []string{"user: go", `assistant:  [append {"text":"one"}]`, `result of append: append did "one"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, config{script: tt.script, drive: harness.Manual})
			handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			r.check(err)
			for range tt.steps {
				_, err := r.lane.Step(r.ctx)
				r.check(err)
			}
			_, err = r.lane.Abort(r.ctx)
			if tt.idle != errors.Is(err, harness.ErrNoActiveOperation) || !tt.idle && err != nil {
				t.Fatalf("abort: %v", err)
			}
			result := r.finish()
			if aborted := result.Ended != nil && result.Ended.Outcome == registers.Aborted; aborted == tt.idle {
				t.Errorf("the run came to %s", describe(result))
			}
			_, err = handle.Wait(r.ctx)
			r.check(err)
			checkEnded(r, result)
			if diff := cmp.Diff(tt.want, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

// A write survives an abort in both orders, and so does input for the next run.
func TestWritesSurviveAnAbort(t *testing.T) {
	for name, calls := range map[string]func(*rig){
		"write first": all(write("fact"), abort),
		"abort first": all(abort, write("fact")),
	} {
		t.Run(name, func(t *testing.T) {
			s := scene{config: config{script: echo}, calls: map[int]func(*rig){1: all(calls, func(r *rig) { r.queue(r.lane.NextRun, "next") })}}
			r := s.rig(t, 0, nil)
			checkEnded(r, s.play(r, nil))
			if diff := cmp.Diff([]string{"user: go", "custom: fact"}, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			if n := len(r.lane.Queues().NextRun); n != 1 {
				t.Errorf("%d inputs wait for the next run", n)
			}
		})
	}
}

// An operation that is suspended for what is missing can be aborted.
func TestAbortOfSuspended(t *testing.T) {
	r := newRig(t, config{script: toolRun, rows: stoppedAt(t, "checkpoint"), seed: 1, options: func(o *harness.Options) { o.Providers = nil }})
	_, err := r.lane.Resume(r.ctx)
	r.check(err)
	if result := r.finish(); result.Suspended == nil {
		t.Fatalf("the run came to %s", describe(result))
	}
	if err := r.lane.WaitIdle(r.ctx); !errors.Is(err, harness.ErrSuspended) {
		t.Errorf("wait for the idle lane: %v", err)
	}
	abort(r)
	result := r.finish()
	checkEnded(r, result)
	r.check(r.lane.WaitIdle(r.ctx))
	r.check(r.lane.WaitIdle(r.ctx))
}

// An administrator ends a run wherever it stands: nothing of it is left, what was
// in flight is stored as unknown, and what it comes to is not.
func TestFinalize(t *testing.T) {
	s := scene{config: config{script: toolRun}}
	points := 0
	s.play(s.rig(t, 7, nil), func(rows []pistore.Row, _ int) {
		if openRun(t, rows) == nil {
			return
		}
		points++
		for _, resumed := range []bool{false, true} {
			r := s.rig(t, 8, rows)
			if resumed {
				_, err := r.lane.Resume(r.ctx)
				r.check(err)
				r.check(r.lane.Settle(r.ctx))
			}
			handle := r.lane.Handle()
			all(steer("now"), write("fact"))(r)
			want, err := r.lane.Finalize(r.ctx, registers.Failed)
			r.check(err)
			commits := len(r.store.commits())
			r.check(r.lane.Settle(r.ctx))
			result, err := handle.Wait(r.ctx)
			r.check(err)
			if diff := cmp.Diff(&want, result.Ended); diff != "" || want.Error.Code != "finalized" {
				t.Errorf("the handle tells %s", diff)
			}
			checkEnded(r, result)
			if len(r.lane.Peek()) != 0 || len(r.store.commits()) != commits {
				t.Errorf("the drive goes on: %v", r.lane.Peek())
			}
			if got := r.transcript(); got[len(got)-1] != "custom: fact" {
				t.Errorf("the write is not placed: %q", got)
			}
		}
	})
	if points < 5 {
		t.Fatalf("only %d points", points)
	}
	r := newRig(t, config{script: echo})
	if _, err := r.lane.Finalize(r.ctx, registers.Aborted); !errors.Is(err, harness.ErrNoActiveOperation) {
		t.Errorf("of an idle lane: %v", err)
	}
	if _, err := r.lane.Finalize(r.ctx, "perhaps"); !errors.Is(err, pistore.ErrInvalid) {
		t.Errorf("with an unknown outcome: %v", err)
	}
}

// meeting is a Storage whose next look at registers meets something else.
type meeting struct {
	pistore.Storage
	with atomic.Pointer[func()]
}

func (m *meeting) Unwrap() pistore.Storage { return m.Storage }

func (m *meeting) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	if with := m.with.Swap(nil); with != nil {
		(*with)()
	}
	return m.Storage.Registers(ctx, at)
}

// A response comes in when the operation has just been finalized, and before the
// drive is told: there is nothing to settle.
func TestFinalizeMeetsTheDrive(t *testing.T) {
	m := &meeting{}
	r := newRig(t, config{script: echo, drive: harness.Manual, spoiled: true, wrap: func(s pistore.Storage) pistore.Storage { m.Storage = s; return m }})
	handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	drainUntil(r, harness.EffectRequest)
	step := func() { // while what was finalized is read back
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
	m.with.Store(&step)
	_, err = r.lane.Finalize(r.ctx, registers.Aborted)
	r.check(err)
	r.check(r.lane.Settle(r.ctx))
	result, err := handle.Wait(r.ctx)
	r.check(err)
	checkEnded(r, result)
	if n := len(r.faux.Requests()); n != 1 || len(r.lane.Peek()) != 0 {
		t.Errorf("%d requests, and %v is parked", n, r.lane.Peek())
	}
}

// A compaction that an administrator ends has no summary, whatever the outcome.
func TestFinalizedCompactionHasNoSummary(t *testing.T) {
	for _, outcome := range []registers.Outcome{registers.Completed, registers.Failed, registers.Aborted} {
		var ends []harness.CompactionEnd
		r := newSummaryRig(t, config{drive: harness.Manual, onEvent: func(ev harness.Event) {
			if ev, ok := ev.(harness.CompactionEnd); ok {
				ends = append(ends, ev)
			}
		}}, fill, summaryScene(faux.Text("SUMMARY")))
		r.completed(r.prompt("fill"))
		_, err := r.lane.Compact(r.ctx, "")
		r.check(err)
		_, err = r.lane.Finalize(r.ctx, outcome)
		r.check(err)
		r.check(r.lane.Settle(r.ctx))
		if len(ends) != 1 || ends[0].EntryID != "" || ends[0].Error == "" {
			t.Errorf("%s: it ended with %+v", outcome, ends)
		}
	}
}

// A process whose operation is finalized by another writes nothing more, and
// tells what became of it.
func TestFinalizeElsewhere(t *testing.T) {
	r := newRig(t, config{script: toolRun, drive: harness.Manual})
	handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	for range 2 {
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
	admin, err := harness.New(r.store.Storage, harness.Options{})
	r.check(err)
	lane, err := admin.Lane(r.ctx, "main")
	r.check(err)
	want, err := lane.Finalize(r.ctx, registers.Aborted)
	r.check(err)
	r.check(admin.Close(r.ctx))
	// A public call meets it first, then the drive does.
	if _, err := r.lane.Steer(r.ctx, harness.Prompt{Text: "more"}); !errors.Is(err, harness.ErrNoActiveRun) {
		t.Errorf("steer: %v", err)
	}
	result, err := handle.Wait(r.ctx)
	r.check(err)
	if diff := cmp.Diff(&want, result.Ended); diff != "" {
		t.Errorf("the handle tells %s", diff)
	}
	r.check(r.lane.Settle(r.ctx))
	if parked := r.lane.Peek(); len(parked) != 0 {
		t.Errorf("the drive goes on: %v", parked)
	}
	if n := len(r.store.commits()); n != 3 {
		t.Errorf("%d commits", n)
	}
}

// What an application spent is a row of the ledger, on the lane and the
// operation that it was spent for.
func TestRecordUsage(t *testing.T) {
	r := newRig(t, config{script: echo, drive: harness.Manual})
	_, err := r.lane.RecordUsage(r.ctx, harness.Spent{Usage: `{"input":1}`, Provider: "p", ModelID: "m"})
	r.check(err)
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	_, err = r.lane.RecordUsage(r.ctx, harness.Spent{Usage: `{"input":2}`, Purpose: "search", Tool: "grep"})
	r.check(err)
	for _, bad := range []harness.Spent{{}, {Usage: "[1]"}, {Usage: `{"input":`}} {
		if _, err := r.lane.RecordUsage(r.ctx, bad); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	r.completed(r.finish())
	names := map[string]string{}
	var got []string
	for _, row := range r.usage()[:2] {
		got = append(got, renameIDs(string(row.Usage+" "+row.Details), names))
	}
	want := []string{
		`{"input":1} {"lane":"main","purpose":"application","provider":"p","modelId":"m"}`,
		`{"input":2} {"lane":"main","operationId":"#1","purpose":"search","toolName":"grep"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	verifyClean(t, r.store)
}

// A run that waits for a deferred response is ended without a poll; a poll whose
// answer nobody knows is settled as aborted under its reserved ids.
func TestAbortOfDeferred(t *testing.T) {
	script := faux.Script{{Turns: faux.Turns(faux.Step{Deferred: &session.DeferredHandle{ID: "h"}}, faux.Text("Done."))}}
	for _, tt := range []struct {
		name  string
		steps int // of a Resume, before the abort; -1: none is made
		stops []session.StopReason
	}{
		{"suspended", -1, []session.StopReason{session.StopDeferred}},
		{"with a poll that is to be announced", 0, []session.StopReason{session.StopDeferred}},
		{"with a poll that is parked", 1, []session.StopReason{session.StopDeferred, session.StopAborted}},
		{"with an answer that is parked", 2, []session.StopReason{session.StopDeferred, session.StopAborted}},
	} {
		for _, restored := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				r := newRig(t, config{script: script, drive: harness.Manual})
				if result := r.prompt("go"); result.Suspended == nil {
					t.Fatalf("the run came to %s", describe(result))
				}
				if tt.steps >= 0 {
					_, err := r.lane.Resume(r.ctx)
					r.check(err)
				}
				for range tt.steps {
					_, err := r.lane.Step(r.ctx)
					r.check(err)
				}
				if restored {
					r = newRig(t, config{script: script, drive: harness.Manual, rows: r.rows(), seed: 1})
				}
				abort(r)
				result := r.finish()
				checkEnded(r, result)
				if result.Ended == nil || result.Ended.Outcome != registers.Aborted {
					t.Errorf("the run came to %s", describe(result))
				}
				var stops []session.StopReason
				_, messages := r.messages()
				for _, m := range messages[1:] {
					stops = append(stops, m.(*session.AssistantMessage).StopReason)
				}
				if diff := cmp.Diff(tt.stops, stops); diff != "" {
					t.Errorf("responses: %s", diff)
				}
			})
		}
	}
}
