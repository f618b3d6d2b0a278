package harness_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// Delays double up to a minute; a provider's own wish wins if it is longer.
func TestRetryDelays(t *testing.T) {
	fails := func(n int, afterMS ...int64) faux.Turn {
		var turn faux.Turn
		for i := range n {
			step := faux.Fail(fmt.Sprintf("overloaded %d", i+1), true)
			if i < len(afterMS) {
				step.RetryAfterMS = afterMS[i]
			}
			turn = append(turn, step)
		}
		return append(turn, faux.Text("Done."))
	}
	for _, tt := range []struct {
		name   string
		policy registers.RetryPolicy
		turn   faux.Turn
		want   []int64
	}{
		{"by default", registers.RetryPolicy{}, fails(3), []int64{2000, 4000, 8000}},
		{"up to a minute", registers.RetryPolicy{MaxAttempts: 8, BaseDelayMS: 2000}, fails(7), []int64{2000, 4000, 8000, 16000, 32000, 60000, 60000}},
		{"a base above a minute", registers.RetryPolicy{MaxAttempts: 3, BaseDelayMS: 90_000}, fails(2), []int64{60000, 60000}},
		{"a huge base", registers.RetryPolicy{MaxAttempts: 3, BaseDelayMS: pistore.MaxSeq}, fails(2), []int64{60000, 60000}},
		{"no delay", registers.RetryPolicy{MaxAttempts: 3}, fails(2), []int64{0, 0}},
		{"the provider asks for longer", registers.RetryPolicy{MaxAttempts: 4, BaseDelayMS: 1000}, fails(3, 5000, 100, 120_000), []int64{5000, 2000, 120_000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var waits []int64
			var told []string
			r := newRig(t, config{script: faux.Script{{Turns: []faux.Turn{tt.turn}}}, retry: tt.policy, onEvent: func(ev harness.Event) {
				if ev, ok := ev.(harness.RetryScheduled); ok {
					told = append(told, fmt.Sprintf("%d %s", ev.NextAttempt, ev.ErrorMessage))
				}
			}})
			before := r.clock.read()
			result := r.prompt("go")
			r.completed(result)
			for _, tx := range r.store.commits() {
				if wait, ok := phaseOf(t, tx).(*registers.AssistantRetryWait); ok {
					waits = append(waits, int64(wait.NotBefore-before))
					before = wait.NotBefore // the clock stands still otherwise
				}
			}
			if diff := cmp.Diff(tt.want, waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			r.check(r.h.Close(r.ctx))
			for i, line := range told {
				if want := fmt.Sprintf("%d overloaded %d", i+2, i+1); line != want {
					t.Errorf("told %q, want %q", line, want)
				}
			}
			for i, req := range r.faux.Requests() {
				if req.Attempt != int64(i+1) || len(req.Messages) != 1 {
					t.Errorf("request %d is attempt %d with %d messages", i, req.Attempt, len(req.Messages))
				}
			}
		})
	}
}

// phaseOf is the phase of the op.state that a transaction sets, nil if none.
func phaseOf(t *testing.T, tx pistore.Tx) registers.Phase {
	t.Helper()
	if run := runOf(t, tx); run != nil {
		return run.Phase
	}
	return nil
}

func runOf(t *testing.T, tx pistore.Tx) *registers.RunState {
	t.Helper()
	for _, w := range tx.Writes {
		if set, ok := w.(pistore.SetRegister); ok && set.Namespace == registers.OpStateNS {
			state, err := registers.DecodeOpState(set.Value)
			if err != nil {
				t.Fatal(err)
			}
			return state.(*registers.RunState)
		}
	}
	return nil
}

// A process that dies behind each intent makes as many requests as one that
// lives: the count is durable. Then the failure is, under the ids that the last
// intent reserved.
func TestRetryCapAcrossRestarts(t *testing.T) {
	for _, attempts := range []int64{1, 3} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			p, called := hanging()
			policy := registers.RetryPolicy{MaxAttempts: attempts, BaseDelayMS: 10}
			r := newRig(t, config{provider: p, retry: policy})
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			r.check(err)
			var last *registers.AssistantPending
			for n := int64(1); n <= attempts; n++ {
				if req := await(r, called); req.Attempt != n || len(req.Messages) != 1 {
					t.Fatalf("request %d is attempt %d with %d messages", n, req.Attempt, len(req.Messages))
				}
				rows := r.rows()
				run := openRun(t, rows)
				last = run.Phase.(*registers.AssistantPending)
				if last.Attempt != n || run.Resumes != n-1 {
					t.Fatalf("restart %d stands at attempt %d of resume %d", n, last.Attempt, run.Resumes)
				}
				// The policy of this process is another one; the captured one counts.
				r = newRig(t, config{provider: p, retry: registers.RetryPolicy{MaxAttempts: 9, BaseDelayMS: 1}, rows: rows, seed: uint64(n)})
				if _, messages := r.messages(); len(messages) != 1 {
					t.Fatalf("restart %d left %d messages", n, len(messages))
				}
				_, err := r.lane.Resume(r.ctx)
				r.check(err)
			}
			result := r.finish()
			r.failed(result, "interrupted")
			checkEnded(r, result)
			if len(called) != 0 {
				t.Errorf("%d requests beyond the cap", len(called))
			}
			ids, messages := r.messages()
			response, ok := messages[len(messages)-1].(*session.AssistantMessage)
			if !ok || len(messages) != 2 || ids[1] != last.ResponseEntryID || response.StopReason != session.StopError || response.Usage != session.ZeroUsage {
				t.Errorf("%d messages, the last is %s %+v", len(messages), ids[len(ids)-1], response)
			}
			usage := r.usage()
			if len(usage) != 1 || usage[0].ID != last.UsageID || usage[0].EntryID != last.ResponseEntryID || usage[0].Usage != session.ZeroUsage {
				t.Errorf("usage %+v", usage)
			}
			if result.Ended.FinalAssistantID != last.ResponseEntryID {
				t.Errorf("the final response is %s", result.Ended.FinalAssistantID)
			}
		})
	}
}

