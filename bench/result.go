package bench

import (
	"fmt"
	"slices"
	"time"
)

// Result is what a workload measured.
type Result struct {
	Commits int           // acknowledged
	Elapsed time.Duration // from the first commit to the last acknowledgement
	Bytes   int64         // of payloads, names and ids given to the store
	// Latency of one commit, of all sessions together.
	P50, P99, P999 time.Duration
}

// PerSecond is acknowledged commits a second.
func (r Result) PerSecond() float64 { return float64(r.Commits) / r.Elapsed.Seconds() }

func (r Result) String() string {
	return fmt.Sprintf("%.0f commits/s, p50 %v, p99 %v, p99.9 %v, %.1f MB/s",
		r.PerSecond(), r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), r.P999.Round(time.Microsecond),
		float64(r.Bytes)/1e6/r.Elapsed.Seconds())
}

// quantiles fills in the latencies from a sample of all commits.
func (r *Result) quantiles(latencies []time.Duration) {
	if len(latencies) == 0 {
		return
	}
	slices.Sort(latencies)
	at := func(per1000 int) time.Duration { return latencies[min(len(latencies)-1, len(latencies)*per1000/1000)] }
	r.P50, r.P99, r.P999 = at(500), at(990), at(999)
}
