package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
	"pistore/ledger"
)

// VerifyStorage implements pistore.Verifier. Opening has looked at the logs, and
// the engine checks the checksums of what it reads; so without deep it reads the
// state alone. With deep it reads everything: that each record can be decoded,
// and that id index, structure index and statistics are those of the rows.
func (h *session) VerifyStorage(ctx context.Context, deep bool) iter.Seq2[*pistore.CorruptError, error] {
	return func(yield func(*pistore.CorruptError, error) bool) {
		v, release, err := h.snapshot(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer release()
		c := &check{view: v, yield: yield, sums: ledger.Sum{}}
		err = h.read(ctx, func() (err error) {
			c.state, err = v.state()
			return err
		})
		if !c.fault(err) || err != nil || !deep {
			return
		}
		for _, table := range []byte{tableEntry, tableUsage, tableStructure, tableID, tableRegister} {
			switch agrees, err := c.agrees(ctx, h, table); {
			case !c.fault(err):
				return
			case !agrees && !c.table(ctx, h, table):
				return
			}
		}
		c.totals()
	}
}

// check is a deep check of one session.
type check struct {
	view  view
	yield func(*pistore.CorruptError, error) bool
	state state

	ids idTexts
	// newest is the entry before, unless its id leads elsewhere: the usual
	// parent, which then needs no second look-up.
	newest idAt

	entries, messages int64
	usage             int64
	sums              ledger.Sum
	broken            bool // a row could not be decoded, so nothing was counted of it

	// paired entries are those whose structure is in order, and placed rows those
	// to which the id index leads.
	paired, placed int64
}

// fault hands out an error, as a fault if it is damage. It reports whether to go
// on.
func (c *check) fault(err error) bool {
	var corrupt *pistore.CorruptError
	switch {
	case err == nil:
		return true
	case errors.As(err, &corrupt):
		return c.yield(corrupt, nil)
	case pebble.IsCorruptionError(err): // a block whose checksum does not hold
		return c.yield(asDamage(err), nil)
	default:
		c.yield(nil, err)
		return false
	}
}

// faults hands out every one of errors that were joined.
func (c *check) faults(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !errors.Is(err, pistore.ErrCorrupt) {
		return c.fault(err)
	}
	for _, err := range joined.Unwrap() {
		if !c.faults(err) {
			return false
		}
	}
	return true
}

// agrees reports whether an index is in order by what the rows have shown: each
// that was found in it has a row of its own there, so if there are just as many,
// there is no other, and none needs to be looked at the other way round.
func (c *check) agrees(ctx context.Context, h *session, table byte) (bool, error) {
	var want int64
	switch table {
	case tableStructure:
		want = c.paired
	case tableID:
		want = c.placed
	default:
		return false, nil
	}
	rows := int64(0)
	for at := sessionKey(c.view.ord, table, 0); at != nil; {
		var err error
		if at, err = c.page(ctx, h, at, func(_, _ []byte) { rows++ }); err != nil {
			if errors.Is(err, pistore.ErrCorrupt) {
				err = nil // it is met again
			}
			return false, err
		}
	}
	return rows == want, nil
}

// table checks the rows of a table. It reports whether to go on.
func (c *check) table(ctx context.Context, h *session, table byte) bool {
	for at := sessionKey(c.view.ord, table, 0); at != nil; {
		var found []error
		next, err := c.page(ctx, h, at, func(key, value []byte) {
			if err := c.row(table, key, value); err != nil {
				found = append(found, corrupt(c.view.session, key, err))
			}
		})
		for _, f := range append(found, err) {
			if !c.faults(f) {
				return false
			}
		}
		if err != nil {
			// What lies behind a block that cannot be read is not looked for.
			c.broken = true
			return true
		}
		at = next
	}
	return true
}

// page goes over a page of a table's rows, from a key on, and returns where the
// next page begins, nil at the end: no code of the caller of this package runs
// inside of the engine.
func (c *check) page(ctx context.Context, h *session, at []byte, row func(key, value []byte)) (next []byte, err error) {
	skip := len(sessionKey(c.view.ord, 0, 0))
	err = h.read(ctx, func() error {
		rows := 0
		return c.view.scan(at, prefixEnd(at[:skip]), false, func(key, value []byte) (bool, error) {
			row(key, value)
			if rows++; rows == maxPageRows {
				next = append(bytes.Clone(key), 0)
			}
			return next == nil, nil
		})
	})
	return next, err
}

func (c *check) row(table byte, key, value []byte) error {
	switch table {
	case tableEntry, tableStructure:
		seq, ok := seqOf(key)
		if !ok || len(key) != len(seqKey(c.view.ord, table, 0)) {
			return errors.New("key without a seq")
		}
		return c.entryRow(table, seq, value)
	case tableUsage:
		seq, ok := seqOf(key)
		if !ok || len(key) != len(seqKey(c.view.ord, table, 0)) {
			return errors.New("key without a seq")
		}
		u, err := c.view.codec.usage(value, seq)
		if err != nil {
			c.broken = true
			return err
		}
		c.usage++
		c.sums.Add(u)
		return errors.Join(c.below(seq, key), c.indexed(key, u.ID, idRow{seq: seq, usage: true}))
	case tableID:
		return c.idRow(key, value)
	case tableRegister:
		if _, ok := addressOf(key, len(sessionKey(c.view.ord, tableRegister, 0))); !ok {
			return errors.New("key without an address")
		}
		seq, _, err := c.view.codec.register(value, true)
		if err != nil {
			return err
		}
		return c.below(seq, key)
	default:
		panic(fmt.Sprintf("logstore: check of table %q", table))
	}
}

// broke is a broken invariant at a key.
func (c *check) broke(invariant int, key []byte, format string, args ...any) error {
	return &pistore.CorruptError{
		Backend: backendName, Session: c.view.session, Place: describeKey(key), Invariant: invariant,
		Problem: fmt.Sprintf(format, args...),
	}
}

func (c *check) below(seq pistore.Seq, key []byte) error {
	if seq >= c.state.nextSeq {
		return c.broke(2, key, "seq %d, nextSeq is %d", seq, c.state.nextSeq)
	}
	return nil
}

// entryRow checks an entry against the indexes, or its structure against it.
func (c *check) entryRow(table byte, seq pistore.Seq, value []byte) error {
	key := seqKey(c.view.ord, table, seq)
	e, parentSeq, err := c.view.codec.entry(value, seq, table == tableStructure, &c.ids)
	if err != nil {
		c.broken = c.broken || table == tableEntry
		return err
	}
	other := tableStructure
	if table == tableStructure {
		other = tableEntry
	}
	twin, twinParent, err := c.view.entry(seq, other == tableStructure)
	whole := err == nil
	var gone *pistore.CorruptError
	if errors.As(err, &gone) && gone.Problem != "missing" {
		twin, twinParent, gone, err = e, parentSeq, nil, nil // it is reported where it is
	}
	if err != nil && gone == nil {
		return err
	}
	var differ error
	if twin.Payload, e.Payload = "", ""; gone != nil || twin != e || twinParent != parentSeq {
		differ = c.broke(10, key, "entry and structure index differ")
	} else if whole {
		c.paired++
	}
	if table == tableStructure {
		return differ
	}
	c.entries++
	if e.Type == pistore.TypeMessage {
		c.messages++
	}
	parent, indexed := c.parent(key, e, parentSeq), c.indexed(key, e.ID, idRow{seq: seq})
	if c.newest = (idAt{}); indexed == nil {
		c.newest = idAt{e.ID, seq}
	}
	return errors.Join(differ, c.below(seq, key), indexed, parent)
}

func (c *check) parent(key []byte, e pistore.Entry, at pistore.Seq) error {
	if e.ParentID == "" || (idAt{e.ParentID, at}) == c.newest {
		return nil
	}
	row, found, err := c.view.idRow(e.ParentID)
	if err == nil && (!found || row.usage || row.seq != at) {
		err = c.broke(6, key, "parent %.128q is not the entry at seq %d", string(e.ParentID), at)
	}
	return err
}

// indexed checks that the id index leads to a row.
func (c *check) indexed(key []byte, id pistore.ID, want idRow) error {
	got, found, err := c.view.idRow(id)
	if err != nil {
		return nil // it is reported where it is
	}
	if !found {
		return c.broke(4, key, "id %.128q is not in the index", string(id))
	}
	if got != want {
		return c.broke(1, key, "id %.128q leads to seq %d", string(id), got.seq)
	}
	c.placed++
	return nil
}

// idRow checks that there is a row where the index leads.
func (c *check) idRow(key, value []byte) error {
	row, err := c.view.codec.idRow(value)
	if err != nil {
		return err
	}
	table := tableEntry
	if row.usage {
		table = tableUsage
	}
	at := seqKey(c.view.ord, table, row.seq)
	_, closer, err := c.view.src.Get(at)
	if errors.Is(err, pebble.ErrNotFound) {
		return c.broke(4, key, "it leads to %s, which is missing", describeKey(at))
	}
	if err != nil {
		return c.view.readError(at, err)
	}
	return closer.Close()
}

// totals compares the statistics with the rows.
func (c *check) totals() {
	if c.broken {
		return
	}
	key := stateKey(c.view.ord)
	have := c.state.stats
	if have.Entries != c.entries || have.Messages != c.messages {
		if !c.fault(c.broke(19, key, "statistics say %d entries and %d messages, there are %d and %d",
			have.Entries, have.Messages, c.entries, c.messages)) {
			return
		}
	}
	if want := c.sums.Totals(); have.Usage != want {
		c.fault(c.broke(19, key, "statistics are not the sum of the %d usage rows", c.usage))
	}
}
