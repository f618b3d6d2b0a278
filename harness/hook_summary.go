package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
)

// beforeSummary lets before_compaction or before_navigation decide on a summary
// whose preparation is frozen.
func (d *drive) beforeSummary(name HookName, hooks []func(context.Context, SummaryPlan) (SummaryPlan, error)) (event, bool) {
	p := d.at
	plan := SummaryPlan{About: p.about(""), Preparation: *p.op.summary.preparation}
	if ph, ok := p.op.phase().(*registers.RunCompaction); ok {
		plan.Reason = ph.Reason
	}
	if !d.passHook(name, map[string]any{"summaryId": registers.SummaryOf(p.op.state).SummaryID}) {
		return nil, d.alive()
	}
	out, _ := ask(d.trail.ctx, d.l, plan.About, name, hooks, plan, func(given, returned SummaryPlan) (SummaryPlan, error) {
		given.Decline, given.Supplied = returned.Decline, returned.Supplied
		return given, checkSupplied(returned.Supplied)
	})
	return summaryDecided{declined: out.Decline, supplied: out.Supplied}, d.alive()
}

func (q SummaryPlan) own() SummaryPlan {
	q.Preparation.MessagesToSummarize = slices.Clone(q.Preparation.MessagesToSummarize)
	q.Preparation.RetainedTail = slices.Clone(q.Preparation.RetainedTail)
	if q.Supplied != nil {
		supplied := *q.Supplied
		q.Supplied = &supplied
	}
	return q
}

// checkSupplied refuses a summary that says nothing, or cannot be billed.
func checkSupplied(s *SuppliedSummary) error {
	switch {
	case s == nil:
		return nil
	case strings.TrimSpace(s.Text) == "":
		return fmt.Errorf("%w: an empty summary", pistore.ErrInvalid)
	case s.Usage != "":
		usage, err := pistore.CompactJSON(string(s.Usage))
		if err == nil && !usage.IsObject() {
			err = fmt.Errorf("%w: the usage of a summary is no JSON object", pistore.ErrInvalid)
		}
		return err
	}
	return nil
}
