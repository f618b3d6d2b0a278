package main

import (
	"encoding/json"
	"strings"
	"testing"

	"pistore/bench"
)

// The report has a stable shape, and shows every figure that was measured.
func TestBenchReport(t *testing.T) {
	report := func(name string, rate float64) bench.Report {
		return bench.Report{
			Candidate: "backend=" + name, Workload: "turn", Parameters: []bench.Parameter{{Key: "sessions", Value: "64"}},
			Seed: 1, Ops: 1000, ElapsedNS: 2e9,
			Metrics: map[bench.Unit]float64{
				bench.PerOp: 1e9 / rate, bench.PerSecond: rate, bench.P50: 23456, bench.Longest: 1.5e9, bench.Fsyncs: 0.015,
				bench.Resident: 64 << 20, bench.DiskBytes: 1234567, bench.FewestOps: 15, bench.MostOps: 17, bench.AllocBytes: 812,
			},
		}
	}
	r := benchReport{
		Reports: []bench.Report{report("one", 12345), report("two", 2469)},
		Comparisons: []benchComparison{
			{A: "Turn/backend=one", B: "Turn/backend=two", Unit: bench.PerSecond, Ratio: bench.Ratio{Pairs: []float64{5}, Median: 5, Min: 5, Max: 5}},
			{A: "Turn/backend=one", B: "Turn/backend=two", Unit: bench.PerEffect, Ratio: bench.Ratio{Pairs: []float64{2}, Median: 2, Min: 2, Max: 2}, Difference: 12345},
			{A: "Turn/backend=one", B: "Turn/backend=two", Unit: bench.Fsyncs, Ratio: bench.Ratio{Pairs: []float64{1}, Median: 1, Min: 1, Max: 1}},
		},
	}
	golden(t, "bench.txt", printed(t, func(p *paper) { printBench(p, r) }))
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "bench.json", string(text)+"\n")
}

func TestShortNumbers(t *testing.T) {
	for got, want := range map[string]string{
		short(0): "0", short(0.0151234): "0.0151", short(99.96): "100", short(123456.7): "123,457", short(-3.14159): "-3.14",
		sizeOf(999): "999B", sizeOf(1000): "1kB", sizeOf(123456789): "123MB", sizeOf(5e12): "5,000GB",
		durationOf(0): "0s", durationOf(999): "999ns", durationOf(23456): "23.5µs", durationOf(1.5e9): "1.5s", durationOf(123.4e9): "2m3s",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if strings.Contains(benchWorkloads(), "()") {
		t.Error("a workload without parameters")
	}
}
