package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
)

// spoiler is a Storage that writes something else than it was given.
type spoiler struct {
	pistore.Storage
	spoil func(pistore.Write) pistore.Write
}

func (s *spoiler) Unwrap() pistore.Storage { return s.Storage }

func (s *spoiler) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	out := pistore.Tx{Expect: tx.Expect}
	for _, w := range tx.Writes {
		out.Writes = append(out.Writes, s.spoil(w))
	}
	return s.Storage.Commit(ctx, out)
}

// A writer that stores something else than what is in memory trips the check,
// whichever register it is, and nothing goes on.
func TestCheckFindsAnotherValue(t *testing.T) {
	register := func(namespace, old, now string) func(pistore.Write) pistore.Write {
		return func(w pistore.Write) pistore.Write {
			if set, ok := w.(pistore.SetRegister); ok && set.Namespace == namespace {
				set.Value = pistore.JSON(strings.Replace(string(set.Value), old, now, 1))
				return set
			}
			return w
		}
	}
	for name, tt := range map[string]struct {
		spoil func(pistore.Write) pistore.Write
		place string
	}{
		"op.state":    {register(registers.OpStateNS, `"attempt":1`, `"attempt":2`), registers.OpStateNS},
		"op.meta":     {register(registers.OpMetaNS, `"startedAt":1`, `"startedAt":2`), registers.OpStateNS},
		"lane.config": {register(registers.LaneConfigNS, `"off"`, `"high"`), registers.LaneConfigNS},
		"lane.leaf": {func(w pistore.Write) pistore.Write {
			if set, ok := w.(pistore.SetRegister); ok && set.Namespace == registers.LaneLeafNS {
				set.Value = "null"
				return set
			}
			return w
		}, registers.LaneLeafNS},
		"op.tool_args":  {register(registers.OpToolArgsNS, `one`, `two`), registers.OpStateNS},
		"pending.entry": {register(registers.PendingEntryNS, `now`, `never`), registers.OpStateNS},
		"next run":      {register(registers.PendingEntryNS, `next`, `last`), registers.LaneStateNS},
		"an entry": {func(w pistore.Write) pistore.Write {
			if e, ok := w.(pistore.InsertEntry); ok {
				e.Payload = pistore.JSON(strings.Replace(string(e.Payload), `"go"`, `"stop"`, 1))
				return e
			}
			return w
		}, registers.LaneLeafNS},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []harness.Fault
			r := newRig(t, config{
				script: toolThenEcho, drive: harness.Manual, noLane: true, spoiled: true,
				wrap: func(s pistore.Storage) pistore.Storage { return &spoiler{s, tt.spoil} },
				onEvent: func(ev harness.Event) {
					if ev, ok := ev.(harness.Fault); ok {
						faults = append(faults, ev)
					}
				},
			})
			err := r.inboxRun()
			if !errors.Is(err, pistore.ErrFaulted) {
				t.Fatalf("the run came to %v", err)
			}
			var corrupt *pistore.CorruptError
			if len(faults) != 1 || !errors.As(faults[0].Err, &corrupt) || corrupt.Invariant != 22 || !strings.Contains(corrupt.Place, tt.place) {
				t.Errorf("faults %+v", faults)
			}
		})
	}
}

// inboxRun is a run that uses everything that the check compares.
func (r *rig) inboxRun() error {
	r.t.Helper()
	lane, err := r.h.Lane(r.ctx, "main")
	if err != nil {
		return err
	}
	if _, err := lane.NextRun(r.ctx, harness.Prompt{Text: "first"}); err != nil {
		return err
	}
	handle, err := lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	if err != nil {
		return err
	}
	if _, err := lane.Steer(r.ctx, harness.Prompt{Text: "now"}); err != nil {
		return err
	}
	if _, err := lane.NextRun(r.ctx, harness.Prompt{Text: "next"}); err != nil {
		return err
	}
	if _, err := lane.RunToCompletion(r.ctx); err != nil {
		return err
	}
	_, err = handle.Wait(r.ctx)
	return err
}

