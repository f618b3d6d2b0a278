package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// laterRun defers its first turn, which two polls bring, and its second, which
// one does.
var laterRun = faux.Script{{Turns: faux.Turns(
	faux.Defer(faux.Pending(), faux.Call("append", `{"text":"one"}`)),
	faux.Defer(faux.Text("Done.")),
)}}

// suspended fails the test unless the run waits for a deferred response.
func (r *rig) suspended(result harness.Result) {
	r.t.Helper()
	if result.Suspended == nil || result.Suspended.Reason != harness.SuspendDeferred {
		r.t.Fatalf("the run came to %s", describe(result))
	}
}

// resume resumes the run and drives it to its end or suspension.
func (r *rig) resume() harness.Result {
	r.t.Helper()
	_, err := r.lane.Resume(r.ctx)
	r.check(err)
	return r.finish()
}

// A deferred response suspends the run; each Resume polls once, under ids of its
// own, with the newest handle.
func TestDeferredTrace(t *testing.T) {
	log := &eventLog{}
	r := newRig(t, config{script: laterRun, onEvent: log.hear})
	r.suspended(r.prompt("go"))
	r.suspended(r.resume())
	r.suspended(r.resume())
	r.completed(r.resume())
	want := []string{
		"lane.leaf=null; lane.state=idle",
		"entry user; lane.leaf; op.meta; op.state checkpoint need_assistant skipInboxOnce; lane.config; lane.state=open",
		"op.state assistant effect_pending attempt 1",
		"entry assistant deferred; lane.leaf; usage; op.state deferred suspended poll 0",
		"op.state deferred effect_pending poll 1",
		"entry assistant deferred; lane.leaf; usage; op.state deferred suspended poll 1",
		"op.state deferred effect_pending poll 2",
		"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never]",
		"entry toolResult; lane.leaf; delete op.tool_args; op.state assistant effect_pending attempt 1",
		"entry assistant deferred; lane.leaf; usage; op.state deferred suspended poll 0",
		"op.state deferred effect_pending poll 1",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	}
	if diff := cmp.Diff(want, r.outlines(0)); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	var purposes []string
	for _, row := range r.usage() {
		purpose, _ := row.Details.Member("purpose")
		text, _ := purpose.Text()
		purposes = append(purposes, text)
	}
	if got := strings.Join(purposes, " "); got != "assistant deferred deferred assistant deferred" {
		t.Errorf("usage is for %s", got)
	}
	turns := map[pistore.ID]bool{}
	r.check(r.h.Close(r.ctx))
	for _, ev := range log.events {
		switch ev := ev.(type) {
		case harness.MessageEnd:
			turns[ev.TurnID] = true
		case harness.RunSuspend:
			if ev.Detail == "" {
				t.Error("a suspension names no handle")
			}
		}
	}
	if len(turns) != 2 || turns[""] {
		t.Errorf("the responses belong to turns %v", turns)
	}
}

// Recovery from every point of a deferred run, hooks included, and of its
// recoveries; both drives.
func TestDeferredRunRecoversFromEveryPoint(t *testing.T) {
	recoverFromEveryPoint(t, config{script: laterRun}, 30)
	recoverFromEveryPoint(t, config{script: laterRun, options: hooked(everyHook(&asked{}))}, 40)
}

func TestDrivesLeaveEqualDeferredStores(t *testing.T) {
	run := func(drive harness.Drive) string {
		r := newRig(t, config{script: laterRun, drive: drive})
		stepThrough(r, nil)
		r.completed(r.finish())
		return trace(r.store.commits())
	}
	if diff := cmp.Diff(run(harness.Automatic), run(harness.Manual)); diff != "" {
		t.Errorf("traces differ (-automatic +manual):\n%s", diff)
	}
}

// later defers its response; polls are answered by a function.
type later struct {
	*funcProvider
	poll func(provider.Request, session.DeferredHandle) provider.Response
}

var laterHandle = session.DeferredHandle{Provider: "faux", ModelID: "faux-1", API: "faux", ID: "h1", Data: `{"n":0}`}

func deferring(handle session.DeferredHandle) *funcProvider {
	p := &funcProvider{}
	p.stream = func(_ context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
		m := provider.Empty(req, "faux", session.StopDeferred, "")
		m.Deferred = &handle
		return provider.Response{Message: m}
	}
	return p
}

func (p *later) Poll(_ context.Context, req provider.Request, h session.DeferredHandle) provider.Response {
	return p.poll(req, h)
}

func (p *later) Cancel(context.Context, session.DeferredHandle) error { return nil }

