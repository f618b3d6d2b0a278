package harness_test

import (
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

// A small model: the window of these tests has 16,000 tokens, of which 4,000 are
// reserved and 1,200 are kept.
var smallModel = provider.Model{ID: "faux-1", ContextWindow: 16000, MaxOutputTokens: 2500, Price: faux.DefaultModel.Price}

func asksForSummary(req provider.Request) bool {
	return strings.HasPrefix(session.JoinText(req.System), "You write summaries")
}

// summaryScene answers every request for a summary in the same way.
func summaryScene(steps ...faux.Step) faux.Scene {
	return faux.Scene{Name: "summary", Match: asksForSummary, Turns: []faux.Turn{steps}}
}

// newSummaryRig is a rig with the small model. Scenes for summaries come first:
// what they are asked for quotes what the others match.
func newSummaryRig(t *testing.T, c config, scenes ...faux.Scene) *rig {
	t.Helper()
	scenes = slices.Clone(scenes)
	slices.SortStableFunc(scenes, func(a, b faux.Scene) int {
		first := func(s faux.Scene) bool { return s.Name == "summary" || s.Name == "parts" }
		switch {
		case first(a) == first(b):
			return 0
		case first(a):
			return -1
		default:
			return 1
		}
	})
	p := faux.New(faux.Options{Script: scenes, Models: []provider.Model{smallModel}})
	c.provider = p
	options := c.options
	c.options = func(o *harness.Options) {
		o.Compaction = harness.Compaction{ReserveTokens: 4000, KeepRecentTokens: 1200}
		if options != nil {
			options(o)
		}
	}
	r := newRig(t, c)
	r.faux = p
	return r
}

func words(tokens int) string { return strings.Repeat("abc ", tokens) }

// fill and full are a turn that fills the window to a half, and a prompt that
// fills it beyond the threshold.
var (
	fill = faux.Scene{Name: "fill", Match: faux.Prompt("fill"), Turns: faux.Turns(faux.Text(words(8000)))}
	full = words(4400)
	done = faux.Scene{Name: "done", Match: faux.Contains("abc abc"), Turns: faux.Turns(faux.Text("Done."))}
)

// overflowing answers with an overflow until the context holds a summary.
var overflowing = []faux.Scene{
	{Name: "cured", Match: func(req provider.Request) bool {
		first, ok := req.Messages[0].(*session.UserMessage)
		return ok && strings.Contains(session.JoinText(first.Content), "SUMMARY") && faux.Prompt("over")(req)
	}, Turns: faux.Turns(faux.Text("Cured."))},
	{Name: "over", Match: faux.Prompt("over"), Turns: faux.Turns(faux.Step{
		Content: session.TextContent("Half of an ans"), StopReason: session.StopLength, Overflow: true,
	})},
}

// Each way to a summary, as a trace.
func TestSummaryTraces(t *testing.T) {
	const (
		accepted = "entry user; lane.leaf; op.meta; op.state checkpoint need_assistant skipInboxOnce; lane.state=open"
		asked    = "op.state assistant effect_pending attempt 1"
		answered = "entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle"
	)
	for _, c := range []struct {
		name       string
		scenes     []faux.Scene
		act        func(*rig) harness.Result
		want       []string
		transcript []string
		purposes   []string
	}{
		{
			name: "threshold", scenes: []faux.Scene{fill, done, summaryScene(faux.Text(" SUMMARY "))},
			act: func(r *rig) harness.Result { return r.prompt(full) },
			want: []string{
				accepted,
				"op.preparation; op.state compaction threshold effect_pending attempt 1 request 0",
				"usage; entry compaction; lane.leaf; delete op.preparation; " + asked,
				answered,
			},
			transcript: []string{"compactionSummary: SUMMARY", "user: " + full, "assistant: Done."},
			purposes:   []string{"assistant", "compaction", "assistant"},
		},
		{
			name: "overflow", scenes: append([]faux.Scene{fill, summaryScene(faux.Text("SUMMARY"))}, overflowing...),
			act: func(r *rig) harness.Result { return r.prompt("over") },
			want: []string{
				accepted,
				asked,
				"entry assistant error; lane.leaf; usage; op.preparation; op.state compaction overflow effect_pending attempt 1 request 0",
				"usage; entry compaction; lane.leaf; delete op.preparation; " + asked,
				answered,
			},
			transcript: []string{"compactionSummary: SUMMARY", "user: over", "assistant: Cured."},
			purposes:   []string{"assistant", "assistant", "compaction", "assistant"},
		},
		{
			name: "by hand, with a retry", scenes: []faux.Scene{fill, summaryScene(faux.Fail("overloaded", true), faux.Text("SUMMARY"))},
			act: func(r *rig) harness.Result { return r.compact("be brief") },
			want: []string{
				"op.preparation; op.meta; op.state compaction deciding; lane.state=open",
				"op.state compaction effect_pending attempt 1 request 0",
				"usage; op.state compaction retry_wait 2",
				"op.state compaction effect_pending attempt 2 request 0",
				"usage; entry compaction; lane.leaf; delete op.preparation; delete op.meta; delete op.state; lane.lastResult completed ; lane.state=idle",
			},
			transcript: []string{"compactionSummary: SUMMARY", "assistant: " + words(8000)},
			purposes:   []string{"assistant", "compaction", "compaction"},
		},
		{
			name: "by hand, failed", scenes: []faux.Scene{fill, summaryScene(faux.Fail("no", false))},
			act: func(r *rig) harness.Result { return r.compact("") },
			want: []string{
				"op.preparation; op.meta; op.state compaction deciding; lane.state=open",
				"op.state compaction effect_pending attempt 1 request 0",
				"usage; delete op.preparation; delete op.meta; delete op.state; lane.lastResult failed ; lane.state=idle",
			},
			transcript: []string{"user: fill", "assistant: " + words(8000)},
			purposes:   []string{"assistant", "compaction"},
		},
		{
			name: "threshold, failed", scenes: []faux.Scene{fill, done, summaryScene(faux.Text(" "))},
			act: func(r *rig) harness.Result { return r.prompt(full) },
			want: []string{
				accepted,
				"op.preparation; op.state compaction threshold effect_pending attempt 1 request 0",
				"usage; delete op.preparation; delete op.meta; delete op.state; lane.lastResult failed ; lane.state=idle",
			},
			transcript: []string{"user: fill", "assistant: " + words(8000), "user: " + full},
			purposes:   []string{"assistant", "compaction"},
		},
		{
			name: "navigation", scenes: []faux.Scene{fill},
			act: func(r *rig) harness.Result {
				return r.navigate(harness.Navigation{TargetID: r.entry(0), Label: "start"})
			},
			want: []string{
				"op.meta; op.state navigation; lane.state=open",
				"lane.leaf; fact.label; delete op.meta; delete op.state; lane.lastResult completed ; lane.state=idle",
			},
			transcript: []string{"user: fill"},
			purposes:   []string{"assistant"},
		},
		{
			name: "navigation with a summary", scenes: []faux.Scene{fill, summaryScene(faux.Text("BRANCH"))},
			act: func(r *rig) harness.Result {
				return r.navigate(harness.Navigation{TargetID: r.entry(0), Label: "start", Summarize: true, CustomInstructions: "be brief"})
			},
			want: []string{
				"op.preparation; op.meta; op.state navigation deciding; lane.state=open",
				"op.state navigation effect_pending attempt 1 request 0",
				"usage; entry branch_summary; lane.leaf; fact.label; delete op.preparation; delete op.meta; delete op.state; lane.lastResult completed ; lane.state=idle",
			},
			transcript: []string{"user: fill", "branchSummary: BRANCH"},
			purposes:   []string{"assistant", "branch_summary"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSummaryRig(t, config{}, c.scenes...)
			r.completed(r.prompt("fill"))
			from := len(r.store.commits())
			result := c.act(r)
			if failed := strings.HasSuffix(c.name, "failed"); failed {
				r.failed(result, "summary_failed")
			} else {
				r.completed(result)
			}
			if diff := cmp.Diff(c.want, r.outlines(from)); diff != "" {
				t.Errorf("trace (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.transcript, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.purposes, r.purposes()); diff != "" {
				t.Errorf("purposes of the usage rows (-want +got):\n%s", diff)
			}
			checkSummaryWrites(t, r.store.commits())
		})
	}
}

func (r *rig) compact(instructions string) harness.Result {
	r.t.Helper()
	_, err := r.lane.Compact(r.ctx, instructions)
	r.check(err)
	return r.finish()
}

func (r *rig) navigate(nav harness.Navigation) harness.Result {
	r.t.Helper()
	_, err := r.lane.Navigate(r.ctx, nav)
	r.check(err)
	return r.finish()
}

// entry is the id of the nth entry of the session.
func (r *rig) entry(n int) pistore.ID {
	r.t.Helper()
	for e, err := range r.store.ScanEntries(r.ctx, pistore.ScanQuery{Limit: n + 1, StructureOnly: true}) {
		if r.check(err); n == 0 {
			return e.ID
		}
		n--
	}
	r.t.Fatal("there are not so many entries")
	return ""
}

// purposes are what the rows of the ledger were for.
func (r *rig) purposes() (out []string) {
	r.t.Helper()
	for _, row := range r.usage() {
		purpose, _ := row.Details.Member("purpose")
		text, _ := purpose.Text()
		out = append(out, text)
	}
	return out
}

// checkSummaryWrites is the oracle for the order of writes: no request of a
// summary without its intent, each announced usage id used by the row of the
// settlement or by none, the summary under the id announced, and a preparation
// exactly as long as a state names it.
func checkSummaryWrites(t *testing.T, txs []pistore.Tx) {
	t.Helper()
	prepared := map[string]bool{}
	announced := map[pistore.ID]bool{} // usage ids of requests
	var result pistore.ID
	for i, tx := range txs {
		var state registers.OpState
		open := map[string]bool{}
		for _, w := range tx.Writes {
			switch w := w.(type) {
			case pistore.SetRegister:
				switch w.Namespace {
				case registers.OpPreparationNS:
					prepared[w.Key] = true
				case registers.OpStateNS:
					var err error
					if state, err = registers.DecodeOpState(w.Value); err != nil {
						t.Fatal(err)
					}
					if sum := registers.SummaryOf(state); sum != nil {
						open[registers.PreparationKey(pistore.ID(w.Key), sum.SummaryID)] = true
					}
				}
			case pistore.DeleteRegister:
				if w.Namespace == registers.OpPreparationNS {
					if !prepared[w.Key] {
						t.Errorf("commit %d deletes a preparation that is not there", i+1)
					}
					delete(prepared, w.Key)
				}
			case pistore.InsertUsage:
				if purpose, _ := w.Details.Member("purpose"); purpose != `"assistant"` && purpose != `"tool"` {
					if !announced[w.ID] {
						t.Errorf("commit %d bills a request that was not announced", i+1)
					}
					delete(announced, w.ID)
				}
			case pistore.InsertEntry:
				if w.Type != pistore.TypeMessage && w.ID != result {
					t.Errorf("commit %d places a summary under %s, announced was %s", i+1, w.ID, result)
				}
			}
		}
		if !cmp.Equal(prepared, open) && state != nil {
			t.Errorf("commit %d leaves the preparations %v, its state names %v", i+1, prepared, open)
		}
		if state == nil {
			continue
		}
		if sum := registers.SummaryOf(state); sum != nil && sum.Generating != nil {
			result = sum.Generating.ResultEntryID
			if g, ok := sum.Generating.Generation.(*registers.GenerationPending); ok && g.Request != nil {
				announced[g.Request.UsageID] = true
			}
		}
	}
	if len(prepared) > 0 {
		t.Errorf("preparations %v outlive their operations", prepared)
	}
}

// A count that no number of the store holds is as much as one does: the context
// is full.
func TestAbsurdTokenCounts(t *testing.T) {
	for _, byHand := range []bool{true, false} {
		turns := faux.Turns(
			faux.Step{Content: []session.Block{session.ToolCall{ID: "c", Name: "append", Arguments: `{}`}}, Usage: `{"totalTokens":9007199254740991}`},
			faux.Step{Content: session.TextContent("Done."), Usage: `{"totalTokens":9007199254740991}`})
		r := newSummaryRig(t, config{options: func(o *harness.Options) { o.Compaction = harness.Compaction{ByHand: byHand, KeepRecentTokens: 1} }},
			faux.Scene{Name: "call", Match: faux.Prompt("go"), Turns: turns}, summaryScene(faux.Text("SUMMARY")))
		r.completed(r.prompt("go"))
		_, err := r.lane.AppendMessage(r.ctx, &session.UserMessage{Content: session.TextContent("noted")})
		r.check(err)
		r.completed(r.compact(""))
		want := map[bool]int{true: 1, false: 2}[byHand]
		if n := len(slices.DeleteFunc(r.purposes(), func(s string) bool { return s != "compaction" })); n != want {
			t.Errorf("by hand %v: %d compactions, want %d", byHand, n, want)
		}
	}
}
