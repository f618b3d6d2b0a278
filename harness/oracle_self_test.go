package harness_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/harness"
	"pistore/memstore"
	"pistore/provider/faux"
	"pistore/registers"
)

// committed is a transaction with what was stored before it.
type committed struct {
	rows []pistore.Row
	tx   pistore.Tx
}

// history is a run with tools, a retry, and input that comes meanwhile, and a
// compaction, as their transactions.
func history(t *testing.T) []committed {
	t.Helper()
	script := faux.Script{{Turns: []faux.Turn{{calls("append", "lookup")}, {faux.Fail("overloaded", true), faux.Text("Done.")}, {faux.Text("And that.")}}}}
	run := newRig(t, config{script: script, tools: registers.Sequential, drive: harness.Manual})
	run.check(prompted("go")(run))
	_, err := run.lane.FollowUp(run.ctx, harness.Prompt{Text: "and that"})
	run.check(err)
	out := stepsOf(run)
	summary := newSummaryRig(t, config{drive: harness.Manual}, fill, summarized)
	summary.completed(summary.prompt("fill"))
	summary.check(compacting.begin(summary))
	return append(out, stepsOf(summary)...)
}

// stepsOf steps an operation to its end.
func stepsOf(r *rig) (out []committed) {
	r.t.Helper()
	for {
		r.check(r.lane.Settle(r.ctx))
		if len(r.lane.Peek()) == 0 {
			return out
		}
		before, n := r.rows(), len(r.store.commits())
		_, err := r.lane.Step(r.ctx)
		r.check(err)
		if txs := r.store.commits(); len(txs) > n {
			out = append(out, committed{before, txs[n]})
		}
	}
}

// without drops the writes that match.
func without(drop func(pistore.Write) bool) func(pistore.Tx) pistore.Tx {
	return func(tx pistore.Tx) pistore.Tx {
		tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), drop)
		return tx
	}
}

func deletion(namespace string) func(pistore.Write) bool {
	return func(w pistore.Write) bool {
		d, ok := w.(pistore.DeleteRegister)
		return ok && d.Namespace == namespace
	}
}

func setting(namespace string) func(pistore.Write) bool {
	return func(w pistore.Write) bool {
		d, ok := w.(pistore.SetRegister)
		return ok && d.Namespace == namespace
	}
}

// inState changes what op.state says.
func inState(change func(*registers.RunState)) func(pistore.Tx) pistore.Tx {
	return rewriting(registers.OpStateNS, func(value pistore.JSON) pistore.JSON {
		state, err := registers.DecodeOpState(value)
		if err != nil {
			panic(err)
		}
		if run, ok := registers.CopyState(state).(*registers.RunState); ok {
			change(run)
			return registers.EncodeOpState(run)
		}
		return value
	})
}

func rewriting(namespace string, change func(pistore.JSON) pistore.JSON) func(pistore.Tx) pistore.Tx {
	return func(tx pistore.Tx) pistore.Tx {
		tx.Writes = slices.Clone(tx.Writes)
		for i, w := range tx.Writes {
			if set, ok := w.(pistore.SetRegister); ok && set.Namespace == namespace {
				set.Value = change(set.Value)
				tx.Writes[i] = set
			}
		}
		return tx
	}
}

