package bench

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencies counts durations in buckets that are at most 1 % wide, so that a run
// of any length takes the same memory. Goroutines share it.
type latencies struct {
	buckets [64 << bucketBits]atomic.Int64
	longest atomic.Int64
}

// bucketBits: each power of two is cut into 2^bucketBits buckets.
const bucketBits = 7

func bucketOf(ns int64) int {
	if ns < 1<<bucketBits {
		return int(max(ns, 0))
	}
	shift := bits.Len64(uint64(ns)) - bucketBits - 1
	return (shift+1)<<bucketBits + int(ns>>shift)&(1<<bucketBits-1)
}

// middleOf returns the middle of a bucket.
func middleOf(bucket int) int64 {
	if bucket < 1<<bucketBits {
		return int64(bucket)
	}
	shift := bucket>>bucketBits - 1
	low := int64(1<<bucketBits+bucket&(1<<bucketBits-1)) << shift
	return low + int64(1)<<shift/2
}

func (l *latencies) add(d time.Duration) {
	l.buckets[bucketOf(int64(d))].Add(1)
	for {
		old := l.longest.Load()
		if int64(d) <= old || l.longest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// report sets the quantiles. It is called when nobody adds any more.
func (l *latencies) report(r *Report) {
	total := int64(0)
	for i := range l.buckets {
		total += l.buckets[i].Load()
	}
	if total == 0 {
		return
	}
	longest := l.longest.Load()
	for _, q := range []struct {
		unit    Unit
		per1000 int64
	}{{P50, 500}, {P99, 990}, {P999, 999}} {
		rank, seen := min(total-1, total*q.per1000/1000), int64(0)
		for i := range l.buckets {
			if seen += l.buckets[i].Load(); seen > rank {
				r.Metrics[q.unit] = float64(min(middleOf(i), longest))
				break
			}
		}
	}
	r.Metrics[Longest] = float64(longest)
}
