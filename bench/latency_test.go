package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The quantiles are those of the sorted sample, to 1 %.
func TestLatencies(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l latencies
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(random.IntN(1_000_000)+1))
		all = append(all, d)
		l.add(d)
	}
	slices.Sort(all)
	r := Report{Metrics: map[Unit]float64{}}
	l.report(&r)
	for unit, at := range map[Unit]int{P50: 10_000, P99: 19_800, P999: 19_980} {
		want := float64(all[at])
		if got := r.Metrics[unit]; got < 0.99*want || got > 1.01*want {
			t.Errorf("%s is %v, want %v", unit, got, want)
		}
	}
	if got := r.Metrics[Longest]; got != float64(all[len(all)-1]) {
		t.Errorf("longest %v", got)
	}
	for _, ns := range []int64{0, 1, 127, 128, 255, 256, 1 << 40, 1<<63 - 1} {
		if m := middleOf(bucketOf(ns)); m < ns-ns/100 || m-ns > ns/100 {
			t.Errorf("%d ns counts as %d", ns, m)
		}
	}
}
