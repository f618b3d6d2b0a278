package logstore

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencyBuckets is the number of buckets of the commit latency; the last one
// takes what is longer than a minute.
const latencyBuckets = 27

// meter counts what an open database does.
type meter struct {
	latency [latencyBuckets]atomic.Int64
	syncs   atomic.Int64
	bytes   atomic.Int64
}

// LatencyBucket counts commits that took less than BelowUS microseconds, and at
// least as long as the bucket before.
type LatencyBucket struct {
	BelowUS int64 // a power of two; 0: the last bucket, without an end
	Count   int64
}

// Metrics is what an open database has done since it was opened.
type Metrics struct {
	Commits        int64           // acknowledged
	CommitLatency  []LatencyBucket // from admission to acknowledgement
	Syncs          int64           // of files, real ones
	WrittenBytes   int64           // to all files
	DiskBytes      int64           // logs and tables now
	OpenSessions   int
	Flushes        int64
	Compactions    int64
	BlocksRead     int64 // of tables, asked of the cache; whether they were in it or not
	UnflushedBytes int64 // what a crash leaves to replay, and memory for it
}

// Metrics returns a snapshot of the metrics. After Close or a fault the engine's
// part is 0.
func (s *Store) Metrics() Metrics {
	m := Metrics{Syncs: s.eng.meter.syncs.Load(), WrittenBytes: s.eng.meter.bytes.Load()}
	for i := range s.eng.meter.latency {
		b := LatencyBucket{BelowUS: 1 << i, Count: s.eng.meter.latency[i].Load()}
		if i == latencyBuckets-1 {
			b.BelowUS = 0
		}
		m.Commits += b.Count
		m.CommitLatency = append(m.CommitLatency, b)
	}
	s.mu.Lock()
	m.OpenSessions = len(s.open)
	s.mu.Unlock()
	if !s.gate.enter() {
		return m
	}
	defer s.gate.leave()
	if s.eng.fault.dead.Load() {
		return m
	}
	_ = s.eng.call("metrics", func() error {
		e := s.eng.db.Metrics()
		m.DiskBytes = int64(e.DiskSpaceUsage())
		m.Flushes, m.Compactions = e.Flush.Count, e.Compact.Count
		m.BlocksRead = e.BlockCache.Hits + e.BlockCache.Misses
		m.UnflushedBytes = int64(e.MemTable.Size)
		return nil
	})
	return m
}

// committed counts an acknowledged commit.
func (m *meter) committed(since time.Time) {
	us := max(0, time.Since(since).Microseconds())
	m.latency[min(bits.Len64(uint64(us)), latencyBuckets-1)].Add(1)
}
