package harness

import (
	"context"
	"errors"
	"fmt"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
)

// Restore reads a lane's position and starts nothing: three lane registers;
// op.meta and op.state if an operation is open; then one call for every entry
// and one for every register that these name. It never scans and never folds
// history. What is named must be there: a position is checked before it is
// executed, that of an idle lane too.

// restore reads the lane. The caller holds the line.
func (l *Lane) restore(ctx context.Context) (*position, error) {
	in := session.New(l.h.storage)
	lane, err := in.Lane(ctx, l.name)
	if errors.Is(err, pistore.ErrNotFound) {
		if l.name != registers.MainLane {
			return nil, fmt.Errorf("harness: %w: %s", ErrUnknownLane, l.name)
		}
		if err := session.Init(ctx, l.h.storage); err != nil && !errors.Is(err, pistore.ErrConflict) {
			return nil, l.rejected(ctx, err)
		}
		lane, err = in.Lane(ctx, l.name)
	}
	if err != nil {
		return nil, fmt.Errorf("harness: restore: %w", err)
	}
	p := &position{
		lane: l.name, leaf: lane.Leaf, leafSeq: lane.LeafSeq, state: lane.State, stateSeq: lane.StateSeq,
		config: lane.Config, configSeq: lane.ConfigSeq,
	}
	return p, l.h.restoreNamed(ctx, p)
}

// cells are registers by address.
type cells map[pistore.Address]pistore.Register

func (h *Harness) registers(ctx context.Context, at ...pistore.Address) (cells, error) {
	if len(at) == 0 {
		return nil, nil
	}
	found, err := h.storage.Registers(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("harness: restore: %w", err)
	}
	m := make(cells, len(found))
	for _, r := range found {
		m[r.Address()] = r
	}
	return m, nil
}

// corrupt says that a register is not what it must be.
func (h *Harness) corrupt(at pistore.Address, invariant int, problem string) error {
	info := h.storage.Info()
	return &pistore.CorruptError{
		Backend: info.Format, Session: info.ID, Invariant: invariant,
		Place: fmt.Sprintf("register %s %q", at.Namespace, at.Key), Problem: problem,
	}
}

// restoreNamed reads the operation, if one is open, and then everything that
// the lane's registers name.
func (h *Harness) restoreNamed(ctx context.Context, p *position) error {
	var entryIDs, absent []pistore.ID
	var wanted []pistore.Address
	if p.leaf != "" {
		entryIDs = append(entryIDs, p.leaf)
	}
	for _, id := range p.state.PendingNextRun {
		wanted = append(wanted, pistore.Address{Namespace: registers.PendingEntryNS, Key: string(id)})
		absent = append(absent, id)
	}
	required := len(wanted)
	if id := p.state.CurrentOperationID; id != "" {
		var err error
		if p.op, err = h.restoreOperation(ctx, p, id); err != nil {
			return err
		}
		state := p.op.state
		entryIDs = append(append(entryIDs, p.op.meta.EntryIDs()...), registers.EntryIDs(state)...)
		absent = append(absent, registers.ReservedIDs(state)...)
		keys := registers.Keys(id, state)
		required += len(registers.RequiredKeys(id, state)) - 2
		wanted = append(wanted, keys[2:]...) // all but op.meta and op.state, which were read
	}
	entries, err := h.namedEntries(ctx, p, entryIDs, absent)
	if err != nil {
		return err
	}
	found, err := h.registers(ctx, wanted...)
	if err != nil {
		return err
	}
	for _, at := range wanted[:required] {
		if _, ok := found[at]; !ok {
			return h.corrupt(at, 21, "an open operation or a queue names it, and it is absent")
		}
	}
	if err := h.restoreQueued(p, found); err != nil || p.op == nil {
		return err
	}
	if err := h.restoreHandle(p, entries); err != nil {
		return err
	}
	if err := h.restorePreparation(p, found); err != nil {
		return err
	}
	return h.restoreBatch(p, entries, found)
}

// restoreHandle brings back the handle of a deferred response, which the entry
// that the state names holds.
func (h *Harness) restoreHandle(p *position, entries map[pistore.ID]pistore.Entry) error {
	var source pistore.ID
	var model registers.ModelRef
	switch ph := p.op.phase().(type) {
	case *registers.DeferredSuspended:
		source, model = ph.SourceEntryID, ph.Configuration.Model
	case *registers.DeferredPending:
		source, model = ph.SourceEntryID, ph.Configuration.Model
	default:
		return nil
	}
	at := pistore.Address{Namespace: registers.OpStateNS, Key: string(p.op.meta.OperationID)}
	msg, err := session.EntryMessage(entries[source])
	if err != nil {
		return h.corrupt(at, 21, fmt.Sprintf("entry %s: %v", source, err))
	}
	response, ok := msg.(*session.AssistantMessage)
	if !ok || !provider.ValidHandle(response.Deferred, model) {
		return h.corrupt(at, 21, fmt.Sprintf("entry %s holds no handle of %s/%s, and a deferred response names it", source, model.Provider, model.ModelID))
	}
	p.op.handle = response.Deferred
	return nil
}

// restoreQueued brings back the content of what waits for its place.
func (h *Harness) restoreQueued(p *position, found cells) error {
	p.queued = map[pistore.ID]registers.PendingEntry{}
	for at, r := range found {
		if at.Namespace != registers.PendingEntryNS {
			continue
		}
		content, err := registers.DecodePendingEntry(r.Value)
		if err != nil {
			return h.corrupt(at, 21, err.Error())
		}
		p.queued[pistore.ID(at.Key)] = content
	}
	return nil
}