// A Resume looks at what is stored even when commits are not read back.
func TestResumeChecks(t *testing.T) {
	rows := stoppedAt(t, "assistant effect_pending")
	var spoil bool
	r := newRig(t, config{script: toolRun, rows: rows, seed: 1, options: unchecked,
		wrap: func(s pistore.Storage) pistore.Storage { return &forger{s, &spoil} }})
	spoil = true
	_, err := r.lane.Resume(r.ctx)
	if !errors.Is(err, pistore.ErrFaulted) || !errors.Is(err, pistore.ErrCorrupt) {
		t.Fatalf("resume: %v", err)
	}
	if n := len(r.store.commits()); n != 0 {
		t.Errorf("%d commits", n)
	}
}

// forger is a Storage whose op.state reads otherwise from some time on.
type forger struct {
	pistore.Storage
	on *bool
}

func (s *forger) Unwrap() pistore.Storage { return s.Storage }

func (s *forger) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	found, err := s.Storage.Registers(ctx, at)
	for i := range found {
		if *s.on && found[i].Namespace == registers.OpStateNS {
			found[i].Value = pistore.JSON(strings.Replace(string(found[i].Value), `"attempt":1`, `"attempt":3`, 1))
		}
	}
	return found, err
}

// An operation that takes its process down whenever it is resumed is left
// suspended in the end, by automatic resumes; by hand it goes on, and a step
// forward makes it one like any other.
func TestCrashLoop(t *testing.T) {
	script := faux.Script{{Turns: faux.Turns(calls("lookup"), faux.Text("Done."))}}
	s := scene{config: config{script: script}}
	var rows []pistore.Row
	s.play(s.rig(t, 0, nil), func(at []pistore.Row, _ int) {
		if run := openRun(t, at); run != nil && strings.HasPrefix(outlinePhase(run.Phase), "tools") && rows == nil {
			rows = at
		}
	})
	for restart := range 7 {
		r := s.rig(t, uint64(restart), rows)
		handle, err := r.lane.ResumeAutomatically(r.ctx)
		r.check(err)
		drainUntil(r, harness.EffectTool) // the safe call is about to run again, and the process dies
		if restart >= 5 {
			result, err := handle.Wait(r.ctx)
			r.check(err)
			if result.Suspended == nil || result.Suspended.Reason != harness.SuspendCrashLoop || len(r.store.commits()) != 0 {
				t.Fatalf("restart %d: the operation came to %+v with %d commits", restart, result, len(r.store.commits()))
			}
			continue
		}
		if n := openRun(t, r.rows()).Resumes; n != int64(restart+1) {
			t.Fatalf("restart %d is counted as %d", restart, n)
		}
		steer("more")(r) // is no step forward
		rows = r.rows()
	}
	r := s.rig(t, 9, rows)
	handle, err := r.lane.ResumeAutomatically(r.ctx)
	r.check(err)
	again, err := r.lane.Resume(r.ctx)
	r.check(err)
	if again != handle {
		t.Error("the handle changed")
	}
	for range 3 { // the commit that counts, the call, and its settlement
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
	if n := openRun(t, r.rows()).Resumes; n != 0 {
		t.Errorf("behind a step forward %d resumes are counted", n)
	}
	if _, err := r.lane.ResumeAutomatically(r.ctx); !errors.Is(err, harness.ErrNothingToResume) {
		t.Errorf("resume of what goes on: %v", err)
	}
	r.finish()
	if _, err := harness.New(r.store, harness.Options{MaxResumes: -1}); !errors.Is(err, pistore.ErrInvalid) {
		t.Errorf("-1 resumes at most: %v", err)
	}
}

// drainUntil steps until an effect of a kind is parked, or nothing is.
func drainUntil(r *rig, kind harness.EffectKind) {
	r.t.Helper()
	for {
		r.check(r.lane.Settle(r.ctx))
		parked := r.lane.Peek()
		if len(parked) == 0 || parked[0].Kind == kind {
			return
		}
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
}
