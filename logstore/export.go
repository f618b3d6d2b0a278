package logstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// Export implements pistore.Storage. It reads one snapshot of the engine.
func (h *session) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		v, release, err := h.snapshot(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer release()
		for row, err := range pages(ctx, h, func() (filler[pistore.Row], error) { return newExport(v, h.info) }) {
			if !yield(row, err) {
				return
			}
		}
	}
}

// snapshot pins an instant of the store. It is closed by release, or when the
// store closes first.
func (h *session) snapshot(ctx context.Context) (v view, release func(), err error) {
	err = h.read(ctx, func() error {
		v = h.view
		db, live := v.src.(*pebble.DB)
		if !live {
			release = func() {} // a read-only migration, which nobody changes
			return nil
		}
		return h.store.eng.call("snapshot", func() error {
			snapshot := db.NewSnapshot()
			v.src = snapshot
			release = func() { h.store.dropSnapshot(snapshot) }
			return h.store.keepSnapshot(snapshot)
		})
	})
	return v, release, err
}

func (s *Store) keepSnapshot(snapshot *pebble.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshots == nil { // only when Close gave up waiting for this call
		return fmt.Errorf("logstore: %w", pistore.ErrClosed)
	}
	s.snapshots[snapshot] = struct{}{}
	return nil
}

func (s *Store) dropSnapshot(snapshot *pebble.Snapshot) {
	s.mu.Lock()
	_, ours := s.snapshots[snapshot]
	delete(s.snapshots, snapshot)
	s.mu.Unlock()
	if ours {
		_ = s.eng.call("close snapshot", snapshot.Close)
	}
}

// export merges the entries, usage rows and registers of a view by seq.
type export struct {
	view      view
	header    *pistore.Header // not yet handed out
	entries   exportTable
	usage     exportTable
	registers []registerAt
}

// exportTable is one table of an export, read in advance by pages.
type exportTable struct {
	table byte
	from  pistore.Seq
	rows  []pistore.Row
	ids   idTexts
	ended bool
}

// registerAt is where a register is and the seq that it takes in the order.
type registerAt struct {
	seq pistore.Seq
	key []byte
}

func newExport(v view, info pistore.Info) (filler[pistore.Row], error) {
	st, err := v.state()
	if err != nil {
		return nil, err
	}
	x := &export{
		view: v, header: &pistore.Header{Info: info, NextSeq: st.nextSeq},
		entries: exportTable{table: tableEntry, from: 1}, usage: exportTable{table: tableUsage, from: 1},
	}
	lower := sessionKey(v.ord, tableRegister, 0)
	err = v.scan(lower, prefixEnd(lower), false, func(key, value []byte) (bool, error) {
		seq, _, err := v.codec.register(value, false)
		x.registers = append(x.registers, registerAt{seq, slices.Clone(key)})
		return true, err
	})
	slices.SortFunc(x.registers, func(a, b registerAt) int { return int(a.seq - b.seq) })
	return x.fill, err
}

func (x *export) fill(p *page[pistore.Row]) (bool, error) {
	if x.header != nil {
		p.rows = append(p.rows, *x.header)
		x.header = nil
	}
	for {
		row, size, err := x.next()
		if err != nil || row == nil {
			return row == nil, err
		}
		p.rows = append(p.rows, row)
		if !p.saw(size) {
			return false, nil
		}
	}
}

// next returns the row of the lowest seq, nil at the end.
func (x *export) next() (pistore.Row, int, error) {
	for _, t := range []*exportTable{&x.entries, &x.usage} {
		if err := t.load(x.view); err != nil {
			return nil, 0, err
		}
	}
	e, u := x.entries.first(), x.usage.first()
	r := pistore.Seq(pistore.MaxSeq + 1)
	if len(x.registers) > 0 {
		r = x.registers[0].seq
	}
	switch {
	case e == u && u == r: // all ended
		return nil, 0, nil
	case e < u && e < r:
		return x.entries.take()
	case u < r:
		return x.usage.take()
	default:
		return x.takeRegister()
	}
}

func (x *export) takeRegister() (pistore.Row, int, error) {
	at := x.registers[0]
	x.registers = x.registers[1:]
	v := x.view
	address, ok := addressOf(at.key, len(sessionKey(v.ord, tableRegister, 0)))
	if !ok {
		return nil, 0, corrupt(v.session, at.key, errors.New("key without an address"))
	}
	row := pistore.Register{Namespace: address.Namespace, Key: address.Key}
	found, err := v.get(at.key, func(value []byte) (err error) {
		row.Seq, row.Value, err = v.codec.register(value, true)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("logstore: %s vanished from a snapshot", describeKey(at.key))
	}
	if err != nil {
		return nil, 0, err
	}
	return row, len(row.Value), nil
}

// load reads the next rows unless there are some.
func (t *exportTable) load(v view) error {
	if t.ended || len(t.rows) > 0 {
		return nil
	}
	t.rows = nil
	size := 0
	lower := seqKey(v.ord, t.table, t.from)
	t.ended = true
	return v.scan(lower, prefixEnd(sessionKey(v.ord, t.table, 0)), false, func(key, value []byte) (bool, error) {
		seq, ok := seqOf(key)
		if !ok {
			return false, errors.New("key without a seq")
		}
		var row pistore.Row
		var err error
		if t.table == tableEntry {
			row, _, err = v.codec.entry(value, seq, false, &t.ids)
		} else {
			row, err = v.codec.usage(value, seq)
		}
		if err != nil {
			return false, err
		}
		t.rows = append(t.rows, row)
		t.from = seq + 1
		size += len(value)
		t.ended = size < maxPageBytes/4 && len(t.rows) < 256
		return t.ended, nil
	})
}

// first returns the seq of the next row, above all seqs at the end.
func (t *exportTable) first() pistore.Seq {
	if len(t.rows) == 0 {
		return pistore.MaxSeq + 1
	}
	switch row := t.rows[0].(type) {
	case pistore.Entry:
		return row.Seq
	case pistore.UsageRow:
		return row.Seq
	default:
		panic(fmt.Sprintf("logstore: %T in an export's table", row))
	}
}

func (t *exportTable) take() (pistore.Row, int, error) {
	row := t.rows[0]
	t.rows = t.rows[1:]
	switch row := row.(type) {
	case pistore.Entry:
		return row, len(row.Payload), nil
	case pistore.UsageRow:
		return row, len(row.Usage) + len(row.Details), nil
	default:
		panic(fmt.Sprintf("logstore: %T in an export's table", row))
	}
}
