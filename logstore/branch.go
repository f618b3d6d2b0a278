package logstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// Branch implements pistore.Storage. A plain walk reads the entry log itself. A
// walk that leaves entries out, or turns the path, goes along the structure
// index and reads the payloads of what it returns.
func (h *session) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return pages(ctx, h, func() (filler[pistore.Entry], error) {
		if err := q.Check(); err != nil {
			return nil, fmt.Errorf("logstore: %w", err)
		}
		row, found, err := h.view.idRow(q.Start)
		if err != nil {
			return nil, err
		}
		if !found || row.usage {
			return nil, fmt.Errorf("logstore: session %s: branch from entry %.128q: %w",
				h.info.ID, string(q.Start), pistore.ErrNotFound)
		}
		w := &walk{view: h.view, q: q, at: row.seq, want: q.Start}
		switch {
		case q.Order == pistore.Reversed:
			return w.oldestFirst(ctx), nil
		case q.StructureOnly:
			return w.straight(true), nil
		case q.Type == "" && q.CustomType == "" && q.Cursor == 0:
			return w.straight(false), nil
		default:
			return w.picking(), nil
		}
	})
}

// walk follows parents from an entry to its root.
type walk struct {
	view view
	q    pistore.BranchQuery
	at   pistore.Seq // of the next entry; 0: the walk has ended
	want pistore.ID  // the id that it has to have
	kept int         // rows that were handed out
	ids  idTexts
}

// entryTable returns the table that a query reads.
func entryTable(structure bool) byte {
	if structure {
		return tableStructure
	}
	return tableEntry
}

// path calls visit for the entries from the walk's place on, until it says stop
// or the path ends. A linear stretch is one backward scan, which steps over a few
// rows of other branches; a parent that is further away costs a seek.
func (w *walk) path(structure bool, visit func(e pistore.Entry, size int) (more bool)) error {
	v, table := w.view, entryTable(structure)
	lower := sessionKey(v.ord, table, 0)
	return v.iterate(lower, prefixEnd(lower), func(it *pebble.Iterator) error {
		for placed := false; w.at != 0; placed = true {
			if !(placed && w.stepBack(it, len(lower))) && !w.seek(it, table) {
				key := seqKey(v.ord, table, w.at)
				if err := it.Error(); err != nil {
					return v.readError(key, err)
				}
				return w.missing(key, "there is none")
			}
			value, err := it.ValueAndErr()
			if err != nil {
				return v.readError(it.Key(), err)
			}
			e, parentSeq, err := v.codec.entry(value, w.at, structure, &w.ids)
			if err != nil {
				return corrupt(v.session, it.Key(), err)
			}
			if e.ID != w.want {
				return w.missing(it.Key(), fmt.Sprintf("it is %.128q", string(e.ID)))
			}
			w.at, w.want = parentSeq, e.ParentID
			if w.q.Stops(e) {
				w.at = 0
			}
			if !visit(e, len(value)) {
				return nil
			}
		}
		return nil
	})
}

// maxStepsBack is how many rows of other branches cost no more than a seek.
const maxStepsBack = 4

// stepBack looks for the next entry in the rows before, whose keys have a seq
// behind skip bytes.
func (w *walk) stepBack(it *pebble.Iterator, skip int) bool {
	for range maxStepsBack {
		if !it.Prev() {
			return false
		}
		seq, ok := seqOf(it.Key())
		if !ok || len(it.Key()) != skip+seqBytes || seq < w.at {
			return false
		}
		if seq == w.at {
			return true
		}
	}
	return false
}

// seek goes to the next entry.
func (w *walk) seek(it *pebble.Iterator, table byte) bool {
	key := seqKey(w.view.ord, table, w.at)
	return it.SeekGE(key) && bytes.Equal(it.Key(), key)
}

// missing reports a parent that is not where its child says.
func (w *walk) missing(key []byte, found string) error {
	return &pistore.CorruptError{
		Backend: backendName, Session: w.view.session, Place: describeKey(key), Invariant: 6,
		Problem: fmt.Sprintf("expected entry %.128q, %s", string(w.want), found),
	}
}

// full reports whether the limit is reached.
func (w *walk) full() bool { return w.q.Limit != 0 && w.kept >= w.q.Limit }

// straight hands out the entries, or their structure, as it walks.
func (w *walk) straight(structure bool) filler[pistore.Entry] {
	return func(p *page[pistore.Entry]) (bool, error) {
		err := w.path(structure, func(e pistore.Entry, size int) bool {
			if w.q.Keeps(e) {
				p.rows = append(p.rows, e)
				w.kept++
			}
			return !w.full() && p.saw(size)
		})
		return w.at == 0 || w.full(), err
	}
}

// picking walks along the structure and reads the entries that it keeps.
func (w *walk) picking() filler[pistore.Entry] {
	return func(p *page[pistore.Entry]) (bool, error) {
		var seqs []pistore.Seq
		err := w.path(true, func(e pistore.Entry, size int) bool {
			if w.q.Keeps(e) {
				seqs = append(seqs, e.Seq)
				w.kept++
			}
			return !w.full() && len(seqs) < p.maxRows && p.saw(size)
		})
		if err != nil {
			return false, err
		}
		for _, seq := range seqs {
			e, _, err := w.view.entry(seq, false)
			if err != nil {
				return false, err
			}
			p.rows = append(p.rows, e)
		}
		return w.at == 0 || w.full(), nil
	}
}

// oldestFirst walks the whole path along the structure first, remembering the
// seqs that it keeps, and then reads them from the other end.
func (w *walk) oldestFirst(ctx context.Context) filler[pistore.Entry] {
	var seqs []pistore.Seq
	walked := false
	return func(p *page[pistore.Entry]) (bool, error) {
		if !walked {
			err := w.path(true, func(e pistore.Entry, _ int) bool {
				if w.q.Keeps(e) {
					seqs = append(seqs, e.Seq)
				}
				return ctx.Err() == nil
			})
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return false, err
			}
			slices.Reverse(seqs)
			if w.q.Limit != 0 && len(seqs) > w.q.Limit {
				seqs = seqs[:w.q.Limit]
			}
			walked = true
		}
		for len(seqs) > 0 {
			e, _, err := w.view.entry(seqs[0], w.q.StructureOnly)
			if err != nil {
				return false, err
			}
			seqs = seqs[1:]
			p.rows = append(p.rows, e)
			if !p.saw(len(e.Payload) + 64) {
				break
			}
		}
		return len(seqs) == 0, nil
	}
}
