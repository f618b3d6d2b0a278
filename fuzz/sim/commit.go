package sim

import (
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// commit is a transaction against what was durable before it.
type commit struct {
	o       *oracle
	tx      pistore.Tx
	receipt pistore.Receipt
	sets    map[pistore.Address]pistore.JSON // empty: deleted
	entries []*node
	usage   []pistore.InsertUsage
	ops     []change // of the operations that it touches
}

// change is what a transaction makes of an operation. States are nil where it is
// not open.
type change struct {
	id            pistore.ID
	lane          string
	record        *record // nil: it is accepted here
	before, after registers.OpState
}

func newCommit(o *oracle, tx pistore.Tx, r pistore.Receipt) *commit {
	c := &commit{o: o, tx: tx, receipt: r, sets: map[pistore.Address]pistore.JSON{}}
	for _, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			n := &node{InsertEntry: w}
			if w.Type == pistore.TypeMessage {
				m, err := session.EntryMessage(pistore.Entry{ID: w.ID, Type: w.Type, Payload: w.Payload})
				if err != nil {
					o.find("invariant 7", "entry %s cannot be read: %v", w.ID, err)
				}
				n.message = m
			}
			c.entries = append(c.entries, n)
		case pistore.InsertUsage:
			c.usage = append(c.usage, w)
		case pistore.SetRegister:
			c.sets[pistore.Address{Namespace: w.Namespace, Key: w.Key}] = w.Value
		case pistore.DeleteRegister:
			c.sets[pistore.Address(w)] = ""
		}
	}
	c.findOperations()
	return c
}

func (c *commit) findOperations() {
	for at, value := range c.sets {
		if at.Namespace != registers.OpStateNS {
			continue
		}
		ch := change{id: pistore.ID(at.Key), record: c.o.ops[pistore.ID(at.Key)]}
		if ch.record != nil {
			ch.lane, ch.before = ch.record.meta.Lane, ch.record.state
		} else if meta, err := registers.DecodeOpMeta(c.after(pistore.Address{Namespace: registers.OpMetaNS, Key: at.Key})); err == nil {
			ch.lane = meta.Lane
		}
		if value != "" {
			var err error
			if ch.after, err = registers.DecodeOpState(value); err != nil {
				c.o.find("invariant 21", "op.state cannot be read: %v", err)
				continue
			}
		}
		c.ops = append(c.ops, ch)
	}
	slices.SortFunc(c.ops, func(a, b change) int { return strings.Compare(string(a.id), string(b.id)) })
}

// after returns a register behind the transaction, empty if it is absent.
func (c *commit) after(at pistore.Address) pistore.JSON {
	if value, ok := c.sets[at]; ok {
		return value
	}
	return c.o.cells[at]
}

func (c *commit) before(at pistore.Address) pistore.JSON { return c.o.cells[at] }

