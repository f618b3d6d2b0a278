package harness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/harness"
	"pistore/memstore"
	"pistore/registers"
	"pistore/session"
)

// everyCall selects the points at which every call of the batch stands like this.
func everyCall(status registers.CallStatus) func(registers.OpState) bool {
	return func(s registers.OpState) bool {
		return !slices.ContainsFunc(phaseIn(s).(*registers.Tools).Calls, func(c registers.Call) bool { return c.Status != status })
	}
}

// runs selects the points at which a call of this kind runs.
func runs(replay registers.Replay) func(registers.OpState) bool {
	return func(s registers.OpState) bool {
		return slices.ContainsFunc(phaseIn(s).(*registers.Tools).Calls, func(c registers.Call) bool {
			return c.Status == registers.CallEffectPending && c.Replay == replay
		})
	}
}

// stateName names a state as the table does.
func stateName(s registers.OpState) string {
	name := string(registers.KindOf(s))
	switch ph := phaseIn(s).(type) {
	case *registers.Checkpoint:
		name += ": checkpoint may_finish"
		if _, owed := ph.Continuation.(*registers.NeedAssistant); owed {
			name = "run: checkpoint need_assistant"
		}
	case *registers.AssistantReady:
		name += ": assistant ready"
	case *registers.AssistantPending:
		name += ": assistant effect_pending"
	case *registers.AssistantRetryWait:
		name += ": assistant retry_wait"
	case *registers.Tools:
		name += ": tools"
	case *registers.DeferredSuspended:
		name += ": deferred suspended"
	case *registers.DeferredPending:
		name += ": deferred effect_pending"
	case *registers.RunCompaction:
		name += ": compaction " + string(ph.Reason)
	case *registers.FailureDrain:
		if name += ": failure_drain summary"; ph.Provenance.ResponseEntryID != "" {
			name = "run: failure_drain response"
		}
	}
	sum := registers.SummaryOf(s)
	if sum == nil {
		return name
	}
	if sum.Generating == nil {
		return name + ", deciding"
	}
	switch g := sum.Generating.Generation.(type) {
	case *registers.GenerationReady:
		return name + ", ready"
	case *registers.GenerationPending:
		if g.Request == nil {
			return name + ", between requests"
		}
		return name + ", effect_pending"
	case *registers.GenerationRetryWait:
		return name + ", retry_wait"
	default:
		panic(fmt.Sprintf("generation %T", g))
	}
}

// stateOf is the state of the open operation among rows, nil if there is none.
func stateOf(t *testing.T, rows []pistore.Row) registers.OpState {
	t.Helper()
	for _, row := range rows {
		if reg, ok := row.(pistore.Register); ok && reg.Namespace == registers.OpStateNS {
			state, err := registers.DecodeOpState(reg.Value)
			if err != nil {
				t.Fatal(err)
			}
			return state
		}
	}
	return nil
}

// inEach changes the state that rows hold.
func inEach(t *testing.T, rows []pistore.Row, change func(registers.OpState)) []pistore.Row {
	t.Helper()
	state := stateOf(t, rows)
	change(state)
	return edited(rows, registers.OpStateNS, func(pistore.Register) pistore.JSON { return registers.EncodeOpState(state) })
}

// cancelled marks the operation as asked to stop.
func cancelled(t *testing.T, rows []pistore.Row) []pistore.Row {
	t.Helper()
	return inEach(t, rows, func(s registers.OpState) {
		control := registers.Control{CancelRequested: true, RequestedAt: newClock().now}
		if run, ok := s.(*registers.RunState); ok {
			control.DrainedSteer, control.DrainedFollowUp = run.Inbox.Steer, run.Inbox.FollowUp
			run.Inbox.Steer, run.Inbox.FollowUp = nil, nil
		}
		*registers.ControlOf(s) = control
	})
}

