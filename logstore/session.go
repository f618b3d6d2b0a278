package logstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// session is one handle on an open session.
type session struct {
	store *Store
	view  view
	info  pistore.Info
	mode  pistore.Mode
	open  *openSession
	gate  *opGate
	// commits is nil on a handle that was opened read-only.
	commits *committer
}

var (
	_ pistore.Storage   = (*session)(nil)
	_ pistore.Syncer    = (*session)(nil)
	_ pistore.Compacter = (*session)(nil)
	_ pistore.Verifier  = (*session)(nil)
)

// newSession makes a handle. The caller holds the catalog.
func (s *Store) newSession(v view, row catalogRow, mode pistore.Mode) (*session, error) {
	h := &session{store: s, mode: mode, gate: newOpGate()}
	if err := s.attach(h, row.info.ID); err != nil {
		return nil, err
	}
	v, row, err := s.migrate(v, row, mode)
	if err == nil {
		h.view, h.info = v, row.info
		if mode == pistore.ReadWrite {
			h.commits, err = newCommitter(s, v)
		} else {
			_, err = v.state()
		}
	}
	if err != nil {
		s.detach(h)
		return nil, err
	}
	return h, nil
}

// attach takes a session, as its only writer or as one of its readers.
func (s *Store) attach(h *session, id pistore.SessionID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.open[id]
	if open == nil {
		open = &openSession{}
		s.open[id] = open
	}
	if h.mode == pistore.ReadWrite {
		if open.writer {
			return s.lockedSession(id)
		}
		open.writer = true
	}
	open.handles++
	h.open, h.info.ID = open, id
	s.handles[h] = struct{}{}
	return nil
}

func (s *Store) detach(h *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handles, h)
	if h.mode == pistore.ReadWrite {
		h.open.writer = false
	}
	if h.open.handles--; h.open.handles == 0 && s.open[h.info.ID] == h.open {
		delete(s.open, h.info.ID)
	}
}

// Info implements pistore.Storage.
func (h *session) Info() pistore.Info { return h.info }

// Close implements pistore.Storage.
func (h *session) Close() error {
	if h.gate.seal() {
		h.gate.wait(h.store.eng.fault)
		h.store.detach(h)
	}
	return nil
}

// read runs a part of a read.
func (h *session) read(ctx context.Context, do func() error) error {
	if !h.gate.enter() {
		return h.closedError()
	}
	defer h.gate.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := do()
	if h.open.deleted.Load() {
		return fmt.Errorf("logstore: session %s was deleted or rewritten: %w", h.info.ID, pistore.ErrNotFound)
	}
	return err
}

func (h *session) closedError() error {
	return fmt.Errorf("logstore: session %s: %w", h.info.ID, pistore.ErrClosed)
}

