package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"

	"pistore"
)

// eachSet changes the values of register writes.
func eachSet(tx pistore.Tx, change func(pistore.SetRegister) pistore.Write) pistore.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i, w := range tx.Writes {
		if set, ok := w.(pistore.SetRegister); ok {
			tx.Writes[i] = change(set)
		}
	}
	return tx
}

// leaking commits writes of a kind although their transaction was refused as a duplicate.
func leaking(keep func(pistore.Write) bool) defect {
	return defect{commit: func(s *broken, ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
		r, err := s.Storage.Commit(ctx, tx)
		if errors.Is(err, pistore.ErrDuplicateID) {
			for _, w := range tx.Writes {
				if keep(w) {
					_, _ = s.Storage.Commit(ctx, txOf(w)) // what is refused alone does not leak
				}
			}
		}
		return r, err
	}}
}

func commitMutants() []mutant {
	type ctx = context.Context
	return []mutant{
		{name: "leaks registers of a refused transaction", rows: []string{"TX-11"}, model: true,
			defect: leaking(func(w pistore.Write) bool { _, ok := w.(pistore.SetRegister); return ok })},
		{name: "leaks usage of a refused transaction", rows: []string{"TX-12", "TX-13"}, model: true,
			defect: leaking(func(w pistore.Write) bool { _, ok := w.(pistore.InsertUsage); return ok })},
		{name: "leaks entries of a refused transaction", rows: []string{"TX-10", "TX-13"}, model: true,
			defect: leaking(func(w pistore.Write) bool { _, ok := w.(pistore.InsertEntry); return ok })},
		{name: "tests only the first precondition", rows: []string{"TX-22"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				tx.Expect = tx.Expect[:min(1, len(tx.Expect))]
				return s.Storage.Commit(c, tx)
			}}},
		{name: "names no conflict", rows: []string{"TX-22"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				if errors.Is(err, pistore.ErrConflict) {
					err = pistore.ErrConflict
				}
				return r, err
			}}},
		{name: "lets a transaction's own deletes count for its preconditions", rows: []string{"TX-24"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				tx.Expect = slices.DeleteFunc(slices.Clone(tx.Expect), func(p pistore.Precondition) bool {
					return p.Seq == 0 && slices.Contains(tx.Writes, pistore.Write(pistore.DeleteRegister{Namespace: p.Namespace, Key: p.Key}))
				})
				return s.Storage.Commit(c, tx)
			}}},
		{name: "returns early for a transaction without writes", rows: []string{"TX-26"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				if len(tx.Writes) == 0 {
					tx.Expect = nil
				}
				return s.Storage.Commit(c, tx)
			}}},
		{name: "accepts a parent later in the transaction", rows: []string{"TX-14"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				for range tx.Writes { // turn the writes until the parents come first
					if !errors.Is(err, pistore.ErrMissingParent) {
						break
					}
					tx.Writes = append(slices.Clone(tx.Writes[1:]), tx.Writes[0])
					r, err = s.Storage.Commit(c, tx)
				}
				return r, err
			}}},
		{name: "takes the second insert of an id in a transaction for a repetition", rows: []string{"TX-17"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				seen := map[pistore.ID]bool{}
				tx = pistore.Tx{Expect: tx.Expect, Writes: slices.DeleteFunc(slices.Clone(tx.Writes), func(w pistore.Write) bool {
					var id pistore.ID
					switch w := w.(type) {
					case pistore.InsertEntry:
						id = w.ID
					case pistore.InsertUsage:
						id = w.ID
					default:
						return false
					}
					again := seen[id]
					seen[id] = true
					return again
				})}
				return s.Storage.Commit(c, tx)
			}}},
		{name: "takes the repetition of a usage row for success", rows: []string{"TX-18"}, model: false,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				if errors.Is(err, pistore.ErrDuplicateID) && len(tx.Writes) == 1 {
					u, _ := tx.Writes[0].(pistore.InsertUsage)
					for row := range s.Storage.ScanUsage(c, pistore.ScanQuery{}) {
						if row.ID == u.ID && row.Usage == u.Usage {
							return pistore.Receipt{FirstSeq: row.Seq, Seqs: []pistore.Seq{row.Seq}}, nil
						}
					}
				}
				return r, err
			}}},
		{name: "rounds a number", rows: []string{"JSN-01"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				return s.Storage.Commit(c, eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					if w.Value == `12345678901234567890` {
						w.Value = `12345678901234567000`
					}
					return w
				}))
			}}},
		{name: "escapes HTML", rows: []string{"JSN-05"}, model: false,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				return s.Storage.Commit(c, eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					w.Value = pistore.JSON(strings.ReplaceAll(string(w.Value), "<", `\u003c`))
					return w
				}))
			}}},
		{name: "keeps the last of duplicate keys", rows: []string{"JSN-02"}, model: false,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				return s.Storage.Commit(c, eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					w.Value = pistore.JSON(strings.ReplaceAll(string(w.Value), `{"a":1,"a":2}`, `{"a":2}`))
					return w
				}))
			}}},
		{name: "takes null for a delete", rows: []string{"REG-06", "REO-01", "EXP-01", "EXP-02", "RO-01", "LOD-01"}, model: true,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				return s.Storage.Commit(c, eachSet(tx, func(w pistore.SetRegister) pistore.Write {
					if strings.TrimSpace(string(w.Value)) == `null` {
						return pistore.DeleteRegister{Namespace: w.Namespace, Key: w.Key}
					}
					return w
				}))
			}}},
		{name: "gives deletes the seq of the write before", model: true, rows: []string{"TX-02", "REG-05", "CON-05", "REO-01", "REO-02", "EXP-01", "EXP-02", "EXP-03", "RO-01", "LOD-01"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				for i := 1; i < len(r.Seqs); i++ {
					if _, ok := tx.Writes[i].(pistore.DeleteRegister); ok {
						r.Seqs[i] = r.Seqs[i-1]
					}
				}
				return r, err
			}}},
		{name: "keeps the receipt's seqs", rows: []string{"TX-31", "CON-02", "CON-05"}, model: false,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				r, err := s.Storage.Commit(c, tx)
				s.seqs = append(s.seqs[:0], r.Seqs...)
				r.Seqs = s.seqs
				return r, err
			}}},
		{name: "changes the caller's transaction", rows: []string{"TX-33"}, model: false,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				if admitted, admitErr := tx.Admit(); admitErr == nil {
					copy(tx.Writes, admitted.Writes)
				}
				return r, err
			}}},
		{name: "commits although the context has ended", rows: []string{"CTX-01"}, model: false,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				return s.Storage.Commit(context.WithoutCancel(c), tx)
			}}},
		{name: "reports a context that ended after admission", rows: []string{"CTX-03"}, model: false,
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				if err == nil && c.Done() != nil {
					<-c.Done()
					return pistore.Receipt{}, c.Err()
				}
				return r, err
			}}},
		{name: "tests preconditions in front of the critical section", rows: []string{"CON-03", "CON-05"}, meets: []string{"CON-03", "CON-05"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				if len(tx.Expect) == 0 {
					return s.Storage.Commit(c, tx)
				}
				if _, err := tx.Admit(); err != nil {
					return pistore.Receipt{}, err
				}
				if _, err := s.Storage.Commit(c, pistore.Tx{Expect: tx.Expect}); err != nil {
					return pistore.Receipt{}, err
				}
				s.othersToo()
				return s.Storage.Commit(c, txOf(tx.Writes...))
			}}},
	}
}
