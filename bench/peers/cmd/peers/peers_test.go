package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"pistore/bench"
	"pistore/bench/peers"
)

func TestMain(m *testing.M) {
	if os.Getenv(childStore) != "" { // a run has started this program again
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// measured runs a row in no time.
func measured(t *testing.T, number string) result {
	t.Helper()
	var out bytes.Buffer
	args := []string{"--row", number, "--pairs", "1", "--duration", "5ms", "--turns", "200", "--dir", t.TempDir(), "--json"}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var all []result
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != 1 {
		t.Fatalf("%d rows of %s: %v", len(all), &out, err)
	}
	return all[0]
}

// Every row runs in pairs and compares what it is asked to.
func TestRows(t *testing.T) {
	folder, err := peers.DefaultNode()
	if err == nil {
		err = peers.Installed(folder)
	}
	for _, r := range rows() {
		t.Run(r.about, func(t *testing.T) {
			for _, c := range r.cells {
				if err != nil && strings.HasPrefix(c.b.name, "typescript") {
					t.Skip(err)
				}
			}
			got := measured(t, strconv.Itoa(r.number))
			if got.Row != r.number || len(got.Cells) != len(r.cells) {
				t.Fatalf("row %d with %d cells", got.Row, len(got.Cells))
			}
			for i, c := range got.Cells {
				if len(c.A) != 1 || len(c.B) != 1 || len(c.Checks) != len(r.cells[i].checks) {
					t.Errorf("cell %d: %d and %d reports, %d checks", i, len(c.A), len(c.B), len(c.Checks))
				}
				for _, k := range c.Checks {
					if k.A <= 0 || k.B <= 0 || len(k.Ratio.Pairs) != 1 || k.Ratio.Min > k.Ratio.Median {
						t.Errorf("cell %d: %+v", i, k)
					}
				}
			}
		})
	}
}

// The table says of a ratio whether it is what it should be.
func TestTable(t *testing.T) {
	report := func(rate, p50 float64) bench.Report {
		return bench.Report{Workload: bench.Turn, Candidate: "backend=x", Metrics: map[bench.Unit]float64{bench.PerSecond: rate, bench.P50: p50}}
	}
	pairs := bench.Comparison{A: []bench.Report{report(300, 2e6), report(400, 3e6)}, B: []bench.Report{report(100, 8e6), report(100, 9e6)}}
	c := compared(pairs, []check{
		{unit: bench.PerSecond, must: 3.5, stretch: 4},
		{unit: bench.P50, most: true, must: 1. / 5},
		{unit: bench.P50, of: valueOfA, most: true, must: 1e7},
		{unit: bench.PerSecond},
		{unit: bench.Fsyncs, must: 1}, // which nobody has measured
	})
	var out strings.Builder
	if err := printTable(&out, []result{{Row: 1, About: "a turn", Cells: []cellResult{c}}}); err != nil {
		t.Fatal(err)
	}
	want := `row 1: a turn

                  per s  p50
  Turn/backend=x  350    2.5ms
  Turn/backend=x  100    8.5ms
  350 by 100 in ops/s: 3.5 (3 to 4, pairs: 2); must be at least 3.5: reached; stretch 4: not reached
  2.5ms by 8.5ms in p50-ns: 0.292 (0.25 to 0.333, pairs: 2); must be at most 0.2: not reached
  2.5ms in p50-ns; must be at most 10ms: reached
  350 by 100 in ops/s: 3.5 (3 to 4, pairs: 2); nothing is asked of it

`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// What is wrong with a command line is said before anything is measured.
func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{{"--row", "7"}, {"--row", "x"}, {"--pairs", "-1"}, {"measure"}, {"install", "--row", "1"}, {"--row", "1", "--row", "6", "--node", t.TempDir()}} {
		var progress strings.Builder
		if err := run(t.Context(), args, io.Discard, &progress); err == nil || progress.Len() > 0 {
			t.Errorf("%q: %v, and before it %q", args, err, &progress)
		}
	}
}
