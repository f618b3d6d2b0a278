package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"pistore/bench"
)

// benchColumns are the columns of the table.
var benchColumns = []struct {
	head string
	unit bench.Unit
}{
	{"per s", bench.PerSecond}, {"p50", bench.P50}, {"p99", bench.P99}, {"p99.9", bench.P999}, {"longest", bench.Longest},
	{"allocs", bench.Allocs}, {"written", bench.WrittenBytes}, {"fsyncs", bench.Fsyncs}, {"memory", bench.Resident},
}

// printBench prints which runs there were, a table, bars of the throughput, what
// else each has measured, and the ratios.
func printBench(p *paper, r benchReport) {
	for i, report := range r.Reports {
		p.line(bold(padLeft(strconv.Itoa(i+1), 3)), plain("  "+report.Name()))
	}
	p.blank()
	head := "   "
	for _, c := range benchColumns {
		head += padLeft(c.head, 8)
	}
	p.line(dim(head))
	for i, report := range r.Reports {
		line := ""
		for _, c := range benchColumns {
			line += padLeft(measurement(report, c.unit), 8)
		}
		p.line(bold(padLeft(strconv.Itoa(i+1), 3)), plain(line))
	}
	p.blank()
	printBars(p, r.Reports)
	for i, report := range r.Reports {
		p.labelled(padLeft(strconv.Itoa(i+1), 3)+"  ", plain, restOf(report))
	}
	printRatios(p, r.Comparisons)
}

// printBars draws the throughput of each run.
func printBars(p *paper, reports []bench.Report) {
	const room = 50
	most := 0.0
	for _, r := range reports {
		most = max(most, r.Metrics[bench.PerSecond])
	}
	for i, r := range reports {
		rate, ok := r.Metrics[bench.PerSecond]
		if !ok {
			continue
		}
		bar := strings.Repeat("█", int(math.Round(room*rate/most)))
		p.line(bold(padLeft(strconv.Itoa(i+1), 3)), plain("  "), cyan(bar), plain(" "+short(rate)+"/s"))
	}
	p.blank()
}

// restOf is what a report has beside the table.
func restOf(r bench.Report) string {
	parts := []string{count(r.Ops, "op", "ops") + " in " + durationOf(float64(r.ElapsedNS))}
	for _, unit := range r.Units() {
		inTable := slices.ContainsFunc(benchColumns, func(c struct {
			head string
			unit bench.Unit
		}) bool {
			return c.unit == unit
		})
		if !inTable && unit != bench.PerOp {
			parts = append(parts, measurement(r, unit)+" "+wordsOf(unit))
		}
	}
	return strings.Join(parts, ", ")
}

// printRatios prints how A compares with B, where they differ.
func printRatios(p *paper, all []benchComparison) {
	for i, c := range all {
		if i == 0 || c.A != all[i-1].A || c.B != all[i-1].B {
			p.blank()
			p.line(bold(c.A))
			p.line(plain("  by "), bold(c.B))
		}
		if c.Min == 1 && c.Max == 1 || c.Unit == bench.PerOp { // which is the other way round of ops/s
			continue
		}
		spread := fmt.Sprintf("%s to %s in %s", short(c.Min), short(c.Max), count(int64(len(c.Pairs)), "pair", "pairs"))
		more := ""
		if c.Unit == bench.PerEffect {
			more = ", " + map[bool]string{false: "+", true: "−"}[c.Difference < 0] + durationOf(math.Abs(c.Difference))
		}
		p.line(plain("  "+pad(string(c.Unit), 18)), bold(padLeft(short(c.Median), 8)), dim("   "+spread+more))
	}
}

// wordsOf is what is counted, without the unit that the value shows.
func wordsOf(u bench.Unit) string {
	switch u {
	case bench.FewestOps:
		return "ops of the session that did the fewest"
	case bench.MostOps:
		return "ops of the one that did the most"
	case bench.AllocBytes:
		return "allocated by op"
	}
	if u == bench.PerEffect {
		return "by effect"
	}
	name := strings.TrimSuffix(strings.TrimSuffix(string(u), "-ns"), "-B")
	return strings.ReplaceAll(name, "-B/", " by ")
}

// measurement is a value with its unit, or a dash.
func measurement(r bench.Report, u bench.Unit) string {
	v, ok := r.Metrics[u]
	switch {
	case !ok:
		return "–"
	case strings.HasSuffix(string(u), "-ns"), u == bench.PerOp, u == bench.PerEffect:
		return durationOf(v)
	case strings.HasSuffix(string(u), "-B"), strings.HasSuffix(string(u), "-B/op"), strings.HasSuffix(string(u), "-B/session"), u == bench.AllocBytes:
		return sizeOf(v)
	default:
		return short(v)
	}
}

// short is a number in three digits, or more if they are all in front of the
// point.
func short(v float64) string {
	if math.Abs(v) >= 100 {
		return grouped(strconv.FormatFloat(math.Round(v), 'f', -1, 64))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// sizeOf is a number of bytes in three digits.
func sizeOf(v float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if math.Abs(v) < 999.5 || unit == "GB" {
			return short(v) + unit
		}
		v /= 1000
	}
	return ""
}

// durationOf is a number of nanoseconds in three digits.
func durationOf(ns float64) string {
	d := time.Duration(ns)
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}
