package harness_test

import (
	"errors"
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

// From every point of every one of these, twice, a crash loses nothing but the
// attempt that was under way.
func TestSteppedSummaryRecoversFromEveryPoint(t *testing.T) {
	for _, c := range []struct {
		name   string
		scenes []faux.Scene
		begin  func(*rig) error
	}{
		{"threshold", []faux.Scene{fill, done, summaryScene(faux.Text("SUMMARY"))}, func(r *rig) error {
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: full})
			return err
		}},
		{"overflow", append([]faux.Scene{fill, summaryScene(faux.Text("SUMMARY"))}, overflowing...), func(r *rig) error {
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "over"})
			return err
		}},
		{"by hand", []faux.Scene{fill, summaryScene(faux.Fail("overloaded", true), faux.Text("SUMMARY"))}, func(r *rig) error {
			_, err := r.lane.Compact(r.ctx, "be brief")
			return err
		}},
		{"navigation", []faux.Scene{fill}, func(r *rig) error {
			_, err := r.lane.Navigate(r.ctx, harness.Navigation{TargetID: r.entry(0), Label: "start"})
			return err
		}},
		{"navigation with a summary", []faux.Scene{fill, summaryScene(faux.Text("BRANCH"))}, func(r *rig) error {
			_, err := r.lane.Navigate(r.ctx, harness.Navigation{TargetID: r.entry(0), Summarize: true})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := newSummaryRig(t, config{}, c.scenes...)
			base.completed(base.prompt("fill"))
			start := base.rows()
			whole := newSummaryRig(t, config{rows: start, seed: 1}, c.scenes...)
			whole.check(c.begin(whole))
			whole.completed(whole.finish())
			want, leaf := whole.transcript(), whole.register(registers.FactLabelNS, string(whole.lane.Leaf()))

			recovered := func(r *rig) {
				if diff := cmp.Diff(want, r.transcript()); diff != "" {
					t.Fatalf("transcript (-want +got):\n%s", diff)
				}
				if got := r.register(registers.FactLabelNS, string(r.lane.Leaf())); got != leaf {
					t.Fatalf("label %s, want %s", got, leaf)
				}
				for row := range slices.Values(r.rows()) {
					if reg, ok := row.(pistore.Register); ok && strings.HasPrefix(reg.Namespace, "op.") {
						t.Fatalf("register %s %s outlives its operation", reg.Namespace, reg.Key)
					}
				}
			}
			first := newSummaryRig(t, config{rows: start, seed: 2, drive: harness.Manual}, c.scenes...)
			first.check(c.begin(first))
			points := 0
			drain(first, func(rows []pistore.Row) {
				points++
				verifyClean(t, first.store)
				second := newSummaryRig(t, config{rows: rows, seed: 3, drive: harness.Manual}, c.scenes...)
				resumeThrough(second, func(again []pistore.Row) {
					third := newSummaryRig(t, config{rows: again, seed: 4}, c.scenes...)
					resumeThrough(third, nil)
					recovered(third)
				})
				recovered(second)
			})
			if points < 2 {
				t.Fatalf("only %d points", points)
			}
		})
	}
}

// Automatic and manual drive leave the same commits.
func TestSummaryDrivesLeaveEqualStores(t *testing.T) {
	run := func(drive harness.Drive) (digests, traces []string) {
		scenes := append([]faux.Scene{fill, summaryScene(faux.Fail("overloaded", true), faux.Text("SUMMARY"))}, overflowing...)
		r := newSummaryRig(t, config{drive: drive}, scenes...)
		r.completed(r.prompt("fill"))
		r.completed(r.prompt("over"))
		r.completed(r.navigate(harness.Navigation{TargetID: r.entry(0), Summarize: true, Label: "x"}))
		digest, err := pistore.Digest(r.ctx, r.store)
		r.check(err)
		return []string{digest}, []string{trace(r.store.commits())}
	}
	autoDigest, auto := run(harness.Automatic)
	manualDigest, manual := run(harness.Manual)
	if diff := cmp.Diff(auto, manual); diff != "" {
		t.Errorf("traces (-automatic +manual):\n%s", diff)
	}
	if !slices.Equal(autoDigest, manualDigest) {
		t.Errorf("digests differ: %s and %s", autoDigest, manualDigest)
	}
}

// A process that dies in every attempt at a summary spends the captured attempts
// and no more, and leaves a result and a row for what it announced last.
func TestSummaryAttemptsHoldAcrossRestarts(t *testing.T) {
	retry := registers.RetryPolicy{MaxAttempts: 3, BaseDelayMS: 1}
	scenes := []faux.Scene{fill, done, summaryScene(faux.Text("SUMMARY"))}
	r := newSummaryRig(t, config{retry: retry, drive: harness.Manual}, scenes...)
	r.completed(r.prompt("fill"))
	_, err := r.lane.Compact(r.ctx, "")
	r.check(err)
	requests := 0
	for restart := range 10 {
		// Up to the request that is announced, and not beyond.
		for {
			r.check(r.lane.Settle(r.ctx))
			parked := r.lane.Peek()
			if len(parked) == 0 {
				break
			}
			if parked[0].Kind == harness.EffectRequest {
				requests++
				break
			}
			_, err := r.lane.Step(r.ctx)
			r.check(err)
		}
		if len(r.lane.Peek()) == 0 {
			break
		}
		// The next process would allow more: the captured policy counts.
		r = newSummaryRig(t, config{retry: registers.RetryPolicy{MaxAttempts: 9}, drive: harness.Manual, rows: r.rows(), seed: uint64(restart + 1)}, scenes...)
		_, err := r.lane.Resume(r.ctx)
		r.check(err)
	}
	if requests != 3 {
		t.Errorf("%d requests, want 3", requests)
	}
	r.failed(r.finish(), "interrupted")
	if want := []string{"assistant", "compaction"}; !slices.Equal(want, r.purposes()) {
		t.Errorf("usage rows for %v, want %v", r.purposes(), want)
	}
	if row := r.usage()[1]; row.Usage != session.ZeroUsage {
		t.Errorf("the row of the lost attempt holds %s", row.Usage)
	}
}

// A preparation that is damaged is found before anything is executed.
func TestDamagedPreparationIsCorrupt(t *testing.T) {
	r := newSummaryRig(t, config{drive: harness.Manual}, fill, summaryScene(faux.Text("SUMMARY")))
	r.completed(r.prompt("fill"))
	_, err := r.lane.Compact(r.ctx, "")
	r.check(err)
	rows := r.rows()
	for name, change := range map[string]func(pistore.Register) pistore.JSON{
		"absent":  gone,
		"no form": func(pistore.Register) pistore.JSON { return `{"messagesToSummarize":7}` },
	} {
		again := newSummaryRig(t, config{rows: edited(rows, registers.OpPreparationNS, change), noLane: true, seed: 1}, fill)
		if _, err := again.h.Lane(again.ctx, "main"); !errors.Is(err, pistore.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
