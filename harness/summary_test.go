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

// Above the threshold a trigger is checked once, whatever comes of it: there may
// be nothing to summarize, or the answer may fill the window again.
func TestThresholdIsCheckedOncePerTrigger(t *testing.T) {
	huge := words(12_500)
	scenes := []faux.Scene{
		fill, {Name: "huge", Match: faux.Prompt("huge"), Turns: faux.Turns(faux.Text(huge))},
		{Name: "call", Match: faux.Prompt("call"), Turns: faux.Turns(
			faux.Call("append", `{"text":1}`), faux.Step{Content: session.TextContent("Done."), Usage: `{"totalTokens":13000}`})},
		done, summaryScene(faux.Text("SUMMARY")),
	}
	for _, c := range []struct {
		name        string
		prompts     []string
		compactions int
	}{
		{"the answer is too large", []string{"fill", "huge"}, 1},
		{"nothing to summarize", []string{huge[:len(huge)-400]}, 0},
		{"before the turn, and again behind it", []string{"fill", full}, 1},
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
