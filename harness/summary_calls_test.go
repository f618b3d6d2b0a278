package harness_test

import (
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

// Rejections write nothing.
func TestSummaryRejections(t *testing.T) {
	r := newSummaryRig(t, config{drive: harness.Manual}, fill, summaryScene(faux.Text("SUMMARY")))
	reject := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	compact := func() error { _, err := r.lane.Compact(r.ctx, ""); return err }
	navigate := func(nav harness.Navigation) error { _, err := r.lane.Navigate(r.ctx, nav); return err }
	reject("an empty lane", compact(), harness.ErrNothingToCompact)
	reject("nowhere", navigate(harness.Navigation{}), harness.ErrInvalidNavigation)
	reject("an unknown target", navigate(harness.Navigation{TargetID: "nobody"}), harness.ErrUnknownTarget)
	r.completed(r.prompt("fill"))
	before := len(r.store.commits())
	reject("where it stands", navigate(harness.Navigation{TargetID: r.lane.Leaf()}), harness.ErrInvalidNavigation)
	reject("a long label", navigate(harness.Navigation{TargetID: r.entry(0), Label: strings.Repeat("x", 1<<20)}), harness.ErrInvalidNavigation)
	_, err := r.lane.Compact(r.ctx, strings.Repeat("x", 1<<20))
	reject("long instructions", err, harness.ErrInvalidMessage)
	if n := len(r.store.commits()); n != before {
		t.Errorf("rejections made %d commits", n-before)
	}
	r.check(compact())
	reject("a busy lane", compact(), harness.ErrLaneBusy)
	reject("a busy lane", navigate(harness.Navigation{TargetID: r.entry(0)}), harness.ErrLaneBusy)
	r.completed(r.finish())
	reject("a compacted lane", compact(), harness.ErrNothingToCompact)
	r.check(r.h.Close(r.ctx))
	reject("closed", compact(), pistore.ErrClosed)
}

// A navigation forward leaves nothing behind to summarize, and moves.
func TestNavigationForwardLeavesNoSummary(t *testing.T) {
	r := newSummaryRig(t, config{}, fill, summaryScene(faux.Text("BRANCH")))
	r.completed(r.prompt("fill"))
	tip := r.lane.Leaf()
	r.completed(r.navigate(harness.Navigation{TargetID: r.entry(0)}))
	r.completed(r.navigate(harness.Navigation{TargetID: tip, Summarize: true}))
	if r.lane.Leaf() != tip {
		t.Errorf("the lane stands on %s", r.lane.Leaf())
	}
}

// A compaction and a write to the idle lane: the write waits, or what is
// prepared holds it.
func TestCompactionAndIdleWrite(t *testing.T) {
	note := &session.UserMessage{Content: session.TextContent("noted")}
	r := newSummaryRig(t, config{drive: harness.Manual}, fill, summaryScene(faux.Text("SUMMARY")))
	r.completed(r.prompt("fill"))
	start := r.rows()

	_, err := r.lane.AppendMessage(r.ctx, note)
	r.check(err)
	r.completed(r.compact(""))
	if want := []string{"compactionSummary: SUMMARY", "user: noted"}; !slices.Equal(want, r.transcript()) {
		t.Errorf("the write came first: %.200q", r.transcript())
	}

	r = newSummaryRig(t, config{drive: harness.Manual, rows: start, seed: 1}, fill, summaryScene(faux.Text("SUMMARY")))
	_, err = r.lane.Compact(r.ctx, "")
	r.check(err)
	if _, err := r.lane.AppendMessage(r.ctx, note); !errors.Is(err, harness.ErrLaneBusy) {
		t.Errorf("a write to a compacting lane: %v", err)
	}
	r.completed(r.finish())
	_, err = r.lane.AppendMessage(r.ctx, note)
	r.check(err)
	if want := []string{"compactionSummary: SUMMARY", "assistant: " + words(8000), "user: noted"}; !slices.Equal(want, r.transcript()) {
		t.Errorf("the compaction came first: %.200q", r.transcript())
	}
}

// What a navigation leaves a summary of: the branch behind the fork, since its
// newest compaction; the target's own branch is not in it.
func TestNavigationSummarizesTheLeftBranch(t *testing.T) {
	say := faux.Scene{Name: "say", Rest: func(req provider.Request, _ faux.Position) faux.Step {
		return faux.Text("Answer to " + session.JoinText(req.Messages[len(req.Messages)-1].(*session.UserMessage).Content))
	}}
	r := newSummaryRig(t, config{}, say, summaryScene(faux.Text("BRANCH")))
	var tips []pistore.ID
	for _, text := range []string{"common", "first"} {
		r.completed(r.prompt(text))
		tips = append(tips, r.lane.Leaf())
	}
	r.completed(r.navigate(harness.Navigation{TargetID: tips[0]}))
	r.completed(r.prompt("second"))
	left := r.lane.Leaf()
	r.completed(r.navigate(harness.Navigation{TargetID: tips[1], Summarize: true, CustomInstructions: "mind the gap"}))
	requests := r.faux.Requests()
	asked := session.JoinText(requests[len(requests)-1].Messages[0].(*session.UserMessage).Content)
	for text, want := range map[string]bool{
		"[User]\nsecond": true, "Answer to second": true, "mind the gap": true, "common": false, "first": false,
	} {
		if strings.Contains(asked, text) != want {
			t.Errorf("the request for a summary has %q: %v\n%s", text, !want, asked)
		}
	}
	entry, err := r.store.Entries(r.ctx, []pistore.ID{r.lane.Leaf()})
	r.check(err)
	summary, err := session.ParseBranchSummary(entry[0].Payload)
	r.check(err)
	if entry[0].ParentID != tips[1] || summary.FromID != string(left) || summary.Summary != "BRANCH" {
		t.Errorf("under %s: %+v, want under %s from %s", entry[0].ParentID, summary, tips[1], left)
	}
}

// The order of what is told.
func TestSummaryEvents(t *testing.T) {
	var told []string
	say := func(ev harness.Event) {
		switch ev := ev.(type) {
		case harness.CompactionStart:
			told = append(told, "compaction start "+string(ev.Reason))
		case harness.CompactionEnd:
			told = append(told, fmt.Sprintf("compaction end %s entry=%v error=%q", ev.Reason, ev.EntryID != "", ev.Error))
		case harness.NavigationStart:
			told = append(told, "navigation start")
		case harness.NavigationEnd:
			told = append(told, "navigation end "+string(ev.Result.Outcome))
		case harness.EntryAdded:
			if ev.Entry.Type != pistore.TypeMessage {
				told = append(told, "added "+string(ev.Entry.Type))
			}
		case harness.UsageAdded:
			purpose, _ := ev.Row.Details.Member("purpose")
			told = append(told, "usage "+string(purpose))
		case harness.RetryScheduled:
			told = append(told, fmt.Sprintf("retry scheduled %d", ev.NextAttempt))
		case harness.RetryStart:
			told = append(told, fmt.Sprintf("retry start %d", ev.Attempt))
		case harness.RetryEnd:
			told = append(told, fmt.Sprintf("retry end %d %q", ev.Attempt, ev.Error))
		case harness.TurnStart:
			told = append(told, "turn start")
		case harness.TurnEnd:
			told = append(told, "turn end")
		case harness.RunEnd:
			told = append(told, "run end "+string(ev.Result.Outcome))
		}
	}
	scenes := append([]faux.Scene{fill, summaryScene(faux.Fail("busy", true), faux.Text("SUMMARY"))}, overflowing...)
	r := newSummaryRig(t, config{drive: harness.Manual, onEvent: say}, scenes...)
	r.completed(r.prompt("fill"))
	told = nil
	r.completed(r.prompt("over"))
	r.completed(r.navigate(harness.Navigation{TargetID: r.entry(0)}))
	r.check(r.h.Close(r.ctx))
	want := []string{
		"turn start", `usage "assistant"`, "turn end", "compaction start overflow",
		`usage "compaction"`, "retry scheduled 2", "retry start 2",
		`usage "compaction"`, "added compaction", `retry end 2 ""`, `compaction end overflow entry=true error=""`,
		"turn start", `usage "assistant"`, "turn end", "run end completed",
		"navigation start", "navigation end completed",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Words that are no UTF-8 are what the store makes of them, in memory too.
func TestSummaryWordsAreStoredAsTheyAreUsed(t *testing.T) {
	r := newSummaryRig(t, config{}, fill, summaryScene(faux.Text("SUMMARY")))
	r.completed(r.prompt("fill"))
	r.completed(r.compact("be \xff brief"))
	requests := r.faux.Requests()
	asked := session.JoinText(requests[len(requests)-1].Messages[0].(*session.UserMessage).Content)
	if !strings.HasSuffix(asked, "be \uFFFD brief") {
		t.Errorf("the request ends with %q", asked[len(asked)-20:])
	}
	r.completed(r.navigate(harness.Navigation{TargetID: r.entry(0), Label: "a\xffb"}))
	if got := r.register(registers.FactLabelNS, string(r.lane.Leaf())); got != "\"a\uFFFDb\"" {
		t.Errorf("the label is %s", got)
	}
}
