package conformance

import (
	"errors"
	"fmt"
	"slices"

	"pistore"
)

// model is a session as plain slices and maps, with every rule of the contract
// in the most obvious form. It judges a transaction; the seqs and the timestamp
// it takes from the backend's receipt, because seqs may have gaps.
type model struct {
	entries   []pistore.Entry // in seq order
	usage     []pistore.UsageRow
	amounts   []amounts // of each usage row, since parsing them again would be slow
	registers map[pistore.Address]pistore.Register
	ids       map[pistore.ID]form // of entries and usage rows: one namespace
	last      pistore.Seq         // largest seq ever given, to deleted registers too
}

// form is what an id names.
type form int

const (
	isEntry form = iota + 1
	isUsage
)

func newModel() *model {
	return &model{registers: map[pistore.Address]pistore.Register{}, ids: map[pistore.ID]form{}}
}

// judge returns nil if the transaction has to succeed, else every sentinel that
// a refusal may match; a conflict is told in full.
func (m *model) judge(tx pistore.Tx) (may []error, conflict *pistore.ConflictError) {
	if _, err := tx.Admit(); err != nil {
		for _, sentinel := range []error{pistore.ErrInvalid, pistore.ErrTooLarge} {
			if errors.Is(err, sentinel) {
				may = append(may, sentinel)
			}
		}
		return may, nil
	}
	for _, pre := range tx.Expect {
		if at := m.registers[pistore.Address{Namespace: pre.Namespace, Key: pre.Key}].Seq; at != pre.Seq {
			return []error{pistore.ErrConflict},
				&pistore.ConflictError{Namespace: pre.Namespace, Key: pre.Key, Want: pre.Seq, Got: at}
		}
	}
	own := map[pistore.ID]form{}
	for _, w := range tx.Writes {
		var id pistore.ID
		what := isUsage
		switch w := w.(type) {
		case pistore.InsertEntry:
			id, what = w.ID, isEntry
			if w.ParentID != "" && m.ids[w.ParentID] != isEntry && own[w.ParentID] != isEntry {
				may = append(may, pistore.ErrMissingParent)
			}
		case pistore.InsertUsage:
			id = w.ID
		default:
			continue
		}
		if m.ids[id] != 0 || own[id] != 0 {
			may = append(may, pistore.ErrDuplicateID)
			continue
		}
		own[id] = what
	}
	return may, nil
}

// apply writes a transaction that the backend acknowledged, after a look at its
// receipt.
func (m *model) apply(tx pistore.Tx, r pistore.Receipt) error {
	if err := m.checkReceipt(tx, r); err != nil {
		return err
	}
	admitted, err := tx.Admit()
	if err != nil {
		return fmt.Errorf("an inadmissible transaction was accepted: %w", err)
	}
	for i, w := range admitted.Writes {
		m.write(w, r.Seqs[i], r.Timestamp)
	}
	return nil
}

func (m *model) checkReceipt(tx pistore.Tx, r pistore.Receipt) error {
	if len(r.Seqs) != len(tx.Writes) {
		return fmt.Errorf("receipt: %d seqs for %d writes", len(r.Seqs), len(tx.Writes))
	}
	if r.Timestamp < 0 || r.Timestamp > pistore.MaxSeq {
		return fmt.Errorf("receipt: timestamp %d", r.Timestamp)
	}
	if len(r.Seqs) == 0 {
		if r.FirstSeq != 0 {
			return fmt.Errorf("receipt: first seq %d without writes", r.FirstSeq)
		}
		return nil
	}
	if r.FirstSeq != r.Seqs[0] {
		return fmt.Errorf("receipt: first seq %d, seqs %v", r.FirstSeq, r.Seqs)
	}
	last := m.last
	for _, seq := range r.Seqs {
		if seq <= last || seq > pistore.MaxSeq {
			return fmt.Errorf("receipt: seq %d after %d", seq, last)
		}
		last = seq
	}
	return nil
}

func (m *model) write(w pistore.Write, seq pistore.Seq, at pistore.UnixMS) {
	m.last = seq
	switch w := w.(type) {
	case pistore.InsertEntry:
		m.ids[w.ID] = isEntry
		m.entries = append(m.entries, pistore.Entry{
			ID: w.ID, ParentID: w.ParentID, Seq: seq, Timestamp: at,
			Type: w.Type, CustomType: w.CustomType, Payload: w.Payload,
		})
	case pistore.InsertUsage:
		m.ids[w.ID] = isUsage
		m.usage = append(m.usage, pistore.UsageRow{
			ID: w.ID, Seq: seq, Usage: w.Usage, EntryID: w.EntryID, Adjustment: w.Adjustment, Details: w.Details,
		})
		m.amounts = append(m.amounts, amountsOf(w.Usage, w.Adjustment))
	case pistore.SetRegister:
		at := pistore.Address{Namespace: w.Namespace, Key: w.Key}
		m.registers[at] = pistore.Register{Namespace: w.Namespace, Key: w.Key, Value: w.Value, Seq: seq}
	case pistore.DeleteRegister:
		delete(m.registers, pistore.Address(w))
	default:
		panic(fmt.Sprintf("conformance: write %T", w))
	}
}

// stats adds everything up anew.
func (m *model) stats() pistore.Stats {
	s := pistore.Stats{Entries: int64(len(m.entries)), Usage: totals(m.amounts)}
	for _, e := range m.entries {
		if e.Type == pistore.TypeMessage {
			s.Messages++
		}
	}
	return s
}

// rows returns every live row by rising seq.
func (m *model) rows() []pistore.Row {
	var all []pistore.Row
	for _, e := range m.entries {
		all = append(all, e)
	}
	for _, u := range m.usage {
		all = append(all, u)
	}
	for _, r := range m.registers {
		all = append(all, r)
	}
	sortBySeq(all)
	return all
}

func sortBySeq[R pistore.Row](rows []R) {
	slices.SortFunc(rows, func(a, b R) int { return int(seqOf(a) - seqOf(b)) })
}

// seqOf returns the seq of a row, 0 for a header.
func seqOf(row pistore.Row) pistore.Seq {
	switch r := row.(type) {
	case pistore.Entry:
		return r.Seq
	case pistore.UsageRow:
		return r.Seq
	case pistore.Register:
		return r.Seq
	case pistore.Header:
		return 0
	default:
		panic(fmt.Sprintf("conformance: row %T", row))
	}
}
