package harness_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
)

// What a hook makes of each summary: it declines, it supplies, it leaves it to
// a model, it gives what cannot be used.
func TestSummaryHooks(t *testing.T) {
	const (
		leave = iota
		decline
		supply
		empty
	)
	hook := func(what int, seen *[]harness.SummaryPlan) []func(context.Context, harness.SummaryPlan) (harness.SummaryPlan, error) {
		return []func(context.Context, harness.SummaryPlan) (harness.SummaryPlan, error){
			func(_ context.Context, plan harness.SummaryPlan) (harness.SummaryPlan, error) {
				*seen = append(*seen, plan)
				switch what {
				case decline:
					plan.Decline = true
				case supply:
					plan.Supplied = &harness.SuppliedSummary{Text: "BY HAND", Usage: `{"input":7}`}
				case empty:
					plan.Supplied = &harness.SuppliedSummary{Text: " "}
				}
				plan.Preparation.MessagesToSummarize[0] = `{"role":"user","content":"forged"}`
				return plan, nil
			},
		}
	}
	prompt := func(text string) func(*rig) harness.Result {
		return func(r *rig) harness.Result { return r.prompt(text) }
	}
	navigate := func(r *rig) harness.Result {
		return r.navigate(harness.Navigation{TargetID: r.entry(0), Summarize: true})
	}
	compact := func(r *rig) harness.Result { return r.compact("") }
	for _, c := range []struct {
		name    string
		act     func(*rig) harness.Result
		what    int
		outcome registers.Outcome
		code    string
		purpose []string // of the rows behind that of the first turn
		first   string   // of the transcript
	}{
		{"compaction, left to a model", compact, leave, registers.Completed, "", []string{"compaction"}, "compactionSummary: SUMMARY"},
		{"compaction, declined", compact, decline, registers.Declined, "", nil, "user: fill"},
		{"compaction, supplied", compact, supply, registers.Completed, "", []string{"compaction"}, "compactionSummary: BY HAND"},
		{"compaction, empty", compact, empty, registers.Completed, "", []string{"compaction"}, "compactionSummary: SUMMARY"},
		{"threshold, declined", prompt(full), decline, registers.Completed, "", []string{"assistant"}, "user: fill"},
		{"threshold, supplied", prompt(full), supply, registers.Completed, "", []string{"compaction", "assistant"}, "compactionSummary: BY HAND"},
		{"overflow, declined", prompt("over"), decline, registers.Failed, "context_overflow", []string{"assistant"}, "user: fill"},
		{"overflow, left to a model", prompt("over"), leave, registers.Completed, "", []string{"assistant", "compaction", "assistant"}, "compactionSummary: SUMMARY"},
		{"navigation, declined", navigate, decline, registers.Declined, "", nil, "user: fill"},
		{"navigation, supplied", navigate, supply, registers.Completed, "", []string{"branch_summary"}, "user: fill"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen []harness.SummaryPlan
			scenes := append([]faux.Scene{fill, done, summaryScene(faux.Text("SUMMARY"))}, overflowing...)
			r := newSummaryRig(t, config{options: func(o *harness.Options) {
				o.Hooks.BeforeCompaction = hook(c.what, &seen)
				o.Hooks.BeforeNavigation = o.Hooks.BeforeCompaction
			}}, scenes...)
			r.completed(r.prompt("fill"))
			result := c.act(r)
			if result.Ended == nil || result.Ended.Outcome != c.outcome || result.Ended.Error != nil && result.Ended.Error.Code != c.code {
				t.Fatalf("it came to %s", describe(result))
			}
			if got := r.purposes()[1:]; !slices.Equal(c.purpose, got) {
				t.Errorf("usage rows for %v, want %v", got, c.purpose)
			}
			if got := r.transcript()[0]; got != c.first {
				t.Errorf("the context begins with %.60q, want %q", got, c.first)
			}
			if len(seen) != 1 {
				t.Errorf("the hook was asked %d times", len(seen))
			}
		})
	}
}

// A decision is stored with what it leads to: a crash before that asks again, a
// crash behind the choice of a model does not.
func TestSummaryHookRunsAgainUntilItsDecisionIsStored(t *testing.T) {
	asked := 0
	options := func(o *harness.Options) {
		o.Hooks.BeforeCompaction = []func(context.Context, harness.SummaryPlan) (harness.SummaryPlan, error){
			func(_ context.Context, plan harness.SummaryPlan) (harness.SummaryPlan, error) {
				asked++
				return plan, nil
			},
		}
	}
	scenes := []faux.Scene{fill, summaryScene(faux.Text("SUMMARY"))}
	r := newSummaryRig(t, config{drive: harness.Manual, options: options}, scenes...)
	r.completed(r.prompt("fill"))
	_, err := r.lane.Compact(r.ctx, "")
	r.check(err)
	var got []int
	for seed := uint64(1); ; seed++ {
		r.check(r.lane.Settle(r.ctx))
		if len(r.lane.Peek()) == 0 {
			break
		}
		again := newSummaryRig(t, config{rows: r.rows(), seed: seed, options: options}, scenes...)
		before := asked
		resumeThrough(again, nil)
		got = append(got, asked-before)
		_, err := r.lane.Step(r.ctx)
		r.check(err)
	}
	// Before the hook, before the commit of its decision, before the request,
	// and before the commit of the summary.
	if diff := cmp.Diff([]int{1, 1, 0, 0}, got); diff != "" {
		t.Errorf("questions after a crash (-want +got):\n%s", diff)
	}
}
