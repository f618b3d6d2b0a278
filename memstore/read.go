package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"

	"pistore"
)

// Entries is the query of [pistore.Storage].
func (s *State) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var few [128]int // on the stack; an id given twice is found by sorting
	at := few[:0]
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range ids {
		if i, ok := s.entryIndex(id); ok {
			at = append(at, i)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	if len(at) == 0 {
		return nil, nil
	}
	found := make([]pistore.Entry, len(at))
	for n, i := range at {
		found[n] = s.entries.at(i).Entry
	}
	return found, nil
}

// Registers is the query of [pistore.Storage].
func (s *State) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var found []pistore.Register
	seen := make(map[pistore.Address]bool, len(at))
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, a := range at {
		if r, ok := s.spaces[a.Namespace].get(a.Key); ok && !seen[a] {
			seen[a] = true
			found = append(found, *r)
		}
	}
	return found, nil
}

// RegistersByPrefix is the query of [pistore.Storage].
func (s *State) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	return func(yield func(pistore.Register, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(pistore.Register{}, err)
			return
		}
		s.mu.RLock()
		listing := s.spaces[namespace].withPrefix(prefix).clone()
		s.mu.RUnlock()
		for _, r := range listing {
			if err := ctx.Err(); err != nil {
				yield(pistore.Register{}, err)
				return
			}
			if !yield(*r, nil) {
				return
			}
		}
	}
}

// Branch is the query of [pistore.Storage].
func (s *State) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return func(yield func(pistore.Entry, error) bool) {
		if err := cmp.Or(ctx.Err(), q.Check()); err != nil {
			yield(pistore.Entry{}, err)
			return
		}
		s.mu.RLock()
		start, ok := s.entryIndex(q.Start)
		path := walk{entries: s.entries, query: q}
		s.mu.RUnlock()
		if !ok {
			yield(pistore.Entry{}, fmt.Errorf("%w: entry %.140q to start a branch at", pistore.ErrNotFound, string(q.Start)))
			return
		}
		if q.Order == pistore.Reversed {
			path.oldestFirst(ctx, start, yield)
		} else {
			path.newestFirst(ctx, start, yield)
		}
	}
}

// walk is a branch walk over a snapshot. It goes by index, and an entry's parent
// stands before it, so that it ends.
type walk struct {
	entries list[node]
	query   pistore.BranchQuery
}

func (w walk) newestFirst(ctx context.Context, start int, yield func(pistore.Entry, error) bool) {
	left := w.query.Limit
	for i := start; i >= 0; i = w.entries.at(i).parent {
		if err := ctx.Err(); err != nil {
			yield(pistore.Entry{}, err)
			return
		}
		n := w.entries.at(i)
		if w.query.Keeps(n.Entry) {
			if !yield(shown(n, w.query.StructureOnly), nil) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
		if w.query.Stops(n.Entry) {
			return
		}
	}
}

// oldestFirst has to know the path before it can yield its far end. Seqs fall
// along the path, so that nothing behind the cursor is walked.
func (w walk) oldestFirst(ctx context.Context, start int, yield func(pistore.Entry, error) bool) {
	var path []int
	for i := start; i >= 0; i = w.entries.at(i).parent {
		if err := ctx.Err(); err != nil {
			yield(pistore.Entry{}, err)
			return
		}
		e := &w.entries.at(i).Entry
		if w.query.Keeps(*e) {
			path = append(path, i)
		}
		if w.query.Stops(*e) || e.Seq <= w.query.Cursor {
			break
		}
	}
	left := w.query.Limit
	for _, i := range slices.Backward(path) {
		if err := ctx.Err(); err != nil {
			yield(pistore.Entry{}, err)
			return
		}
		if !yield(shown(w.entries.at(i), w.query.StructureOnly), nil) {
			return
		}
		if left--; left == 0 {
			return
		}
	}
}

// shown is what a query gives of an entry.
func shown(n *node, structure bool) pistore.Entry {
	e := n.Entry
	if structure {
		e.Payload = ""
	}
	return e
}

// ScanEntries is the query of [pistore.Storage].
func (s *State) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	return func(yield func(pistore.Entry, error) bool) {
		s.mu.RLock()
		rows := s.entries
		s.mu.RUnlock()
		scan(ctx, q, rows,
			func(n *node) pistore.Seq { return n.Seq },
			func(n *node) (pistore.Entry, bool) { return shown(n, q.StructureOnly), q.Keeps(n.Entry) }, yield)
	}
}

// ScanUsage is the query of [pistore.Storage].
func (s *State) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return func(yield func(pistore.UsageRow, error) bool) {
		s.mu.RLock()
		rows := s.usage
		s.mu.RUnlock()
		scan(ctx, q, rows,
			func(u *pistore.UsageRow) pistore.Seq { return u.Seq },
			func(u *pistore.UsageRow) (pistore.UsageRow, bool) { return *u, true }, yield)
	}
}

// scan yields what a query asks for of rows that stand by rising seq; result
// tells what a row gives and whether it passes the filters.
func scan[T, R any](ctx context.Context, q pistore.ScanQuery, rows list[T], seq func(*T) pistore.Seq,
	result func(*T) (R, bool), yield func(R, error) bool) {
	var none R
	if err := cmp.Or(ctx.Err(), q.Check()); err != nil {
		yield(none, err)
		return
	}
	from := sort.Search(rows.len, func(i int) bool { return seq(rows.at(i)) >= q.FromSeq })
	to := rows.len
	if q.ToSeq != 0 {
		to = sort.Search(rows.len, func(i int) bool { return seq(rows.at(i)) > q.ToSeq })
	}
	left := q.Limit
	for n := range max(to-from, 0) {
		if err := ctx.Err(); err != nil {
			yield(none, err)
			return
		}
		i := from + n
		if q.Order == pistore.Reversed {
			i = to - 1 - n
		}
		r, kept := result(rows.at(i))
		if !kept {
			continue
		}
		if !yield(r, nil) {
			return
		}
		if left--; left == 0 {
			return
		}
	}
}

// Stats is the query of [pistore.Storage].
func (s *State) Stats(ctx context.Context) (pistore.Stats, error) {
	if err := ctx.Err(); err != nil {
		return pistore.Stats{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stats(), nil
}
