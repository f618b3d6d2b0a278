package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pistore"
	"pistore/internal/allocs"
)

type usageCase struct {
	Usage      string
	Adjustment bool
}

func usageCases() *rapid.Generator[[]usageCase] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) usageCase {
		return usageCase{usages().Draw(t, "usage"), rapid.Bool().Draw(t, "adjustment")}
	}), 0, 12)
}

func sumOf(cases []usageCase) *Sum {
	var s Sum
	for _, c := range cases {
		s.AddUsage(pistore.JSON(c.Usage), c.Adjustment)
	}
	return &s
}

func TestSumAgreesWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sum
		var m modelSum
		for _, c := range usageCases().Draw(t, "rows") {
			s.AddUsage(pistore.JSON(c.Usage), c.Adjustment)
			m.add(c.Usage, c.Adjustment)
			if diff := cmp.Diff(m.totals(), s.Totals()); diff != "" {
				t.Fatalf("after %s: -model +sum\n%s", c.Usage, diff)
			}
		}
	})
}

func TestSumIsIndependentOfOrderAndGrouping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cases := usageCases().Draw(t, "rows")
		want := sumOf(cases).Totals()
		shuffled := rapid.Permutation(cases).Draw(t, "order")
		if diff := cmp.Diff(want, sumOf(shuffled).Totals()); diff != "" {
			t.Fatalf("another order: %s", diff)
		}
		cut := rapid.IntRange(0, len(cases)).Draw(t, "cut")
		parts := new(Sum)
		for _, part := range [][]usageCase{shuffled[cut:], shuffled[:cut]} {
			if err := parts.AddTotals(sumOf(part).Totals()); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, parts.Totals()); diff != "" {
			t.Fatalf("of two parts: %s", diff)
		}
		resumed := new(Sum)
		if err := resumed.AddTotals(sumOf(shuffled[:cut]).Totals()); err != nil {
			t.Fatal(err)
		}
		for _, c := range shuffled[cut:] {
			resumed.AddUsage(pistore.JSON(c.Usage), c.Adjustment)
		}
		if diff := cmp.Diff(want, resumed.Totals()); diff != "" {
			t.Fatalf("resumed from stored totals: %s", diff)
		}
	})
}

func TestSumAdjustmentTakesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := rapid.SliceOfN(literals(), 1, 8).Draw(t, "amounts")
		var s Sum
		for _, a := range amounts {
			s.AddUsage(pistore.JSON(`{"output":`+a+`,"cost":{"total":`+a+`}}`), false)
		}
		for _, a := range rapid.Permutation(amounts).Draw(t, "order") {
			if a[0] != '-' {
				a = "-" + a
			}
			s.AddUsage(pistore.JSON(`{"output":`+a+`,"cost":{"total":`+a+`}}`), true)
		}
		if got := s.Totals(); got.Output != "0" || got.Cost.Total != "0" {
			t.Fatalf("output %s, cost %s", got.Output, got.Cost.Total)
		}
	})
}

