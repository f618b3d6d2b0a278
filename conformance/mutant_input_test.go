package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"

	"pistore"
)

// swallowing takes refused transactions for written ones.
func swallowing(refusal error) defect {
	return defect{commit: func(s *broken, ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
		r, err := s.Storage.Commit(ctx, tx)
		if errors.Is(err, refusal) {
			r, err = pistore.Receipt{FirstSeq: 1, Seqs: make([]pistore.Seq, len(tx.Writes))}, nil
		}
		return r, err
	}}
}

// inputMutants take what they should refuse, or refuse what they should take.
func inputMutants() []mutant {
	type ctx = context.Context
	return []mutant{
		{name: "swallows invalid transactions", model: true, defect: swallowing(pistore.ErrInvalid), rows: []string{"TX-10", "TX-11", "TX-12", "TX-13", "TX-19", "JSN-10", "JSN-11", "JSN-12", "JSN-13", "LIM-02", "LIM-03", "LIM-05", "LIM-06", "LIM-07", "REO-05"}},
		{name: "swallows transactions that are too large", model: true, large: true, defect: swallowing(pistore.ErrTooLarge), rows: []string{"TX-10", "TX-11", "TX-12", "TX-13", "JSN-08", "LIM-02", "LIM-03", "LIM-04", "LIM-06", "LIM-07", "LIM-08", "LIM-10", "REO-05"}},
		{name: "swallows conflicts", model: true, defect: swallowing(pistore.ErrConflict), rows: []string{"TX-10", "TX-11", "TX-12", "TX-13", "TX-21", "TX-22", "TX-23", "TX-24", "TX-25", "TX-26", "TX-27", "REO-05", "REO-06", "LOD-04"}, races: []string{"CON-03", "CON-05"}},
		{name: "swallows missing parents", model: true, defect: swallowing(pistore.ErrMissingParent), rows: []string{"TX-10", "TX-11", "TX-12", "TX-13", "TX-14", "TX-15", "REO-05", "REO-06", "BAK-06", "LOD-04"}},
		{name: "refuses long transactions", model: false, rows: []string{"TX-06"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				if len(tx.Writes) > 500 {
					return pistore.Receipt{}, pistore.ErrTooLarge
				}
				return s.Storage.Commit(c, tx)
			}}},
		{name: "refuses values of more than a megabyte", model: false, large: true, rows: []string{"JSN-09", "LIM-09", "LIM-10"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				for _, w := range tx.Writes {
					if set, ok := w.(pistore.SetRegister); ok && len(set.Value) > 1<<20 && len(set.Value) <= pistore.MaxPayloadBytes {
						return pistore.Receipt{}, pistore.ErrTooLarge
					}
				}
				return s.Storage.Commit(c, tx)
			}}},
		{name: "looks for parents among committed entries only", model: true, rows: []string{"TX-01", "TX-03", "TX-04", "TX-06", "TX-25", "LIM-02", "CON-01"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				for _, w := range tx.Writes {
					if e, ok := w.(pistore.InsertEntry); ok && e.ParentID != "" && c.Err() == nil {
						there, err := s.Storage.Entries(c, []pistore.ID{e.ParentID})
						if err == nil && len(there) == 0 {
							return pistore.Receipt{}, pistore.ErrMissingParent
						}
					}
				}
				return s.Storage.Commit(c, tx)
			}}},
		{name: "never sets a register again that was deleted", model: true, rows: []string{"TX-23", "REG-04"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				changed := eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					s.mu.Lock()
					defer s.mu.Unlock()
					if at := (pistore.DeleteRegister{Namespace: w.Namespace, Key: w.Key}); slices.Contains(s.last, pistore.Write(at)) {
						return at
					}
					return w
				})
				r, err := s.Storage.Commit(c, changed)
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, w := range tx.Writes {
					if d, ok := w.(pistore.DeleteRegister); ok && err == nil {
						s.last = append(s.last, d)
					}
				}
				return r, err
			}}},
		{name: "refuses empty transactions", model: true, rows: []string{"TX-05", "TX-26"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				if len(tx.Writes) == 0 && c.Err() == nil {
					return pistore.Receipt{}, pistore.ErrInvalid
				}
				return s.Storage.Commit(c, tx)
			}}},
		{name: "takes a usage row for a parent", model: true, rows: []string{"TX-15", "LOD-04"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				ids := map[pistore.ID]bool{}
				for row := range s.Storage.ScanUsage(c, pistore.ScanQuery{}) {
					ids[row.ID] = true
				}
				tx.Writes = slices.Clone(tx.Writes)
				for i, w := range tx.Writes {
					if e, ok := w.(pistore.InsertEntry); ok && ids[e.ParentID] {
						e.ParentID = ""
						tx.Writes[i] = e
					}
				}
				return s.Storage.Commit(c, tx)
			}}},
		{name: "tests ids before preconditions", model: true, rows: []string{"TX-25"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				if errors.Is(err, pistore.ErrConflict) {
					for _, w := range tx.Writes {
						if e, ok := w.(pistore.InsertEntry); ok {
							if there, _ := s.Storage.Entries(c, []pistore.ID{e.ID}); len(there) > 0 {
								return pistore.Receipt{}, pistore.ErrDuplicateID
							}
						}
					}
				}
				return r, err
			}}},
		{name: "faults on a conflict", model: true, rows: []string{"TX-10", "TX-11", "TX-12", "TX-13", "TX-21", "TX-22", "TX-23", "TX-24", "TX-25", "TX-27", "REO-06", "LOD-04"}, races: []string{"CON-03", "CON-05"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.n > 0 {
					return pistore.Receipt{}, pistore.ErrFaulted
				}
				r, err := s.Storage.Commit(c, tx)
				if errors.Is(err, pistore.ErrConflict) {
					s.n++
				}
				return r, err
			}}},
		{name: "trims keys", model: true, rows: []string{"REG-08", "REG-16"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				return s.Storage.Commit(c, eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					w.Key = strings.TrimRight(w.Key, " ")
					return w
				}))
			}}},
		{name: "keeps the first of two sets in a transaction", model: true, rows: []string{"TX-07"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				first := map[pistore.Address]pistore.JSON{}
				return s.Storage.Commit(c, eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					at := pistore.Address{Namespace: w.Namespace, Key: w.Key}
					if _, ok := first[at]; !ok {
						first[at] = w.Value
					}
					w.Value = first[at]
					return w
				}))
			}}},
		{name: "sets an existing register no more", model: true, rows: []string{"TX-07", "TX-20", "REG-02", "REG-07", "CON-03", "CON-05"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				return s.Storage.Commit(c, eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					there, err := s.Storage.Registers(c, []pistore.Address{{Namespace: w.Namespace, Key: w.Key}})
					if err == nil && len(there) == 1 {
						w.Value = there[0].Value
					}
					return w
				}))
			}}},
		{name: "forgets that a row is an adjustment", model: true, rows: []string{"LED-04", "LED-09", "LED-10", "REO-01", "EXP-02", "RO-01", "LOD-01"},
			defect: eachUsage(func(u *pistore.InsertUsage) { u.Adjustment = false })},
		{name: "takes null for 0 in usage", model: true, rows: []string{"LED-05", "LED-08", "REO-01", "EXP-02", "RO-01", "LOD-01"},
			defect: eachUsage(func(u *pistore.InsertUsage) {
				u.Usage = pistore.JSON(strings.ReplaceAll(string(u.Usage), "null", "0"))
			})},
		{name: "matches the fields of usage in any case", model: true, rows: []string{"LED-06"},
			defect: eachUsage(func(u *pistore.InsertUsage) {
				u.Usage = pistore.JSON(strings.ReplaceAll(string(u.Usage), `"Input"`, `"input"`))
			})},
		{name: "tells the statistics before the commit", model: true, rows: []string{"LED-02", "LED-03", "LED-04", "LED-05", "LED-06", "LED-07", "LED-08", "LED-09", "CON-02", "CON-05"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				before, _ := s.Storage.Stats(context.WithoutCancel(c))
				r, err := s.Storage.Commit(c, tx)
				r.Stats = before
				return r, err
			}}},
	}
}

// eachUsage changes the usage rows of transactions.
func eachUsage(change func(*pistore.InsertUsage)) defect {
	return defect{commit: func(s *broken, ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
		tx.Writes = slices.Clone(tx.Writes)
		for i, w := range tx.Writes {
			if u, ok := w.(pistore.InsertUsage); ok {
				change(&u)
				tx.Writes[i] = u
			}
		}
		return s.Storage.Commit(ctx, tx)
	}}
}
