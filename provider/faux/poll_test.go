package faux_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore/provider"
	"pistore/provider/faux"
	"pistore/provider/providertest"
	"pistore/session"
)

// Polls are answered by their number, by any process that has the script; the
// script goes on behind the response that a poll brought.
func TestPolls(t *testing.T) {
	gone := errors.New("gone")
	steps := []faux.Step{faux.Defer(faux.Pending(), faux.Call("read", `{}`)), faux.Text("Done.")}
	steps[0].OnCancel = func(context.Context) error { return gone }
	script := faux.Script{{Name: "a", Turns: faux.Turns(steps...)}}
	r, _ := ask(t, faux.New(faux.Options{Script: script}), request(user("x")))
	handle := *r.Message.Deferred
	want := session.DeferredHandle{Provider: "faux", ModelID: "faux-1", API: "faux", ID: "faux-0-a", Data: `{"Scene":"a","Turn":0,"Attempt":1}`}
	if diff := cmp.Diff(want, handle); diff != "" {
		t.Fatalf("handle (-want +got):\n%s", diff)
	}

	p := faux.New(faux.Options{Script: script})
	poll := func(number int64, h session.DeferredHandle) provider.Response {
		req := request()
		req.Attempt = number
		r := p.Poll(context.Background(), req, h)
		if err := providertest.CheckPolled(req, h, r); err != nil {
			t.Errorf("poll %d: %v", number, err)
		}
		return r
	}
	if r := poll(1, handle); r.Message.StopReason != session.StopDeferred {
		t.Errorf("poll 1: %+v", r.Message)
	}
	var ready *session.AssistantMessage
	for _, number := range []int64{2, 3} {
		if ready = poll(number, handle).Message; ready.StopReason != session.StopToolUse {
			t.Fatalf("poll %d: %+v", number, ready)
		}
	}
	call := ready.ToolCalls()[0]
	if r, _ := ask(t, p, request(user("x"), ready, result(call))); session.JoinText(r.Message.Content) != "Done." {
		t.Errorf("behind the poll: %+v", r.Message)
	}
	if err := p.Cancel(context.Background(), handle); !errors.Is(err, gone) {
		t.Errorf("cancel: %v", err)
	}

	for name, h := range map[string]session.DeferredHandle{
		"no data": {ID: "x"}, "another scene": {ID: "x", Data: `{"Scene":"b","Turn":0,"Attempt":1}`},
		"another turn": {ID: "x", Data: `{"Scene":"a","Turn":9,"Attempt":1}`}, "no polls": {ID: "x", Data: `{"Scene":"a","Turn":1,"Attempt":1}`},
		"no attempt": {ID: "x", Data: `{"Scene":"a","Turn":0}`},
	} {
		if r := poll(1, h); r.Message.StopReason != session.StopError {
			t.Errorf("%s: %+v", name, r.Message)
		}
	}
	if got := len(p.Polls()); got != 8 {
		t.Errorf("%d polls were written down", got)
	}
	if got := p.Cancels(); len(got) != 1 || got[0] != handle {
		t.Errorf("cancels %+v", got)
	}
}

// A pending answer may name another response, for harnesses that must not take
// it for theirs.
func TestPollOfAnotherHandle(t *testing.T) {
	p := faux.New(faux.Options{Script: faux.Script{{Turns: faux.Turns(
		faux.Defer(faux.Step{Deferred: &session.DeferredHandle{ID: "another"}}),
	)}}})
	r, _ := ask(t, p, request(user("x")))
	got := p.Poll(context.Background(), request(), *r.Message.Deferred)
	if got.Message.Deferred == nil || provider.SameHandle(*got.Message.Deferred, *r.Message.Deferred) {
		t.Errorf("polled %+v", got.Message)
	}
}