// Each rule of the oracle finds the transaction that breaks it, and the run as
// it is breaks none.
func TestOracleFinds(t *testing.T) {
	all := history(t)
	usage := func(w pistore.Write) bool { _, ok := w.(pistore.InsertUsage); return ok }
	unconditional := func(namespace string) func(pistore.Tx) pistore.Tx {
		return func(tx pistore.Tx) pistore.Tx {
			tx.Expect = slices.DeleteFunc(slices.Clone(tx.Expect), func(e pistore.Precondition) bool { return e.Namespace == namespace })
			return tx
		}
	}
	renamed := func(tx pistore.Tx) pistore.Tx { // entries get ids that nobody reserved
		tx.Writes = slices.Clone(tx.Writes)
		for i, w := range tx.Writes {
			switch w := w.(type) {
			case pistore.InsertEntry:
				w.ID = w.ID[:35] + "X"
				tx.Writes[i] = w
			case pistore.InsertUsage:
				if w.EntryID != "" {
					w.EntryID = w.EntryID[:35] + "X"
				}
				tx.Writes[i] = w
			}
		}
		return tx
	}
	for _, tt := range []struct {
		rule  string
		spoil func(pistore.Tx) pistore.Tx
	}{
		{"", func(tx pistore.Tx) pistore.Tx { return tx }},
		{"order of writes", func(tx pistore.Tx) pistore.Tx {
			tx.Writes = slices.Clone(tx.Writes)
			if len(tx.Writes) > 2 {
				last := len(tx.Writes) - 1
				tx.Writes[last], tx.Writes[last-1] = tx.Writes[last-1], tx.Writes[last]
			}
			return tx
		}},
		{"conditions", unconditional(registers.OpStateNS)},
		{"conditions", unconditional(registers.LaneLeafNS)},
		{"conditions", unconditional(registers.LaneStateNS)},
		{"conditions", unconditional(registers.LaneConfigNS)},
		{"reserved ids", renamed},
		{"a response, its usage and a decision", without(usage)},
		{"a response, its usage and a decision", func(tx pistore.Tx) pistore.Tx {
			return without(func(w pistore.Write) bool { return setting(registers.OpStateNS)(w) || deletion(registers.OpStateNS)(w) })(tx)
		}},
		{"summaries", without(deletion(registers.OpPreparationNS))},
		{"summaries", renamed},
		{"summaries", func(tx pistore.Tx) pistore.Tx {
			tx.Writes = slices.Clone(tx.Writes)
			for i, w := range tx.Writes {
				if u, ok := w.(pistore.InsertUsage); ok {
					u.ID = u.ID[:35] + "X"
					tx.Writes[i] = u
				}
			}
			return tx
		}},
		{"calls", without(setting(registers.OpToolArgsNS))},
		{"calls", without(func(w pistore.Write) bool {
			e, ok := w.(pistore.InsertEntry)
			return ok && strings.Contains(string(e.Payload), "toolResult")
		})},
		{"attempts", inState(func(run *registers.RunState) {
			if pend, ok := run.Phase.(*registers.AssistantPending); ok {
				changed := *pend
				changed.Attempt++
				run.Phase = &changed
			}
		})},
		{"attempts", inState(func(run *registers.RunState) {
			if pend, ok := run.Phase.(*registers.AssistantPending); ok {
				changed := *pend
				changed.Attempt = 1
				run.Phase = &changed
			}
		})},
		{"cancellation", func(tx pistore.Tx) pistore.Tx {
			tx.Writes = slices.Clone(tx.Writes)
			for i, w := range tx.Writes {
				if e, ok := w.(pistore.InsertEntry); ok {
					e.Payload = pistore.JSON(strings.Replace(string(e.Payload), `"stopReason":"stop"`, `"stopReason":"aborted"`, 1))
					tx.Writes[i] = e
				}
			}
			return tx
		}},
		{"placement", without(deletion(registers.PendingEntryNS))},
		{"placement", func(tx pistore.Tx) pistore.Tx {
			tx.Writes = slices.Clone(tx.Writes)
			for i, w := range tx.Writes {
				if e, ok := w.(pistore.InsertEntry); ok {
					e.Payload = pistore.JSON(strings.Replace(string(e.Payload), `and that`, `or not`, 1))
					tx.Writes[i] = e
				}
			}
			return tx
		}},
		{"totality", inState(func(run *registers.RunState) { run.Inbox.Steer = append(run.Inbox.Steer, "E") })},
		{"totality", inState(func(run *registers.RunState) { run.LatestAssistantEntryID = "E" })},
		{"terminal", without(deletion(registers.OpMetaNS))},
		{"terminal", without(setting(registers.LaneLastResultNS))},
		{"terminal", without(setting(registers.LaneStateNS))},
	} {
		var found []string
		for _, c := range all {
			found = append(found, judged(t, c, tt.spoil(c.tx))...)
		}
		hit := slices.ContainsFunc(found, func(problem string) bool { return tt.rule != "" && strings.HasPrefix(problem, tt.rule+": ") })
		if hit != (tt.rule != "") || tt.rule == "" && len(found) > 0 {
			t.Errorf("%q: found %q", tt.rule, found)
		}
	}
}

// judged commits a transaction to a copy of what was stored before it and
// returns what the oracle says; one that a store does not take shows nothing.
func judged(t *testing.T, c committed, tx pistore.Tx) (found []string) {
	t.Helper()
	ctx := context.Background()
	b := memstore.New(memstore.Options{})
	if _, err := b.Load(ctx, rowSeq(c.rows)); err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(ctx, "s", pistore.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Storage: s, oracle: &oracle{t: t, store: s, found: func(problem string) { found = append(found, problem) }}}
	_, _ = r.Commit(ctx, tx)
	return found
}

// An effect that begins while its intent is not durable is found.
func TestOracleFindsEffectsWithoutIntent(t *testing.T) {
	all := history(t)
	for _, kind := range []harness.SpanKind{harness.SpanRequest, harness.SpanTool, harness.SpanSleep} {
		seen, found := 0, 0
		for i, c := range all[:len(all)-1] {
			for stage, rows := range map[string][]pistore.Row{"before": c.rows, "behind": all[i+1].rows} {
				s := intentOf(t, all[i+1].rows, kind)
				if s == nil {
					continue
				}
				b := memstore.New(memstore.Options{})
				if _, err := b.Load(context.Background(), rowSeq(rows)); err != nil {
					t.Fatal(err)
				}
				storage, err := b.Open(context.Background(), "s", pistore.ReadOnly)
				if err != nil {
					t.Fatal(err)
				}
				problem := false
				o := &oracle{t: t, store: storage, found: func(string) { problem = true }}
				o.Begin(context.Background(), *s)
				switch {
				case stage == "behind" && problem:
					t.Errorf("%s is found behind its intent", kind)
				case stage == "before" && problem:
					found++
				}
				seen++
			}
		}
		if found == 0 {
			t.Errorf("%s: none of %d is found", kind, seen)
		}
	}
}

// intentOf is the span of the effect of a kind that is announced in rows, nil if
// none is.
func intentOf(t *testing.T, rows []pistore.Row, kind harness.SpanKind) *harness.Span {
	t.Helper()
	run := openRun(t, rows)
	if run == nil {
		return nil
	}
	s := harness.Span{Kind: kind, About: harness.About{OperationID: pistore.ID(opOf(rows))}}
	switch ph := run.Phase.(type) {
	case *registers.AssistantPending:
		if kind == harness.SpanRequest {
			s.EntryID, s.Attempt = ph.ResponseEntryID, ph.Attempt
			return &s
		}
	case *registers.AssistantRetryWait:
		if kind == harness.SpanSleep {
			return &s
		}
	case *registers.Tools:
		for id := range callsOf(run) {
			if kind == harness.SpanTool {
				s.EntryID = id
				return &s
			}
		}
	}
	return nil
}
