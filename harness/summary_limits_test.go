package harness_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/session"
)

// A second overflow for one trigger fails the run, and so does the first where
// nothing is to be summarized or compaction is by hand only.
func TestOverflowWithoutRecovery(t *testing.T) {
	again := faux.Scene{Name: "over", Match: faux.Prompt("over"), Turns: faux.Turns(faux.Step{Error: "prompt is too long", Overflow: true})}
	for _, c := range []struct {
		name        string
		before      []string
		byHand      bool
		compactions int
	}{
		{"twice", []string{"fill"}, false, 1},
		{"nothing to summarize", nil, false, 0},
		{"by hand", []string{"fill"}, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSummaryRig(t, config{options: func(o *harness.Options) { o.Compaction.ByHand = c.byHand }},
				fill, again, summaryScene(faux.Text("SUMMARY")))
			for _, text := range c.before {
				r.completed(r.prompt(text))
			}
			r.failed(r.prompt("over"), "context_overflow")
			if n := len(slices.DeleteFunc(r.purposes(), func(s string) bool { return s != "compaction" })); n != c.compactions {
				t.Errorf("%d compactions, want %d", n, c.compactions)
			}
		})
	}
}

// A conversation that no request can hold is summarized in several, each with
// its intent and its row, each going on from the one before.
func TestSummaryInSeveralRequests(t *testing.T) {
	part := 0
	parts := faux.Scene{Name: "parts", Match: asksForSummary, Rest: func(req provider.Request, _ faux.Position) faux.Step {
		text := session.JoinText(req.Messages[0].(*session.UserMessage).Content)
		for i := 9; i > 0; i-- {
			if strings.Contains(text, fmt.Sprintf("PART %d", i)) {
				return faux.Text(fmt.Sprintf("PART %d", i+1))
			}
		}
		part++
		return faux.Text("PART 1")
	}}
	scenes := []faux.Scene{
		{Name: "long", Match: faux.Contains("long"), Turns: faux.Turns(faux.Text(words(5000)))}, parts,
	}
	r := newSummaryRig(t, config{options: func(o *harness.Options) { o.Compaction.ByHand = true }}, scenes...)
	for range 4 {
		r.completed(r.prompt("long"))
	}
	from := len(r.store.commits())
	r.completed(r.compact(""))
	want := []string{
		"op.preparation; op.meta; op.state compaction deciding; lane.state=open",
		"op.state compaction effect_pending attempt 1 request 0",
		"usage; op.state compaction effect_pending attempt 1 request 1",
		"usage; op.state compaction effect_pending attempt 1 request 2",
	}
	got := r.outlines(from)
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	requests := slices.DeleteFunc(r.faux.Requests(), func(req provider.Request) bool { return !asksForSummary(req) })
	last := fmt.Sprintf("compactionSummary: PART %d", len(requests))
	if got := r.transcript()[0]; len(requests) < 3 || part != 1 || got != last {
		t.Errorf("%d requests, %d of them without a summary before, came to %.100q", len(requests), part, got)
	}
	if n := len(slices.DeleteFunc(r.purposes(), func(s string) bool { return s != "compaction" })); n != len(requests) {
		t.Errorf("%d rows for %d requests", n, len(requests))
	}
	checkSummaryWrites(t, r.store.commits())
}

// Above the threshold a trigger is checked once, whatever comes of it: there may
// be nothing to summarize, or the answer may fill the window again.
func TestThresholdIsCheckedOncePerTrigger(t *testing.T) {
	huge := words(12_500)
	scenes := []faux.Scene{
		fill, {Name: "huge", Match: faux.Prompt("huge"), Turns: faux.Turns(faux.Text(huge))},
		{Name: "call", Match: faux.Prompt("call"), Turns: faux.Turns(
			faux.Call("append", `{"text":1}`), faux.Step{Content: session.TextContent("Done."), Usage: `{"totalTokens":13000}`})},
		{Name: "again", Match: faux.Contains("again"), Turns: faux.Turns(faux.Text(huge))},
		done, summaryScene(faux.Text("SUMMARY")),
	}
	for _, c := range []struct {
		name        string
		prompts     []string
		compactions int
	}{
		{"the answer is too large", []string{"fill", "huge"}, 1},
		{"nothing to summarize", []string{huge[:len(huge)-400]}, 0},
		{"before the turn", []string{"fill", full}, 1},
		{"before the turn, and too large again behind it", []string{"fill", "again " + full}, 1},
		{"behind each tool batch there is a new trigger", []string{"fill", "call"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSummaryRig(t, config{}, scenes...)
			for _, text := range c.prompts {
				r.completed(r.prompt(text))
			}
			n := len(slices.DeleteFunc(r.purposes(), func(s string) bool { return s != "compaction" }))
			if n != c.compactions {
				t.Errorf("%d compactions, want %d: %v", n, c.compactions, r.purposes())
			}
		})
	}
}
