package page

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"pistore/bench"
	"pistore/bench/peers/rows"
)

// words are what a reader calls a measurement.
var words = map[bench.Unit]string{
	bench.PerOp: "time of one", bench.PerSecond: "per second", bench.P50: "p50", bench.P99: "p99", bench.P999: "p99.9", bench.Longest: "longest",
	bench.Allocs: "allocations", bench.WrittenBytes: "written", bench.Fsyncs: "fsyncs", bench.Resident: "memory", bench.PeakResident: "peak memory",
	bench.DiskBytes: "on disk", bench.LogicalBytes: "logical bytes", bench.MBPerSecond: "MB/s", bench.LogicalTotal: "logical bytes",
	bench.ReadCalls: "calls", bench.ReadRows: "rows", bench.BlockReads: "blocks", bench.CommitsPerOp: "commits", bench.CommitRate: "commits/s", bench.PerEffect: "time of an effect",
	bench.StoreOpen: "database", bench.SessionOpen: "session", bench.KilledLogs: "log behind the kill",
	bench.StoredBytes: "before compaction", bench.CompactedBytes: "after it, logs aside", bench.LogBytes: "logs after it", bench.LiveBytes: "live payload",
	bench.HeapPerSession: "heap a session", bench.ResidentPerSession: "memory a session",
	bench.FewestOps: "fewest of a session", bench.MostOps: "most of a session",
}

func wordsOf(u bench.Unit) string {
	if w, ok := words[u]; ok {
		return w
	}
	return string(u)
}

// measurement is a value in three digits with its unit.
func measurement(v float64, u bench.Unit) string {
	switch {
	case strings.HasSuffix(string(u), "-ns"), u == bench.PerOp, u == bench.PerEffect:
		return duration(v)
	case strings.Contains(string(u), "-B"), u == bench.AllocBytes:
		return size(v)
	default:
		return short(v)
	}
}

func duration(ns float64) string {
	return scaled(ns, []prefix{{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}}, " ns")
}

func size(bytes float64) string {
	return scaled(bytes, []prefix{{1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}}, " B")
}

// prefix is a unit and what it is of the smallest.
type prefix struct {
	of   float64
	name string
}

// scaled is a value in the largest unit of which it is at least one, in three
// digits.
func scaled(v float64, units []prefix, smallest string) string {
	for _, u := range units {
		if math.Abs(v) >= u.of {
			return short(v/u.of) + u.name
		}
	}
	return short(math.Round(v)) + smallest
}

// short is a number in three digits, or more if they are all in front of the
// point.
func short(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(math.Abs(math.Round(v)), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}

// limit is what is asked of a value; a dash if nothing is.
func limit(c rows.Check, v float64) string {
	if v == 0 {
		return "–"
	}
	value := short(v)
	if c.B < 0 {
		value = measurement(v, c.Unit)
	}
	if c.AtMost {
		return "≤ " + value
	}
	return "≥ " + value
}

// cell is a text in a table: what would end a cell, or begin something else in
// Markdown, is none.
func cell(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "`", "'").Replace(s)
}

// levelsOf are the durability levels of a row. memory has none.
func levelsOf(r rows.Row) string {
	var all []string
	for _, t := range r.Tables {
		for _, s := range t.Sides {
			level := strings.ToUpper(s.Store.Level.String()[:1]) + s.Store.Level.String()[1:]
			if strings.Contains(s.Store.Name, "memory") {
				level = "none (memory)"
			}
			if !slices.Contains(all, level) {
				all = append(all, level)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
