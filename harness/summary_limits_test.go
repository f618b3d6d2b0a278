package harness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
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

// changing is a provider whose model may become another one, or none.
type changing struct {
	funcProvider
	now atomic.Pointer[provider.Model]
}

func (p *changing) Model(string) (provider.Model, bool) {
	if m := p.now.Load(); m != nil {
		return *m, true
	}
	return provider.Model{}, false
}

// The model changes when the first of several requests of a summary is answered:
// all that was not told yet is told all the same, and in the same attempt, the
// only one; while the model is gone, nothing is lost.
func TestModelChangesDuringASummary(t *testing.T) {
	for name, then := range map[string]*provider.Model{
		"a larger window":             {ContextWindow: 1_000_000, MaxOutputTokens: 500},
		"a window that holds nothing": {ContextWindow: 10, MaxOutputTokens: 5},
		"gone":                        nil,
	} {
		t.Run(name, func(t *testing.T) {
			before := &provider.Model{ContextWindow: 8000, MaxOutputTokens: 500}
			var told strings.Builder
			p := &changing{}
			p.now.Store(before)
			p.stream = func(_ context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
				m := provider.Empty(req, "", session.StopStop, "")
				m.Content = session.TextContent("SUMMARY")
				if asksForSummary(req) {
					told.WriteString(session.JoinText(req.Messages[0].(*session.UserMessage).Content))
					p.now.Store(then)
				}
				return provider.Response{Message: m}
			}
			r := newRig(t, config{provider: p, retry: registers.RetryPolicy{MaxAttempts: 1}, options: func(o *harness.Options) {
				o.Compaction = harness.Compaction{ByHand: true, KeepRecentTokens: 1}
			}})
			r.completed(r.prompt("FIRST " + words(6000)))
			r.completed(r.prompt("SECOND " + words(6000) + " LAST"))
			_, err := r.lane.Compact(r.ctx, "")
			r.check(err)
			result := r.finish()
			if then == nil {
				if result.Suspended == nil || result.Suspended.Reason != harness.SuspendMissingIdentities {
					t.Fatalf("without its model it came to %s", describe(result))
				}
				p.now.Store(before)
				then = before
				_, err := r.lane.Resume(r.ctx)
				r.check(err)
				result = r.finish()
			}
			r.completed(result)
			for _, word := range []string{"FIRST", "SECOND", "LAST"} {
				if !strings.Contains(told.String(), word) {
					t.Errorf("the summary was never told %s", word)
				}
			}
			verifyClean(t, r.store)
		})
	}
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
