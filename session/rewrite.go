package session

import (
	"context"
	"fmt"
	"iter"

	"pistore"
	"pistore/registers"
)

// RewriteOptions say what a precise rewrite removes.
type RewriteOptions struct {
	// Erase names entries whose content goes, everywhere it was copied to. The
	// entry keeps its place, its times and what others rely on, so that no parent
	// chain changes; its label goes.
	Erase []pistore.ID
	// DropAbandoned removes the branches that nothing leads to: no lane, no open
	// operation, no label.
	DropAbandoned bool

	Progress Progress
}

// Rewritten is what a rewrite did, or would do.
type Rewritten struct {
	Info   pistore.Info // of the session after it
	Digest string       // of the session after it
	Rows   int64        // that are left

	Erased  int64 // entries whose content went
	Copies  int64 // of that content, elsewhere
	Labels  int64 // that went with the content or the entry
	Dropped int64 // entries of abandoned branches
	// Summaries are compactions and branch summaries that were made with erased
	// content in view. They may tell of it in their own words, and are erased by
	// naming them.
	Summaries []pistore.ID
}

// InUseError says that an entry cannot be erased because an open operation works
// on it. It matches [ErrLaneBusy].
type InUseError struct {
	Entry     pistore.ID
	Operation pistore.ID
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("entry %s belongs to the open operation %s", e.Entry, e.Operation)
}

// Is reports whether target is ErrLaneBusy.
func (e *InUseError) Is(target error) bool { return target == ErrLaneBusy }

// Rewrite removes content from a session for good, in one step: the one
// sanctioned removal. Ids, seqs and times of what stays are kept, and the ledger
// is; the generation is replaced. An entry that is not there is ErrNotFound; a
// session that is open for writing is ErrLocked; one that finds damage in itself
// is refused, as by [Convert].
//
// What a backend keeps of superseded bytes until it compacts is its own: a file
// is rewritten whole, a logstore is to be compacted after it.
func Rewrite(ctx context.Context, b pistore.Backend, id pistore.SessionID, o RewriteOptions) (Rewritten, error) {
	r := &rewriter{RewriteOptions: o, ctx: ctx}
	return r.run("rewrite", func(tee rowFilter) (pistore.Info, error) {
		return b.Rewrite(ctx, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] { return tee(r.rows(old)) })
	})
}

// PlanRewrite tells what a rewrite would do, and does nothing.
func PlanRewrite(ctx context.Context, s pistore.Storage, o RewriteOptions) (Rewritten, error) {
	r := &rewriter{RewriteOptions: o, ctx: ctx}
	return r.run("plan rewrite", func(tee rowFilter) (pistore.Info, error) {
		for _, err := range tee(r.rows(s)) {
			if err != nil {
				return pistore.Info{}, err
			}
		}
		return s.Info(), nil
	})
}

// rewriter makes the rows that a rewrite leaves.
type rewriter struct {
	RewriteOptions
	ctx context.Context
	old pistore.Storage

	eraser   *eraser
	payloads map[pistore.ID]pistore.JSON // of entries that are erased
	users    map[pistore.ID]pistore.ID   // of entries, the open operation that names it
	kept     map[pistore.Seq]bool        // nil: every entry
	failed   error                       // of reading for the plan
	done     Rewritten
}

func (r *rewriter) run(what string, load func(rowFilter) (pistore.Info, error)) (Rewritten, error) {
	c, err := hashed(r.Progress, load)
	if err != nil {
		return Rewritten{}, wrap(what, err)
	}
	r.done.Info, r.done.Digest, r.done.Rows, r.done.Copies = c.Info, c.Digest, c.Rows, r.eraser.copies
	return r.done, nil
}

// rows yields what is left of a session that nobody writes.
func (r *rewriter) rows(old pistore.Storage) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		r.old, r.eraser = old, newEraser()
		if err := r.plan(); err != nil {
			yield(nil, err)
			return
		}
		for row, err := range old.Export(r.ctx) {
			keep := true
			switch have := row.(type) {
			case pistore.Entry:
				row, keep = r.entry(have)
			case pistore.Register:
				row, keep = r.register(have)
			case pistore.UsageRow:
				have.Details = r.eraser.scrub(have.Details)
				row = have
			}
			if keep && !yield(row, err) {
				return
			}
		}
	}
}

func (r *rewriter) entry(e pistore.Entry) (pistore.Row, bool) {
	if r.kept != nil && !r.kept[e.Seq] {
		r.done.Dropped++
		return e, false
	}
	payload, erased := r.payloads[e.ID]
	switch {
	case erased:
		r.done.Erased++
		e.Payload = payload
	case e.Type == pistore.TypeCustom && e.CustomType == ContextEditType:
		e.Payload = r.eraser.edit(e)
	default:
		e.Payload = r.eraser.scrub(e.Payload)
	}
	return e, true
}

func (r *rewriter) register(reg pistore.Register) (pistore.Row, bool) {
	if reg.Namespace == registers.FactLabelNS {
		if _, erased := r.payloads[pistore.ID(reg.Key)]; erased {
			r.done.Labels++
			return reg, false
		}
	}
	reg.Value = r.eraser.scrub(reg.Value)
	if reg.Namespace == registers.OpPreparationNS {
		reg.Value = r.eraser.preparation(reg.Value)
	}
	return reg, true
}