// What a poll may be answered with.
func TestPollAnswers(t *testing.T) {
	settle := func(reason session.StopReason, text string, content ...session.Block) func(provider.Request, session.DeferredHandle) provider.Response {
		return func(req provider.Request, _ session.DeferredHandle) provider.Response {
			m := provider.Empty(req, "faux", reason, text)
			m.Content = content
			return provider.Response{Message: m, Retryable: true}
		}
	}
	pending := func(change func(*session.DeferredHandle)) func(provider.Request, session.DeferredHandle) provider.Response {
		return func(req provider.Request, h session.DeferredHandle) provider.Response {
			change(&h)
			m := provider.Empty(req, "faux", session.StopDeferred, "")
			m.Deferred = &h
			return provider.Response{Message: m}
		}
	}
	for name, c := range map[string]struct {
		poll   func(provider.Request, session.DeferredHandle) provider.Response
		last   string // what is stored last
		failed string // of the failure
	}{
		"equal handle":   {pending(func(h *session.DeferredHandle) { h.Data, h.PollAfterMS, h.ExpiresAt = `{"n":1}`, 5, 9 }), "deferred", ""},
		"other id":       {pending(func(h *session.DeferredHandle) { h.ID = "h2" }), "error", "stop reason deferred"},
		"other API":      {pending(func(h *session.DeferredHandle) { h.API = "x" }), "error", "stop reason deferred"},
		"other model":    {pending(func(h *session.DeferredHandle) { h.ModelID = "x" }), "error", "stop reason deferred"},
		"no id":          {pending(func(h *session.DeferredHandle) { h.ID = "" }), "error", "stop reason deferred"},
		"error":          {settle(session.StopError, "it is gone"), "error", "it is gone"},
		"aborted":        {settle(session.StopAborted, "who asked?"), "error", "who asked?"},
		"no calls":       {settle(session.StopToolUse, ""), "error", "stop reason toolUse"},
		"stop":           {settle(session.StopStop, ""), "stop", ""},
		"panic":          {func(provider.Request, session.DeferredHandle) provider.Response { panic("out of cheese") }, "error", "out of cheese"},
		"malformed":      {func(provider.Request, session.DeferredHandle) provider.Response { return provider.Response{} }, "error", "malformed"},
		"cut with calls": {settle(session.StopLength, "", session.ToolCall{ID: "1", Name: "append", Arguments: `{}`}), "deferred", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &later{deferring(laterHandle), c.poll}
			r := newRig(t, config{provider: p})
			r.suspended(r.prompt("go"))
			result := r.resume()
			_, messages := r.messages()
			last := messages[len(messages)-1].(*session.AssistantMessage)
			if string(last.StopReason) != c.last {
				t.Errorf("stored is %s", last.StopReason)
			}
			switch {
			case c.failed != "":
				r.failed(result, "provider_error")
				if !strings.Contains(result.Ended.Error.Message, c.failed) || !strings.Contains(last.ErrorMessage, c.failed) {
					t.Errorf("failed with %q, stored %q", result.Ended.Error.Message, last.ErrorMessage)
				}
			case c.last == "deferred":
				r.suspended(result)
			default:
				r.completed(result)
			}
		})
	}
}

// The next poll is made with the handle of the newest answer, after a restart
// too.
func TestPollsWithTheNewestHandle(t *testing.T) {
	var seen []string
	poll := func(req provider.Request, h session.DeferredHandle) provider.Response {
		seen = append(seen, string(h.Data))
		h.Data = pistore.JSON(strings.ReplaceAll(string(h.Data), "}", "0}"))
		m := provider.Empty(req, "faux", session.StopDeferred, "")
		m.Deferred = &h
		return provider.Response{Message: m}
	}
	h := laterHandle
	h.Data = `{"n":1}`
	p := &later{deferring(h), poll}
	r := newRig(t, config{provider: p})
	r.suspended(r.prompt("go"))
	r.suspended(r.resume())
	r = newRig(t, config{provider: p, rows: r.rows(), seed: 3})
	r.suspended(r.resume())
	if diff := cmp.Diff([]string{`{"n":1}`, `{"n":10}`}, seen); diff != "" {
		t.Errorf("polled with (-want +got):\n%s", diff)
	}
}

// A handle that nobody can poll by is an error; a provider that cannot be
// polled is missing, and nothing is written for it.
func TestHandlesThatNobodyCanPoll(t *testing.T) {
	bad := laterHandle
	bad.Provider = "another"
	r := newRig(t, config{provider: deferring(bad)})
	r.failed(r.prompt("go"), "provider_error")

	r = newRig(t, config{provider: deferring(laterHandle)})
	for _, result := range []func() harness.Result{func() harness.Result { return r.prompt("go") }, r.resume} {
		if got := result(); got.Suspended == nil || got.Suspended.Reason != harness.SuspendMissingIdentities || !strings.Contains(got.Suspended.Detail, "faux") {
			t.Fatalf("came to %s", describe(got))
		}
	}
	rows := r.rows()
	seen := make(chan int64, 1)
	p := &later{deferring(laterHandle), func(req provider.Request, _ session.DeferredHandle) provider.Response {
		seen <- req.Attempt
		return provider.Response{Message: provider.Empty(req, "faux", session.StopStop, "")}
	}}
	r = newRig(t, config{provider: p, rows: rows, seed: 3})
	r.completed(r.resume())
	if n := await(r, seen); n != 1 {
		t.Errorf("the first poll has number %d", n)
	}
}

