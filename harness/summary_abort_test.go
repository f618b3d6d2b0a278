package harness_test

import (
	"errors"
	"strings"
	"testing"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
)

// Abort against each commit of a summary, in both orders, and from every crash:
// before the structural commit there is no entry and the leaf stays; behind it
// the operation is complete.
func TestAbortAndStructuralCommit(t *testing.T) {
	for _, c := range []struct {
		name   string
		scenes []faux.Scene
		begin  func(*rig) error
		run    bool
	}{
		{"by hand", []faux.Scene{fill, summaryScene(faux.Fail("busy", true), faux.Text("SUMMARY"))}, func(r *rig) error {
			_, err := r.lane.Compact(r.ctx, "")
			return err
		}, false},
		{"navigation", []faux.Scene{fill}, func(r *rig) error {
			_, err := r.lane.Navigate(r.ctx, harness.Navigation{TargetID: r.entry(0), Label: "start"})
			return err
		}, false},
		{"navigation with a summary", []faux.Scene{fill, summaryScene(faux.Text("BRANCH"))}, func(r *rig) error {
			_, err := r.lane.Navigate(r.ctx, harness.Navigation{TargetID: r.entry(0), Summarize: true})
			return err
		}, false},
		{"threshold", []faux.Scene{fill, done, summaryScene(faux.Text("SUMMARY"))}, func(r *rig) error {
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: full})
			return err
		}, true},
		{"overflow", append([]faux.Scene{fill, summaryScene(faux.Text("SUMMARY"))}, overflowing...), func(r *rig) error {
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "over"})
			return err
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := newSummaryRig(t, config{}, c.scenes...)
			base.completed(base.prompt("fill"))
			start, leaf := base.rows(), base.lane.Leaf()
			// aborted checks the end of an operation that was asked to stop.
			aborted := func(r *rig, where string) {
				t.Helper()
				result := r.finish()
				if result.Ended == nil || result.Ended.Outcome != registers.Aborted {
					t.Fatalf("aborted at %s, it came to %s", where, describe(result))
				}
				if !c.run && r.lane.Leaf() != leaf {
					t.Errorf("aborted at %s, the leaf moved", where)
				}
				for _, row := range r.rows() {
					switch row := row.(type) {
					case pistore.Entry:
						if !c.run && row.Type != pistore.TypeMessage {
							t.Errorf("aborted at %s, there is a %s", where, row.Type)
						}
					case pistore.Register:
						if strings.HasPrefix(row.Namespace, "op.") || row.Namespace == registers.FactLabelNS {
							t.Errorf("aborted at %s, %s %s is there", where, row.Namespace, row.Key)
						}
					}
				}
				verifyClean(t, r.store)
			}
			for step := 0; ; step++ {
				r := newSummaryRig(t, config{rows: start, seed: 1, drive: harness.Manual}, c.scenes...)
				r.check(c.begin(r))
				for range step {
					r.check(r.lane.Settle(r.ctx))
					if len(r.lane.Peek()) == 0 {
						break
					}
					_, err := r.lane.Step(r.ctx)
					r.check(err)
				}
				r.check(r.lane.Settle(r.ctx))
				rows, at := r.rows(), where(r.rows())
				_, err := r.lane.Abort(r.ctx)
				if errors.Is(err, harness.ErrNoActiveOperation) {
					r.completed(r.finish())
					if step < 2 && c.name != "navigation" {
						t.Errorf("it ended behind %d steps", step)
					}
					break
				}
				r.check(err)
				asked := r.rows()
				aborted(r, at)

				restored := newSummaryRig(t, config{rows: rows, seed: 2, drive: harness.Manual}, c.scenes...)
				_, err = restored.lane.Abort(restored.ctx)
				restored.check(err)
				aborted(restored, "restored "+at)

				crashed := newSummaryRig(t, config{rows: asked, seed: 3, drive: harness.Manual}, c.scenes...)
				_, err = crashed.lane.Resume(crashed.ctx)
				crashed.check(err)
				aborted(crashed, "resumed "+at)
			}
		})
	}
}
