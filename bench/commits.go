package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"pistore"
)

// commits runs Turn, Small and Bulk. The sessions commit side by side, each one
// transaction after the other.
func commits(ctx context.Context, r *run) (err error) {
	r.Progress.enter("making content")
	content, err := NewContent(r.workload.Name, r.Seed)
	if err != nil {
		return err
	}
	store, err := r.open(r.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var workers []*worker
	var bytes atomic.Int64
	r.Progress.enter("creating sessions")
	for i := range r.Sessions {
		session, err := store.Create(ctx, pistore.Info{ID: sessionID(i)})
		if err != nil {
			return err
		}
		stream, tx := content.Stream(i), pistore.Tx{}
		workers = append(workers, &worker{
			before: func() error { tx = stream.Next(); return nil },
			do: func(ctx context.Context) error {
				_, err := session.Commit(ctx, tx)
				bytes.Add(logicalBytes(tx))
				return err
			},
		})
	}
	spare := content.Stream(r.Sessions)
	own := allocationsOf(100, func() { spare.Next() })
	r.Progress.enter("committing")
	used := newGauge(store)
	if err := r.repeat(ctx, workers); err != nil {
		return err
	}
	used.report(r.report, own)
	r.report.perOp(LogicalBytes, float64(bytes.Load()))
	r.report.Metrics[MBPerSecond] = r.report.Metrics[LogicalBytes] * r.report.Metrics[PerSecond] / 1e6
	if size := folderBytes(r.Dir, anyFile); size > 0 {
		r.report.Metrics[DiskBytes] = float64(size)
	}
	return nil
}

// sessionID is the id of a session of a workload, by its number.
func sessionID(n int) pistore.SessionID {
	return pistore.SessionID(fmt.Sprintf("0195c8d1-0000-7000-8000-%012x", n))
}