// A wait that a crash interrupts is not longer, and none is spent.
func TestRetryWaitAcrossRestart(t *testing.T) {
	script := faux.Script{{Turns: []faux.Turn{{faux.Fail("overloaded", true), faux.Text("Done.")}}}}
	first := newRig(t, config{script: script, drive: harness.Manual})
	_, err := first.lane.Prompt(first.ctx, harness.Prompt{Text: "go"})
	first.check(err)
	for range 3 {
		_, err := first.lane.Step(first.ctx)
		first.check(err)
	}
	parked := first.lane.Peek()
	if len(parked) != 1 || parked[0].Kind != harness.EffectSleep {
		t.Fatalf("parked %+v", parked)
	}
	r := newRig(t, config{script: script, rows: first.rows(), seed: 1})
	_, err = r.lane.Resume(r.ctx)
	r.check(err)
	result := r.finish()
	r.completed(result)
	if until := pistore.UnixMS(1_700_000_000_000 + 2000); r.clock.read() != until {
		t.Errorf("the second attempt came at %d, not %d", r.clock.read(), until)
	}
	if requests := r.faux.Requests(); len(requests) != 1 || requests[0].Attempt != 2 {
		t.Errorf("requests %+v", requests)
	}
	checkEnded(r, result)
}

// A sleep that fails is no sleep: the wait goes on without it.
func TestSleepFails(t *testing.T) {
	for name, sleep := range map[string]func(context.Context, pistore.UnixMS) error{
		"panics":       func(context.Context, pistore.UnixMS) error { panic("out of cheese") },
		"ends":         func(context.Context, pistore.UnixMS) error { runtime.Goexit(); return nil },
		"has an error": func(context.Context, pistore.UnixMS) error { return context.Canceled },
	} {
		t.Run(name, func(t *testing.T) {
			var failed []harness.HandlerError
			r := newRig(t, config{
				script:  faux.Script{{Turns: []faux.Turn{{faux.Fail("overloaded", true), faux.Text("Done.")}}}},
				retry:   registers.RetryPolicy{MaxAttempts: 2, BaseDelayMS: 20},
				options: func(o *harness.Options) { o.Sleep = sleep },
				onEvent: func(ev harness.Event) {
					if ev, ok := ev.(harness.HandlerError); ok {
						failed = append(failed, ev)
					}
				},
			})
			before := time.Now()
			r.completed(r.prompt("go"))
			if waited := time.Since(before); waited < 20*time.Millisecond {
				t.Errorf("waited %v", waited)
			}
			r.check(r.h.Close(r.ctx))
			if len(failed) != 1 || failed[0].Handler != "sleep" {
				t.Errorf("reported %v", failed)
			}
		})
	}
}

