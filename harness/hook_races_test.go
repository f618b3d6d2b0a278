package harness_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore/harness"
	"pistore/registers"
	"pistore/session"
)

// stepTo steps a manual lane until an effect of a kind, and of a hook if one is
// named, is the next to be released.
func (r *rig) stepTo(kind harness.EffectKind, hook harness.HookName) {
	r.t.Helper()
	for {
		r.check(r.lane.Settle(r.ctx))
		parked := r.lane.Peek()
		if len(parked) == 0 {
			r.t.Fatalf("the lane came to rest before %s %s", kind, hook)
		}
		name, _ := parked[0].Detail.Member("hook")
		if text, _ := name.Text(); parked[0].Kind == kind && (hook == "" || text == string(hook)) {
			return
		}
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
}

// followingUp adds one message when a run would end for the first time.
func followingUp(a *asked) harness.Hooks {
	return harness.Hooks{BeforeRunEnd: []func(context.Context, harness.RunEnding) (harness.RunEnding, error){
		func(_ context.Context, q harness.RunEnding) (harness.RunEnding, error) {
			a.note("before_run_end")
			if len(a.said()) == 1 {
				q.FollowUp = append(q.FollowUp, &session.UserMessage{Content: session.TextContent("and more")})
			}
			return q, nil
		},
	}}
}

// An abort against the follow-up of before_run_end: whichever is first.
func TestAbortAgainstFollowUpOfAHook(t *testing.T) {
	for _, c := range []struct {
		name       string
		steps      int // behind the one that parks at the hook, before the abort
		calls      int
		transcript []string
	}{
		{"the hook is parked", 0, 0, []string{"user: go", "assistant: answer 0"}},
		{"its answer is parked", 1, 1, []string{"user: go", "assistant: answer 0"}},
		{"its answer is committed", 2, 1, []string{"user: go", "assistant: answer 0", "user: and more"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &asked{}
			r := newRig(t, config{script: echo, drive: harness.Manual, options: hooked(followingUp(a))})
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			r.check(err)
			r.stepTo(harness.EffectHook, harness.HookBeforeRunEnd)
			for range c.steps {
				_, err := r.lane.Step(r.ctx)
				r.check(err)
			}
			abort(r)
			result := r.finish()
			checkEnded(r, result)
			if result.Ended.Outcome != registers.Aborted || len(a.said()) != c.calls {
				t.Errorf("came to %s, asked %d times", describe(result), len(a.said()))
			}
			if diff := cmp.Diff(c.transcript, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

// Input that comes while before_run_end is asked makes its answer void, and it
// is asked again at the next end.
func TestInputAgainstBeforeRunEnd(t *testing.T) {
	for _, answered := range []bool{false, true} {
		a := &asked{}
		r := newRig(t, config{script: echo, drive: harness.Manual, options: hooked(followingUp(a))})
		_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		r.stepTo(harness.EffectHook, harness.HookBeforeRunEnd)
		if answered {
			_, err := r.lane.Step(r.ctx)
			r.check(err)
		}
		_, err = r.lane.Steer(r.ctx, harness.Prompt{Text: "wait"})
		r.check(err)
		r.completed(r.finish())
		var users []string
		for _, line := range r.transcript() {
			if text, ok := strings.CutPrefix(line, "user: "); ok {
				users = append(users, text)
			}
		}
		if got := strings.Join(users, ", "); got != "go, wait" || len(a.said()) != 2 {
			t.Errorf("the user said %s, asked %d times", got, len(a.said()))
		}
	}
}

// An abort while before_tool or before_request is parked, or its answer is:
// nothing starts.
func TestAbortAgainstJudgements(t *testing.T) {
	for _, hook := range []harness.HookName{harness.HookBeforeTool, harness.HookBeforeRequest} {
		for _, answered := range []bool{false, true} {
			t.Run(string(hook), func(t *testing.T) {
				a := &asked{}
				r := newRig(t, config{script: oneTool, drive: harness.Manual, options: hooked(everyHook(a))})
				_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
				r.check(err)
				r.stepTo(harness.EffectHook, hook)
				if answered {
					_, err := r.lane.Step(r.ctx)
					r.check(err)
				}
				requests, said := len(r.faux.Requests()), len(a.said())
				abort(r)
				result := r.finish()
				checkEnded(r, result)
				if result.Ended.Outcome != registers.Aborted {
					t.Errorf("came to %s", describe(result))
				}
				if total, _ := r.world.count("append"); total != 0 || len(r.faux.Requests()) != requests || len(a.said()) != said {
					t.Errorf("%d calls, %d requests, %q", total, len(r.faux.Requests()), a.said())
				}
			})
		}
	}
}

// The wish to stop ends the context of a hook that is being asked.
func TestAbortEndsAHook(t *testing.T) {
	called := make(chan struct{})
	wait := func(ctx context.Context, q harness.RunEnding) (harness.RunEnding, error) {
		close(called)
		<-ctx.Done()
		q.FollowUp = []session.Message{&session.UserMessage{Content: session.TextContent("late")}}
		return q, nil
	}
	log := &eventLog{}
	r := newRig(t, config{script: echo, onEvent: log.hear, options: hooked(harness.Hooks{
		BeforeRunEnd: []func(context.Context, harness.RunEnding) (harness.RunEnding, error){wait},
	})})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	await(r, called)
	abort(r)
	if result := r.finish(); result.Ended == nil || result.Ended.Outcome != registers.Aborted || len(r.transcript()) != 2 {
		t.Errorf("came to %s: %q", describe(result), r.transcript())
	}
	r.check(r.h.Close(r.ctx))
	for _, ev := range log.events {
		if failed, ok := ev.(harness.HandlerError); ok {
			t.Errorf("told %+v", failed)
		}
	}
}
