package memstore

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"pistore"
)

// Export is the query of [pistore.Storage].
func (s *State) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return s.ExportFilled(ctx, func(e pistore.Entry) (pistore.JSON, error) { return e.Payload, nil })
}

// ExportFilled is Export for a backend that keeps payloads elsewhere: it asks for
// each entry's before it is yielded. An error ends the export.
func (s *State) ExportFilled(ctx context.Context, payload func(pistore.Entry) (pistore.JSON, error)) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		header, rows := s.liveRows()
		for row, err := pistore.Row(header), error(nil); row != nil; row, err = rows.next(payload) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// liveRows are the rows of a snapshot, each form by rising seq, and how many of
// each are exported already.
type liveRows struct {
	entries   list[node]
	usage     list[pistore.UsageRow]
	registers []*pistore.Register

	entriesDone, usageDone, registersDone int
}

func (s *State) liveRows() (pistore.Header, *liveRows) {
	s.mu.RLock()
	header := pistore.Header{Info: s.info, NextSeq: s.next}
	rows := &liveRows{entries: s.entries, usage: s.usage}
	for _, sp := range s.spaces {
		rows.registers = append(rows.registers, sp...)
	}
	s.mu.RUnlock()
	slices.SortFunc(rows.registers, func(a, b *pistore.Register) int { return cmp.Compare(a.Seq, b.Seq) })
	return header, rows
}

// next takes the row with the smallest seq, nil if there is none left. No two
// rows have the same.
func (l *liveRows) next(payload func(pistore.Entry) (pistore.JSON, error)) (pistore.Row, error) {
	const none = pistore.MaxSeq + 1
	entry, usage, register := pistore.Seq(none), pistore.Seq(none), pistore.Seq(none)
	if l.entriesDone < l.entries.len {
		entry = l.entries.at(l.entriesDone).Seq
	}
	if l.usageDone < l.usage.len {
		usage = l.usage.at(l.usageDone).Seq
	}
	if l.registersDone < len(l.registers) {
		register = l.registers[l.registersDone].Seq
	}
	switch first := min(entry, usage, register); first {
	case none:
		return nil, nil
	case entry:
		l.entriesDone++
		e := l.entries.at(l.entriesDone - 1).Entry
		var err error
		e.Payload, err = payload(e)
		return e, err
	case usage:
		l.usageDone++
		return *l.usage.at(l.usageDone - 1), nil
	default:
		l.registersDone++
		return *l.registers[l.registersDone-1], nil
	}
}
