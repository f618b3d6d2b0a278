package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"pistore"
	"pistore/registers"
)

// ForkOptions say what a fork copies.
type ForkOptions struct {
	// ID is that of the fork; it has to be given.
	ID        pistore.SessionID
	CreatedAt pistore.UnixMS // 0: as the source was

	// Tree copies the whole tree with every lane. Else a fork has one path and
	// the lane main, which stands at its end: at the entry At, at the parent of
	// the entry Before, or where main stands in the source.
	Tree       bool
	At, Before pistore.ID

	Progress Progress
}

// Fork makes a new session of a part of another, in any backend. All that it has
// is of one moment of the source, which is only read, and keeps its ids, seqs and
// times: entries, the leaves and configurations of lanes, facts, registers of
// applications, and the documents whose policy it is. Labels are copied with
// their entries. Nothing is open or queued in it, and its ledger is empty.
//
// An unknown entry is ErrNotFound; an id that dst has is ErrDuplicateID; a source
// that finds damage in itself is refused, as by [Convert]. After any error dst
// holds no fork.
func Fork(ctx context.Context, src pistore.Storage, dst pistore.Backend, o ForkOptions) (Copied, error) {
	switch {
	case o.ID == "":
		return Copied{}, wrap("fork", fmt.Errorf("%w: a fork without an id", pistore.ErrInvalid))
	case o.At != "" && o.Before != "", o.Tree && (o.At != "" || o.Before != ""):
		return Copied{}, wrap("fork", fmt.Errorf("%w: a fork is of the tree, at an entry, or before one", pistore.ErrInvalid))
	}
	if err := Undamaged(ctx, src); err != nil {
		return Copied{}, wrap("fork", err)
	}
	c, err := Copy(ctx, forked(ctx, src, o), dst, o.Progress)
	return c, wrap("fork", err)
}

// forked yields the rows of a fork.
func forked(ctx context.Context, src pistore.Storage, o ForkOptions) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		f := &fork{ForkOptions: o, ctx: ctx, src: src, yield: yield}
		err := error(nil)
		if o.Tree {
			err = f.copyTree()
		} else {
			err = f.copyPath()
		}
		if err != nil && err != errLeft {
			yield(nil, err)
		}
	}
}

// errLeft: nobody takes rows any more.
var errLeft = errors.New("left")

// fork makes the rows of a fork.
type fork struct {
	ForkOptions
	ctx   context.Context
	src   pistore.Storage
	yield func(pistore.Row, error) bool

	next pistore.Seq // of the snapshot: what is of it is below
	// leaf is where main stands, and path are the seqs of the entries up to it,
	// rising. A fork of the tree has neither.
	leaf     pistore.ID
	path     []pistore.Seq
	hasLeaf  bool // main's leaf was copied
	hasState bool
}

func (f *fork) put(row pistore.Row) error {
	if !f.yield(row, nil) {
		return errLeft
	}
	return nil
}

// copyTree copies as it reads.
func (f *fork) copyTree() error {
	for row, err := range f.src.Export(f.ctx) {
		if err != nil {
			return err
		}
		keep := true
		switch r := row.(type) {
		case pistore.Header:
			row = f.header(r)
		case pistore.UsageRow:
			keep = false
		case pistore.Register:
			row, keep, err = f.register(r)
		}
		if err == nil && keep {
			err = f.put(row)
		}
		if err != nil {
			return err
		}
	}
	return f.end()
}

// copyPath first reads the registers, which tell where main stood at that moment,
// and then the path, which nobody changes any more.
func (f *fork) copyPath() error {
	var header pistore.Row
	var cells []pistore.Register
	f.leaf = f.At
	for row, err := range f.src.Export(f.ctx) {
		if err != nil {
			return err
		}
		switch r := row.(type) {
		case pistore.Header:
			header = f.header(r)
		case pistore.Register:
			if cells = append(cells, r); r.Address() == mainLeaf && f.At == "" && f.Before == "" {
				f.leaf, err = registers.DecodeLaneLeaf(r.Value)
			}
			if err != nil {
				return New(f.src).corrupt(r.Namespace, r.Key, 21, err.Error())
			}
		}
	}
	if err := f.findPath(); err != nil {
		return err
	}
	if err := f.put(header); err != nil {
		return err
	}
	return f.merge(cells)
}

