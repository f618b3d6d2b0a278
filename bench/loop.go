package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// worker repeats one operation, beside others.
type worker struct {
	before func() error                    // what comes before each, in no latency; nil: nothing
	do     func(ctx context.Context) error // what is
	ops    int64                           // done
}

// repeat has workers repeat their operations until the operations or the time
// are used up, and reports throughput, latency, and what each got of it. The
// workers run at once; the first error stops them all.
func (r *run) repeat(ctx context.Context, workers []*worker) error {
	var seen latencies
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make([]error, len(workers))
	var work sync.WaitGroup
	begin := time.Now()
	for i, w := range workers {
		share := r.Ops / int64(len(workers))
		if int64(i) < r.Ops%int64(len(workers)) {
			share++
		}
		if r.Ops > 0 && share == 0 {
			continue
		}
		work.Go(func() {
			if failed[i] = w.repeat(ctx, r.Progress, &seen, share, begin, r.Duration); failed[i] != nil {
				stop()
			}
		})
	}
	work.Wait()
	took := time.Since(begin)
	if err := first(failed); err != nil {
		return err
	}
	total, fewest, most := int64(0), workers[0].ops, int64(0)
	for _, w := range workers {
		total, fewest, most = total+w.ops, min(fewest, w.ops), max(most, w.ops)
	}
	r.report.elapsed(total, took)
	seen.report(r.report)
	if len(workers) > 1 {
		r.report.Metrics[FewestOps], r.report.Metrics[MostOps] = float64(fewest), float64(most)
	}
	return nil
}

func (w *worker) prepare() error {
	if w.before == nil {
		return nil
	}
	return w.before()
}

// repeat repeats until share operations are done (0: any number) or duration is
// over (0: never).
func (w *worker) repeat(ctx context.Context, p *Progress, seen *latencies, share int64, begin time.Time, duration time.Duration) error {
	for share == 0 || w.ops < share {
		if err := w.prepare(); err != nil {
			return err
		}
		start := time.Now()
		if err := w.do(ctx); err != nil {
			return err
		}
		end := time.Now()
		seen.add(end.Sub(start))
		w.ops++
		p.done.Add(1)
		if duration > 0 && end.Sub(begin) >= duration {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// first returns the error that stopped the others.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}