// A state that names a response without a handle is found by restore.
func TestRestoreOfALostHandle(t *testing.T) {
	r := newRig(t, config{provider: &later{deferring(laterHandle), nil}})
	r.suspended(r.prompt("go"))
	var rows []pistore.Row
	for _, row := range r.rows() {
		if e, ok := row.(pistore.Entry); ok {
			e.Payload = pistore.JSON(strings.ReplaceAll(string(e.Payload), `"id":"h1"`, `"id":""`))
			row = e
		}
		rows = append(rows, row)
	}
	again := newRig(t, config{rows: rows, noLane: true})
	if _, err := again.h.Lane(again.ctx, registers.MainLane); !errors.Is(err, pistore.ErrCorrupt) {
		t.Errorf("restored: %v", err)
	}
}

// An abort of a suspended run cancels the deferred response once, by its newest
// handle, before the run ends; nothing of the call is stored.
func TestAbortCancelsADeferredResponse(t *testing.T) {
	for _, c := range []struct {
		name    string
		resumes int // before the abort
		want    []string
	}{
		{"before a poll", 0, []string{
			"op.state deferred suspended poll 0; cancelled",
			"op.state deferred suspended poll 0; cancelled",
			"delete op.meta; delete op.state; lane.lastResult aborted ; lane.state=idle",
		}},
		{"behind a poll", 1, []string{
			"op.state deferred suspended poll 1; cancelled",
			"op.state deferred suspended poll 1; cancelled",
			"delete op.meta; delete op.state; lane.lastResult aborted ; lane.state=idle",
		}},
	} {
		for _, drive := range []harness.Drive{harness.Automatic, harness.Manual} {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, config{script: laterRun, drive: drive})
				r.suspended(r.prompt("go"))
				for range c.resumes {
					r.suspended(r.resume())
				}
				before := len(r.store.commits())
				abort(r)
				result := r.finish()
				if result.Ended == nil || result.Ended.Outcome != registers.Aborted {
					t.Fatalf("came to %s", describe(result))
				}
				if got := r.faux.Cancels(); len(got) != 1 || got[0].ID != "faux-0-s0" {
					t.Errorf("cancelled %+v", got)
				}
				for i, line := range r.outlines(before) {
					if !strings.HasPrefix(line, strings.TrimSuffix(c.want[i], "; cancelled")) {
						t.Errorf("commit %d: %s, want %s", i, line, c.want[i])
					}
				}
				if got := len(r.store.commits()) - before; got != len(c.want) {
					t.Errorf("%d commits, want %d", got, len(c.want))
				}
			})
		}
	}
}

// It ends as aborted from every point, a crash beside the cancel call included,
// which then is made again; and where a poll was on its way.
func TestAbortOfADeferredRunRecovers(t *testing.T) {
	script := faux.Script{{Turns: faux.Turns(faux.Defer(faux.Text("Done.")))}}
	resume := func(r *rig) {
		_, err := r.lane.Resume(r.ctx)
		r.check(err)
	}
	const suspended = 3 // intent, request, settlement
	for step := range suspended + 3 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			s := scene{config: config{script: script}, calls: map[int]func(*rig){step: abort}}
			if step > suspended {
				s.calls[suspended] = resume
			}
			s.recovers(t)
		})
	}
}

// A provider that fails to cancel, or cannot, holds up no end.
func TestCancelIsBestEffort(t *testing.T) {
	t.Run("error", func(t *testing.T) {
		log := &eventLog{}
		script := faux.Script{{Turns: faux.Turns(faux.Defer(faux.Pending()))}}
		script[0].Turns[0][0].OnCancel = func(context.Context) error { panic("out of cheese") }
		r := newRig(t, config{script: script, onEvent: log.hear})
		r.suspended(r.prompt("go"))
		abort(r)
		if result := r.finish(); result.Ended == nil || result.Ended.Outcome != registers.Aborted {
			t.Errorf("came to %s", describe(result))
		}
		r.check(r.h.Close(r.ctx))
		if !slices.ContainsFunc(log.events, func(ev harness.Event) bool {
			failed, ok := ev.(harness.HandlerError)
			return ok && failed.Handler == "provider faux"
		}) {
			t.Error("nobody was told")
		}
	})
	t.Run("missing", func(t *testing.T) {
		r := newRig(t, config{provider: deferring(laterHandle)})
		r.prompt("go")
		abort(r)
		if result := r.finish(); result.Ended == nil || result.Ended.Outcome != registers.Aborted {
			t.Errorf("came to %s", describe(result))
		}
	})
	t.Run("turned back", func(t *testing.T) {
		r := newRig(t, config{script: laterRun, drive: harness.Manual})
		r.suspended(r.prompt("go"))
		abort(r)
		for range 3 { // the commit of the resume, then twice at the call
			r.check(r.lane.Settle(r.ctx))
			if parked := r.lane.Peek(); len(parked) == 1 && parked[0].Kind == harness.EffectCancel {
				abort(r)
			} else {
				_, err := r.lane.Step(r.ctx)
				r.check(err)
			}
		}
		if result := r.finish(); result.Ended == nil || result.Ended.Outcome != registers.Aborted {
			t.Errorf("came to %s", describe(result))
		}
		if got := r.faux.Cancels(); len(got) != 1 {
			t.Errorf("cancelled %d times", len(got))
		}
	})
}
