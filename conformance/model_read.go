package conformance

import (
	"iter"
	"slices"
	"strings"

	"pistore"
)

func (m *model) entriesByID(ids []pistore.ID) []pistore.Entry {
	var out []pistore.Entry
	for _, e := range m.entries {
		if slices.Contains(ids, e.ID) {
			out = append(out, e)
		}
	}
	return out
}

// registersAt returns the registers in seq order, each once.
func (m *model) registersAt(at []pistore.Address) []pistore.Register {
	var out []pistore.Register
	for _, r := range m.registers {
		if slices.Contains(at, r.Address()) {
			out = append(out, r)
		}
	}
	sortBySeq(out)
	return out
}

// prefix lists registers by bytewise key order, which is how Go compares strings.
func (m *model) prefix(namespace, prefix string) []pistore.Register {
	var out []pistore.Register
	for _, r := range m.registers {
		if r.Namespace == namespace && strings.HasPrefix(r.Key, prefix) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b pistore.Register) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// branch answers a query step by step, in the order in which the contract tells
// it: walk, stop, filter, order, cursor, limit.
func (m *model) branch(q pistore.BranchQuery) ([]pistore.Entry, error) {
	if q.Limit < 0 || q.Cursor < 0 || q.Order != pistore.Natural && q.Order != pistore.Reversed {
		return nil, pistore.ErrInvalid
	}
	byID := map[pistore.ID]pistore.Entry{}
	for _, e := range m.entries {
		byID[e.ID] = e
	}
	if _, ok := byID[q.Start]; !ok {
		return nil, pistore.ErrNotFound
	}
	var path []pistore.Entry
	for id := q.Start; id != ""; id = byID[id].ParentID {
		e := byID[id]
		path = append(path, e)
		if q.StopAtType != "" && e.Type == q.StopAtType || q.StopAtID != "" && e.ID == q.StopAtID {
			break
		}
	}
	path = slices.DeleteFunc(path, func(e pistore.Entry) bool { return !passes(e, q.Type, q.CustomType) })
	if q.Order == pistore.Reversed {
		slices.Reverse(path)
	}
	path = slices.DeleteFunc(path, func(e pistore.Entry) bool {
		switch {
		case q.Cursor == 0:
			return false
		case q.Order == pistore.Reversed:
			return e.Seq <= q.Cursor
		default:
			return e.Seq >= q.Cursor
		}
	})
	path = limit(path, q.Limit)
	if q.StructureOnly {
		for i := range path {
			path[i].Payload = ""
		}
	}
	return path, nil
}

func (m *model) scanEntries(q pistore.ScanQuery) ([]pistore.Entry, error) {
	all, err := scan(m.entries, q, func(e pistore.Entry) bool { return passes(e, q.Type, q.CustomType) })
	if q.StructureOnly {
		all = slices.Clone(all)
		for i := range all {
			all[i].Payload = ""
		}
	}
	return all, err
}

func (m *model) scanUsage(q pistore.ScanQuery) ([]pistore.UsageRow, error) {
	return scan(m.usage, q, func(pistore.UsageRow) bool { return true })
}

func scan[R pistore.Row](rows []R, q pistore.ScanQuery, keep func(R) bool) ([]R, error) {
	if q.Limit < 0 || q.FromSeq < 0 || q.ToSeq < 0 || q.Order != pistore.Natural && q.Order != pistore.Reversed {
		return nil, pistore.ErrInvalid
	}
	var out []R
	for _, r := range rows {
		seq := seqOf(r)
		if seq >= q.FromSeq && (q.ToSeq == 0 || seq <= q.ToSeq) && keep(r) {
			out = append(out, r)
		}
	}
	if q.Order == pistore.Reversed {
		slices.Reverse(out)
	}
	return limit(out, q.Limit), nil
}

func passes(e pistore.Entry, t pistore.EntryType, customType string) bool {
	return (t == "" || e.Type == t) && (customType == "" || e.CustomType == customType)
}

func limit[T any](all []T, n int) []T {
	if n > 0 && n < len(all) {
		return all[:n]
	}
	return all
}

// digest is what the backend's digest has to be.
func (m *model) digest() string {
	d, err := pistore.DigestRows(sequence(m.rows()))
	if err != nil {
		panic("conformance: digest of the model: " + err.Error())
	}
	return d
}

// sequence yields rows without error.
func sequence[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}
