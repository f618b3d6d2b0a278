package bench

import (
	"context"
	"slices"
	"time"
)

// openClosed opens a store that was closed, each time in a fresh process.
func openClosed(ctx context.Context, r *run) error { return r.openings(ctx, false) }

// openKilled opens a store whose writer was killed, each time anew.
func openKilled(ctx context.Context, r *run) error { return r.openings(ctx, true) }

func (r *run) openings(ctx context.Context, killed bool) error {
	r.Progress.enter("making the history")
	if _, err := r.order(ctx, orders{Do: "fill"}); err != nil {
		return err
	}
	r.Progress.enter("opening")
	var seen latencies
	var stores, sessions []float64
	var total time.Duration
	entries, begin := int64(r.Turns), time.Now()
	for n := 1; ; n++ {
		if killed {
			a, err := r.order(ctx, orders{Do: "write", Bytes: r.Unflushed, Round: n})
			if err != nil {
				return err
			}
			entries += a.Commits
			if logs := folderBytes(r.Dir, isLog); logs > 0 {
				r.report.Metrics[KilledLogs] = max(r.report.Metrics[KilledLogs], float64(logs))
			}
		}
		a, err := r.order(ctx, orders{Do: "open", Want: entries})
		if err != nil {
			return err
		}
		took := time.Duration(a.StoreNS + a.SessionNS)
		seen.add(took)
		total += took
		stores, sessions = append(stores, float64(a.StoreNS)), append(sessions, float64(a.SessionNS))
		if a.PeakBytes > 0 {
			r.report.Metrics[Resident] = max(r.report.Metrics[Resident], float64(a.ResidentBytes))
			r.report.Metrics[PeakResident] = max(r.report.Metrics[PeakResident], float64(a.PeakBytes))
		}
		r.Progress.done.Add(1)
		if int64(n) == r.Ops || r.Duration > 0 && time.Since(begin) >= r.Duration {
			r.report.elapsed(int64(n), total)
			break
		}
	}
	seen.report(r.report)
	slices.Sort(stores)
	slices.Sort(sessions)
	r.report.Metrics[StoreOpen], r.report.Metrics[SessionOpen] = median(stores), median(sessions)
	r.report.Metrics[DiskBytes] = float64(folderBytes(r.Dir, anyFile))
	return nil
}