// Entries implements pistore.Storage.
func (h *session) Entries(ctx context.Context, ids []pistore.ID) (out []pistore.Entry, err error) {
	err = h.read(ctx, func() error {
		now, err := h.view.state()
		if err != nil {
			return err
		}
		seen := make(map[pistore.ID]bool, len(ids))
		for _, id := range ids {
			if seen[id] {
				continue
			}
			seen[id] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			// What a later commit brought is not of this read's instant.
			row, found, err := h.view.idRow(id)
			if err != nil || !found || row.usage || row.seq >= now.nextSeq {
				if err != nil {
					return err
				}
				continue
			}
			e, _, err := h.view.entry(row.seq, false)
			if err != nil {
				return err
			}
			out = append(out, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// idRow looks an id up.
func (v view) idRow(id pistore.ID) (row idRow, found bool, err error) {
	found, err = v.get(idKey(v.ord, id), func(value []byte) (err error) {
		row, err = v.codec.idRow(value)
		return err
	})
	return row, found, err
}

// entry reads an entry, or its structure, that has to be there.
func (v view) entry(seq pistore.Seq, structure bool) (e pistore.Entry, parentSeq pistore.Seq, err error) {
	table := tableEntry
	if structure {
		table = tableStructure
	}
	key := seqKey(v.ord, table, seq)
	found, err := v.get(key, func(value []byte) (err error) {
		e, parentSeq, err = v.codec.entry(value, seq, structure, nil)
		return err
	})
	if err == nil && !found {
		err = corrupt(v.session, key, errors.New("missing"))
	}
	return e, parentSeq, err
}

// Registers implements pistore.Storage. All cells are of one instant, that of
// the iterator.
func (h *session) Registers(ctx context.Context, at []pistore.Address) (out []pistore.Register, err error) {
	v := h.view
	lower := sessionKey(v.ord, tableRegister, 0)
	err = h.read(ctx, func() error {
		return v.iterate(lower, prefixEnd(lower), func(it *pebble.Iterator) error {
			seen := make(map[pistore.Address]bool, len(at))
			for _, a := range at {
				if seen[a] {
					continue
				}
				seen[a] = true
				key := registerKey(v.ord, a.Namespace, a.Key)
				if !it.SeekGE(key) || string(it.Key()) != string(key) {
					continue
				}
				_, err := v.row(it, func(_, value []byte) (bool, error) {
					seq, text, err := v.codec.register(value, true)
					out = append(out, pistore.Register{Namespace: a.Namespace, Key: a.Key, Value: text, Seq: seq})
					return true, err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// RegistersByPrefix implements pistore.Storage. The listing is copied at its
// start, since what it shows may be overwritten.
func (h *session) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	return pages(ctx, h, func() (filler[pistore.Register], error) {
		return func(p *page[pistore.Register]) (bool, error) {
			v := h.view
			lower := registerKey(v.ord, namespace, prefix)
			skip := len(sessionKey(v.ord, tableRegister, 0))
			return true, v.scan(lower, prefixEnd(lower), false, func(key, value []byte) (bool, error) {
				at, ok := addressOf(key, skip)
				if !ok {
					return false, errors.New("key without an address")
				}
				seq, text, err := v.codec.register(value, true)
				if err != nil {
					return false, err
				}
				p.rows = append(p.rows, pistore.Register{Namespace: at.Namespace, Key: at.Key, Value: text, Seq: seq})
				return ctx.Err() == nil, nil
			})
		}, nil
	})
}

// Stats implements pistore.Storage.
func (h *session) Stats(ctx context.Context) (pistore.Stats, error) {
	var s state
	err := h.read(ctx, func() (err error) {
		s, err = h.view.state()
		return err
	})
	return s.stats, err
}

// ScanEntries implements pistore.Storage.
func (h *session) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	return scanRows(ctx, h, q, entryTable(q.StructureOnly), func(seq pistore.Seq, value []byte, ids *idTexts) (pistore.Entry, bool, error) {
		e, _, err := h.view.codec.entry(value, seq, q.StructureOnly, ids)
		return e, q.Keeps(e), err
	})
}

// ScanUsage implements pistore.Storage.
func (h *session) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return scanRows(ctx, h, q, tableUsage, func(seq pistore.Seq, value []byte, _ *idTexts) (pistore.UsageRow, bool, error) {
		u, err := h.view.codec.usage(value, seq)
		return u, true, err
	})
}

// scanRows yields the rows of a table that is keyed by seq.
func scanRows[R any](
	ctx context.Context, h *session, q pistore.ScanQuery, table byte,
	decode func(seq pistore.Seq, value []byte, ids *idTexts) (R, bool, error),
) iter.Seq2[R, error] {
	return pages(ctx, h, func() (filler[R], error) {
		if err := q.Check(); err != nil {
			return nil, fmt.Errorf("logstore: %w", err)
		}
		now, err := h.view.state()
		if err != nil {
			return nil, err
		}
		from, to, left := q.FromSeq, now.nextSeq-1, q.Limit
		var ids idTexts
		if q.ToSeq != 0 {
			to = min(to, q.ToSeq)
		}
		return func(p *page[R]) (bool, error) {
			last := true
			if from > to {
				return true, nil
			}
			lower, upper := seqKey(h.view.ord, table, from), seqKey(h.view.ord, table, to+1)
			err := h.view.scan(lower, upper, q.Order == pistore.Reversed, func(key, value []byte) (bool, error) {
				seq, ok := seqOf(key)
				if !ok {
					return false, errors.New("key without a seq")
				}
				row, keep, err := decode(seq, value, &ids)
				if err != nil {
					return false, err
				}
				if q.Order == pistore.Reversed {
					to = seq - 1
				} else {
					from = seq + 1
				}
				if keep {
					p.rows = append(p.rows, row)
					if left--; left == 0 {
						return false, nil
					}
				}
				last = p.saw(len(value))
				return last, nil
			})
			return last, err
		}, nil
	})
}