// resumes is one more in the first commit of each Resume, and 0 in every other.
func TestResumes(t *testing.T) {
	script := faux.Script{{Turns: faux.Turns(calls("append"), faux.Text("Done."))}}
	counts := func(r *rig, from int) []int64 {
		var out []int64
		for _, tx := range r.store.commits()[from:] {
			if run := runOf(t, tx); run != nil {
				out = append(out, run.Resumes)
			}
		}
		return out
	}
	first := newRig(t, config{script: script, drive: harness.Manual})
	_, err := first.lane.Prompt(first.ctx, harness.Prompt{Text: "go"})
	first.check(err)
	_, err = first.lane.Step(first.ctx)
	first.check(err)
	if diff := cmp.Diff([]int64{0, 0}, counts(first, 1)); diff != "" {
		t.Errorf("without a Resume: %s", diff)
	}
	rows := first.rows()
	for n := int64(1); n <= 2; n++ { // killed behind the intent of each
		r := newRig(t, config{script: script, drive: harness.Manual, rows: rows, seed: uint64(n)})
		_, err = r.lane.Resume(r.ctx)
		r.check(err)
		_, err = r.lane.Step(r.ctx)
		r.check(err)
		if diff := cmp.Diff([]int64{n}, counts(r, 0)); diff != "" {
			t.Errorf("restart %d: %s", n, diff)
		}
		rows = r.rows()
	}
	r := newRig(t, config{script: script, rows: rows, seed: 5})
	_, err = r.lane.Resume(r.ctx)
	r.check(err)
	r.completed(r.finish())
	if diff := cmp.Diff([]int64{3, 0, 0}, counts(r, 0)); diff != "" {
		t.Errorf("to the end: %s", diff)
	}
}

// A Resume that finds the world wanting commits nothing.
func TestResumeWithoutCommit(t *testing.T) {
	rows := stoppedAt(t, "checkpoint")
	r := newRig(t, config{script: toolRun, rows: rows, active: []string{}, provider: &funcProvider{name: "another"}, seed: 1})
	for range 3 {
		_, err := r.lane.Resume(r.ctx)
		r.check(err)
		result := r.finish()
		if result.Suspended == nil || result.Suspended.Reason != harness.SuspendMissingIdentities {
			t.Fatalf("the run came to %s", describe(result))
		}
	}
	if n := len(r.store.commits()); n != 0 {
		t.Errorf("%d commits", n)
	}
}

// The count of resumes stops at the largest number that can be stored.
func TestResumesWithoutEnd(t *testing.T) {
	rows := edited(stoppedAt(t, "checkpoint"), registers.OpStateNS, replaced(`"resumes":0`, fmt.Sprintf(`"resumes":%d`, pistore.MaxSeq)))
	r := newRig(t, config{script: toolRun, rows: rows, drive: harness.Manual})
	_, err := r.lane.Resume(r.ctx)
	r.check(err)
	_, err = r.lane.Step(r.ctx)
	r.check(err)
	if got := openRun(t, r.rows()).Resumes; got != pistore.MaxSeq {
		t.Errorf("resumes is %d", got)
	}
	r.completed(r.finish())
}
