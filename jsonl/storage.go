package jsonl

import (
	"context"
	"fmt"
	"iter"

	"pistore"
	"pistore/internal/admit"
)

// Info describes the session.
func (f *File) Info() pistore.Info { return *f.info.Load() }

// Commit appends a transaction as one line with one write, and at level Power
// syncs it. The first commit to a file of another format rewrites it.
func (f *File) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	if err := f.writable(); err != nil {
		return pistore.Receipt{}, fmt.Errorf("jsonl: commit: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return pistore.Receipt{}, err
	}
	tx, err := tx.Admit() // outside the lock: it reads every byte
	if err != nil {
		return pistore.Receipt{}, fmt.Errorf("jsonl: commit: %w", err)
	}
	f.log.commit.Lock()
	defer f.log.commit.Unlock()
	if err := f.writable(); err != nil {
		return pistore.Receipt{}, fmt.Errorf("jsonl: commit: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return pistore.Receipt{}, err
	}
	if err := admit.Check(tx, f.state); err != nil {
		return pistore.Receipt{}, fmt.Errorf("jsonl: commit: %w", err)
	}
	next := f.state.NextSeq()
	if last := next + pistore.Seq(len(tx.Writes)) - 1; last > pistore.MaxSeq {
		return pistore.Receipt{}, fmt.Errorf("jsonl: commit: %w", &pistore.LimitError{Limit: "seq", Got: int64(last), Max: pistore.MaxSeq})
	}
	t := pistore.Transaction{Timestamp: f.log.opts.Clock.Read(), Writes: tx.Writes}
	if len(tx.Writes) == 0 {
		stats, err := f.state.Stats(noContext)
		return pistore.Receipt{Timestamp: t.Timestamp, Stats: stats}, err
	}
	// The transaction is admitted.
	t.FirstSeq, t.Seqs = next, make([]pistore.Seq, len(tx.Writes))
	for i := range t.Seqs {
		t.Seqs[i] = next + pistore.Seq(i)
	}
	return f.commit(t)
}

// commit writes and shows an admitted transaction. The caller holds the lock.
func (f *File) commit(t pistore.Transaction) (pistore.Receipt, error) {
	g := f.log
	if err := g.prepare(f.state, f.payloads); err != nil {
		return pistore.Receipt{}, err
	}
	if err := g.append(t); err != nil {
		return pistore.Receipt{}, err
	}
	places, shown := g.places(t, f.payloads != nil)
	if len(places) > 0 {
		f.payloads.add(places)
	}
	stats := f.state.Apply(pistore.Transaction{FirstSeq: t.FirstSeq, Seqs: t.Seqs, Timestamp: t.Timestamp, Writes: shown})
	g.wake()
	if g.opts.CompactEagerly && endsOperation(t.Writes) {
		_, _ = f.compact() // what it breaks, it poisons; the commit stands
	}
	return pistore.Receipt{FirstSeq: t.FirstSeq, Seqs: t.Seqs, Timestamp: t.Timestamp, Stats: stats}, nil
}

// Sync makes everything acknowledged so far survive power loss.
func (f *File) Sync(ctx context.Context) error {
	if err := f.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.log == nil {
		return nil // nothing was acknowledged here
	}
	f.log.commit.Lock()
	defer f.log.commit.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	return f.log.sync()
}

// Entries returns those of the entries that exist.
func (f *File) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	found, err := f.state.Entries(ctx, ids)
	if f.payloads == nil || err != nil {
		return found, err
	}
	v := f.payloads.view()
	defer v.src.release() // read only: nothing can be lost
	for i := range found {
		if err := v.fill(&found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Registers returns those of the registers that exist.
func (f *File) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	return f.state.Registers(ctx, at)
}

// RegistersByPrefix yields registers by bytewise key order.
func (f *File) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	return whileOpen(f, f.state.RegistersByPrefix(ctx, namespace, prefix))
}

// Branch yields the path that the query describes.
func (f *File) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	if q.StructureOnly {
		return whileOpen(f, f.state.Branch(ctx, q))
	}
	return whileOpen(f, f.payloads.filled(f.state.Branch(ctx, q)))
}

