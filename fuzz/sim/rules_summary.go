package sim

import (
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/harness"
	"pistore/registers"
	"pistore/session"
)

// Rules about compactions and branch summaries.

// The mark of a spent overflow recovery stands behind an overflow compaction for
// the same trigger, always and only there.
func judgeOverflow(c *commit) string {
	for _, ch := range c.ops {
		used, trigger := recoveryUsed(ch.after)
		if !used {
			if trigger != "" && c.o.compacted[string(registers.ReasonOverflow)+" "+string(trigger)] {
				return fmt.Sprintf("the overflow recovery for %s is spent, and the state forgets it", trigger)
			}
			continue
		}
		if was, same := recoveryUsed(ch.before); was && same == trigger {
			continue
		}
		if run, ok := ch.before.(*registers.RunState); ok {
			if p, ok := run.Phase.(*registers.RunCompaction); ok && p.Reason == registers.ReasonOverflow && p.ResumeAfter.TriggerEntryID == trigger {
				continue
			}
		}
		return fmt.Sprintf("the overflow recovery for %s is spent, and there was none", trigger)
	}
	return ""
}

// A run compacts once for an overflow and once for the threshold of a trigger,
// and places one entry for it, under the id that was reserved.
func judgeCompactions(c *commit) string {
	var placed []*node
	for _, n := range c.entries {
		if n.Type == pistore.TypeCompaction || n.Type == pistore.TypeBranchSummary {
			placed = append(placed, n)
		}
	}
	if len(placed) > 1 {
		return fmt.Sprintf("it places %d summaries", len(placed))
	}
	for _, ch := range c.ops {
		if p, _ := compactionBegun(ch); p != nil && c.o.compacted[compactedFor(p)] {
			return fmt.Sprintf("the run compacts again for %s", compactedFor(p))
		}
		if len(placed) == 0 || ch.before == nil {
			continue
		}
		sum := registers.SummaryOf(ch.before)
		switch {
		case sum == nil:
			return fmt.Sprintf("summary %s is placed, and none was begun", placed[0].ID)
		case sum.Generating != nil && sum.Generating.ResultEntryID != placed[0].ID:
			return fmt.Sprintf("summary %s is placed, and %s was reserved for it", placed[0].ID, sum.Generating.ResultEntryID)
		}
	}
	return ""
}

// recoveryUsed returns the mark that a state carries and its trigger. That of a
// checkpoint to come back to is not spent yet.
func recoveryUsed(s registers.OpState) (used bool, trigger pistore.ID) {
	run, ok := s.(*registers.RunState)
	if !ok {
		return false, ""
	}
	switch p := run.Phase.(type) {
	case *registers.Checkpoint:
		if need, ok := p.Continuation.(*registers.NeedAssistant); ok {
			return need.OverflowRecoveryUsed, p.TriggerEntryID
		}
	case *registers.AssistantReady:
		return p.Context.OverflowRecoveryUsed, p.Context.TriggerEntryID
	case *registers.AssistantPending:
		return p.Context.OverflowRecoveryUsed, p.Context.TriggerEntryID
	case *registers.AssistantRetryWait:
		return p.Context.OverflowRecoveryUsed, p.Context.TriggerEntryID
	}
	return false, ""
}

// The way of a summary: what it is made of is frozen before anybody decides, the
// decision is made once, each request is billed, and what is placed is what was
// answered or supplied.
func judgeSummaries(c *commit) string {
	for _, ch := range c.ops {
		if ch.before == nil {
			continue
		}
		before := registers.SummaryOf(ch.before)
		if before == nil || c.finalizes(ch) {
			continue
		}
		var after *registers.Summary
		if ch.after != nil {
			after = registers.SummaryOf(ch.after)
		}
		frozen := pistore.Address{Namespace: registers.OpPreparationNS, Key: registers.PreparationKey(ch.id, before.SummaryID)}
		w := summaryWay{c: c, ch: ch, before: before, decision: c.o.decisions[before.SummaryID]}
		problem := ""
		if after != nil && after.SummaryID == before.SummaryID {
			if c.after(frozen) != c.before(frozen) || c.after(frozen) == "" {
				problem = "what it is made of changes"
			} else {
				problem = w.goesOn(after)
			}
		} else if c.after(frozen) != "" {
			problem = "it is left, and what it was made of stays"
		} else {
			problem = w.ends(c.before(frozen))
		}
		if problem != "" {
			return fmt.Sprintf("summary %s: %s", before.SummaryID, problem)
		}
	}
	return ""
}

// summaryWay is a summary that a transaction takes a step further.
type summaryWay struct {
	c        *commit
	ch       change
	before   *registers.Summary
	decision *decision // nil: no hook was asked
}

// decision is what a hook said about a summary.
type decision struct {
	declined bool
	supplied *harness.SuppliedSummary
}

// goesOn judges a step that leaves the summary open.
func (w summaryWay) goesOn(after *registers.Summary) string {
	switch {
	case w.before.Generating == nil && after.Generating == nil:
		return ""
	case after.Generating == nil:
		return "it was decided, and is open again"
	case w.before.Generating == nil:
		if w.decision != nil && (w.decision.declined || w.decision.supplied != nil) {
			return "a hook decided, and a model is asked"
		}
		return ""
	case after.Generating.ResultEntryID != w.before.Generating.ResultEntryID:
		return "its reserved id changes"
	}
	want := w.billed()
	if got := after.Generating.Generation.Settled(); !slices.Equal(got, want) {
		return fmt.Sprintf("its bills are %v, and should be %v", got, want)
	}
	return ""
}

