package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"pistore/bench"
)

// column is what the table shows of each side, a median.
type column struct {
	head string
	unit bench.Unit
}

var columns = []column{
	{"per s", bench.PerSecond}, {"p50", bench.P50}, {"p99", bench.P99}, {"p99.9", bench.P999},
	{"fewest", bench.FewestOps}, {"most", bench.MostOps},
}

// columnsOf are those that a side of a cell has something for. Memory is shown
// where it is compared, since only there each side has a process of its own.
func columnsOf(c cellResult) []column {
	all := slices.DeleteFunc(slices.Clone(columns), func(col column) bool {
		_, inA := bench.Median(c.A, col.unit)
		_, inB := bench.Median(c.B, col.unit)
		return !inA && !inB
	})
	if slices.ContainsFunc(c.Checks, func(k checkResult) bool { return k.Unit == bench.PeakResident }) {
		all = append(all, column{"peak memory", bench.PeakResident})
	}
	return all
}

func printTable(out io.Writer, results []result) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range results {
		fmt.Fprintf(t, "row %d: %s\n\n", r.Row, r.About)
		for _, c := range r.Cells {
			head, shown := "  ", columnsOf(c)
			for _, column := range shown {
				head += "\t" + column.head
			}
			fmt.Fprintln(t, head)
			printSide(t, c.A, shown)
			printSide(t, c.B, shown)
			for _, k := range c.Checks {
				fmt.Fprintf(t, "  %s\n", verdict(k))
			}
			fmt.Fprintln(t)
		}
	}
	return t.Flush()
}

func printSide(t io.Writer, reports []bench.Report, shown []column) {
	line := "  " + reports[0].Name()
	for _, column := range shown {
		value := "–"
		if v, ok := bench.Median(reports, column.unit); ok {
			value = measurement(v, column.unit)
		}
		line += "\t" + value
	}
	fmt.Fprintln(t, line)
}

// verdict is a ratio and whether it is what it should be.
func verdict(k checkResult) string {
	text := fmt.Sprintf("%s by %s in %s: %s (%s to %s, pairs: %d)", measurement(k.A, k.Unit), measurement(k.B, k.Unit), k.Unit,
		short(k.Ratio.Median), short(k.Ratio.Min), short(k.Ratio.Max), len(k.Ratio.Pairs))
	if k.Must == 0 {
		return text + "; nothing is asked of it"
	}
	value, show := k.Ratio.Median, short
	if k.Of == "a" {
		value, show = k.A, func(v float64) string { return measurement(v, k.Unit) }
		text = measurement(k.A, k.Unit) + " in " + string(k.Unit)
	}
	than := "at least"
	if k.AtMost {
		than = "at most"
	}
	text += fmt.Sprintf("; must be %s %s: %s", than, show(k.Must), yes(k.Reached))
	if k.Stretch != 0 {
		text += fmt.Sprintf("; stretch %s: %s", show(k.Stretch), yes(reaches(value, k.Stretch, k.AtMost)))
	}
	return text
}

func yes(reached bool) string {
	if reached {
		return "reached"
	}
	return "not reached"
}

// measurement is a value in three digits with its unit.
func measurement(v float64, u bench.Unit) string {
	switch {
	case strings.HasSuffix(string(u), "-ns"), u == bench.PerOp:
		return duration(v)
	case strings.HasSuffix(string(u), "-B"):
		return short(v/1e6) + " MB"
	default:
		return short(v)
	}
}

func duration(ns float64) string {
	d := time.Duration(ns)
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}

func short(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
