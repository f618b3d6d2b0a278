package harness_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// configureBeside commits a change of a lane's configuration beside the harness.
func (r *rig) configureBeside(level string) {
	r.t.Helper()
	lane, err := r.other().Lane(r.ctx, "main")
	r.check(err)
	c := *lane.Config
	c.ThinkingLevel = level
	r.check(r.other().SetConfiguration(r.ctx, lane, c))
}

// Another writer changes the configuration while a step that reads it is about
// to commit: the step is planned again, with the new one, and no effect is
// dispatched twice.
func TestConfigurationChangesBeside(t *testing.T) {
	for _, at := range []struct {
		name  string
		steps int // released before the change
		want  []string
	}{
		{"before the first intent", 0, []string{"high", "high"}},
		{"before the second step begins with the result", 4, []string{"off", "high"}},
		{"while the request is out", 1, []string{"off", "high"}},
	} {
		t.Run(at.name, func(t *testing.T) {
			r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(calls("append"), faux.Text("Done."))}}, drive: harness.Manual})
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			r.check(err)
			for range at.steps {
				_, err := r.lane.Step(r.ctx)
				r.check(err)
			}
			r.configureBeside("high")
			result := r.finish()
			r.completed(result)
			checkEnded(r, result)
			requests := r.faux.Requests()
			if len(requests) != 2 {
				t.Fatalf("%d requests", len(requests))
			}
			for i, want := range at.want {
				if requests[i].ThinkingLevel != want {
					t.Errorf("request %d thinks %s, want %s", i, requests[i].ThinkingLevel, want)
				}
			}
			if total, _ := r.world.count("append"); total != 1 {
				t.Errorf("the call ran %d times", total)
			}
			if got := r.lane.Configuration().ThinkingLevel; got != "high" {
				t.Errorf("the lane thinks %s", got)
			}
		})
	}
}

// The ids that an intent was shown with are those that it is planned again with.
func TestReplanKeepsItsIDs(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Done."))}}, drive: harness.Manual})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	r.check(r.lane.Settle(r.ctx))
	shown := r.lane.Peek()[0].Detail
	r.configureBeside("high")
	_, err = r.lane.Step(r.ctx)
	r.check(err)
	pend := openRun(t, r.rows()).Phase.(*registers.AssistantPending)
	for _, id := range []pistore.ID{pend.ResponseEntryID, pend.UsageID, pend.Context.StepID} {
		if names := map[string]string{}; !containsID(string(shown), string(id), names) {
			t.Errorf("id %s was not shown in %s", id, shown)
		}
	}
	r.completed(r.finish())
}

func containsID(text, id string, names map[string]string) bool {
	renameIDs(text, names)
	return names[id] != ""
}

// Another writer changes the operation: the drive stops and writes nothing. A
// Resume goes on from what is stored now.
func TestOperationChangesBeside(t *testing.T) {
	p, called := hanging()
	finish := make(chan provider.Response)
	p.stream = func(ctx context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
		called <- req
		select {
		case resp := <-finish:
			return resp
		case <-ctx.Done():
			return provider.Response{Message: provider.Empty(req, "", session.StopAborted, "")}
		}
	}
	r := newRig(t, config{provider: p})
	run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	req := await(r, called)
	state := r.register(registers.OpStateNS, string(run.OperationID()))
	_, err = r.store.Storage.Commit(r.ctx, pistore.Tx{Writes: []pistore.Write{
		pistore.SetRegister{Namespace: registers.OpStateNS, Key: string(run.OperationID()), Value: state},
	}})
	r.check(err)
	before := r.rows()
	finish <- provider.Response{Message: provider.Empty(req, "", session.StopStop, "")}
	result, err := run.Wait(r.ctx)
	r.check(err)
	if s := result.Suspended; s == nil || s.Reason != harness.SuspendChanged {
		t.Fatalf("the run came to %s", describe(result))
	}
	if n := len(r.rows()) - len(before); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	again, err := r.lane.Resume(r.ctx)
	r.check(err)
	if again != run {
		t.Error("the handle changed")
	}
	req = await(r, called)
	if req.Attempt != 2 {
		t.Errorf("attempt %d follows the one that was lost", req.Attempt)
	}
	finish <- provider.Response{Message: provider.Empty(req, "", session.StopStop, "")}
	result, err = run.Wait(r.ctx)
	r.check(err)
	r.completed(result)
	checkEnded(r, result)
}

// finalizeBeside ends the open run from outside.
func (r *rig) finalizeBeside(op pistore.ID, result registers.LastResult) {
	r.t.Helper()
	_, err := r.store.Storage.Commit(r.ctx, pistore.Tx{Writes: []pistore.Write{
		pistore.DeleteRegister{Namespace: registers.OpMetaNS, Key: string(op)},
		pistore.DeleteRegister{Namespace: registers.OpStateNS, Key: string(op)},
		pistore.SetRegister{Namespace: registers.LaneLastResultNS, Key: "main", Value: registers.EncodeLastResult(result)},
		pistore.SetRegister{Namespace: registers.LaneStateNS, Key: "main", Value: registers.EncodeLaneState(registers.LaneState{})},
	}})
	r.check(err)
}

