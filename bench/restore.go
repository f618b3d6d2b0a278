package bench

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"pistore"
	"pistore/harness"
	"pistore/registers"
)

// restore restores the lane main of an open session: it takes until a harness
// knows what the lane is doing.
func restore(ctx context.Context, r *run) error {
	var seen *counted
	err := r.measured(ctx, false, func(f *filled) *worker {
		seen = &counted{Storage: f.session}
		return &worker{do: func(ctx context.Context) error {
			h, err := harness.New(seen, harness.Options{})
			if err != nil {
				return err
			}
			lane, err := h.Lane(ctx, registers.MainLane)
			if err == nil && lane.Handle() == nil {
				err = errors.New("restore did not find the open run")
			}
			return errors.Join(err, h.Close(ctx))
		}}
	})
	if err != nil {
		return err
	}
	ops := float64(r.report.Ops + 1) // the one that warms counts
	r.report.Metrics[ReadCalls] = float64(seen.calls.Load()) / ops
	r.report.Metrics[ReadRows] = float64(seen.rows.Load()) / ops
	return nil
}

// attach attaches a watcher to the lane main that has missed its last entries, and
// takes until all of them and the snapshot have come.
func attach(ctx context.Context, r *run) error {
	return r.measured(ctx, false, func(f *filled) *worker {
		from := &harness.Cursor{Generation: f.session.Info().Generation, Seq: f.history.Behind()}
		want := min(50, r.Turns)
		return &worker{do: func(ctx context.Context) (err error) {
			h, err := harness.New(f.session, harness.Options{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close(ctx)) }()
			lane, err := h.Lane(ctx, registers.MainLane)
			if err != nil {
				return err
			}
			n := 0
			for frame, err := range lane.Watch(ctx, from) {
				if err != nil {
					return err
				}
				if _, last := frame.Event.(harness.Snapshot); last {
					break
				}
				n++
			}
			return expect(n, want, "missed entries")
		}}
	})
}

// counted counts what is read of a session.
type counted struct {
	pistore.Storage
	calls, rows atomic.Int64
}

func (c *counted) Unwrap() pistore.Storage { return c.Storage }

func (c *counted) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	entries, err := c.Storage.Entries(ctx, ids)
	c.calls.Add(1)
	c.rows.Add(int64(len(entries)))
	return entries, err
}

func (c *counted) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	found, err := c.Storage.Registers(ctx, at)
	c.calls.Add(1)
	c.rows.Add(int64(len(found)))
	return found, err
}

// count passes rows through and counts them.
func count[T any](c *counted, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		c.calls.Add(1)
		for row, err := range rows {
			c.rows.Add(1)
			if !yield(row, err) {
				return
			}
		}
	}
}

func (c *counted) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	return count(c, c.Storage.RegistersByPrefix(ctx, namespace, prefix))
}

func (c *counted) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return count(c, c.Storage.Branch(ctx, q))
}

func (c *counted) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	return count(c, c.Storage.ScanEntries(ctx, q))
}

func (c *counted) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return count(c, c.Storage.ScanUsage(ctx, q))
}
