package logstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
	"pistore/internal/admit"
)

// committer is the commit queue of one session. A transaction is admitted,
// checked and applied while it has the turn; it waits for the log after it has
// given the turn on, so that commits of one session share a sync as those of
// different sessions do.
type committer struct {
	store *Store
	// turn holds one token. Whoever waits for it gets it in the order of coming.
	turn chan struct{}
	rows rowWriter // guarded by turn
}

// newCommitter goes on from what is stored. Opening a session reads its state
// and the ends of its two logs, never its history.
func newCommitter(s *Store, v view) (*committer, error) {
	st, err := v.state()
	if err != nil {
		return nil, err
	}
	// nextSeq never falls below a row that is there.
	for _, table := range []byte{tableEntry, tableUsage} {
		lower := sessionKey(v.ord, table, 0)
		err := v.scan(lower, prefixEnd(lower), true, func(key, _ []byte) (bool, error) {
			seq, ok := seqOf(key)
			if !ok {
				return false, errors.New("key without a seq")
			}
			st.nextSeq = max(st.nextSeq, seq+1)
			return false, nil
		})
		if err != nil {
			return nil, err
		}
	}
	rows, err := newRowWriter(v, st)
	if err != nil {
		return nil, err
	}
	c := &committer{store: s, turn: make(chan struct{}, 1), rows: rows}
	c.turn <- struct{}{}
	return c, nil
}

// Commit implements pistore.Storage.
func (h *session) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	if !h.gate.enter() {
		return pistore.Receipt{}, h.closedError()
	}
	defer h.gate.leave()
	if h.mode == pistore.ReadOnly {
		return pistore.Receipt{}, fmt.Errorf("logstore: session %s: commit: %w", h.info.ID, pistore.ErrReadOnly)
	}
	if err := h.store.eng.fault.err(); err != nil {
		return pistore.Receipt{}, err
	}
	tx, err := tx.Admit()
	if err != nil {
		return pistore.Receipt{}, fmt.Errorf("logstore: commit: %w", err)
	}
	h.store.pace.wait(ctx, h.gate)
	if err := h.commits.take(ctx, h.gate); err != nil {
		if errors.Is(err, pistore.ErrClosed) {
			err = h.closedError()
		}
		return pistore.Receipt{}, err
	}
	start := time.Now()
	receipt, b, err := h.commits.admit(tx)
	if err != nil || b == nil {
		return receipt, err
	}
	err = h.store.eng.call("commit", func() error { return errors.Join(b.SyncWait(), b.Close()) })
	if err != nil {
		return pistore.Receipt{}, h.store.poisoned(err)
	}
	h.store.eng.meter.committed(start)
	return receipt, nil
}

// take waits for the turn. Whoever has it is admitted.
func (c *committer) take(ctx context.Context, gate *opGate) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-c.turn:
	case <-ctx.Done():
		return ctx.Err()
	case <-gate.sealed:
		return pistore.ErrClosed
	}
	// Of several that are ready a select takes any.
	err := ctx.Err()
	select {
	case <-gate.sealed:
		err = pistore.ErrClosed
	default:
	}
	if err != nil {
		c.turn <- struct{}{}
	}
	return err
}

// admit checks a transaction and applies it, then gives the turn on. The batch
// that it returns still has to be waited for; there is none without writes.
func (c *committer) admit(tx pistore.Tx) (pistore.Receipt, *pebble.Batch, error) {
	defer func() { c.turn <- struct{}{} }()
	if err := c.store.eng.fault.err(); err != nil {
		return pistore.Receipt{}, nil, err
	}
	next := c.rows
	next.found = nil
	if err := admit.Check(tx, &next); err != nil {
		return pistore.Receipt{}, nil, fmt.Errorf("logstore: commit: %w", err)
	}
	last := int64(next.nextSeq) + int64(len(tx.Writes)) - 1
	if last > pistore.MaxSeq {
		return pistore.Receipt{}, nil, fmt.Errorf("logstore: commit: %w",
			&pistore.LimitError{Limit: "seq", Got: last, Max: pistore.MaxSeq})
	}
	receipt := pistore.Receipt{Timestamp: c.store.opts.Clock.Read()}
	if len(tx.Writes) == 0 {
		receipt.Stats = next.stats()
		return receipt, nil, nil
	}
	b := c.store.eng.batch(batchSize(tx))
	receipt.FirstSeq = next.nextSeq
	receipt.Seqs = make([]pistore.Seq, len(tx.Writes))
	for i, w := range tx.Writes {
		receipt.Seqs[i] = next.nextSeq
		if err := next.put(b, w, receipt.Timestamp); err != nil {
			return pistore.Receipt{}, nil, fmt.Errorf("logstore: commit: %w", err)
		}
	}
	receipt.Stats = next.stats()
	if err := next.finish(b, receipt.Stats); err != nil {
		return pistore.Receipt{}, nil, fmt.Errorf("logstore: commit: %w", err)
	}
	err := c.store.eng.call("commit", func() error { return c.store.eng.db.ApplyNoSyncWait(b, pebble.Sync) })
	if err != nil {
		return pistore.Receipt{}, nil, c.store.poisoned(err)
	}
	next.found = nil
	c.rows = next
	return receipt, b, nil
}

// put writes one write under the next seq.
func (w *rowWriter) put(b *pebble.Batch, write pistore.Write, at pistore.UnixMS) error {
	seq := w.nextSeq
	switch x := write.(type) {
	case pistore.InsertEntry:
		return w.putEntry(b, pistore.Entry{
			ID: x.ID, ParentID: x.ParentID, Seq: seq, Timestamp: at,
			Type: x.Type, CustomType: x.CustomType, Payload: x.Payload,
		})
	case pistore.InsertUsage:
		return w.putUsage(b, pistore.UsageRow{
			ID: x.ID, Seq: seq, Usage: x.Usage, EntryID: x.EntryID, Adjustment: x.Adjustment, Details: x.Details,
		})
	case pistore.SetRegister:
		return w.putRegister(b, pistore.Register{Namespace: x.Namespace, Key: x.Key, Value: x.Value, Seq: seq})
	case pistore.DeleteRegister:
		return w.dropRegister(b, x.Namespace, x.Key)
	default:
		panic(fmt.Sprintf("logstore: write %T was admitted", write))
	}
}

// batchSize estimates the size of a transaction's batch, so that it does not
// grow while it is filled.
func batchSize(tx pistore.Tx) int {
	const perWrite, stateRow = 320, 320
	n := stateRow
	for _, w := range tx.Writes {
		n += perWrite
		switch w := w.(type) {
		case pistore.InsertEntry:
			n += len(w.Payload)
		case pistore.InsertUsage:
			n += len(w.Usage) + len(w.Details)
		case pistore.SetRegister:
			n += len(w.Value)
		}
	}
	return n
}

// poisoned makes sure that a failure after admission leaves the database dead.
func (s *Store) poisoned(err error) error {
	if errors.Is(err, pistore.ErrFaulted) {
		return err
	}
	s.eng.fault.fail("commit", err)
	return s.eng.fault.err()
}