// inserted returns the entry of that id which the transaction inserts, or nil.
func (c *commit) inserted(id pistore.ID) *node {
	for _, n := range c.entries {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// entry returns an entry that is there behind the transaction, or nil.
func (c *commit) entry(id pistore.ID) *node {
	if n := c.inserted(id); n != nil {
		return n
	}
	return c.o.entries[id]
}

// take makes the transaction part of what is durable.
func (c *commit) take() {
	for at, value := range c.sets {
		if value == "" {
			delete(c.o.cells, at)
		} else {
			c.o.cells[at] = value
		}
	}
	for _, n := range c.entries {
		if len(c.ops) > 0 {
			n.lane = c.ops[0].lane
		}
		c.o.entries[n.ID] = n
		c.o.order = append(c.o.order, n.ID)
	}
	for _, u := range c.usage {
		c.o.usage[u.ID] = u
		c.o.billed = append(c.o.billed, u.ID)
	}
	for _, ch := range c.ops {
		c.takeChange(ch)
		_, left := ch.before.(*registers.NavigationState)
		if left || c.finalizes(ch) {
			c.o.world.wander(ch.lane)
		}
		compacted := slices.ContainsFunc(c.entries, func(n *node) bool { return n.Type == pistore.TypeCompaction })
		if left || compacted {
			c.o.world.forget(ch.lane)
		}
	}
	if n := len(c.receipt.Seqs); n > 0 {
		c.o.lastSeq = c.receipt.Seqs[n-1]
	}
}

func (c *commit) takeChange(ch change) {
	r := ch.record
	if r == nil {
		meta, _ := registers.DecodeOpMeta(c.after(pistore.Address{Namespace: registers.OpMetaNS, Key: string(ch.id)}))
		r = &record{id: ch.id, meta: meta}
		c.o.ops[ch.id] = r
		c.o.count("operation " + string(meta.Intent.Kind))
	}
	if !c.o.asked {
		r.commits++
		r.resumed = false
	}
	r.state = ch.after
	r.aborted = r.aborted || cancelled(ch.after)
	if ch.after == nil {
		if result, err := registers.DecodeLastResult(c.after(pistore.Address{Namespace: registers.LaneLastResultNS, Key: ch.lane})); err == nil {
			r.result = &result
			c.o.count("outcome " + string(result.Outcome))
		}
	}
	if p := pendingOf(ch.before); p != nil {
		step := c.o.step(p.step)
		switch q := pendingOf(ch.after); {
		case c.settles(p):
			step.settled++
			if step.burned && p.attempt == p.most {
				c.o.world.doubt(ch.lane, "a lost attempt may have been one too many")
			}
		case q == nil || q.usage != p.usage:
			step.burned = true
		}
	}
	if p := pendingOf(ch.after); p != nil {
		c.o.step(p.step).attempts = p.attempt
	}
	c.takeCompaction(ch)
}

// takeCompaction remembers for which triggers a run has compacted.
func (c *commit) takeCompaction(ch change) {
	if p, reason := compactionBegun(ch); p != nil {
		c.o.count("compaction " + reason)
		c.o.compacted[compactedFor(p)] = true
	}
}

// compactionBegun returns the compaction within a run that a transaction begins,
// nil if it begins none.
func compactionBegun(ch change) (begun *registers.RunCompaction, reason string) {
	before, after := compactionOf(ch.before), compactionOf(ch.after)
	if after == nil || before != nil && before.Summary.SummaryID == after.Summary.SummaryID {
		return nil, ""
	}
	return after, string(after.Reason)
}

func compactionOf(s registers.OpState) *registers.RunCompaction {
	if run, ok := s.(*registers.RunState); ok {
		p, _ := run.Phase.(*registers.RunCompaction)
		return p
	}
	return nil
}

// compactedFor is what a run compacts for once only.
func compactedFor(p *registers.RunCompaction) string {
	return string(p.Reason) + " " + string(p.ResumeAfter.TriggerEntryID)
}

// settles reports whether the transaction stores the outcome of a request.
func (c *commit) settles(p *pending) bool {
	return slices.ContainsFunc(c.usage, func(u pistore.InsertUsage) bool { return u.ID == p.usage })
}

// purpose is what a request is for.
type purpose string

const (
	forTurn    purpose = "turn"
	forPoll    purpose = "poll"
	forSummary purpose = "summary"
)

// pending is an announced request that is not answered.
type pending struct {
	purpose       purpose
	step          pistore.ID // of a turn; its polls and summaries are counted apart
	attempt, most int64      // of polls there is no bound
	index         int64      // of a summary: which request of the attempt
	response      pistore.ID // empty: a summary's
	usage         pistore.ID
}

// pendingOf returns the announced request of an operation, nil if there is none.
func pendingOf(s registers.OpState) *pending {
	if s == nil {
		return nil
	}
	if sum := registers.SummaryOf(s); sum != nil {
		return pendingSummary(sum)
	}
	run, ok := s.(*registers.RunState)
	if !ok {
		return nil
	}
	switch p := run.Phase.(type) {
	case *registers.AssistantPending:
		return &pending{
			purpose: forTurn, step: p.Context.StepID, attempt: p.Attempt, most: p.Context.RetryPolicy.MaxAttempts,
			response: p.ResponseEntryID, usage: p.UsageID,
		}
	case *registers.DeferredPending:
		return &pending{
			purpose: forPoll, step: "poll " + p.StepID, attempt: p.Poll, most: p.Poll + 1, response: p.ResponseEntryID, usage: p.UsageID,
		}
	default:
		return nil
	}
}

func pendingSummary(sum *registers.Summary) *pending {
	if sum.Generating == nil {
		return nil
	}
	p, ok := sum.Generating.Generation.(*registers.GenerationPending)
	if !ok || p.Request == nil {
		return nil
	}
	return &pending{
		purpose: forSummary, step: sum.SummaryID, attempt: p.Attempt, most: sum.Generating.Context.RetryPolicy.MaxAttempts,
		index: p.Request.Index, usage: p.Request.UsageID,
	}
}

// String shows a transaction in one line.
func (c *commit) String() string {
	var parts []string
	for _, w := range c.tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			parts = append(parts, fmt.Sprintf("entry %s under %s %s", w.ID, w.ParentID, w.Payload))
		case pistore.InsertUsage:
			parts = append(parts, fmt.Sprintf("usage %s of %s %s %s", w.ID, w.EntryID, w.Usage, w.Details))
		case pistore.SetRegister:
			parts = append(parts, fmt.Sprintf("%s %s = %s", w.Namespace, w.Key, w.Value))
		case pistore.DeleteRegister:
			parts = append(parts, fmt.Sprintf("delete %s %s", w.Namespace, w.Key))
		}
	}
	return strings.Join(parts, "; ")
}
