package rows

import (
	"slices"
	"time"

	"pistore/bench"
)

// Result is what was measured of a row.
type Result struct {
	Row      string     `json:"row"`
	Run      string     `json:"run"` // when the run of all rows began, which is its name
	Form     Form       `json:"form"`
	Measured time.Time  `json:"measured"` // when it was done, UTC
	TookMS   int64      `json:"tookMS"`
	Revision string     `json:"revision,omitempty"` // of the source
	Machine  Machine    `json:"machine"`
	Tables   []Measured `json:"tables"`
}

// Machine is what it was measured on.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memoryBytes"`
	Kernel      string `json:"kernel"`
	FileSystem  string `json:"fileSystem"`
	Go          string `json:"go"`
}

// Measured is what was measured of a table. Failed says which sides have fewer
// reports than others, and why.
type Measured struct {
	Name   string     `json:"name,omitempty"`
	Sides  []Reported `json:"sides"`
	Failed string     `json:"failed,omitempty"`
}

// Reported are the reports of a side, one of each round.
type Reported struct {
	Label   string         `json:"label"`
	Reports []bench.Report `json:"reports"`
}

// Rounds is how many rounds there were.
func (m Measured) Rounds() int {
	most := 0
	for _, s := range m.Sides {
		most = max(most, len(s.Reports))
	}
	return most
}

// Of returns what a result has of a table; false if it has not all of its sides.
func (r Result) Of(t Table) (Measured, bool) {
	i := slices.IndexFunc(r.Tables, func(m Measured) bool { return m.Name == t.Name })
	if i < 0 || len(r.Tables[i].Sides) != len(t.Sides) {
		return Measured{}, false
	}
	for j, s := range t.Sides {
		if r.Tables[i].Sides[j].Label != s.Label {
			return Measured{}, false
		}
	}
	return r.Tables[i], true
}

// Verdict is what came of a check.
type Verdict struct {
	Check
	ValueA, ValueB float64 // medians; B of a ratio only
	bench.Ratio            // of the rounds; of a check of A itself, its values
	Reached        bool
	Stretched      bool // reached what is wished beyond
}

// Judge compares what was measured with what a check asks; false where it was
// not measured.
func (m Measured) Judge(c Check) (Verdict, bool) {
	a := m.Sides[c.A].Reports
	v := Verdict{Check: c}
	var ok bool
	if v.ValueA, ok = bench.Median(a, c.Unit); !ok {
		return v, false
	}
	if c.B < 0 {
		for _, r := range a {
			v.Pairs = append(v.Pairs, r.Metrics[c.Unit])
		}
		v.Median, v.Min, v.Max = v.ValueA, slices.Min(v.Pairs), slices.Max(v.Pairs)
	} else {
		of := c.UnitB
		if of == "" {
			of = c.Unit
		}
		b := m.Sides[c.B].Reports
		if v.ValueB, ok = bench.Median(b, of); !ok {
			return v, false
		}
		if v.Ratio, ok = ratioOf(a, c.Unit, b, of); !ok {
			return v, false
		}
	}
	v.Reached, v.Stretched = c.holds(v.Median, c.Must), c.holds(v.Median, c.Stretch)
	return v, true
}

// ratioOf compares round by round. 0 by 0 is 1: nothing of either.
func ratioOf(a []bench.Report, of bench.Unit, b []bench.Report, by bench.Unit) (bench.Ratio, bool) {
	const ratio = "ratio"
	n := min(len(a), len(b))
	pairs := make([]bench.Report, n)
	var r bench.Ratio
	for i := range n {
		x, hasX := a[i].Metrics[of]
		y, hasY := b[i].Metrics[by]
		switch {
		case !hasX || !hasY || y == 0 && x != 0:
			return r, false
		case y == 0:
			x, y = 1, 1
		}
		pairs[i].Metrics = map[bench.Unit]float64{ratio: x / y}
		r.Pairs = append(r.Pairs, x/y)
	}
	var ok bool
	if r.Median, ok = bench.Median(pairs, ratio); !ok {
		return r, false
	}
	r.Min, r.Max = slices.Min(r.Pairs), slices.Max(r.Pairs)
	return r, true
}

func (c Check) holds(value, limit float64) bool {
	switch {
	case limit == 0:
		return true
	case c.AtMost:
		return value <= limit
	default:
		return value >= limit
	}
}