// The operation was ended elsewhere: the drive writes nothing, and Wait answers
// from lane.lastResult, as far as that is still there.
func TestOperationEndsElsewhere(t *testing.T) {
	for _, known := range []bool{true, false} {
		var ends []harness.RunEnd
		r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Done."))}}, drive: harness.Manual, onEvent: func(ev harness.Event) {
			if ev, ok := ev.(harness.RunEnd); ok {
				ends = append(ends, ev)
			}
		}})
		run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		for range 2 { // intent and request; the settlement is parked
			_, err := r.lane.Step(r.ctx)
			r.check(err)
		}
		outcome := registers.LastResult{OperationID: run.OperationID(), Kind: registers.KindRun, Outcome: registers.Aborted, LeafID: r.lane.Leaf()}
		if !known {
			outcome.OperationID = "later"
		}
		r.finalizeBeside(run.OperationID(), outcome)
		before := len(r.rows())
		_, err = r.lane.Step(r.ctx)
		r.check(err)
		result, err := run.Wait(r.ctx)
		switch {
		case known && (err != nil || result.Ended == nil || result.Ended.Outcome != registers.Aborted || len(ends) != 1 || ends[0].OperationID != run.OperationID()):
			t.Errorf("the run came to %+v, %v, and told of %d ends", result, err, len(ends))
		case !known && (!errors.Is(err, harness.ErrUnknownOutcome) || len(ends) != 0):
			t.Errorf("the run came to %+v, %v, and told of %d ends", result, err, len(ends))
		}
		if n := len(r.rows()) - before; n != 0 {
			t.Errorf("%d rows were written", n)
		}
		// The lane is idle and takes the next prompt.
		_, err = r.lane.Resume(r.ctx)
		if !errors.Is(err, harness.ErrNothingToResume) {
			t.Errorf("resume: %v", err)
		}
		if next := r.prompt("again"); next.Ended == nil || next.Ended.Outcome != registers.Completed {
			t.Errorf("the next run came to %s", describe(next))
		}
	}
}

// An operation that ended elsewhere while it was suspended here.
func TestSuspendedOperationEndsElsewhere(t *testing.T) {
	r := newRig(t, config{script: toolRun, rows: stoppedAt(t, "tools"), seed: 1})
	run := r.lane.Handle()
	r.finalizeBeside(run.OperationID(), registers.LastResult{OperationID: run.OperationID(), Kind: registers.KindRun, Outcome: registers.Aborted})
	_, err := r.lane.Resume(r.ctx)
	r.check(err)
	result, err := run.Wait(r.ctx)
	if err != nil || result.Ended == nil || result.Ended.Outcome != registers.Aborted {
		t.Errorf("the run came to %+v, %v", result, err)
	}
	if n := len(r.store.commits()); n != 0 {
		t.Errorf("%d commits", n)
	}
}

// What another writer puts into the registers that a run overwrites is not
// lost: input for the next run, and an entry behind the leaf.
func TestLaneChangesBeside(t *testing.T) {
	beside := func(t *testing.T, writes func(r *rig, op pistore.ID) []pistore.Write) (*rig, session.Lane) {
		r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Done."))}}, drive: harness.Manual})
		run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		for range 2 {
			_, err := r.lane.Step(r.ctx)
			r.check(err)
		}
		_, err = r.store.Storage.Commit(r.ctx, pistore.Tx{Writes: writes(r, run.OperationID())})
		r.check(err)
		r.completed(r.finish())
		verifyClean(t, r.store)
		lane, err := r.other().Lane(r.ctx, "main")
		r.check(err)
		return r, lane
	}
	t.Run("lane.state", func(t *testing.T) {
		_, lane := beside(t, func(r *rig, op pistore.ID) []pistore.Write {
			write, err := session.Queue(session.MessageContent("q", &session.UserMessage{Content: session.TextContent("next")}))
			r.check(err)
			return []pistore.Write{write, pistore.SetRegister{
				Namespace: registers.LaneStateNS, Key: "main",
				Value: registers.EncodeLaneState(registers.LaneState{CurrentOperationID: op, PendingNextRun: []pistore.ID{"q"}}),
			}}
		})
		if !lane.Idle() || len(lane.State.PendingNextRun) != 1 {
			t.Errorf("lane.state is %+v", lane.State)
		}
	})
	t.Run("lane.leaf", func(t *testing.T) {
		r, lane := beside(t, func(r *rig, _ pistore.ID) []pistore.Write {
			return session.Place("main", r.lane.Leaf(), session.CustomContent("n", "note", ""))
		})
		found, err := r.store.Entries(r.ctx, []pistore.ID{lane.Leaf})
		r.check(err)
		if found[0].ParentID != "n" {
			t.Errorf("the response stands under %s", found[0].ParentID)
		}
	})
}

