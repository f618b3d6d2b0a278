package logstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
	"pistore/ledger"
	"pistore/registers"
)

// maxReported bounds the places of damage that are reported of one session.
const maxReported = 100

// readable calls row for what can be read of a range: from its start up to the
// first damaged place, and from its end back to one. What lies between is the
// gap. An error of row is damage of that row alone, which is handed to found like
// that of the places.
func (v view) readable(lower, upper []byte, row func(key, value []byte) error, found func(error)) (gap [2][]byte) {
	each := func(key, value []byte) {
		if err := row(key, value); err != nil {
			found(corrupt(v.session, key, err))
		}
	}
	from := lower
	err := v.scan(lower, upper, false, func(key, value []byte) (bool, error) {
		each(key, value)
		from = append(bytes.Clone(key), 0)
		return true, nil
	})
	if err == nil {
		return gap
	}
	found(err)
	to := upper
	// Where it ends is the same damage, or the other end of it.
	_ = v.scan(from, upper, true, func(key, value []byte) (bool, error) {
		each(key, value)
		to = bytes.Clone(key)
		return true, nil
	})
	return [2][]byte{from, to}
}

// salvageCatalog returns the sessions that can be found, and what is wrong with
// the catalog, sessions without a row in it included.
func (s *Store) salvageCatalog() (rows []catalogRow, faults []*pistore.CorruptError) {
	found := func(err error) { faults = append(faults, asDamage(err)) }
	known := map[ordinal]bool{}
	s.view().readable([]byte{areaCatalog}, []byte{areaCatalog + 1}, func(key, value []byte) error {
		row, err := s.codec.catalog(value, pistore.SessionID(key[1:]))
		if err == nil && known[row.ordinal] {
			err = fmt.Errorf("ordinal %d is taken", row.ordinal)
		}
		if err != nil {
			return err
		}
		known[row.ordinal] = true
		rows = append(rows, row)
		return nil
	}, found)
	slices.SortFunc(rows, func(a, b catalogRow) int { return cmp.Compare(a.info.ID, b.info.ID) })
	s.view().readable([]byte{areaLoading}, []byte{areaLoading + 1}, func(key, _ []byte) error {
		ord, ok := ordinalOf(key)
		if !ok {
			return errors.New("key without an ordinal")
		}
		known[ord] = true // it never was a session
		return nil
	}, found)
	for _, ord := range s.ordinals() {
		if known[ord] {
			continue
		}
		lower, _ := sessionRange(ord)
		found(corrupt("", lower, errors.New("rows of a session that the catalog does not name")))
		// Only what was a session has a state; a load that was cut short has none.
		v := s.view()
		v.ord = ord
		if _, err := v.state(); err == nil {
			rows = append(rows, catalogRow{ordinal: ord})
		}
	}
	return rows, faults
}

