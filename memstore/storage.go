package memstore

import (
	"context"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"

	"pistore"
	"pistore/internal/admit"
)

// storage is a handle of one session. See [pistore.Storage].
type storage struct {
	backend *Backend
	state   *State
	writes  *session // nil: read-only
	since   pistore.UnixMS

	// commit orders commits and makes Close wait for the one that is admitted.
	// It comes before the backend's lock.
	commit sync.Mutex
	closed atomic.Bool // set under commit
}

var _ pistore.Storage = (*storage)(nil)

// Info describes the session.
func (h *storage) Info() pistore.Info { return h.state.Info() }

// Commit applies a transaction.
func (h *storage) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	switch {
	case h.closed.Load():
		return pistore.Receipt{}, fmt.Errorf("memstore: commit: %w", pistore.ErrClosed)
	case h.writes == nil:
		return pistore.Receipt{}, fmt.Errorf("memstore: commit: %w", pistore.ErrReadOnly)
	}
	if err := ctx.Err(); err != nil {
		return pistore.Receipt{}, err
	}
	tx, err := tx.Admit() // outside the lock: it reads every byte
	if err != nil {
		return pistore.Receipt{}, fmt.Errorf("memstore: commit: %w", err)
	}
	h.commit.Lock()
	defer h.commit.Unlock()
	if h.closed.Load() {
		return pistore.Receipt{}, fmt.Errorf("memstore: commit: %w", pistore.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return pistore.Receipt{}, err
	}
	next := h.state.NextSeq()
	if err := admit.Check(tx, h.state); err != nil {
		return pistore.Receipt{}, fmt.Errorf("memstore: commit: %w", err)
	}
	if last := next + pistore.Seq(len(tx.Writes)) - 1; last > pistore.MaxSeq {
		return pistore.Receipt{}, fmt.Errorf("memstore: commit: %w", &pistore.LimitError{Limit: "seq", Got: int64(last), Max: pistore.MaxSeq})
	}
	// From here on nothing can fail: the transaction is admitted.
	t := pistore.Transaction{Timestamp: h.backend.clock.Read(), Writes: tx.Writes}
	if len(tx.Writes) > 0 {
		t.FirstSeq = next
		t.Seqs = make([]pistore.Seq, len(tx.Writes))
		for i := range t.Seqs {
			t.Seqs[i] = next + pistore.Seq(i)
		}
	}
	stats := h.state.Apply(t)
	return pistore.Receipt{FirstSeq: t.FirstSeq, Seqs: t.Seqs, Timestamp: t.Timestamp, Stats: stats}, nil
}

// Entries returns those of the entries that exist.
func (h *storage) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	if err := h.usable(); err != nil {
		return nil, err
	}
	return h.state.Entries(ctx, ids)
}

// Registers returns those of the registers that exist.
func (h *storage) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	if err := h.usable(); err != nil {
		return nil, err
	}
	return h.state.Registers(ctx, at)
}

// RegistersByPrefix yields registers by bytewise key order.
func (h *storage) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	return whileOpen(h, h.state.RegistersByPrefix(ctx, namespace, prefix))
}

// Branch yields the path that the query describes.
func (h *storage) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return whileOpen(h, h.state.Branch(ctx, q))
}

// ScanEntries yields entries by seq.
func (h *storage) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	return whileOpen(h, h.state.ScanEntries(ctx, q))
}

// ScanUsage yields ledger rows by seq.
func (h *storage) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return whileOpen(h, h.state.ScanUsage(ctx, q))
}

// Stats returns the statistics.
func (h *storage) Stats(ctx context.Context) (pistore.Stats, error) {
	if err := h.usable(); err != nil {
		return pistore.Stats{}, err
	}
	return h.state.Stats(ctx)
}

// Export yields a header and every live row by rising seq.
func (h *storage) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return whileOpen(h, h.state.Export(ctx))
}

// Close waits for the commit that is admitted and releases ownership.
func (h *storage) Close() error {
	h.commit.Lock()
	defer h.commit.Unlock()
	if !h.closed.Swap(true) {
		h.backend.takeBack(h)
	}
	return nil
}

func (h *storage) usable() error {
	if h.closed.Load() {
		return fmt.Errorf("memstore: %w", pistore.ErrClosed)
	}
	return nil
}

// whileOpen starts a read only while the handle is open. One that has begun goes
// on over its snapshot.
func whileOpen[T any](h *storage, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := h.usable(); err != nil {
			var none T
			yield(none, err)
			return
		}
		rows(yield)
	}
}

// locked tells a second opener who owns the session.
func (h *storage) locked() error {
	return &pistore.LockedError{
		Place: "session " + string(h.state.info.ID),
		PID:   os.Getpid(), // memory is never shared with another process
		Since: h.since,
	}
}
