// Package allocs holds in tests that what a call allocates is in proportion to
// its input. It imports the standard library only.
package allocs

import (
	"runtime/metrics"
	"testing"
)

// tries is how often a call may seem to allocate too much: what other goroutines
// allocate at the time counts as well, and so does what is made once and kept.
const tries = 3

// Within fails the test if f allocates more than factor bytes for each byte of an
// input of size bytes, and base bytes beside, which is to be a megabyte or more:
// the runtime counts small objects by the page. A call that allocates too much is
// made again, so f has to do the same each time.
func Within(t testing.TB, size int, factor, base int64, f func()) {
	t.Helper()
	limit := base + factor*int64(size)
	least := By(f)
	for n := 1; n < tries && least > limit; n++ {
		least = min(least, By(f))
	}
	if least > limit {
		t.Errorf("%d bytes were allocated for an input of %d bytes, %d are in proportion", least, size, limit)
	}
}

// By returns how many bytes were allocated while f ran, by whomever.
func By(f func()) int64 {
	before := allocated()
	f()
	return allocated() - before
}

func allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
