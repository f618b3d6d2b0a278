package harness_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// toolRun is a run with both kinds of tools, a retry, a refused call and an
// answer.
var toolRun = faux.Script{{Turns: []faux.Turn{
	{{Content: []session.Block{
		session.Text{Text: "Working."},
		session.ToolCall{Name: "append", Arguments: `{"text":"one"}`},
		session.ToolCall{Name: "lookup", Arguments: `{"text":"two"}`},
		session.ToolCall{Name: "append", Arguments: `{"text":3}`},
	}}},
	{faux.Fail("overloaded", true), faux.Text("Done.")},
}}}

func TestSteppedRunRecoversFromEveryPoint(t *testing.T) {
	for _, mode := range []registers.ToolExecution{registers.Sequential, registers.Parallel} {
		t.Run(string(mode), func(t *testing.T) {
			recoverFromEveryPoint(t, config{script: toolRun, tools: mode}, 20)
		})
	}
}

// recoverFromEveryPoint drives a run step by step. The store is copied at every
// point where it is at rest, each copy is reopened and resumed step by step, and
// each of the recovery's own points is a crash again.
func recoverFromEveryPoint(t *testing.T, c config, atLeast int) {
	t.Helper()
	rig := func(drive harness.Drive, seed uint64, rows []pistore.Row) *rig {
		c := c
		c.drive, c.seed, c.rows = drive, seed, rows
		return newRig(t, c)
	}
	whole := rig(harness.Automatic, 6, nil)
	stepThrough(whole, nil)
	whole.completed(whole.finish())
	want := whole.transcript()
	points := 0
	stepThrough(rig(harness.Manual, 7, nil), eachStore(func(rows []pistore.Row) {
		first := rig(harness.Manual, 8, rows)
		resumeThrough(first, eachStore(func(again []pistore.Row) {
			points++
			second := rig(harness.Automatic, 9, again)
			resumeThrough(second, nil)
			checkRecovered(t, second, want, rows, again)
		}))
		checkRecovered(t, first, want, rows)
	}))
	if points < atLeast {
		t.Fatalf("only %d points", points)
	}
}

// eachStore visits a point only if the store has changed since the one before:
// a process that died at either leaves the same.
func eachStore(visit func([]pistore.Row)) func([]pistore.Row) {
	var last []pistore.Row
	return func(rows []pistore.Row) {
		if !slices.Equal(rows, last) {
			last = rows
			visit(rows)
		}
	}
}

// stepThrough prompts and gives every point at rest to visit.
func stepThrough(r *rig, visit func([]pistore.Row)) {
	r.t.Helper()
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	drain(r, visit)
}

