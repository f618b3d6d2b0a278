package conformance

import (
	"context"
	"iter"
	"slices"
	"sync"

	"pistore"
)

// making is the function that a rewrite is given.
type making = func(pistore.Storage) iter.Seq2[pistore.Row, error]

func rewriteMutants() []mutant {
	type ctx = context.Context
	return []mutant{
		{name: "leaves registers that a rewrite drops", model: false, rows: []string{"RWR-01"},
			defect: defect{rewrite: func(b *brokenBackend, c ctx, id pistore.SessionID, make making) (pistore.Info, error) {
				return b.Backend.Rewrite(c, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
					return withRegisters(make(old), old.Export(c))
				})
			}}},
		{name: "rewrites without nextSeq", model: false, rows: []string{"RWR-02"},
			defect: defect{rewrite: func(b *brokenBackend, c ctx, id pistore.SessionID, make making) (pistore.Info, error) {
				return b.Backend.Rewrite(c, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
					return changed(make(old), func(h *pistore.Header) { h.NextSeq = 1 })
				})
			}}},
		{name: "keeps the generation of what it rewrites", model: false, rows: []string{"RWR-02"},
			defect: defect{rewrite: func(b *brokenBackend, c ctx, id pistore.SessionID, make making) (pistore.Info, error) {
				generation := ""
				_, err := b.Backend.Rewrite(c, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
					generation = old.Info().Generation
					return make(old)
				})
				if err != nil {
					return pistore.Info{}, err
				}
				s, err := b.Backend.Open(c, id, pistore.ReadOnly)
				if err != nil {
					return pistore.Info{}, err
				}
				if err := b.Backend.Delete(c, id); err != nil {
					return pistore.Info{}, err
				}
				return b.Backend.Load(c, changed(s.Export(c), func(h *pistore.Header) { h.Info.Generation = generation }))
			}}},
		{name: "loses a session whose rewrite fails", model: false, rows: []string{"RWR-03"},
			defect: defect{rewrite: func(b *brokenBackend, c ctx, id pistore.SessionID, make making) (pistore.Info, error) {
				info, err := b.Backend.Rewrite(c, id, make)
				if err != nil && b.Backend.Delete(c, id) != nil {
					if s, createErr := b.Backend.Create(c, pistore.Info{ID: id}); createErr == nil {
						_ = s.Close() // what was not there is, and is empty
					}
				}
				return info, err
			}}},
		{name: "takes commits to what it rewrites", model: false, rows: []string{"RWR-04"},
			defect: defect{rewrite: func(b *brokenBackend, c ctx, id pistore.SessionID, make making) (pistore.Info, error) {
				return b.Backend.Rewrite(c, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] { return make(accepting{old}) })
			}}},
		{name: "reads what it rewrites before it owns it", model: false, rows: []string{"RWR-04"},
			defect: defect{rewrite: func(b *brokenBackend, c ctx, id pistore.SessionID, make making) (pistore.Info, error) {
				old, err := b.Backend.Open(c, id, pistore.ReadOnly)
				if err != nil {
					return pistore.Info{}, err
				}
				rows := make(old)
				return b.Backend.Rewrite(c, id, func(pistore.Storage) iter.Seq2[pistore.Row, error] { return rows })
			}}},
		{name: "shows a reader the old and the new", model: false, rows: []string{"RWR-05"}, defect: mixing()},
	}
}

// withRegisters yields rows, and the registers of others that are not among them,
// by seq.
func withRegisters(rows, others iter.Seq2[pistore.Row, error]) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		all, err := drain(rows)
		old, _ := drain(others)
		for _, row := range old {
			if _, ok := row.(pistore.Register); ok && len(all) > 0 && !slices.Contains(all, row) {
				all = append(all, row)
			}
		}
		if len(all) > 0 {
			slices.SortStableFunc(all[1:], func(x, y pistore.Row) int { return int(seqOf(x) - seqOf(y)) })
		}
		for _, row := range all {
			if !yield(row, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// mixing lets exports of a reader go on in what was rewritten under it.
func mixing() defect {
	var rewritten sync.Map // by session
	return defect{
		rewrite: func(b *brokenBackend, ctx context.Context, id pistore.SessionID, make making) (pistore.Info, error) {
			info, err := b.Backend.Rewrite(ctx, id, make)
			if err == nil {
				rewritten.Store(id, true)
			}
			return info, err
		},
		open: func(b *brokenBackend, ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
			s, err := b.Backend.Open(ctx, id, mode)
			if err == nil && mode == pistore.ReadOnly {
				s = mixed{s, b.Backend, &rewritten}
			}
			return s, err
		},
	}
}

type mixed struct {
	pistore.Storage
	backend   pistore.Backend
	rewritten *sync.Map
}

func (m mixed) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	if _, ok := m.rewritten.Load(m.Info().ID); ok {
		if s, err := m.backend.Open(ctx, m.Info().ID, pistore.ReadOnly); err == nil {
			return s.Export(ctx)
		}
	}
	return m.Storage.Export(ctx)
}

// accepting says yes to every commit.
type accepting struct{ pistore.Storage }

func (accepting) Commit(_ context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	return pistore.Receipt{FirstSeq: 1, Seqs: make([]pistore.Seq, len(tx.Writes))}, nil
}
