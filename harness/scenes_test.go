package harness_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/registers"
)

// scene is a run in manual drive with public calls between its steps.
type scene struct {
	config config
	// calls are made when so many effects were released, the prompt aside.
	calls map[int]func(*rig)
}

// play prompts and steps to the end, and gives every point at rest to visit,
// with the number of calls that were made before.
func (s scene) play(r *rig, visit func(rows []pistore.Row, made int)) harness.Result {
	r.t.Helper()
	handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	made := 0
	for step := 0; ; step++ {
		r.check(r.lane.Settle(r.ctx))
		if visit != nil {
			visit(r.rows(), made)
		}
		if call := s.calls[step]; call != nil {
			call(r)
			made++
			r.check(r.lane.Settle(r.ctx))
			if visit != nil {
				visit(r.rows(), made)
			}
		}
		if len(r.lane.Peek()) == 0 {
			break
		}
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
	if made != len(s.calls) {
		r.t.Fatalf("the run ended behind %d of %d calls", made, len(s.calls))
	}
	result, err := handle.Wait(r.ctx)
	r.check(err)
	return result
}

func callInFlight(t *testing.T, rows []pistore.Row) bool {
	t.Helper()
	run := openRun(t, rows)
	if run == nil {
		return false
	}
	batch, ok := run.Phase.(*registers.Tools)
	return ok && slices.ContainsFunc(batch.Calls, func(c registers.Call) bool { return c.Status == registers.CallEffectPending })
}

// rig is a rig of the scene's configuration in manual drive.
func (s scene) rig(t *testing.T, seed uint64, rows []pistore.Row) *rig {
	t.Helper()
	c := s.config
	c.drive, c.seed, c.rows = harness.Manual, seed, rows
	return newRig(t, c)
}

// recovers checks that from every point of the scene, and from every point of
// each recovery, the operation comes to an end that leaves nothing behind, and
// that it is the end of the uninterrupted scene wherever all calls were made.
func (s scene) recovers(t *testing.T) {
	t.Helper()
	whole := s.rig(t, 0, nil)
	end := s.play(whole, nil)
	checkEnded(whole, end)
	want := whole.transcript()
	points := 0
	judge := func(r *rig, made int, crashes ...[]pistore.Row) {
		t.Helper()
		verifyClean(t, r.store)
		if r.lane.Handle() != nil {
			result, err := r.lane.Handle().Wait(r.ctx)
			r.check(err)
			if made == len(s.calls) && (result.Ended == nil || result.Ended.Outcome != end.Ended.Outcome) {
				t.Fatalf("after a crash at %s the operation came to %s", where(crashes[len(crashes)-1]), describe(result))
			}
			checkEnded(r, result)
		}
		if made == len(s.calls) {
			got := r.transcript()
			if diff := cmp.Diff(s.softened(t, want, crashes), s.softened(t, got, crashes)); diff != "" {
				t.Fatalf("after a crash at %s the transcript differs (-want +got):\n%s", where(crashes[len(crashes)-1]), diff)
			}
		}
	}
	s.play(s.rig(t, 7, nil), func(rows []pistore.Row, made int) {
		points++
		first := s.rig(t, 8, rows)
		s.resume(first, func(again []pistore.Row) {
			second := s.rig(t, 9, again)
			s.resume(second, nil)
			judge(second, made, rows, again)
		})
		judge(first, made, rows)
	})
	if points < 3 {
		t.Fatalf("only %d points", points)
	}
}

// resume steps an open operation to its end.
func (s scene) resume(r *rig, visit func([]pistore.Row)) {
	r.t.Helper()
	if _, err := r.lane.Resume(r.ctx); err == nil {
		drain(r, visit)
	}
}

// softened takes the results of calls for one another, if a call was in flight
// at a crash.
func (s scene) softened(t *testing.T, transcript []string, crashes [][]pistore.Row) []string {
	t.Helper()
	if !slices.ContainsFunc(crashes, func(rows []pistore.Row) bool { return callInFlight(t, rows) }) {
		return transcript
	}
	out := slices.Clone(transcript)
	for i, line := range out {
		if name, _, result := strings.Cut(line, ": "); result && strings.HasPrefix(name, "result of ") {
			out[i] = name + ": uncertain"
		}
	}
	return out
}

// outlineInbox names how much waits in an inbox, empty if nothing does.
func outlineInbox(run *registers.RunState) string {
	var parts []string
	for _, q := range []struct {
		name string
		ids  []pistore.ID
	}{
		{"steer", run.Inbox.Steer}, {"follow-up", run.Inbox.FollowUp}, {"write", run.Inbox.Writes},
		{"drained", append(slices.Clone(run.Control.DrainedSteer), run.Control.DrainedFollowUp...)},
	} {
		for range q.ids {
			parts = append(parts, q.name)
		}
	}
	text := ""
	if len(parts) > 0 {
		text = " with " + strings.Join(parts, ", ")
	}
	if run.Control.CancelRequested {
		text += ", cancelled"
	}
	return text
}