// restorePreparation brings back what an open summary is made of.
func (h *Harness) restorePreparation(p *position, found cells) error {
	sum := registers.SummaryOf(p.op.state)
	if sum == nil {
		return nil
	}
	at := pistore.Address{
		Namespace: registers.OpPreparationNS, Key: registers.PreparationKey(p.op.meta.OperationID, sum.SummaryID),
	}
	prep, err := registers.DecodePreparation(found[at].Value)
	if err != nil {
		return h.corrupt(at, 21, err.Error())
	}
	p.op.summary.preparation = &prep
	return nil
}

// restoreOperation reads the two registers of an open operation.
func (h *Harness) restoreOperation(ctx context.Context, p *position, id pistore.ID) (*operation, error) {
	metaAt := pistore.Address{Namespace: registers.OpMetaNS, Key: string(id)}
	stateAt := pistore.Address{Namespace: registers.OpStateNS, Key: string(id)}
	found, err := h.registers(ctx, metaAt, stateAt)
	if err != nil {
		return nil, err
	}
	for _, at := range []pistore.Address{metaAt, stateAt} {
		if _, ok := found[at]; !ok {
			return nil, h.corrupt(at, 11, "lane "+p.lane+" names the operation as open, and it is absent")
		}
	}
	op := &operation{seq: found[stateAt].Seq}
	if op.meta, err = registers.DecodeOpMeta(found[metaAt].Value); err != nil {
		return nil, h.corrupt(metaAt, 21, err.Error())
	}
	state, err := registers.DecodeOpState(found[stateAt].Value)
	if err != nil {
		return nil, h.corrupt(stateAt, 21, err.Error())
	}
	if op.meta.OperationID != id || op.meta.Lane != p.lane || op.meta.Intent.Kind != registers.KindOf(state) {
		return nil, h.corrupt(metaAt, 11, fmt.Sprintf("it was accepted as a %s %s on lane %q, and stands as a %s on lane %q",
			op.meta.Intent.Kind, op.meta.OperationID, op.meta.Lane, registers.KindOf(state), p.lane))
	}
	op.state = state
	return op, nil
}

// namedEntries reads the entries that must exist together with those that must
// not exist yet.
func (h *Harness) namedEntries(ctx context.Context, p *position, present, absent []pistore.ID) (map[pistore.ID]pistore.Entry, error) {
	if len(present)+len(absent) == 0 {
		return nil, nil
	}
	found, err := h.storage.Entries(ctx, append(append([]pistore.ID(nil), present...), absent...))
	if err != nil {
		return nil, fmt.Errorf("harness: restore: %w", err)
	}
	entries := make(map[pistore.ID]pistore.Entry, len(found))
	for _, e := range found {
		entries[e.ID] = e
	}
	at := pistore.Address{Namespace: registers.LaneLeafNS, Key: p.lane}
	if p.op != nil {
		at = pistore.Address{Namespace: registers.OpStateNS, Key: string(p.op.meta.OperationID)}
	}
	for _, id := range present {
		if _, ok := entries[id]; !ok {
			return nil, h.corrupt(at, 21, fmt.Sprintf("it names entry %s, which does not exist", id))
		}
	}
	for _, id := range absent {
		if _, ok := entries[id]; ok {
			return nil, h.corrupt(at, 14, fmt.Sprintf("it reserves id %s, under which an entry exists already", id))
		}
	}
	return entries, nil
}

// restoreBatch brings back what an open tool batch works on: the calls of its
// response and the arguments of those that were started.
func (h *Harness) restoreBatch(p *position, entries map[pistore.ID]pistore.Entry, found cells) error {
	batch, ok := p.op.phase().(*registers.Tools)
	if !ok {
		return nil
	}
	at := pistore.Address{Namespace: registers.OpStateNS, Key: string(p.op.meta.OperationID)}
	msg, err := session.EntryMessage(entries[batch.AssistantEntryID])
	if err != nil {
		return h.corrupt(at, 21, fmt.Sprintf("entry %s: %v", batch.AssistantEntryID, err))
	}
	response, ok := msg.(*session.AssistantMessage)
	if !ok {
		return h.corrupt(at, 21, fmt.Sprintf("entry %s is no response, and a tool batch names it", batch.AssistantEntryID))
	}
	p.op.batch = response.ToolCalls()
	if len(p.op.batch) != len(batch.Calls) {
		return h.corrupt(at, 21, fmt.Sprintf("response %s makes %d calls, the batch has %d", batch.AssistantEntryID, len(p.op.batch), len(batch.Calls)))
	}
	p.op.args, p.op.output = map[int]pistore.JSON{}, map[int]registers.ToolOutput{}
	for i, call := range batch.Calls {
		if call.SourceIndex != int64(i) {
			return h.corrupt(at, 21, fmt.Sprintf("call %d of the batch has the source index %d", i, call.SourceIndex))
		}
		key := registers.ToolKey(p.op.meta.OperationID, batch.StepID, call.SourceIndex)
		if r, ok := found[pistore.Address{Namespace: registers.OpToolArgsNS, Key: key}]; ok {
			if err := registers.CheckToolArgs(r.Value); err != nil {
				return h.corrupt(r.Address(), 21, err.Error())
			}
			p.op.args[i] = r.Value
		}
		if r, ok := found[pistore.Address{Namespace: registers.OpToolOutputNS, Key: key}]; ok {
			if p.op.output[i], err = registers.DecodeToolOutput(r.Value); err != nil {
				return h.corrupt(r.Address(), 21, err.Error())
			}
		}
	}
	return nil
}
