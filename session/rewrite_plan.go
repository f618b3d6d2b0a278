package session

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"pistore"
	"pistore/registers"
)

// plan looks at the whole session before the first row is made.
func (r *rewriter) plan() error {
	if err := Undamaged(r.ctx, r.old); err != nil {
		return err
	}
	if err := r.findUsers(); err != nil {
		return err
	}
	if err := r.findErased(); err != nil {
		return err
	}
	if r.DropAbandoned {
		return r.findKept()
	}
	return nil
}

// each reads the registers of a namespace, decoded.
func each[T any](r *rewriter, namespace string, decode func(pistore.JSON) (T, error)) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for reg, err := range r.old.RegistersByPrefix(r.ctx, namespace, "") {
			var value T
			if err == nil {
				if value, err = decode(reg.Value); err != nil {
					err = New(r.old).corrupt(namespace, reg.Key, 21, err.Error())
				}
			}
			if err != nil {
				r.failed = errors.Join(r.failed, err)
				return
			}
			if !yield(reg.Key, value) {
				return
			}
		}
	}
}

// findUsers notes the entries that open operations name.
func (r *rewriter) findUsers() error {
	r.users = map[pistore.ID]pistore.ID{}
	note := func(op pistore.ID, ids ...pistore.ID) {
		for _, id := range ids {
			r.users[id] = op
		}
	}
	for op, m := range each(r, registers.OpMetaNS, registers.DecodeOpMeta) {
		note(pistore.ID(op), m.EntryIDs()...)
	}
	for op, s := range each(r, registers.OpStateNS, registers.DecodeOpState) {
		note(pistore.ID(op), registers.EntryIDs(s)...)
	}
	for key, p := range each(r, registers.OpPreparationNS, registers.DecodePreparation) {
		op, _, err := registers.ParsePreparationKey(key)
		if err != nil {
			return New(r.old).corrupt(registers.OpPreparationNS, key, 21, err.Error())
		}
		note(op, p.FromID, p.CommonAncestorID)
	}
	delete(r.users, "")
	return r.failed
}

// findErased reads what is to be erased, and looks for summaries made of it.
func (r *rewriter) findErased() error {
	r.payloads = map[pistore.ID]pistore.JSON{}
	oldest := pistore.Seq(math.MaxInt64)
	for _, id := range r.Erase {
		found, err := r.old.Entries(r.ctx, []pistore.ID{id})
		switch op, used := r.users[id]; {
		case err != nil:
			return err
		case len(found) == 0:
			return fmt.Errorf("%w: entry %.128q", pistore.ErrNotFound, string(id))
		case used:
			return &InUseError{id, op}
		}
		r.payloads[id] = r.eraser.learn(found[0])
		oldest = min(oldest, found[0].Seq)
	}
	if len(r.payloads) == 0 {
		return nil
	}
	for _, t := range []pistore.EntryType{pistore.TypeCompaction, pistore.TypeBranchSummary} {
		for e, err := range r.old.ScanEntries(r.ctx, pistore.ScanQuery{Type: t, FromSeq: oldest}) {
			if err != nil {
				return err
			}
			tells, err := r.tells(e, oldest)
			if err != nil {
				return err
			}
			if tells {
				r.done.Summaries = append(r.done.Summaries, e.ID)
			}
		}
	}
	return nil
}

// tells reports whether a summary was made with erased content in view: on its
// own branch, or on the one that it was left for.
func (r *rewriter) tells(e pistore.Entry, oldest pistore.Seq) (bool, error) {
	if _, erased := r.payloads[e.ID]; erased {
		return false, nil
	}
	starts := []pistore.ID{e.ParentID}
	if e.Type == pistore.TypeBranchSummary {
		from, _ := e.Payload.Member("fromId")
		text, _ := from.Text()
		starts = []pistore.ID{pistore.ID(text)}
	}
	for _, start := range starts {
		for at, err := range r.old.Branch(r.ctx, pistore.BranchQuery{Start: start, Cursor: e.Seq, StructureOnly: true}) {
			if errors.Is(err, pistore.ErrNotFound) || err == nil && at.Seq < oldest {
				break
			}
			if err != nil {
				return false, err
			}
			if _, erased := r.payloads[at.ID]; erased {
				return true, nil
			}
		}
	}
	return false, nil
}

// findKept notes the entries that something leads to. With an entry its ancestors
// stay, so that no chain breaks.
func (r *rewriter) findKept() error {
	r.kept = map[pistore.Seq]bool{}
	lanes := 0
	for _, leaf := range each(r, registers.LaneLeafNS, registers.DecodeLaneLeaf) {
		lanes++
		r.keep(leaf)
	}
	if lanes == 0 && r.failed == nil {
		return fmt.Errorf("%w: a session without lanes, of which every branch would be dropped", pistore.ErrInvalid)
	}
	for _, last := range each(r, registers.LaneLastResultNS, registers.DecodeLastResult) {
		r.keep(last.LeafID)
		r.keep(last.FinalAssistantID)
	}
	for id := range r.users {
		r.keep(id)
	}
	for key := range each(r, registers.FactLabelNS, registers.DecodeText) {
		if _, erased := r.payloads[pistore.ID(key)]; !erased {
			r.keep(pistore.ID(key))
		}
	}
	return r.failed
}

// keep notes an entry and its ancestors.
func (r *rewriter) keep(id pistore.ID) {
	if id == "" || r.failed != nil {
		return
	}
	for e, err := range r.old.Branch(r.ctx, pistore.BranchQuery{Start: id, StructureOnly: true}) {
		switch {
		case errors.Is(err, pistore.ErrNotFound):
			return // a label of nothing
		case err != nil:
			r.failed = err
			return
		case r.kept[e.Seq]:
			return
		}
		r.kept[e.Seq] = true
	}
}
