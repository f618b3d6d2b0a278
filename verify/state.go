package verify

import (
	"fmt"
	"maps"
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// checkState checks what registers say of lanes, operations and queues against
// each other and against the tree.
func (c *checker) checkState() {
	s := stateCheck{
		checker: c, owner: map[pistore.ID]string{}, queued: map[pistore.ID]string{}, reserved: map[pistore.ID]pistore.ID{},
		owned: map[pistore.Address]bool{},
	}
	for _, name := range slices.Sorted(maps.Keys(c.rows.lanes)) {
		s.lane(name, c.rows.lanes[name])
	}
	if len(c.rows.lanes) > 0 && c.rows.lanes[registers.MainLane] == nil {
		c.cellWarning(21, laneLeaf(registers.MainLane), "there are lanes, and none is named %s, which every session has", registers.MainLane)
	}
	for _, cell := range c.rows.cells {
		if cell.ok {
			s.ownedBy(cell.at)
		}
	}
}

// stateCheck gathers who owns what, lane by lane, and then looks at each register.
type stateCheck struct {
	*checker
	owner    map[pistore.ID]string     // open operations, by lane
	queued   map[pistore.ID]string     // queued ids, by who queued them, in words
	reserved map[pistore.ID]pistore.ID // ids reserved for rows to come, by operation
	owned    map[pistore.Address]bool  // registers that an open operation may have

	// blind: what a lane does cannot be read, so that its operation cannot be
	// told from one that ended.
	blind bool
	// opaque: what an open operation does cannot be read, so that what it has
	// queued is not known.
	opaque bool
}

func laneLeaf(lane string) pistore.Address {
	return pistore.Address{Namespace: registers.LaneLeafNS, Key: lane}
}

func laneState(lane string) pistore.Address {
	return pistore.Address{Namespace: registers.LaneStateNS, Key: lane}
}

func opState(op pistore.ID) pistore.Address {
	return pistore.Address{Namespace: registers.OpStateNS, Key: string(op)}
}

func opMeta(op pistore.ID) pistore.Address {
	return pistore.Address{Namespace: registers.OpMetaNS, Key: string(op)}
}

func pending(id pistore.ID) pistore.Address {
	return pistore.Address{Namespace: registers.PendingEntryNS, Key: string(id)}
}

func (s *stateCheck) has(at pistore.Address) bool {
	_, ok := s.rows.at[at]
	return ok
}

func (s *stateCheck) lane(name string, l *lane) {
	switch {
	case !l.hasLeaf:
		s.cell(21, laneLeaf(name), "the lane has other registers and no leaf")
	case !l.hasState:
		s.cell(21, laneState(name), "the lane has other registers and no state")
	}
	if l.leaf != nil && *l.leaf != "" {
		s.leaf(name, *l.leaf)
	}
	if l.last != nil {
		s.lastResult(name, *l.last)
	}
	if l.state == nil {
		s.blind = s.blind || l.hasState
		return
	}
	for _, id := range l.state.PendingNextRun {
		s.queue(id, fmt.Sprintf("the next run of lane %.256q", name))
	}
	if op := l.state.CurrentOperationID; op != "" {
		s.open(name, l, op)
	}
}

// leaf checks that a lane stands on an entry: one that is still queued is
// orchestration, which must not be needed for a whole conversation.
func (s *stateCheck) leaf(lane string, leaf pistore.ID) {
	switch {
	case s.rows.entry(leaf) != nil:
	case s.has(pending(leaf)):
		s.cell(8, laneLeaf(lane), "the lane stands on %.140q, whose content is still in pending.entry", string(leaf))
	default:
		s.cell(21, laneLeaf(lane), "the lane stands on %.140q, which does not exist", string(leaf))
	}
}

// lastResult checks what is for people only: recovery never reads it.
func (s *stateCheck) lastResult(lane string, last registers.LastResult) {
	at := pistore.Address{Namespace: registers.LaneLastResultNS, Key: lane}
	for _, id := range []pistore.ID{last.LeafID, last.FinalAssistantID} {
		if id != "" && s.rows.entry(id) == nil {
			s.cellWarning(21, at, "names the entry %.140q, which does not exist", string(id))
		}
	}
}

// open checks the open operation of a lane.
func (s *stateCheck) open(name string, l *lane, op pistore.ID) {
	if other, taken := s.owner[op]; taken {
		s.cell(11, laneState(name), "the operation %.140q is open in lane %.256q already", string(op), other)
		return
	}
	s.owner[op] = name
	o := s.rows.ops[op]
	if o == nil {
		o = &operation{}
	}
	if !o.hasMeta {
		s.cell(11, laneState(name), "the open operation %.140q has no op.meta", string(op))
	}
	if !o.hasState {
		s.cell(11, laneState(name), "the open operation %.140q has no op.state", string(op))
	}
	if o.meta != nil && o.meta.Lane != name {
		s.cell(11, opMeta(op), "the operation is open in lane %.256q and was accepted in lane %.256q", name, o.meta.Lane)
	}
	if !l.hasConfig {
		s.cell(21, laneState(name), "the lane has an open operation and no configuration")
	}
	if o.state == nil {
		s.opaque = true
		return
	}
	if o.meta != nil {
		s.intent(op, *o.meta, o.state)
	}
	for _, at := range registers.Keys(op, o.state) {
		s.owned[at] = true
	}
	s.required(op, o.state)
	for _, id := range registers.QueuedIDs(o.state) {
		s.queue(id, fmt.Sprintf("operation %.140q", string(op)))
	}
	s.reserve(op, o.state)
	s.named(op, o, l)
}

// intent checks that an operation does what was accepted.
func (s *stateCheck) intent(op pistore.ID, meta registers.OpMeta, state registers.OpState) {
	if kind := registers.KindOf(state); kind != meta.Intent.Kind {
		s.cell(11, opState(op), "the state is of kind %s, and a %s was accepted", kind, meta.Intent.Kind)
		return
	}
	if nav, ok := state.(*registers.NavigationState); ok && nav.TargetID != meta.Intent.TargetID {
		s.cell(21, opState(op), "the navigation goes to %.140q, and was accepted to %.140q", string(nav.TargetID), string(meta.Intent.TargetID))
	}
}

// required checks that the registers are there that a state names; op.meta,
// op.state and queued content have an invariant of their own.
func (s *stateCheck) required(op pistore.ID, state registers.OpState) {
	for _, at := range registers.RequiredKeys(op, state) {
		switch at.Namespace {
		case registers.OpMetaNS, registers.OpStateNS, registers.PendingEntryNS:
		default:
			if !s.has(at) {
				s.cell(21, opState(op), "the state needs the register %s/%s, which does not exist", at.Namespace, at.Key)
			}
		}
	}
}

// queue notes a queued id and checks that it is nowhere else: its content is in
// its register, and no entry has it yet.
func (s *stateCheck) queue(id pistore.ID, by string) {
	if other, twice := s.queued[id]; twice {
		s.cell(14, pending(id), "the id is queued by %s and by %s", other, by)
		return
	}
	s.queued[id] = by
	switch there, placed := s.has(pending(id)), s.rows.taken(id); {
	case there && placed:
		s.cell(14, pending(id), "queued by %s; there is a register and also a row with the id", by)
	case placed:
		s.cell(14, pending(id), "still queued by %s, and placed already", by)
	case !there:
		s.cell(14, pending(id), "queued by %s, and there is neither a register nor an entry", by)
	}
}

// reserve notes the ids that an operation has reserved for rows to come, and
// checks that none of them is there: outcome and next state commit together.
func (s *stateCheck) reserve(op pistore.ID, state registers.OpState) {
	queued := registers.QueuedIDs(state)
	for _, id := range registers.ReservedIDs(state) {
		if slices.Contains(queued, id) {
			continue
		}
		if other, twice := s.reserved[id]; twice {
			s.cell(14, opState(op), "reserves the id %.140q, which operation %.140q has reserved", string(id), string(other))
			continue
		}
		s.reserved[id] = op
		switch {
		case s.rows.taken(id):
			s.cell(14, opState(op), "reserves the id %.140q for a row to come, and there is one with it", string(id))
		case s.has(pending(id)):
			s.cell(14, opState(op), "reserves the id %.140q for a row to come, and there is queued content under it", string(id))
		}
	}
}

// named checks that the entries and usage rows that an operation names exist,
// are what they are named as, and stand on the branch of its lane.
func (s *stateCheck) named(op pistore.ID, o *operation, l *lane) {
	state := registers.EntryIDs(o.state)
	if o.meta != nil {
		s.exist(opMeta(op), o.meta.EntryIDs())
	}
	s.exist(opState(op), state)
	for _, id := range usageIDs(o.state) {
		if !s.rows.hasUsage(id) {
			s.cell(21, opState(op), "names the usage row %.140q, which does not exist", string(id))
		}
	}
	run, ok := o.state.(*registers.RunState)
	if !ok {
		return
	}
	if l.leaf != nil {
		for _, id := range s.rows.missingOn(*l.leaf, state) {
			if s.rows.entry(id) != nil {
				s.cell(21, opState(op), "names the entry %.140q, which is not on the branch of the lane", string(id))
			}
		}
	}
	s.run(op, run)
}

func (s *stateCheck) exist(at pistore.Address, ids []pistore.ID) {
	for _, id := range ids {
		if s.rows.entry(id) == nil {
			s.cell(21, at, "names the entry %.140q, which does not exist", string(id))
		}
	}
}

// run checks that the messages that a run names are of the right role.
func (s *stateCheck) run(op pistore.ID, run *registers.RunState) {
	is := func(id pistore.ID, role session.Role) *node {
		n := s.rows.entry(id)
		if n == nil {
			return nil // reported, or none
		}
		if n.kind != pistore.TypeMessage || !n.has(role) {
			s.cell(21, opState(op), "names the entry %.140q as a message of role %s, which it is not", string(id), role)
			return nil
		}
		return n
	}
	if n := is(run.LatestAssistantEntryID, session.RoleAssistant); n != nil && n.aborted && !run.Control.CancelRequested {
		s.cell(17, opState(op), "the latest response %.140q is aborted, and no cancellation was requested", string(n.id))
	}
	switch p := run.Phase.(type) {
	case *registers.Tools:
		n := is(p.AssistantEntryID, session.RoleAssistant)
		for _, call := range p.Calls {
			if n != nil && call.SourceIndex >= int64(n.calls) {
				s.cell(21, opState(op), "names call %d of the response %.140q, which makes %d", call.SourceIndex, string(n.id), n.calls)
			}
			if call.Status == registers.CallCompleted {
				is(call.ResultEntryID, session.RoleToolResult)
			}
		}
	case *registers.DeferredSuspended:
		is(p.SourceEntryID, session.RoleAssistant)
	case *registers.DeferredPending:
		is(p.SourceEntryID, session.RoleAssistant)
	case *registers.FailureDrain:
		is(p.Provenance.ResponseEntryID, session.RoleAssistant)
	}
}

// has reports whether an entry is a message of a role, response or result.
func (n *node) has(role session.Role) bool {
	return n.response && role == session.RoleAssistant || n.result && role == session.RoleToolResult
}

// usageIDs returns the ledger rows that a state names and that exist.
func usageIDs(state registers.OpState) []pistore.ID {
	sum := registers.SummaryOf(state)
	if sum == nil || sum.Generating == nil {
		return nil
	}
	return sum.Generating.Generation.Settled()
}

// ownedBy checks that a register of an operation or a queue has its owner.
func (s *stateCheck) ownedBy(at pistore.Address) {
	switch at.Namespace {
	case registers.OpMetaNS, registers.OpStateNS:
		s.operationCell(at, pistore.ID(at.Key))
	case registers.OpToolArgsNS, registers.OpToolOutputNS:
		op, _, _, _ := registers.ParseToolKey(at.Key)
		s.operationCell(at, op)
	case registers.OpPreparationNS:
		op, _, _ := registers.ParsePreparationKey(at.Key)
		s.operationCell(at, op)
	case registers.PendingEntryNS:
		s.pendingCell(at)
	case registers.FactLabelNS:
		if s.rows.entry(pistore.ID(at.Key)) == nil {
			s.cellWarning(21, at, "labels an entry that does not exist")
		}
	}
}

func (s *stateCheck) operationCell(at pistore.Address, op pistore.ID) {
	if _, open := s.owner[op]; !open {
		if !s.blind {
			s.cell(12, at, "belongs to the operation %.140q, which is not open", string(op))
		}
		return
	}
	if o := s.rows.ops[op]; o != nil && o.state != nil && !s.owned[at] {
		s.cell(12, at, "is left over: the state of its operation does not name it")
	}
}

func (s *stateCheck) pendingCell(at pistore.Address) {
	id := pistore.ID(at.Key)
	if _, queued := s.queued[id]; queued {
		return
	}
	if _, reserved := s.reserved[id]; reserved {
		return // reported
	}
	switch {
	case s.rows.taken(id):
		s.cell(14, at, "the content was placed: there is a row with the id, and nobody has it queued")
	case !s.blind && !s.opaque:
		s.cell(12, at, "nobody has the content queued: no open operation, and no lane for its next run")
	}
}
