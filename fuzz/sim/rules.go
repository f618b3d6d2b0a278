package sim

import (
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// rule is something that every transaction must keep; judge says in words how it
// does not, or nothing.
type rule struct {
	name  string
	judge func(*commit) string
}

// rules are judged in this order. Those with a number are the invariants of the
// design that a trace shows.
var rules = []rule{
	{"invariant 2", judgeSeqs},
	{"invariant 9", judgeLeaves},
	{"invariant 13", judgeAcceptance},
	{"invariant 14", judgeQueues},
	{"invariant 14", judgeReserved},
	{"queue order", judgeOrder},
	{"queue order", judgeNextRun},
	{"invariant 15", judgeTerminal},
	{"invariant 16", judgeOverflow},
	{"compactions", judgeCompactions},
	{"summaries", judgeSummaries},
	{"labels", judgeLabels},
	{"invariant 17", judgeAborted},
	{"invariant 18", judgeBills},
	{"invariant 18", judgeSettled},
	{"attempts", judgeAttempts},
	{"retry delay", judgeDelay},
	{"resumes", judgeResumes},
	{"control", judgeControl},
	{"one operation", judgeOne},
	{"configuration", judgeConfiguration},
	{"settings", judgeCaptured},
	{"attempts", judgeReady},
}

// finalizes reports whether an operation is ended from outside, wherever it
// stands.
func (c *commit) finalizes(ch change) bool { return c.o.asked && ch.before != nil && ch.after == nil }

func judgeSeqs(c *commit) string {
	last := c.o.lastSeq
	for _, seq := range c.receipt.Seqs {
		if seq <= last {
			return fmt.Sprintf("seq %d after %d", seq, last)
		}
		last = seq
	}
	return ""
}

// A lane's leaf moves only by append or by navigation, and nothing is inserted
// beside the path of a leaf that the same transaction moves.
func judgeLeaves(c *commit) string {
	placed := map[pistore.ID]bool{}
	for at, value := range c.sets {
		if at.Namespace != registers.LaneLeafNS {
			continue
		}
		from, to := c.o.leafIn(c.before(at)), c.o.leafIn(value)
		anchor := to
		for n := c.inserted(anchor); n != nil; n = c.inserted(anchor) {
			placed[n.ID] = true
			anchor = n.ParentID
		}
		_, old := c.o.cells[at]
		switch {
		case anchor == from && old:
		case !old && (anchor == "" || c.o.entries[anchor] != nil): // a new lane
		case slices.ContainsFunc(c.ops, func(ch change) bool {
			nav, ok := ch.before.(*registers.NavigationState)
			return ok && ch.lane == at.Key && ch.after == nil && nav.TargetID == anchor
		}):
		default:
			return fmt.Sprintf("the leaf of %s moves from %q to %q, which neither appends nor navigates", at.Key, from, to)
		}
	}
	for _, n := range c.entries {
		if !placed[n.ID] {
			return fmt.Sprintf("entry %s is inserted, and no leaf moves to it", n.ID)
		}
	}
	return ""
}

// Acceptance observes an idle lane.
func judgeAcceptance(c *commit) string {
	for _, ch := range c.ops {
		if ch.before != nil {
			continue
		}
		at := pistore.Address{Namespace: registers.LaneStateNS, Key: ch.lane}
		before, _ := registers.DecodeLaneState(c.before(at))
		after, err := registers.DecodeLaneState(c.after(at))
		switch {
		case ch.record != nil:
			return fmt.Sprintf("operation %s comes to life again", ch.id)
		case ch.after == nil:
			return fmt.Sprintf("operation %s ends that was never open", ch.id)
		case before.CurrentOperationID != "":
			return fmt.Sprintf("operation %s is accepted while %s is open", ch.id, before.CurrentOperationID)
		case err != nil || after.CurrentOperationID != ch.id:
			return fmt.Sprintf("operation %s is accepted and its lane does not say so", ch.id)
		}
	}
	return ""
}

// An entry of a run has the id that was reserved for it.
func judgeReserved(c *commit) string {
	for _, ch := range c.ops {
		for _, n := range c.entries {
			switch m := n.message.(type) {
			case *session.AssistantMessage:
				if !slices.Contains(responsesOf(ch.before), n.ID) {
					return fmt.Sprintf("response %s was never announced", n.ID)
				}
			case *session.ToolResultMessage:
				if problem := c.judgeResult(ch, n, m); problem != "" {
					return problem
				}
			}
		}
	}
	return ""
}

// responsesOf returns the ids under which a response may be settled.
func responsesOf(s registers.OpState) []pistore.ID {
	run, ok := s.(*registers.RunState)
	if !ok {
		return nil
	}
	switch p := run.Phase.(type) {
	case *registers.AssistantPending:
		return []pistore.ID{p.ResponseEntryID}
	case *registers.DeferredPending:
		return []pistore.ID{p.ResponseEntryID}
	}
	return nil
}

// judgeResult checks that a result settles a call that was not settled before,
// under its reserved id.
func (c *commit) judgeResult(ch change, n *node, m *session.ToolResultMessage) string {
	batch := batchOf(ch.before)
	if batch == nil {
		batch = batchOf(ch.after)
	}
	if batch == nil || c.inserted(batch.AssistantEntryID) != nil {
		// Planned and refused at once: the response is of this transaction.
		for _, e := range c.entries {
			if a, ok := e.message.(*session.AssistantMessage); ok && slices.ContainsFunc(a.ToolCalls(), func(k session.ToolCall) bool { return k.ID == m.ToolCallID }) {
				return ""
			}
		}
		return fmt.Sprintf("result %s is of no call", n.ID)
	}
	response, ok := c.entry(batch.AssistantEntryID).message.(*session.AssistantMessage)
	if !ok {
		return fmt.Sprintf("the batch of %s has no response", n.ID)
	}
	calls := response.ToolCalls()
	for _, k := range batch.Calls {
		if k.ResultEntryID != n.ID {
			continue
		}
		switch {
		case k.Status == registers.CallCompleted && batchOf(ch.before) == batch:
			return fmt.Sprintf("call %d is settled twice", k.SourceIndex)
		case calls[k.SourceIndex].ID != m.ToolCallID:
			return fmt.Sprintf("result %s is of call %s, and was reserved for %s", n.ID, m.ToolCallID, calls[k.SourceIndex].ID)
		}
		return ""
	}
	return fmt.Sprintf("result %s was never reserved", n.ID)
}

func batchOf(s registers.OpState) *registers.Tools {
	run, ok := s.(*registers.RunState)
	if !ok {
		return nil
	}
	batch, _ := run.Phase.(*registers.Tools)
	return batch
}

// Only a terminal transaction writes an outcome, and it leaves nothing of its
// operation.
func judgeTerminal(c *commit) string {
	for at := range c.sets {
		if at.Namespace == registers.LaneLastResultNS && !slices.ContainsFunc(c.ops, func(ch change) bool { return ch.lane == at.Key && ch.after == nil }) {
			return fmt.Sprintf("an outcome of lane %s is written, and nothing ends there", at.Key)
		}
	}
	for _, ch := range c.ops {
		if ch.after != nil || ch.before == nil {
			continue
		}
		last, err := registers.DecodeLastResult(c.sets[pistore.Address{Namespace: registers.LaneLastResultNS, Key: ch.lane}])
		state, _ := registers.DecodeLaneState(c.after(pistore.Address{Namespace: registers.LaneStateNS, Key: ch.lane}))
		switch {
		case err != nil || last.OperationID != ch.id:
			return fmt.Sprintf("operation %s ends without its outcome", ch.id)
		case state.CurrentOperationID != "":
			return fmt.Sprintf("operation %s ends and lane %s is not free", ch.id, ch.lane)
		case last.LeafID != c.o.leafIn(c.after(pistore.Address{Namespace: registers.LaneLeafNS, Key: ch.lane})):
			return fmt.Sprintf("operation %s ends at %q, and its lane stands elsewhere", ch.id, last.LeafID)
		}
		if left := c.left(ch); left != "" {
			return fmt.Sprintf("operation %s ends and leaves %s", ch.id, left)
		}
	}
	return ""
}

// left names a register that outlives its operation, or is empty.
func (c *commit) left(ch change) string {
	for _, at := range registers.Keys(ch.id, ch.before) {
		if c.after(at) != "" {
			return at.Namespace + "/" + at.Key
		}
	}
	for at := range c.o.cells {
		if strings.HasPrefix(at.Namespace, "op.") && strings.HasPrefix(at.Key, string(ch.id)) && c.after(at) != "" {
			return at.Namespace + "/" + at.Key
		}
	}
	return ""
}

// A response is aborted only where a cancellation is durable.
func judgeAborted(c *commit) string {
	for _, n := range c.entries {
		m, ok := n.message.(*session.AssistantMessage)
		if !ok || m.StopReason != session.StopAborted {
			continue
		}
		if !slices.ContainsFunc(c.ops, func(ch change) bool { return cancelled(ch.before) || cancelled(ch.after) }) {
			return fmt.Sprintf("response %s is aborted, and nobody asked for it", n.ID)
		}
	}
	return ""
}

func cancelled(s registers.OpState) bool { return s != nil && registers.ControlOf(s).CancelRequested }

// Every settled attempt is billed, once, with its response.
func judgeBills(c *commit) string {
	if len(c.ops) == 0 {
		return ""
	}
	for _, n := range c.entries {
		bills := 0
		var bill pistore.InsertUsage
		for _, u := range c.usage {
			if u.EntryID == n.ID {
				bills, bill = bills+1, u
			}
		}
		switch m := n.message.(type) {
		case *session.AssistantMessage:
			p := pendingOf(c.ops[0].before)
			switch {
			case bills != 1:
				return fmt.Sprintf("response %s has %d usage rows", n.ID, bills)
			case bill.Usage != m.Usage:
				return fmt.Sprintf("response %s is billed with other usage than it has", n.ID)
			case p != nil && bill.ID != p.usage:
				return fmt.Sprintf("response %s is billed under %s, which was not reserved", n.ID, bill.ID)
			}
		case *session.ToolResultMessage:
			if want := m.Usage != ""; want != (bills == 1) {
				return fmt.Sprintf("result %s has %d usage rows", n.ID, bills)
			}
		}
	}
	return ""
}

// An announced request goes by its settlement, with its bill, or is given up by
// the first commit of a Resume.
func judgeSettled(c *commit) string {
	for _, ch := range c.ops {
		p, q := pendingOf(ch.before), pendingOf(ch.after)
		if p == nil || q != nil && q.usage == p.usage || c.settles(p) || ch.record.resumed || c.finalizes(ch) {
			continue
		}
		return fmt.Sprintf("the request billed as %s is neither settled nor given up", p.usage)
	}
	return ""
}

// Attempts are numbered one by one, in every life, up to the captured bound.
func judgeAttempts(c *commit) string {
	for _, ch := range c.ops {
		p, was := pendingOf(ch.after), pendingOf(ch.before)
		if p == nil || was != nil && was.usage == p.usage {
			continue
		}
		last := c.o.step(p.step).attempts
		switch {
		case p.attempt == last+1 && p.attempt <= p.most && p.index == 0:
		case p.attempt == last && p.index > 0: // the next part of one summary
		case p.attempt == last && p.purpose == forPoll: // asked again after a crash
		default:
			return fmt.Sprintf("step %s announces attempt %d of %d (request %d) after %d", p.step, p.attempt, p.most, p.index, last)
		}
	}
	return ""
}

// An attempt is spent by its intent alone: where none was in flight the number of
// the next one stays.
func judgeReady(c *commit) string {
	for _, ch := range c.ops {
		before, after := nextAttempt(ch.before), nextAttempt(ch.after)
		if before != 0 && after != 0 && before != after {
			return fmt.Sprintf("attempt %d becomes attempt %d, and no request was made", before, after)
		}
	}
	return ""
}

// nextAttempt is the number of an attempt that is not announced, 0 if there is
// none.
func nextAttempt(s registers.OpState) int64 {
	if s == nil {
		return 0
	}
	if sum := registers.SummaryOf(s); sum != nil && sum.Generating != nil {
		switch g := sum.Generating.Generation.(type) {
		case *registers.GenerationReady:
			return g.NextAttempt
		case *registers.GenerationRetryWait:
			return g.NextAttempt
		}
	}
	if run, ok := s.(*registers.RunState); ok {
		switch p := run.Phase.(type) {
		case *registers.AssistantReady:
			return p.NextAttempt
		case *registers.AssistantRetryWait:
			return p.NextAttempt
		}
	}
	return 0
}

// A retry waits as long as its policy says at least.
func judgeDelay(c *commit) string {
	for _, ch := range c.ops {
		run, ok := ch.before.(*registers.RunState)
		if !ok {
			continue
		}
		wait, ok := run.Phase.(*registers.AssistantRetryWait)
		if p := pendingOf(ch.after); ok && p != nil && ch.record.slept < wait.NotBefore {
			return fmt.Sprintf("attempt %d is announced %d ms early", p.attempt, wait.NotBefore-ch.record.slept)
		}
	}
	return ""
}

// The count of resumes is one more in the first commit of a Resume and 0 in
// every other.
func judgeResumes(c *commit) string {
	for _, ch := range c.ops {
		if ch.after == nil || ch.record == nil {
			continue
		}
		got := resumesOf(ch.after)
		if c.o.asked {
			continue
		}
		want := int64(0)
		if ch.record.resumed {
			want = resumesOf(ch.before) + 1
		}
		if got != want {
			return fmt.Sprintf("operation %s counts %d resumes, and should %d", ch.id, got, want)
		}
	}
	return ""
}

func resumesOf(s registers.OpState) int64 {
	switch s := s.(type) {
	case *registers.RunState:
		return s.Resumes
	case *registers.CompactionState:
		return s.Resumes
	case *registers.NavigationState:
		return s.Resumes
	default:
		panic(fmt.Sprintf("sim: state %T", s))
	}
}

// A cancellation is asked for once, stays, drains what it says, and ends the
// operation as aborted.
func judgeControl(c *commit) string {
	for _, ch := range c.ops {
		switch {
		case ch.before == nil:
		case ch.after == nil:
			last, _ := registers.DecodeLastResult(c.after(pistore.Address{Namespace: registers.LaneLastResultNS, Key: ch.lane}))
			if cancelled(ch.before) != (last.Outcome == registers.Aborted) && !c.finalizes(ch) {
				return fmt.Sprintf("operation %s ends %s, cancelled: %v", ch.id, last.Outcome, cancelled(ch.before))
			}
		case cancelled(ch.before) && !cancelled(ch.after):
			return fmt.Sprintf("the cancellation of %s is taken back", ch.id)
		case cancelled(ch.after) && !cancelled(ch.before):
			if problem := drained(ch); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// drained checks that a first Abort moves the queues of a run, and nothing else.
func drained(ch change) string {
	before, ok := ch.before.(*registers.RunState)
	if !ok {
		return ""
	}
	after := ch.after.(*registers.RunState)
	switch {
	case !slices.Equal(before.Inbox.Steer, after.Control.DrainedSteer), !slices.Equal(before.Inbox.FollowUp, after.Control.DrainedFollowUp):
		return fmt.Sprintf("the cancellation of %s does not drain what was queued", ch.id)
	case len(after.Inbox.Steer)+len(after.Inbox.FollowUp) > 0:
		return fmt.Sprintf("the cancellation of %s leaves input queued", ch.id)
	}
	return ""
}

func judgeOne(c *commit) string {
	if len(c.ops) > 1 {
		return fmt.Sprintf("it changes %d operations", len(c.ops))
	}
	return ""
}