// ordinals returns the ordinals of the sessions whose rows can be found, whether
// the catalog names them or not.
func (s *Store) ordinals() (found []ordinal) {
	// A walk ends where it cannot read on; there the other one has come from the
	// end, and between them each ordinal is tried.
	low, high := ordinal(0), ordinal(0)
	walk := func(first func(it *pebble.Iterator) bool, next func(it *pebble.Iterator, ord ordinal) bool) bool {
		err := s.view().iterate([]byte{areaSession}, []byte{areaSession + 1}, func(it *pebble.Iterator) error {
			for ok := first(it); ok; {
				ord, fine := ordinalOf(it.Key())
				if !fine {
					return corrupt("", it.Key(), errors.New("key without an ordinal"))
				}
				found = append(found, ord)
				ok = next(it, ord)
			}
			return it.Error()
		})
		return err == nil
	}
	whole := walk((*pebble.Iterator).First, func(it *pebble.Iterator, ord ordinal) bool {
		low = ord
		_, upper := sessionRange(ord)
		return it.SeekGE(upper)
	})
	if whole {
		return found
	}
	walk((*pebble.Iterator).Last, func(it *pebble.Iterator, ord ordinal) bool {
		high = ord
		lower, _ := sessionRange(ord)
		return it.SeekLT(lower)
	})
	if high == 0 {
		const enough = 10_000 // when it cannot be read how many there were
		next, known, err := s.readNumber(metaOrdinal)
		if high = ordinal(next); err != nil || !known {
			high = low + enough
		}
	}
	v := s.view()
	for v.ord = low + 1; v.ord < high; v.ord++ {
		if _, err := v.state(); err == nil {
			found = append(found, v.ord)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// asDamage returns an error of reading for a repair, where all are damage.
func asDamage(err error) *pistore.CorruptError {
	var damage *pistore.CorruptError
	if !errors.As(err, &damage) {
		damage = &pistore.CorruptError{Backend: backendName, Place: "database", Problem: sentence(err)}
	}
	return damage
}

// salvage is one session that is being saved.
type salvage struct {
	view    view
	result  *RepairedSession
	nextSeq pistore.Seq
	rows    []salvagedRow
	entries map[pistore.Seq]pistore.ID // those that are kept; with a loss only
}

// salvagedRow is a row that could be read.
type salvagedRow struct {
	seq    pistore.Seq
	table  byte
	parent pistore.Seq // of an entry
	key    []byte      // of a register
}

// salvageSession saves a session, or says why it could not. Its error is one of
// writing, or the context's.
func salvageSession(ctx context.Context, from, to *Store, row catalogRow, r RepairOptions) (RepairedSession, error) {
	result := RepairedSession{Info: row.info, Unnamed: row.info.ID == ""}
	if result.Unnamed {
		result.Info = pistore.Info{ID: pistore.SessionID(fmt.Sprint("recovered-", row.ordinal)), StorageVersion: to.opts.version}
	}
	x := &salvage{view: from.sessionView(row), result: &result}
	st, err := x.view.state()
	if err != nil {
		x.found(err)
	}
	x.nextSeq = st.nextSeq
	x.read(ctx)
	x.count(st)
	x.indexes(ctx, from, st)
	if err := ctx.Err(); err != nil {
		return result, err
	}
	if result.Lost {
		if !r.KeepGoing {
			return result, nil
		}
		x.keepWhatFits()
	}
	if result.Unnamed {
		result.Info.CreatedAt = x.firstTime()
	}
	info, err := to.Load(ctx, x.stream(ctx))
	switch {
	case errors.Is(err, pistore.ErrFaulted) || ctx.Err() != nil:
		return result, err
	case err != nil: // rows that contradict each other
		x.found(err)
		result.Lost = true
		return result, nil
	}
	result.Info, result.Saved = info, true
	saved, err := to.Open(ctx, info.ID, pistore.ReadOnly)
	if err != nil {
		return result, err
	}
	result.Stats, err = saved.Stats(ctx)
	if err == nil && st.nextSeq > 0 && !result.Lost && st.stats != result.Stats {
		x.found(&pistore.CorruptError{Backend: backendName, Session: info.ID, Invariant: 19,
			Place: describeKey(stateKey(row.ordinal)), Problem: "statistics are not those of the rows"})
	}
	return result, errors.Join(err, saved.Close())
}

// firstTime is when the first entry that can be read was committed.
func (x *salvage) firstTime() pistore.UnixMS {
	for _, row := range x.rows {
		if row.table == tableEntry {
			e, _, _ := x.view.entry(row.seq, false)
			return e.Timestamp
		}
	}
	return 0
}

func (x *salvage) found(err error) {
	if len(x.result.Damage) < maxReported {
		x.result.Damage = append(x.result.Damage, asDamage(err))
	}
}

// lost takes note of damage that costs rows.
func (x *salvage) lost(err error) {
	x.result.Lost = true
	x.found(err)
}

// read finds the rows that can be read, each looked at in full.
func (x *salvage) read(ctx context.Context) {
	v := x.view
	for _, table := range []byte{tableEntry, tableUsage} {
		lower := sessionKey(v.ord, table, 0)
		gap := v.readable(lower, prefixEnd(lower), func(key, value []byte) error {
			seq, ok := seqOf(key)
			if !ok || len(key) != len(lower)+seqBytes {
				x.result.Lost = true
				return errors.New("key without a seq")
			}
			err := x.take(table, seq, value)
			x.result.Lost = x.result.Lost || err != nil
			return err
		}, x.found)
		if gap[0] != nil {
			x.probe(ctx, table, gap)
		}
	}
	lower := sessionKey(v.ord, tableRegister, 0)
	gap := v.readable(lower, prefixEnd(lower), func(key, value []byte) error {
		_, ok := addressOf(key, len(lower))
		seq, _, err := v.codec.register(value, true)
		if err == nil && !ok {
			err = errors.New("key without an address")
		}
		if err != nil {
			x.result.Lost = true
			return err
		}
		x.rows = append(x.rows, salvagedRow{seq: seq, table: tableRegister, key: bytes.Clone(key)})
		return nil
	}, x.found)
	x.result.Lost = x.result.Lost || gap[0] != nil
	slices.SortFunc(x.rows, func(a, b salvagedRow) int { return cmp.Compare(a.seq, b.seq) })
}

// count compares with the statistics: rows that are not there leave no damage.
func (x *salvage) count(st state) {
	var entries, usage int64
	for _, row := range x.rows {
		switch row.table {
		case tableEntry:
			entries++
		case tableUsage:
			usage++
		}
	}
	if entries < st.stats.Entries || usage < st.stats.Usage.Rows {
		x.lost(&pistore.CorruptError{Backend: backendName, Session: x.view.session, Invariant: 19,
			Place: describeKey(stateKey(x.view.ord)), Problem: fmt.Sprintf(
				"statistics say %d entries and %d usage rows, %d and %d can be read",
				st.stats.Entries, st.stats.Usage.Rows, entries, usage)})
	}
}

// take looks at a row of a table that is keyed by seq.
func (x *salvage) take(table byte, seq pistore.Seq, value []byte) (err error) {
	row := salvagedRow{seq: seq, table: table}
	if table == tableEntry {
		_, row.parent, err = x.view.codec.entry(value, seq, false, nil)
	} else {
		_, err = x.view.codec.usage(value, seq)
	}
	if err == nil {
		x.rows = append(x.rows, row)
	}
	return err
}

// probe asks for every seq of a gap by itself: a look-up meets fewer damaged
// places than a scan.
func (x *salvage) probe(ctx context.Context, table byte, gap [2][]byte) {
	v := x.view
	first, last := pistore.Seq(1), x.nextSeq-1
	if key := bytes.TrimSuffix(gap[0], []byte{0}); len(key) > len(sessionKey(v.ord, table, 0)) {
		first, _ = seqOf(key)
		first++
	}
	if seq, ok := seqOf(gap[1]); ok && len(gap[1]) == len(seqKey(v.ord, table, 0)) {
		last = seq - 1
	}
	if x.nextSeq == 0 && last < first {
		x.lost(corrupt(v.session, seqKey(v.ord, table, first), errors.New("neither this and what follows nor how much it is can be read")))
		return
	}
	var failed pistore.Seq
	var why error
	end := func(seq pistore.Seq) {
		if failed > 0 {
			x.lost(&pistore.CorruptError{Backend: backendName, Session: v.session,
				Place: fmt.Sprintf("%s to %d", describeKey(seqKey(v.ord, table, failed)), seq), Problem: sentence(why)})
		}
		failed = 0
	}
	for seq := first; seq <= last && ctx.Err() == nil; seq++ {
		_, err := v.get(seqKey(v.ord, table, seq), func(value []byte) error { return x.take(table, seq, value) })
		switch {
		case err == nil:
			end(seq - 1)
		case failed == 0:
			failed, why = seq, err
		}
	}
	end(last)
}

// indexes looks for damage in what is built anew.
func (x *salvage) indexes(ctx context.Context, from *Store, st state) {
	h := &session{store: from, view: x.view, info: x.result.Info, mode: pistore.ReadOnly, gate: newOpGate(), open: &openSession{}}
	c := &check{view: x.view, state: st, sums: ledger.Sum{}, yield: func(damage *pistore.CorruptError, err error) bool {
		if damage != nil {
			x.found(damage)
		}
		return err == nil && len(x.result.Damage) < maxReported
	}}
	for _, table := range []byte{tableStructure, tableID} {
		if !c.table(ctx, h, table) {
			return
		}
	}
}

// keepWhatFits leaves out, of a session that has lost rows, what hangs on a lost
// entry and what would start something: an operation, a queue, a task or a timer
// that rests on what is gone must not go on by itself.
func (x *salvage) keepWhatFits() {
	x.entries = map[pistore.Seq]pistore.ID{}
	ids := map[pistore.ID]bool{}
	kept := x.rows[:0]
	var cells []salvagedRow
	for _, row := range x.rows {
		switch row.table {
		case tableRegister:
			cells = append(cells, row)
		case tableUsage:
			kept = append(kept, row)
		default:
			e, _, err := x.view.entry(row.seq, false)
			if _, ok := x.entries[row.parent]; err != nil || row.parent != 0 && !ok {
				x.result.LeftEntries = append(x.result.LeftEntries, e.ID)
				continue
			}
			x.entries[row.seq] = e.ID
			ids[e.ID] = true
			kept = append(kept, row)
		}
	}
	kept = append(kept, x.keepRegisters(cells, ids)...)
	slices.SortFunc(kept, func(a, b salvagedRow) int { return cmp.Compare(a.seq, b.seq) })
	x.rows = kept
}

// keepRegisters returns the registers that may stay beside the entries that do.
func (x *salvage) keepRegisters(cells []salvagedRow, ids map[pistore.ID]bool) (kept []salvagedRow) {
	rests := map[string]bool{} // lanes that are idle and stand on what is there
	stands := map[string]bool{}
	for _, row := range cells {
		at, value := x.cell(row)
		switch at.Namespace {
		case registers.LaneLeafNS:
			leaf, err := registers.DecodeLaneLeaf(value)
			stands[at.Key] = err == nil && (leaf == "" || ids[leaf])
		case registers.LaneStateNS:
			state, err := registers.DecodeLaneState(value)
			rests[at.Key] = err == nil && state.CurrentOperationID == "" && len(state.PendingNextRun) == 0
		}
	}
	for _, row := range cells {
		at, _ := x.cell(row)
		stays := true
		switch at.Namespace {
		case registers.LaneLeafNS, registers.LaneStateNS, registers.LaneConfigNS, registers.LaneLastResultNS:
			stays = rests[at.Key] && stands[at.Key]
		case registers.FactLabelNS:
			stays = ids[pistore.ID(at.Key)]
		default:
			namespace, known := registers.Lookup(at.Namespace)
			switch namespace.Lifetime {
			case registers.WithSession, registers.UntilRemoved, registers.ByRetention, registers.AsAppSays:
			default:
				stays = !known
			}
		}
		if stays {
			kept = append(kept, row)
		} else {
			x.result.LeftRegisters = append(x.result.LeftRegisters, at)
		}
	}
	return kept
}

// cell reads a register that was read before.
func (x *salvage) cell(row salvagedRow) (at pistore.Address, value pistore.JSON) {
	at, _ = addressOf(row.key, len(sessionKey(x.view.ord, tableRegister, 0)))
	_, _ = x.view.get(row.key, func(stored []byte) (err error) {
		_, value, err = x.view.codec.register(stored, true)
		return err
	})
	return at, value
}

// stream is what is kept, as an export.
func (x *salvage) stream(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		info := x.result.Info
		info.Generation = "" // what was repaired is another history
		if !yield(pistore.Header{Info: info, NextSeq: x.nextSeq}, nil) {
			return
		}
		for _, row := range x.rows {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(x.row(row)) {
				return
			}
		}
	}
}

func (x *salvage) row(at salvagedRow) (row pistore.Row, err error) {
	v := x.view
	key := at.key
	if key == nil {
		key = seqKey(v.ord, at.table, at.seq)
	}
	found, err := v.get(key, func(value []byte) (err error) {
		switch at.table {
		case tableEntry:
			row, _, err = v.codec.entry(value, at.seq, false, nil)
		case tableUsage:
			row, err = v.codec.usage(value, at.seq)
		default:
			address, _ := addressOf(key, len(sessionKey(v.ord, tableRegister, 0)))
			r := pistore.Register{Namespace: address.Namespace, Key: address.Key}
			r.Seq, r.Value, err = v.codec.register(value, true)
			row = r
		}
		return err
	})
	if err == nil && !found {
		err = corrupt(v.session, key, errors.New("missing"))
	}
	return row, err
}