var mainLeaf = pistore.Address{Namespace: registers.LaneLeafNS, Key: registers.MainLane}

// findPath walks from the leaf to the root.
func (f *fork) findPath() error {
	start := f.leaf
	if f.Before != "" {
		start = f.Before
	}
	if start == "" {
		return nil
	}
	for e, err := range f.src.Branch(f.ctx, pistore.BranchQuery{Start: start, StructureOnly: true}) {
		if err != nil {
			return err
		}
		if e.ID == f.Before {
			f.leaf = e.ParentID
			continue
		}
		f.path = append(f.path, e.Seq)
	}
	slices.Reverse(f.path)
	return nil
}

// merge yields the registers and the entries of the path by seq.
func (f *fork) merge(cells []pistore.Register) error {
	upTo := func(seq pistore.Seq) error {
		for len(cells) > 0 && cells[0].Seq < seq {
			r, keep, err := f.register(cells[0])
			if err == nil && keep {
				err = f.put(r)
			}
			if err != nil {
				return err
			}
			cells = cells[1:]
		}
		return nil
	}
	if f.leaf != "" {
		for e, err := range f.src.Branch(f.ctx, pistore.BranchQuery{Start: f.leaf, Order: pistore.Reversed}) {
			if err == nil {
				err = upTo(e.Seq)
			}
			if err == nil {
				err = f.put(e)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := upTo(pistore.MaxSeq + 1); err != nil {
		return err
	}
	return f.end()
}

// header is the source's with the fork's own name.
func (f *fork) header(h pistore.Header) pistore.Row {
	f.next = h.NextSeq
	h.Info.ParentSessionID, h.Info.LegacyParentPath, h.Info.Generation = h.Info.ID, "", ""
	h.Info.ID = f.ID
	if f.CreatedAt != 0 {
		h.Info.CreatedAt = f.CreatedAt
	}
	return h
}

// copied reports whether the entry of a seq is.
func (f *fork) copied(seq pistore.Seq) bool {
	if f.Tree {
		return seq < f.next
	}
	_, ok := slices.BinarySearch(f.path, seq)
	return ok
}

// register returns a register as the fork has it.
func (f *fork) register(r pistore.Register) (out pistore.Register, keep bool, err error) {
	main := r.Key == registers.MainLane
	switch r.Namespace {
	case registers.LaneLeafNS:
		if main && !f.Tree {
			r.Value = registers.EncodeLaneLeaf(f.leaf)
		}
		f.hasLeaf = f.hasLeaf || main
		return r, main || f.Tree, nil
	case registers.LaneStateNS:
		r.Value = registers.EncodeLaneState(registers.LaneState{})
		f.hasState = f.hasState || main
		return r, main || f.Tree, nil
	case registers.LaneConfigNS:
		return r, main || f.Tree, nil
	case registers.FactLabelNS:
		keep, err = f.labels(pistore.ID(r.Key))
		return r, keep, err
	case registers.FactNameNS, registers.FactCustomNS:
		return r, true, nil
	case registers.DocNS:
		_, lane, err := registers.ParseDocKey(r.Key)
		here := f.Tree || lane == "" || lane == registers.MainLane
		return r, err == nil && here && registers.ForksDoc(r.Value), nil
	default:
		return r, registers.IsApp(r.Namespace), nil
	}
}

// labels reports whether the target of a label is copied.
func (f *fork) labels(target pistore.ID) (bool, error) {
	for e, err := range f.src.Branch(f.ctx, pistore.BranchQuery{Start: target, Limit: 1, StructureOnly: true}) {
		if errors.Is(err, pistore.ErrNotFound) {
			return false, nil
		}
		return err == nil && f.copied(e.Seq), err
	}
	return false, nil
}

// end gives the fork the lane main where its source had none.
func (f *fork) end() error {
	next := f.next
	for _, r := range []struct {
		there     bool
		namespace string
		value     pistore.JSON
	}{
		{f.hasLeaf, registers.LaneLeafNS, registers.EncodeLaneLeaf(f.leaf)},
		{f.hasState, registers.LaneStateNS, registers.EncodeLaneState(registers.LaneState{})},
	} {
		if r.there {
			continue
		}
		if err := f.put(pistore.Register{Namespace: r.namespace, Key: registers.MainLane, Value: r.value, Seq: next}); err != nil {
			return err
		}
		next++
	}
	return nil
}
