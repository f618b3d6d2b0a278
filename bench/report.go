package bench

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Unit names a measurement as benchstat does: what is counted, then its unit.
type Unit string

// The units. One that could not be measured is absent from a Report, not 0.
const (
	PerOp     Unit = "ns/op"    // elapsed time by operations
	PerSecond Unit = "ops/s"    // operations by elapsed time, of all sessions
	P50       Unit = "p50-ns"   // latency of one operation, to 1 %
	P99       Unit = "p99-ns"   //
	P999      Unit = "p99.9-ns" //
	Longest   Unit = "max-ns"   //

	Allocs       Unit = "allocs/op" // by the Go runtime of this process, those for making the content aside
	AllocBytes   Unit = "B/op"      // likewise
	WrittenBytes Unit = "written-B/op"
	Fsyncs       Unit = "fsyncs/op"
	DeviceBytes  Unit = "device-B/op" // what the kernel has charged this process with, Linux only

	Resident     Unit = "rss-B"        // memory of the process that holds the store, at the end
	PeakResident Unit = "peak-rss-B"   // likewise, at most
	DiskBytes    Unit = "disk-B"       // of all files of the store, at the end
	LogicalBytes Unit = "logical-B/op" // payloads, names and ids given or read
	MBPerSecond  Unit = "MB/s"         // 10^6 logical bytes by elapsed time

	LogicalTotal Unit = "logical-B"  // payloads, names and ids of the history
	ReadCalls    Unit = "calls/op"   // of read methods
	ReadRows     Unit = "rows/op"    // that those returned
	BlockReads   Unit = "blocks/op"  // of tables, cached or not
	BeforeBytes  Unit = "before-B"   // of the last compaction
	AfterBytes   Unit = "after-B"    // likewise
	CommitsPerOp Unit = "commits/op" // transactions of a run
	CommitRate   Unit = "commits/s"
	PerEffect    Unit = "ns/effect" // elapsed time of a run by its requests and calls of tools

	StoreOpen   Unit = "store-ns"     // of an open, the store's part; median
	SessionOpen Unit = "session-ns"   // likewise, the session's
	KilledLogs  Unit = "killed-log-B" // in logs (*.log) behind the kill, at most

	StoredBytes    Unit = "stored-B/op"    // on disk before compaction, of all files
	CompactedBytes Unit = "compacted-B/op" // after it, logs (*.log) aside
	LogBytes       Unit = "log-B/op"       // in logs after it
	LiveBytes      Unit = "live-B/op"      // logical bytes of the rows that live

	HeapPerSession     Unit = "heap-B/session" // of the Go runtime, stacks included
	ResidentPerSession Unit = "rss-B/session"

	FewestOps Unit = "min-ops/session" // of the session that did the fewest
	MostOps   Unit = "max-ops/session"
)

// order is how reports list units; others come behind, by name.
var order = []Unit{
	PerOp, PerSecond, MBPerSecond, P50, P99, P999, Longest, Allocs, AllocBytes, WrittenBytes, Fsyncs, DeviceBytes,
	Resident, PeakResident, DiskBytes, LogicalBytes, FewestOps, MostOps,
}

// Parameter is one key=value of a report's name.
type Parameter struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Report is what a run has measured.
type Report struct {
	Candidate  string           `json:"candidate"`
	Workload   string           `json:"workload"`
	Parameters []Parameter      `json:"parameters"`
	Seed       uint64           `json:"seed"`
	Ops        int64            `json:"ops"`
	ElapsedNS  int64            `json:"elapsedNS"`
	Metrics    map[Unit]float64 `json:"metrics"`
}

func newReport(candidate string, w Workload, c Config) Report {
	r := Report{Candidate: candidate, Workload: w.Name, Parameters: []Parameter{}, Seed: c.Seed, Metrics: map[Unit]float64{}}
	for _, p := range []struct {
		key   string
		value int64
	}{{"sessions", int64(c.Sessions)}, {"turns", int64(c.Turns)}, {"lanes", int64(c.Lanes)}, {"tools", int64(c.Tools)}, {"unflushed", c.Unflushed}} {
		if _, uses := w.Defaults[p.key]; uses {
			r.Parameters = append(r.Parameters, Parameter{p.key, strconv.FormatInt(p.value, 10)})
		}
	}
	return r
}

// take adds what a candidate has measured itself.
func (r *Report) take(theirs Report) {
	r.Parameters = append(r.Parameters, theirs.Parameters...)
	r.elapsed(theirs.Ops, time.Duration(theirs.ElapsedNS))
	for unit, value := range theirs.Metrics {
		r.Metrics[unit] = value
	}
}

// elapsed sets how much was done in which time.
func (r *Report) elapsed(ops int64, took time.Duration) {
	r.Ops, r.ElapsedNS = ops, int64(took)
	if ops > 0 && took > 0 {
		r.Metrics[PerOp] = float64(took) / float64(ops)
		r.Metrics[PerSecond] = float64(ops) / took.Seconds()
	}
}

// perOp sets a total as its share of one operation.
func (r *Report) perOp(unit Unit, total float64) {
	if r.Ops > 0 {
		r.Metrics[unit] = total / float64(r.Ops)
	}
}

// Units returns what was measured, in the order of a table.
func (r Report) Units() []Unit {
	var units, rest []Unit
	for _, u := range order {
		if _, ok := r.Metrics[u]; ok {
			units = append(units, u)
		}
	}
	for u := range r.Metrics {
		if !slices.Contains(order, u) {
			rest = append(rest, u)
		}
	}
	slices.Sort(rest)
	return append(units, rest...)
}

// Name is the name of the work and of who did it, in the form that benchstat
// reads (go.dev/design/14313-benchmark-format):
// "Turn/backend=logstore/durability=process/sessions=64".
func (r Report) Name() string {
	var b strings.Builder
	for part := range strings.SplitSeq(r.Workload, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	if r.Candidate != "" {
		b.WriteString("/" + benchName(r.Candidate))
	}
	for _, p := range r.Parameters {
		b.WriteString("/" + benchName(p.Key+"="+p.Value))
	}
	return b.String()
}

// benchName is a part of a benchmark's name, in which nothing may be blank.
func benchName(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || unicode.IsControl(c) {
			return '_'
		}
		return c
	}, s)
}

// Benchstat is the report as one line of that form. [BenchstatHeader] stands
// before the first.
func (r Report) Benchstat() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Benchmark%s-%d\t%8d", r.Name(), runtime.GOMAXPROCS(0), r.Ops)
	for _, u := range r.Units() {
		fmt.Fprintf(&b, "\t%s %s", strconv.FormatFloat(r.Metrics[u], 'f', -1, 64), u)
	}
	return b.String()
}

// BenchstatHeader says what machine the lines behind it are of.
func BenchstatHeader() string {
	return fmt.Sprintf("goos: %s\ngoarch: %s\npkg: pistore/bench", runtime.GOOS, runtime.GOARCH)
}
