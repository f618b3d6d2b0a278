package rows

import (
	"slices"
	"testing"

	"pistore"
	"pistore/bench"
)

// The forms with 1 GiB of content have that, to a tenth.
func TestSizesOfForms(t *testing.T) {
	for workload, bytes := range map[string]float64{bench.Turn: bytesOfTurn, bench.Small: bytesOfSmall} {
		r, err := bench.Run(t.Context(), bench.RawLog(pistore.Process, false), bench.Config{Workload: workload, Ops: 512, Dir: t.TempDir()})
		if got := r.Metrics[bench.LogicalBytes]; err != nil || got < 0.95*bytes || got > 1.05*bytes {
			t.Errorf("%s: %v bytes a commit, %v", workload, got, err)
		}
	}
	h := bench.History{Turns: 2000, Lanes: 1, Seed: 1}
	for range h.Rows("s") {
	}
	if got := h.LogicalBytes() / 2000; got < bytesOfHistory*95/100 || got > bytesOfHistory*105/100 {
		t.Errorf("%d bytes a turn", got)
	}
}

// Every row can be told from every other, and so can the tables and sides of one.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All() {
		if seen[r.Name] || r.Question == "" || r.Not == "" || r.Work == "" {
			t.Errorf("row %q", r.Name)
		}
		seen[r.Name] = true
		for _, table := range r.Tables {
			if table.Rounds < pairs && r.Name != Levels && r.Name != "8" {
				t.Errorf("row %s has %d rounds", r.Name, table.Rounds)
			}
			for _, s := range table.Sides {
				key := r.Name + table.Name + s.Label
				if back, ok := ParseStore(s.Store.String()); seen[key] || s.Label == "" || !ok || back != s.Store {
					t.Errorf("row %s, %q: side %q", r.Name, table.Name, s.Label)
				}
				seen[key] = true
			}
		}
	}
}

func reports(unit bench.Unit, values ...float64) Reported {
	var r Reported
	for _, v := range values {
		r.Reports = append(r.Reports, bench.Report{Metrics: map[bench.Unit]float64{unit: v}})
	}
	return r
}

// A check judges the median of the ratios of rounds, or of the values of A.
func TestJudge(t *testing.T) {
	m := Measured{Sides: []Reported{reports(bench.PerSecond, 10, 40, 30), reports(bench.PerSecond, 10, 10, 10), reports(bench.P50, 0, 0, 0)}}
	for _, c := range []struct {
		check              Check
		median, min, max   float64
		reached, stretched bool
	}{
		{Check{A: 0, B: 1, Unit: bench.PerSecond, Must: 3, Stretch: 3.5}, 3, 1, 4, true, false},
		{Check{A: 0, B: 1, Unit: bench.PerSecond, AtMost: true, Must: 2.9, Stretch: 2}, 3, 1, 4, false, false},
		{Check{A: 0, B: -1, Unit: bench.PerSecond, Must: 30, Stretch: 30}, 30, 10, 40, true, true},
		{Check{A: 2, B: 2, Unit: bench.P50, Must: 1}, 1, 1, 1, true, true},
	} {
		v, ok := m.Judge(c.check)
		got := []any{ok, v.Median, v.Min, v.Max, v.Reached, v.Stretched}
		if want := []any{true, c.median, c.min, c.max, c.reached, c.stretched}; !slices.Equal(got, want) {
			t.Errorf("%+v: %v instead of %v", c.check, got, want)
		}
	}
	for _, c := range []Check{{A: 0, B: 2, Unit: bench.PerSecond, UnitB: bench.P50}, {A: 0, B: 1, Unit: bench.P99}, {A: 0, B: -1, Unit: bench.P99}} {
		if v, ok := m.Judge(c); ok {
			t.Errorf("%+v is judged %+v", c, v)
		}
	}
}
