package bench_test

import (
	"context"
	"fmt"
	"testing"

	"pistore"
	"pistore/bench"
	"pistore/logstore"
	"pistore/memstore"
)

// backends are what the benchmarks of this package measure.
var backends = []struct {
	name string
	open func(tb testing.TB) pistore.Backend
}{
	{"backend=memory", func(testing.TB) pistore.Backend { return memstore.New(memstore.Options{}) }},
	{"backend=logstore/durability=process", func(tb testing.TB) pistore.Backend { return openLogstore(tb, pistore.Process) }},
	{"backend=logstore/durability=power", func(tb testing.TB) pistore.Backend { return openLogstore(tb, pistore.Power) }},
}

func openLogstore(tb testing.TB, level pistore.Durability) pistore.Backend {
	tb.Helper()
	b, err := logstore.Open(tb.TempDir(), logstore.Options{Durability: level})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func closeBackend(tb testing.TB, b pistore.Backend) {
	tb.Helper()
	if err := b.Close(); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkTurn commits turns. One operation is one commit.
func BenchmarkTurn(b *testing.B) {
	for _, backend := range backends {
		for _, sessions := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/sessions=%d", backend.name, sessions), func(b *testing.B) {
				store := backend.open(b)
				defer closeBackend(b, store)
				turns := max(1, b.N/sessions)
				b.ReportAllocs()
				b.ResetTimer()
				r, err := bench.Turn(context.Background(), store, bench.TurnOptions{Sessions: sessions, Turns: turns})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(r.PerSecond(), "commits/s")
				b.ReportMetric(float64(r.P50.Microseconds()), "p50-µs")
				b.ReportMetric(float64(r.P99.Microseconds()), "p99-µs")
				b.ReportMetric(float64(r.P999.Microseconds()), "p99.9-µs")
			})
		}
	}
}

// BenchmarkRestore restores a lane with an open run from sessions of growing
// length.
func BenchmarkRestore(b *testing.B) {
	for _, backend := range backends[:2] {
		for _, turns := range []int{10, 10_000} {
			b.Run(fmt.Sprintf("%s/turns=%d", backend.name, turns), func(b *testing.B) {
				store := backend.open(b)
				defer closeBackend(b, store)
				s := load(b, store, turns)
				for b.Loop() {
					if _, err := bench.Restore(context.Background(), s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func load(tb testing.TB, store pistore.Backend, turns int) pistore.Storage {
	tb.Helper()
	ctx := context.Background()
	if _, err := store.Load(ctx, bench.LongSession("long", turns)); err != nil {
		tb.Fatal(err)
	}
	s, err := store.Open(ctx, "long", pistore.ReadWrite)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// The workloads do what they say, and the same every time.
func TestWorkloads(t *testing.T) {
	ctx := context.Background()
	digest := func() string {
		store := memstore.New(memstore.Options{Clock: func() pistore.UnixMS { return 1 }})
		r, err := bench.Turn(ctx, store, bench.TurnOptions{Sessions: 2, Turns: 100, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		if r.Commits != 200 || r.P999 < r.P50 {
			t.Errorf("%d commits, %+v", r.Commits, r)
		}
		if size := r.Bytes / int64(r.Commits); size < 3000 || size > 4500 {
			t.Errorf("a turn is %d bytes", size)
		}
		var found []string
		for info, err := range store.List(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(ctx, info.ID, pistore.ReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			stats, err := s.Stats(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if stats.Messages != 100 || stats.Usage.Rows != 100 {
				t.Errorf("session has %d messages and %d usage rows", stats.Messages, stats.Usage.Rows)
			}
			d, err := pistore.Digest(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, d)
		}
		if len(found) != 2 || found[0] == found[1] {
			t.Errorf("digests %v", found)
		}
		if found[0] > found[1] {
			found[0], found[1] = found[1], found[0]
		}
		return fmt.Sprint(found)
	}
	if first, second := digest(), digest(); first != second {
		t.Errorf("two runs differ: %s and %s", first, second)
	}
	if _, err := bench.Restore(ctx, load(t, memstore.New(memstore.Options{}), 10)); err != nil {
		t.Error(err)
	}
}
