package verify_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"pistore"
	"pistore/ledger"
)

// fake is a Storage over a slice of rows, which takes any row, as no real
// backend does. It answers every query from the rows, and a test may make an
// answer wrong.
type fake struct {
	header pistore.Header
	rows   []pistore.Row

	exportErr error // comes behind the rows
	stats     func(*pistore.Stats)
	parentOf  func(pistore.Entry) pistore.ID // as the branch index has it
	entry     func(*pistore.Entry) bool      // changes or hides an entry looked up by id
	register  func(*pistore.Register) bool   // the same for a register
	scan      func([]pistore.Entry) []pistore.Entry
	ledger    func([]pistore.UsageRow) []pistore.UsageRow
	listing   func([]pistore.Register) []pistore.Register
	exports   int
}

var _ pistore.Storage = (*fake)(nil)

func (f *fake) Info() pistore.Info { return f.header.Info }
func (f *fake) Close() error       { return nil }

func (f *fake) Commit(context.Context, pistore.Tx) (pistore.Receipt, error) {
	return pistore.Receipt{}, pistore.ErrReadOnly
}

func all[T pistore.Row](f *fake) (out []T) {
	for _, row := range f.rows {
		if r, ok := row.(T); ok {
			out = append(out, r)
		}
	}
	return out
}

func yieldAll[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (f *fake) Entries(_ context.Context, ids []pistore.ID) (out []pistore.Entry, err error) {
	for _, id := range ids {
		if e, ok := f.find(id); ok && (f.entry == nil || f.entry(&e)) {
			out = append(out, e)
		}
	}
	return out, nil
}

func (f *fake) find(id pistore.ID) (pistore.Entry, bool) {
	for _, e := range all[pistore.Entry](f) {
		if e.ID == id {
			return e, true
		}
	}
	return pistore.Entry{}, false
}

func (f *fake) Registers(_ context.Context, at []pistore.Address) (out []pistore.Register, err error) {
	seen := map[pistore.Address]bool{}
	for _, r := range all[pistore.Register](f) {
		first := !seen[r.Address()]
		seen[r.Address()] = true
		if first && slices.Contains(at, r.Address()) && (f.register == nil || f.register(&r)) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *fake) RegistersByPrefix(_ context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	var out []pistore.Register
	seen := map[string]bool{}
	for _, r := range all[pistore.Register](f) {
		if r.Namespace == namespace && strings.HasPrefix(r.Key, prefix) && !seen[r.Key] {
			seen[r.Key] = true
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b pistore.Register) int { return cmp.Compare(a.Key, b.Key) })
	if f.listing != nil {
		out = f.listing(out)
	}
	return yieldAll(out)
}

func (f *fake) Branch(_ context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return func(yield func(pistore.Entry, error) bool) {
		for id := q.Start; id != ""; {
			e, ok := f.find(id)
			if !ok && id == q.Start {
				yield(pistore.Entry{}, pistore.ErrNotFound)
				return
			}
			if !ok {
				yield(pistore.Entry{}, &pistore.CorruptError{Backend: "fake", Invariant: 6, Problem: "parent is missing"})
				return
			}
			id = e.ParentID
			if f.parentOf != nil {
				id = f.parentOf(e)
			}
			stops := q.Stops(e)
			e.Payload = ""
			if !yield(e, nil) || stops {
				return
			}
		}
	}
}

func (f *fake) ScanEntries(context.Context, pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	entries := all[pistore.Entry](f)
	if f.scan != nil {
		entries = f.scan(entries)
	}
	return yieldAll(entries)
}

func (f *fake) ScanUsage(context.Context, pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	rows := all[pistore.UsageRow](f)
	if f.ledger != nil {
		rows = f.ledger(rows)
	}
	return yieldAll(rows)
}

func (f *fake) Stats(context.Context) (pistore.Stats, error) {
	var s pistore.Stats
	var sum ledger.Sum
	for _, e := range all[pistore.Entry](f) {
		s.Entries++
		if e.Type == pistore.TypeMessage {
			s.Messages++
		}
	}
	for _, u := range all[pistore.UsageRow](f) {
		sum.Add(u)
	}
	s.Usage = sum.Totals()
	if f.stats != nil {
		f.stats(&s)
	}
	return s, nil
}

func (f *fake) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		f.exports++
		if f.header != (pistore.Header{}) && !yield(f.header, nil) {
			return
		}
		for _, row := range f.rows {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if f.exportErr != nil {
			yield(nil, f.exportErr)
		}
	}
}

// The helpers below change rows by name; they panic if there is no such row.

func (f *fake) index(what string, is func(pistore.Row) bool) int {
	i := slices.IndexFunc(f.rows, is)
	if i < 0 {
		panic(fmt.Sprintf("no row %s", what))
	}
	return i
}

func (f *fake) registerAt(namespace, key string) int {
	return f.index(namespace+"/"+key, func(row pistore.Row) bool {
		r, ok := row.(pistore.Register)
		return ok && r.Namespace == namespace && r.Key == key
	})
}

// set gives a register another value.
func (f *fake) set(namespace, key string, value pistore.JSON) {
	i := f.registerAt(namespace, key)
	r := f.rows[i].(pistore.Register)
	r.Value = value
	f.rows[i] = r
}

// drop removes a register.
func (f *fake) drop(namespace, key string) {
	i := f.registerAt(namespace, key)
	f.rows = slices.Delete(f.rows, i, i+1)
}

// add appends a row with the next seq.
func (f *fake) add(row pistore.Row) {
	switch r := row.(type) {
	case pistore.Entry:
		r.Seq = f.header.NextSeq
		if r.Payload == "" {
			r.Payload = "{}"
		}
		row = r
	case pistore.UsageRow:
		r.Seq = f.header.NextSeq
		row = r
	case pistore.Register:
		r.Seq = f.header.NextSeq
		row = r
	}
	f.header.NextSeq++
	f.rows = append(f.rows, row)
}

func (f *fake) addRegister(namespace, key string, value pistore.JSON) {
	f.add(pistore.Register{Namespace: namespace, Key: key, Value: value})
}

func (f *fake) addEntry(id, parent pistore.ID, t pistore.EntryType, payload pistore.JSON) {
	f.add(pistore.Entry{ID: id, ParentID: parent, Timestamp: 1700000000000, Type: t, Payload: payload})
}

// change changes an entry.
func (f *fake) change(id pistore.ID, change func(*pistore.Entry)) {
	i := f.index(string(id), func(row pistore.Row) bool {
		e, ok := row.(pistore.Entry)
		return ok && e.ID == id
	})
	e := f.rows[i].(pistore.Entry)
	change(&e)
	f.rows[i] = e
}