// committing makes a transaction of an open operation in a copy of what is
// stored. Its op.state is the one that is given.
func committing(t *testing.T, rows []pistore.Row, state registers.OpState, writes ...pistore.Write) []pistore.Row {
	t.Helper()
	ctx := context.Background()
	b := memstore.New(memstore.Options{Clock: newClock().read})
	if _, err := b.Load(ctx, rowSeq(rows)); err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(ctx, "s", pistore.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	writes = append(writes, pistore.SetRegister{Namespace: registers.OpStateNS, Key: opOf(rows), Value: registers.EncodeOpState(state)})
	if _, err := s.Commit(ctx, pistore.Tx{Writes: writes}); err != nil {
		t.Fatal(err)
	}
	var out []pistore.Row
	for row, err := range s.Export(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

// failed settles what is in flight as an error, and leaves the run to drain.
func failed(t *testing.T, rows []pistore.Row) []pistore.Row {
	t.Helper()
	run := stateOf(t, rows).(*registers.RunState)
	drain := &registers.FailureDrain{Error: registers.Failure{Code: "provider_error", Message: "the key is wrong"}}
	var writes []pistore.Write
	switch ph := run.Phase.(type) {
	case *registers.AssistantPending:
		m := &session.AssistantMessage{
			Provider: "faux", Model: "faux-1", Usage: session.ZeroUsage, StopReason: session.StopError, ErrorMessage: "the key is wrong",
		}
		drain.Provenance.ResponseEntryID, run.LatestAssistantEntryID = ph.ResponseEntryID, ph.ResponseEntryID
		writes = []pistore.Write{
			pistore.InsertEntry{ID: ph.ResponseEntryID, ParentID: ph.Context.TriggerEntryID, Type: pistore.TypeMessage, Payload: session.MessagePayload(m)},
			pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: "main", Value: registers.EncodeLaneLeaf(ph.ResponseEntryID)},
			pistore.InsertUsage{ID: ph.UsageID, EntryID: ph.ResponseEntryID, Usage: session.ZeroUsage, Details: "{}"},
		}
	case *registers.RunCompaction:
		drain.Provenance.SummaryID = ph.Summary.SummaryID
		pend := ph.Summary.Generating.Generation.(*registers.GenerationPending)
		writes = []pistore.Write{
			pistore.InsertUsage{ID: pend.Request.UsageID, Usage: session.ZeroUsage, Details: "{}"},
			pistore.DeleteRegister{Namespace: registers.OpPreparationNS, Key: registers.PreparationKey(pistore.ID(opOf(rows)), ph.Summary.SummaryID)},
		}
	default:
		t.Fatalf("phase %T", ph)
	}
	run.Phase = drain
	return committing(t, rows, run, writes...)
}

// queueing lets input wait.
func queueing(t *testing.T, rows []pistore.Row) []pistore.Row {
	t.Helper()
	run := stateOf(t, rows).(*registers.RunState)
	var writes []pistore.Write
	ids := pistore.NewIDs(newClock().read, strings.NewReader(strings.Repeat("random bits", 100)))
	for _, q := range []struct {
		into *[]pistore.ID
		text string
	}{{&run.Inbox.Steer, "look here"}, {&run.Inbox.FollowUp, "and now"}} {
		id := ids.At(newClock().now)
		*q.into = append(*q.into, id)
		writes = append(writes, pistore.SetRegister{
			Namespace: registers.PendingEntryNS, Key: string(id), Value: registers.EncodePendingEntry(registers.PendingEntry{
				Type: pistore.TypeMessage, Payload: session.MessagePayload(&session.UserMessage{Content: session.TextContent(q.text)}),
			})})
	}
	return committing(t, rows, run, writes...)
}

// build brings the scenario to the state and returns what is stored then.
func (d standing) build(t *testing.T) []pistore.Row {
	t.Helper()
	var start []pistore.Row
	if d.world.scenes != nil {
		base := d.world.rig(t, config{})
		base.completed(base.prompt("fill"))
		start = base.rows()
	}
	r := d.world.rig(t, config{rows: start, seed: 1, drive: harness.Manual})
	r.check(d.world.begin(r))
	want := d.state
	if d.spoil != nil {
		want = d.from
	}
	var found []pistore.Row
	look := func(rows []pistore.Row) {
		state := stateOf(t, rows)
		if found == nil && state != nil && stateName(state) == want && (d.where == nil || d.where(state)) {
			found = rows
		}
	}
	drain(r, look)
	resumeAll(r, look)
	if found == nil {
		t.Fatalf("the scenario never stands in %s", want)
	}
	if d.spoil != nil {
		found = d.spoil(t, found)
	}
	if got := stateName(stateOf(t, found)); got != d.state {
		t.Fatalf("it stands in %s, not in %s", got, d.state)
	}
	return found
}

// resumeAll resumes until the lane is idle, or nothing changes.
func resumeAll(r *rig, visit func([]pistore.Row)) {
	r.t.Helper()
	for range 8 {
		if _, err := r.lane.Resume(r.ctx); err != nil {
			return
		}
		drain(r, visit)
		r.finish()
	}
	r.t.Fatal("the operation never ends")
}