// drain steps to the end, and resumes what waits for a deferred response.
func drain(r *rig, visit func([]pistore.Row)) {
	r.t.Helper()
	for {
		r.check(r.lane.Settle(r.ctx))
		if visit != nil {
			visit(r.rows())
		}
		if len(r.lane.Peek()) == 0 {
			result, err := r.lane.Handle().Wait(r.ctx)
			r.check(err)
			if result.Suspended == nil || result.Suspended.Reason != harness.SuspendDeferred {
				return
			}
			_, err = r.lane.Resume(r.ctx)
			r.check(err)
			continue
		}
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
}

// resumeThrough resumes the run if one is open, until the lane is idle.
func resumeThrough(r *rig, visit func([]pistore.Row)) {
	r.t.Helper()
	if _, err := r.lane.Resume(r.ctx); err == nil {
		drain(r, visit)
		r.completed(r.finish())
	}
}

// checkRecovered compares the transcript with that of the uninterrupted run.
// Where a call that may never run twice was in flight in one of the copies, its
// result is an interrupted one.
func checkRecovered(t *testing.T, r *rig, want []string, crashes ...[]pistore.Row) {
	t.Helper()
	uncertain := false
	for _, rows := range crashes {
		uncertain = uncertain || neverInFlight(t, rows)
	}
	want = slices.Clone(want)
	if uncertain {
		i := slices.IndexFunc(want, func(s string) bool { return strings.HasPrefix(s, "result of append: append did") })
		want[i] = "result of append: interrupted"
	}
	if diff := cmp.Diff(want, r.transcript()); diff != "" {
		t.Fatalf("after a crash at %s the transcript differs (-want +got):\n%s", where(crashes[len(crashes)-1]), diff)
	}
	if _, most := r.world.count("append"); most > 1 {
		t.Fatalf("a call that may never run twice ran %d times", most)
	}
	for row := range slices.Values(r.rows()) {
		if reg, ok := row.(pistore.Register); ok && strings.HasPrefix(reg.Namespace, "op.") {
			t.Fatalf("register %s %s outlives its operation", reg.Namespace, reg.Key)
		}
	}
}

func neverInFlight(t *testing.T, rows []pistore.Row) bool {
	t.Helper()
	run := openRun(t, rows)
	if run == nil {
		return false
	}
	batch, ok := run.Phase.(*registers.Tools)
	return ok && slices.ContainsFunc(batch.Calls, func(c registers.Call) bool {
		return c.Status == registers.CallEffectPending && c.Replay == registers.ReplayNever
	})
}

// openRun decodes the op.state among rows, nil if there is none.
func openRun(t *testing.T, rows []pistore.Row) *registers.RunState {
	t.Helper()
	for _, row := range rows {
		if reg, ok := row.(pistore.Register); ok && reg.Namespace == registers.OpStateNS {
			state, err := registers.DecodeOpState(reg.Value)
			if err != nil {
				t.Fatal(err)
			}
			run, _ := state.(*registers.RunState)
			return run
		}
	}
	return nil
}

func where(rows []pistore.Row) string {
	for _, row := range rows {
		if reg, ok := row.(pistore.Register); ok && reg.Namespace == registers.OpStateNS {
			return string(reg.Value)
		}
	}
	return "an idle lane"
}

// Automatic and manual drive leave the same commits and the same state.
func TestDrivesLeaveEqualStores(t *testing.T) {
	for _, mode := range []registers.ToolExecution{registers.Sequential, registers.Parallel} {
		t.Run(string(mode), func(t *testing.T) {
			run := func(drive harness.Drive) (string, string) {
				// The completion order of parallel calls is scripted: the
				// second call returns when the first is settled.
				w := newWorld()
				release := w.hold("lookup")
				r := newRig(t, config{script: toolRun, tools: mode, drive: drive, world: w, onEvent: func(ev harness.Event) {
					if added, ok := ev.(harness.EntryAdded); ok && strings.Contains(string(added.Entry.Payload), "append did") {
						release()
					}
				}})
				_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
				r.check(err)
				commitsFirst(r)
				r.completed(r.finish())
				digest, err := pistore.Digest(r.ctx, r.store)
				r.check(err)
				return digest, trace(r.store.commits())
			}
			automaticDigest, automatic := run(harness.Automatic)
			manualDigest, manual := run(harness.Manual)
			if diff := cmp.Diff(automatic, manual); diff != "" {
				t.Errorf("traces differ (-automatic +manual):\n%s", diff)
			}
			if automaticDigest != manualDigest {
				t.Errorf("digests differ: %s and %s", automaticDigest, manualDigest)
			}
		})
	}
}

// commitsFirst steps a manual lane to its end, settling what has returned before
// anything else runs.
func commitsFirst(r *rig) {
	r.t.Helper()
	for {
		r.check(r.lane.Settle(r.ctx))
		parked := r.lane.Peek()
		if len(parked) == 0 {
			return
		}
		i := max(0, slices.IndexFunc(parked, func(e harness.Effect) bool { return e.Kind == harness.EffectCommit }))
		_, err := r.lane.StepEffect(r.ctx, parked[i].ID)
		r.check(err)
	}
}

// Dropping all memory between two commits with no effect in flight changes no
// later commit, the count of resumes aside.
func TestAbandonBetweenEffectsChangesNothing(t *testing.T) {
	whole := newRig(t, config{script: toolRun, tools: registers.Sequential})
	whole.completed(whole.prompt("go"))
	want := whole.store.commits()

	r := newRig(t, config{script: toolRun, tools: registers.Sequential, drive: harness.Manual, seed: 7})
	done := 1 // commits in the copy: the acceptance
	stepThrough(r, func(rows []pistore.Row) {
		run := openRun(t, rows)
		done = len(r.store.commits())
		if run == nil || effectInFlight(run) {
			return
		}
		fresh := newRig(t, config{script: toolRun, tools: registers.Sequential, rows: rows, seed: 8})
		resumeThrough(fresh, nil)
		got := fresh.store.commits()
		if diff := cmp.Diff(shape(want[done:]), shape(got)); diff != "" {
			t.Errorf("abandoned at %s (-whole +resumed):\n%s", where(rows), diff)
		}
	})
	if done < 4 {
		t.Fatalf("%d commits", done)
	}
}

func effectInFlight(run *registers.RunState) bool {
	switch ph := run.Phase.(type) {
	case *registers.AssistantPending:
		return true
	case *registers.RunCompaction:
		if g := ph.Summary.Generating; g != nil {
			_, pending := g.Generation.(*registers.GenerationPending)
			return pending
		}
	case *registers.Tools:
		return slices.ContainsFunc(ph.Calls, func(c registers.Call) bool { return c.Status == registers.CallEffectPending })
	}
	return false
}

// shape is what each transaction writes, without ids, times and counts of
// resumes.
func shape(txs []pistore.Tx) []string {
	var out []string
	for _, tx := range txs {
		var parts []string
		for _, w := range tx.Writes {
			switch w := w.(type) {
			case pistore.InsertEntry:
				parts = append(parts, "entry")
			case pistore.InsertUsage:
				parts = append(parts, "usage")
			case pistore.SetRegister:
				parts = append(parts, "set "+w.Namespace)
				if state, err := registers.DecodeOpState(w.Value); w.Namespace == registers.OpStateNS && err == nil {
					run := *state.(*registers.RunState)
					run.Resumes = 0
					parts[len(parts)-1] += " " + renameIDs(string(registers.EncodeOpState(&run)), map[string]string{})
				}
			case pistore.DeleteRegister:
				parts = append(parts, "delete "+w.Namespace)
			}
		}
		out = append(out, strings.Join(parts, ", "))
	}
	return out
}