func TestSumRules(t *testing.T) {
	tests := []struct {
		name, usage string
		adjustment  bool
		input, cost pistore.Decimal
		unusable    int64
	}{
		{name: "absent is not unusable", usage: `{}`, input: "0", cost: "0"},
		{name: "extra members", usage: `{"Input":5,"inputs":null,"input ":7,"cost":{"Total":1}}`, input: "0", cost: "0"},
		{name: "null", usage: `{"input":null,"cost":{"total":2}}`, input: "0", cost: "2", unusable: 1},
		{name: "a string", usage: `{"input":"5"}`, input: "0", cost: "0", unusable: 1},
		{name: "several in one row", usage: `{"input":null,"output":true,"cost":{"total":[]}}`, input: "0", cost: "0", unusable: 1},
		{name: "cost is null", usage: `{"input":1,"cost":null}`, input: "1", cost: "0", unusable: 1},
		{name: "cost is a number", usage: `{"input":1,"cost":2}`, input: "1", cost: "0", unusable: 1},
		{name: "negative", usage: `{"input":-1}`, input: "0", cost: "0", unusable: 1},
		{name: "negative adjustment", usage: `{"input":-1.50}`, adjustment: true, input: "-1.5", cost: "0"},
		{name: "negative zero", usage: `{"input":-0.0}`, input: "0", cost: "0"},
		{name: "exponent", usage: `{"input":1.25e3,"cost":{"total":12E-4}}`, input: "1250", cost: "0.0012"},
		{name: "64 digits", usage: `{"input":` + strings.Repeat("9", 64) + `}`, input: pistore.Decimal(strings.Repeat("9", 64)), cost: "0"},
		{name: "65 digits", usage: `{"input":` + strings.Repeat("9", 65) + `}`, input: "0", cost: "0", unusable: 1},
		{name: "65 digits with zeros", usage: `{"input":1.` + strings.Repeat("0", 64) + `}`, input: "0", cost: "0", unusable: 1},
		{name: "largest exponent", usage: `{"input":1e+400}`, input: pistore.Decimal("1" + strings.Repeat("0", 400)), cost: "0"},
		{name: "smallest exponent", usage: `{"input":1e-400}`, input: pistore.Decimal("0." + strings.Repeat("0", 399) + "1"), cost: "0"},
		{name: "exponent too large", usage: `{"input":0e401}`, input: "0", cost: "0", unusable: 1},
		{name: "the last duplicate wins", usage: `{"input":1,"cost":{"total":1},"input":2,"cost":{}}`, input: "2", cost: "0"},
		{name: "an escaped name is the name", usage: `{"\u0069nput":3}`, input: "3", cost: "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Sum
			s.Add(pistore.UsageRow{Usage: pistore.JSON(tt.usage), Adjustment: tt.adjustment})
			want := Zero()
			want.Rows, want.Unusable, want.Input, want.Cost.Total = 1, tt.unusable, tt.input, tt.cost
			if diff := cmp.Diff(want, s.Totals()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestSumCopyGoesItsOwnWay(t *testing.T) {
	var a Sum
	a.AddUsage(`{"input":1e200}`, false)
	b := a
	b.AddUsage(`{"input":1}`, false)
	if got, want := a.Totals().Input, pistore.Decimal("1"+strings.Repeat("0", 200)); got != want {
		t.Errorf("the original became %s", got)
	}
}

func TestAddTotalsRefusesWhatNoSumReturns(t *testing.T) {
	for _, d := range []pistore.Decimal{"", "-", "-0", "00", "01", "1.", ".5", "1.0", "0.10", "1e3", "+1", " 1", "1_000", "0x1", "١", "1.2.3", "--1", "NaN",
		pistore.Decimal(strings.Repeat("9", maxDecimalBytes+1))} {
		var s Sum
		bad := Zero()
		bad.Rows, bad.Input, bad.Cost.Total = 1, "7", d
		if err := s.AddTotals(bad); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%.20q: %v", string(d), err)
		}
		if diff := cmp.Diff(Zero(), s.Totals()); diff != "" {
			t.Errorf("%.20q left something behind: %s", string(d), diff)
		}
	}
	for _, counts := range [][2]int64{{-1, 0}, {0, -1}, {1, 2}} {
		bad := Zero()
		bad.Rows, bad.Unusable = counts[0], counts[1]
		if err := new(Sum).AddTotals(bad); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("rows, unusable %v: %v", counts, err)
		}
	}
}

// FuzzLiteral holds the number parser against the plain form of its rule.
func FuzzLiteral(f *testing.F) {
	for _, s := range []string{"0", "-0", "12.5e-3", "1e400", "1e401", "0.000001", "18446744073709551616", "01", "1.", "-", "1e", "1e+", "1E0000001", "null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, usable := modelLiteral(s)
		allocs.Within(t, len(s), 16, 1<<20, func() { parseLiteral(s) })
		l, ok := parseLiteral(s)
		if ok != usable {
			t.Fatalf("%q: usable %v, want %v", s, ok, usable)
		}
		if !ok {
			return
		}
		var n number
		n.add(l)
		got := pistore.Decimal(n.append(nil))
		if got != canonical(want) {
			t.Fatalf("%q: %s, want %s", s, got, canonical(want))
		}
		again, err := parseDecimal(got)
		if err != nil || pistore.Decimal(again.append(nil)) != got {
			t.Fatalf("%q: stored as %s, comes back as %s, %v", s, got, again.append(nil), err)
		}
	})
}

// FuzzDecimal holds that a stored decimal is either refused or kept as it is.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-1.5", "1.50", "-0", "170141183460469231731687303715884105728"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		allocs.Within(t, len(s), 16, 1<<20, func() { _, _ = parseDecimal(pistore.Decimal(s)) })
		n, err := parseDecimal(pistore.Decimal(s))
		if err == nil && string(n.append(nil)) != s {
			t.Fatalf("%q comes back as %s", s, n.append(nil))
		}
	})
}

var usualUsage = pistore.JSON(`{"input":1834,"output":512,"cacheRead":20480,"cacheWrite":1024,"totalTokens":23850,` +
	`"cost":{"input":0.005502,"output":0.0076799999999999993,"cacheRead":0.006144,"cacheWrite":0.00384,"total":0.023166}}`)

func BenchmarkAddUsage(b *testing.B) {
	b.ReportAllocs()
	var s Sum
	for b.Loop() {
		s.AddUsage(usualUsage, false)
	}
}

func BenchmarkTotals(b *testing.B) {
	b.ReportAllocs()
	var s Sum
	for range 1000 {
		s.AddUsage(usualUsage, false)
	}
	for b.Loop() {
		s.Totals()
	}
}

func BenchmarkResume(b *testing.B) {
	b.ReportAllocs()
	var s Sum
	for range 1000 {
		s.AddUsage(usualUsage, false)
	}
	t := s.Totals()
	for b.Loop() {
		var r Sum
		if err := r.AddTotals(t); err != nil {
			b.Fatal(err)
		}
	}
}

func TestUsualRowsDoNotAllocate(t *testing.T) {
	var s Sum
	if n := testing.AllocsPerRun(1000, func() { s.AddUsage(usualUsage, false) }); n != 0 {
		t.Errorf("%v allocations a row", n)
	}
	if n := testing.AllocsPerRun(100, func() { s.Totals() }); n > 1 {
		t.Errorf("%v allocations for totals", n)
	}
}
