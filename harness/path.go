package harness

import (
	"context"
	"fmt"

	"pistore"
	"pistore/session"
)

// The path of a lane in memory: its entries from the newest compaction,
// inclusive, to the leaf. It is read once, before an operation is accepted or
// resumed, and grows by what is placed, so an operation projects its requests
// without reading the store. When the operation ends, a path that is short is
// kept for the next one.

// maxIdlePathBytes is what an idle lane keeps of its conversation, counted in
// bytes of payload: a lane with a long one costs no more than others.
const maxIdlePathBytes = 32 << 10

// pathEntry is the newest entry of a path, linked to the one before it. Paths
// share what they have in common, and nothing of them ever changes.
type pathEntry struct {
	session.View            // while its transaction is planned: of an entry without seq and time
	prev         *pathEntry // nil: here the path begins
	length       int
	bytes        int // of all payloads of the path
}

// add returns the path with one more entry; behind a compaction nothing counts
// that came before it.
func (t *pathEntry) add(e pistore.Entry) *pathEntry {
	next := &pathEntry{View: *session.ViewOf(e), length: 1, bytes: len(e.Payload)}
	if t != nil && e.Type != pistore.TypeCompaction {
		next.prev, next.length, next.bytes = t, t.length+1, t.bytes+len(e.Payload)
	}
	return next
}

// views returns the path, oldest entry first.
func (t *pathEntry) views() []*session.View {
	if t == nil {
		return nil
	}
	out := make([]*session.View, t.length)
	for i := t.length - 1; i >= 0; i-- {
		out[i] = &t.View
		t = t.prev
	}
	return out
}

// idle is what is left of a path when its operation ends.
func (t *pathEntry) idle() *pathEntry {
	if t == nil || t.bytes > maxIdlePathBytes {
		return nil
	}
	return t
}

// upTo returns the path that ends with an entry, nil if that is not on it.
func (t *pathEntry) upTo(id pistore.ID) *pathEntry {
	for t != nil && t.Entry.ID != id {
		t = t.prev
	}
	return t
}

// stamped returns the path with the seqs and the time that its newest entries
// got from the transaction that inserted them.
func (t *pathEntry) stamped(tx pistore.Tx, r pistore.Receipt) *pathEntry {
	seqs := map[pistore.ID]pistore.Seq{}
	for i, w := range tx.Writes {
		if e, ok := w.(pistore.InsertEntry); ok {
			seqs[e.ID] = r.Seqs[i]
		}
	}
	var stamp func(*pathEntry) *pathEntry
	stamp = func(t *pathEntry) *pathEntry {
		if t == nil || t.Entry.Seq != 0 {
			return t
		}
		out := *t
		out.Entry.Seq, out.Entry.Timestamp = seqs[t.Entry.ID], r.Timestamp
		out.prev = stamp(t.prev)
		return &out
	}
	return stamp(t)
}

// hasPath reports whether the path up to the leaf is in memory.
func (p *position) hasPath() bool {
	return p.leaf == "" || p.path != nil && p.path.Entry.ID == p.leaf
}

// withPath returns p with its path, which is read unless it is in memory.
func (h *Harness) withPath(ctx context.Context, p *position) (*position, error) {
	if p.hasPath() {
		return p, nil
	}
	q := pistore.BranchQuery{Start: p.leaf, StopAtType: pistore.TypeCompaction, Order: pistore.Reversed}
	var path *pathEntry
	for e, err := range h.storage.Branch(ctx, q) {
		if err != nil {
			return nil, fmt.Errorf("read the path: %w", err)
		}
		path = path.add(e)
	}
	with := *p
	with.path = path
	return &with, nil
}

// project is what of a conversation a model sees. Projectors are application
// code: a path on which one panics has no projection.
func (env *environment) project(path []*session.View) ([]session.ProjectedMessage, error) {
	var p session.Projection
	var err error
	run := func() { p, err = session.ProjectViews(path, env.projectors) }
	if len(env.projectors) == 0 {
		run()
	} else if failed := apart(run); failed != nil {
		err = failed
	}
	return p.Messages, err
}