// billed are the usage rows of the summary behind the transaction.
func (w summaryWay) billed() []pistore.ID {
	ids := slices.Clone(w.before.Generating.Generation.Settled())
	if p := pendingOf(w.ch.before); p != nil && w.c.settles(p) {
		ids = append(ids, p.usage)
	}
	return ids
}

// ends judges the step that leaves the summary: with its entry, or with what
// follows from there being none.
func (w summaryWay) ends(frozen pistore.JSON) string {
	for _, n := range w.c.entries {
		if n.Type == pistore.TypeCompaction || n.Type == pistore.TypeBranchSummary {
			return w.placed(n, frozen)
		}
	}
	declined := w.decision != nil && w.decision.declined && w.before.Generating == nil
	want := registers.Failed
	switch {
	case cancelled(w.ch.before):
		return "" // it ends as aborted, which is another rule
	case declined:
		if p := compactionOf(w.ch.before); p == nil {
			want = registers.Declined
		} else if p.Reason == registers.ReasonThreshold {
			return "" // the run goes on without
		}
	}
	if w.ch.after == nil {
		last, _ := registers.DecodeLastResult(w.c.after(pistore.Address{Namespace: registers.LaneLastResultNS, Key: w.ch.lane}))
		if last.Outcome != want {
			return fmt.Sprintf("there is none, and the operation ends %s", last.Outcome)
		}
		return ""
	}
	run, ok := w.ch.after.(*registers.RunState)
	if !ok {
		return "there is none, and the operation goes on"
	}
	_, drains := run.Phase.(*registers.FailureDrain)
	takes := slices.ContainsFunc(w.c.entries, func(n *node) bool {
		return w.c.before(pistore.Address{Namespace: registers.PendingEntryNS, Key: string(n.ID)}) != ""
	})
	if !drains && !takes { // behind the failure a run goes on with what waits, and with nothing else
		return "there is none, and the run goes on as if there were"
	}
	return ""
}

// placed judges the entry.
func (w summaryWay) placed(n *node, frozen pistore.JSON) string {
	prep, err := registers.DecodePreparation(frozen)
	if err != nil {
		return fmt.Sprintf("what it is made of cannot be read: %v", err)
	}
	text, fromHook := "", false
	if n.Type == pistore.TypeCompaction {
		got, err := session.ParseCompaction(n.Payload)
		if err != nil || !slices.Equal(got.RetainedTail, prep.RetainedTail) || got.TokensBefore != prep.TokensBefore {
			return "its entry retains something else than was frozen"
		}
		text, fromHook = got.Summary, got.FromHook
	} else {
		got, err := session.ParseBranchSummary(n.Payload)
		nav, ok := w.ch.before.(*registers.NavigationState)
		if err != nil || !ok || got.FromID != string(prep.FromID) || n.ParentID != nav.TargetID {
			return "it does not stand under the target, for the branch that was left"
		}
		text, fromHook = got.Summary, got.FromHook
	}
	want := strings.TrimSpace(w.c.o.drafts[w.draft()])
	if d := w.decision; w.before.Generating == nil && d != nil && d.supplied != nil {
		want = d.supplied.Text
		if bills := w.c.usage; (len(bills) == 1) != (d.supplied.Usage != "") || len(bills) == 1 && bills[0].Usage != d.supplied.Usage {
			return "what the supplied one cost is not billed"
		}
	}
	switch {
	case cancelled(w.ch.before):
		return "it is placed behind the cancellation"
	case fromHook != (w.before.Generating == nil):
		return fmt.Sprintf("it is from a hook: %v, and was not", fromHook)
	case text != want:
		return fmt.Sprintf("it says %.80q, and should %.80q", text, want)
	}
	return ""
}

// draft is the request whose answer is placed.
func (w summaryWay) draft() pistore.ID {
	if p := pendingOf(w.ch.before); p != nil {
		return p.usage
	}
	return ""
}

// labels: a navigation that was given a label leaves it where the lane stands.
func judgeLabels(c *commit) string {
	for _, ch := range c.ops {
		nav, ok := ch.before.(*registers.NavigationState)
		if !ok || ch.after != nil || c.finalizes(ch) {
			continue
		}
		last, _ := registers.DecodeLastResult(c.after(pistore.Address{Namespace: registers.LaneLastResultNS, Key: ch.lane}))
		if last.Outcome != registers.Completed {
			continue
		}
		leaf := c.o.leafIn(c.after(pistore.Address{Namespace: registers.LaneLeafNS, Key: ch.lane}))
		at := pistore.Address{Namespace: registers.FactLabelNS, Key: string(leaf)}
		if nav.Label != "" && c.sets[at] != pistore.QuoteJSON(nav.Label) {
			return fmt.Sprintf("the navigation %s leaves the label %s on %s", ch.id, c.sets[at], leaf)
		}
	}
	return ""
}

// decided notes what a hook said about the summary that a lane works on, about
// which nobody was asked before it was decided.
func (o *oracle) decided(lane string, d decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.openLocked(lane)
	if op == nil {
		return
	}
	sum := registers.SummaryOf(op.state)
	if sum == nil || sum.Generating != nil {
		o.find("summaries", "a hook is asked about a summary of lane %s, and none is to be decided", lane)
		return
	}
	o.decisions[sum.SummaryID] = &d
}

// drafted notes what a model answered to a request for a summary.
func (o *oracle) drafted(usage pistore.ID, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drafts[usage] = text
}