// Another writer takes the lane first: the prompt is refused, and the operation
// is there to resume.
func TestPromptMeetsAnother(t *testing.T) {
	rows := stoppedAt(t, "checkpoint")
	r := newRig(t, config{script: toolRun, noLane: true})
	r.check(session.Init(r.ctx, r.store))
	var err error
	r.lane, err = r.h.Lane(r.ctx, "main")
	r.check(err)
	var tx pistore.Tx
	for _, row := range rows[1:] {
		switch row := row.(type) {
		case pistore.Entry:
			tx.Writes = append(tx.Writes, pistore.InsertEntry{ID: row.ID, ParentID: row.ParentID, Type: row.Type, Payload: row.Payload})
		case pistore.Register:
			tx.Writes = append(tx.Writes, pistore.SetRegister{Namespace: row.Namespace, Key: row.Key, Value: row.Value})
		}
	}
	_, err = r.store.Storage.Commit(r.ctx, tx)
	r.check(err)
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "mine"})
	if !errors.Is(err, harness.ErrLaneBusy) {
		t.Fatalf("prompt: %v", err)
	}
	run, err := r.lane.Resume(r.ctx)
	r.check(err)
	if string(run.OperationID()) != opOf(rows) {
		t.Errorf("resumed %s", run.OperationID())
	}
	r.completed(r.finish())
}

// beside is a harness of another owner over the same session, in manual drive,
// whose commits the rig's oracle does not see: the rig must be a spoiled one.
func (r *rig) beside() *harness.Lane {
	r.t.Helper()
	h, err := harness.New(r.store.Storage, harness.Options{
		Providers: provider.NewSet(faux.New(faux.Options{Script: echo})), Drive: harness.Manual,
		Configuration: r.lane.Configuration(), Compaction: keepLittle,
	})
	r.check(err)
	r.t.Cleanup(func() { r.check(h.Close(context.Background())) })
	l, err := h.Lane(r.ctx, "main")
	r.check(err)
	return l
}

var keepLittle = harness.Compaction{KeepRecentTokens: 1}

// Another owner began an operation: nobody here can wait for its end.
func TestWaitIdleMeetsAnother(t *testing.T) {
	r := newRig(t, config{script: echo, active: []string{}, spoiled: true})
	r.completed(r.prompt("one"))
	_, err := r.beside().Prompt(r.ctx, harness.Prompt{Text: "theirs"})
	r.check(err)
	if _, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "mine"}); !errors.Is(err, harness.ErrLaneBusy) {
		t.Fatalf("prompt: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- r.lane.WaitIdle(r.ctx) }()
	if err := await(r, waited); !errors.Is(err, harness.ErrSuspended) {
		t.Errorf("wait for the idle lane: %v", err)
	}
}

// Another owner began a compaction: what would be appended to the lane that was
// idle is refused, since no context would hold it again.
func TestIdleAppendMeetsAnother(t *testing.T) {
	r := newRig(t, config{script: echo, active: []string{}, spoiled: true})
	for _, text := range []string{"one", "two"} {
		r.completed(r.prompt(text))
	}
	_, err := r.beside().Compact(r.ctx, "")
	r.check(err)
	if _, err = r.lane.AppendMessage(r.ctx, remembered); !errors.Is(err, harness.ErrLaneBusy) {
		t.Errorf("append: %v", err)
	}
}

var remembered = &session.UserMessage{Content: session.TextContent("REMEMBER")}

// Another owner moved the leaf: what is summarized is prepared from there.
func TestPreparationMeetsAnother(t *testing.T) {
	for name, begin := range map[string]func(*rig) (*harness.Handle, error){
		"compaction": func(r *rig) (*harness.Handle, error) { return r.lane.Compact(r.ctx, "") },
		"navigation": func(r *rig) (*harness.Handle, error) {
			return r.lane.Navigate(r.ctx, harness.Navigation{TargetID: r.entry(0), Summarize: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, config{script: echo, active: []string{}, spoiled: true, options: func(o *harness.Options) { o.Compaction = keepLittle }})
			for _, text := range []string{"one", "two"} {
				r.completed(r.prompt(text))
			}
			_, err := r.beside().AppendMessage(r.ctx, remembered)
			r.check(err)
			_, err = begin(r)
			r.check(err)
			r.completed(r.finish())
			requests := r.faux.Requests()
			asked := session.JoinText(requests[len(requests)-1].Messages[0].(*session.UserMessage).Content)
			if !strings.Contains(asked, "REMEMBER") && !slices.Contains(r.transcript(), "user: REMEMBER") {
				t.Errorf("what was appended is neither summarized nor kept: %q", r.transcript())
			}
		})
	}
}