// ScanEntries yields entries by seq.
func (f *File) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	if q.StructureOnly {
		return whileOpen(f, f.state.ScanEntries(ctx, q))
	}
	return whileOpen(f, f.payloads.filled(f.state.ScanEntries(ctx, q)))
}

// ScanUsage yields ledger rows by seq.
func (f *File) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return whileOpen(f, f.state.ScanUsage(ctx, q))
}

// Stats returns the statistics.
func (f *File) Stats(ctx context.Context) (pistore.Stats, error) {
	if err := f.usable(); err != nil {
		return pistore.Stats{}, err
	}
	return f.state.Stats(ctx)
}

// Export yields a header and every row by rising seq.
func (f *File) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	rows := f.payloads.export(ctx, f.state)
	return whileOpen(f, func(yield func(pistore.Row, error) bool) {
		for row, err := range rows {
			if h, ok := row.(pistore.Header); ok {
				h.Info = f.Info()
				row = h
			}
			if !yield(row, err) {
				return
			}
		}
	})
}

// VerifyStorage yields the errors that reading the file found. Deep it reads a
// file of format 4 that is open for writing again from disk. Warnings are in the
// report only.
func (f *File) VerifyStorage(ctx context.Context, deep bool) iter.Seq2[*pistore.CorruptError, error] {
	return whileOpen(f, func(yield func(*pistore.CorruptError, error) bool) {
		report := f.report
		if f.log != nil && deep {
			var err error
			if report, err = f.readAgain(ctx); err != nil {
				yield(nil, err)
				return
			}
		}
		for i := range report.Faults {
			fault := &report.Faults[i]
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if fault.Severity == Error && !yield(corrupt(f.Info().ID, fault.Place(), fault), nil) {
				return
			}
		}
	})
}

// readAgain reads what stands in the file now.
func (f *File) readAgain(ctx context.Context) (Report, error) {
	g := f.log
	g.commit.Lock()
	if g.upgrade != "" {
		g.commit.Unlock()
		return f.report, nil
	}
	src, size := g.src, g.size
	src.holders.Add(1)
	g.commit.Unlock()
	defer src.release() // read only: nothing can be lost
	r := &replay{ctx: ctx, src: src, size: size, keepGoing: true, places: new([]place)}
	if err := r.run(); err != nil {
		err = fmt.Errorf("jsonl: %q: %w", g.path, err)
		return Report{}, altered(err, f.Info().ID, g.path, r.at.offset+r.at.length)
	}
	return r.report(), nil
}

func corrupt(session pistore.SessionID, place string, fault *Fault) *pistore.CorruptError {
	return &pistore.CorruptError{
		Backend: backend, Session: session, Place: place, Invariant: fault.Invariant, Problem: fault.Message,
	}
}

// Close waits for the commit that is admitted and releases ownership. Reads that
// have begun go on.
func (f *File) Close() error {
	if f.log == nil {
		if !f.closed.Swap(true) && f.src != nil {
			return f.src.release()
		}
		return nil
	}
	f.log.commit.Lock()
	defer f.log.commit.Unlock()
	if f.closed.Swap(true) {
		return nil
	}
	return f.log.close()
}

// usable returns why the file takes no calls.
func (f *File) usable() error {
	if f.closed.Load() {
		return fmt.Errorf("jsonl: %w", pistore.ErrClosed)
	}
	if f.log != nil {
		return f.log.faulted()
	}
	return nil
}

// writable returns why the file takes no commits.
func (f *File) writable() error {
	if err := f.usable(); err != nil {
		return err
	}
	if f.log == nil {
		return pistore.ErrReadOnly
	}
	return nil
}

// refusal is why a read-only file does not do what only a writable one does.
func (f *File) refusal() error {
	if f.closed.Load() {
		return pistore.ErrClosed
	}
	return pistore.ErrReadOnly
}

// whileOpen starts a read only while the file is open.
func whileOpen[T any](f *File, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := f.usable(); err != nil {
			var none T
			yield(none, err)
			return
		}
		rows(yield)
	}
}
