package main

import (
	"context"
	"fmt"
	"io"

	"pistore/bench"
)

// result is what was measured of a row.
type result struct {
	Row   int          `json:"row"`
	About string       `json:"about"`
	Cells []cellResult `json:"cells"`
}

type cellResult struct {
	bench.Comparison
	Checks []checkResult `json:"checks"`
}

// checkResult compares one measurement, A by B. Must and Stretch are 0 where the
// ratio is shown and nothing is asked of it.
type checkResult struct {
	Unit    bench.Unit  `json:"unit"`
	A       float64     `json:"a"` // median
	B       float64     `json:"b"` // likewise
	Ratio   bench.Ratio `json:"ratio"`
	Of      string      `json:"of"` // what is asked of: ratio or a
	AtMost  bool        `json:"atMost"`
	Must    float64     `json:"must,omitempty"`
	Stretch float64     `json:"stretch,omitempty"`
	Reached bool        `json:"reached"`
}

// all measures the rows. With an error come those that were measured until then.
func (q request) all(ctx context.Context, progress io.Writer) ([]result, error) {
	var results []result
	for _, n := range q.rows {
		r, _ := find(n)
		measured, err := q.measure(ctx, r, progress)
		if len(measured.Cells) > 0 {
			results = append(results, measured)
		}
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// measure measures a row. With an error comes what there was until then.
func (q request) measure(ctx context.Context, r row, progress io.Writer) (result, error) {
	out := result{Row: r.number, About: r.about, Cells: []cellResult{}}
	pairs := r.pairs
	if q.pairs > 0 {
		pairs = q.pairs
	}
	for _, c := range r.cells {
		measured, err := q.cell(ctx, r, c, pairs, progress)
		if len(measured.A) > 0 {
			out.Cells = append(out.Cells, measured)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (q request) cell(ctx context.Context, r row, c cell, pairs int, progress io.Writer) (cellResult, error) {
	a, err := c.a.candidate(q.node)
	if err != nil {
		return cellResult{}, err
	}
	b, err := c.b.candidate(q.node)
	if err != nil {
		return cellResult{}, err
	}
	ofA, err := q.config(c.a, c.ofA)
	if err != nil {
		return cellResult{}, err
	}
	ofB, err := q.config(c.b, c.ofB)
	if err != nil {
		return cellResult{}, err
	}
	var all bench.Comparison
	for pair := range pairs {
		fmt.Fprintf(progress, "row %d: %s by %s, pair %d of %d\n", r.number, a.Name, b.Name, pair+1, pairs)
		one, err := bench.AlternateWork(ctx, a, ofA, b, ofB, 1)
		if err != nil {
			return compared(all, c.checks), err
		}
		all.A, all.B = append(all.A, one.A...), append(all.B, one.B...)
	}
	return compared(all, c.checks), nil
}

// config is the work of a candidate, as the command line has it.
func (q request) config(s store, c bench.Config) (bench.Config, error) {
	c.Seed, c.Dir = q.seed, q.dir
	if c.Turns > 0 {
		c.Turns = q.turns
	}
	if c.Duration > 0 && q.duration > 0 {
		c.Duration = q.duration
	}
	var err error
	c.Child, err = q.child(s, c.Workload)
	return c, err
}

func compared(all bench.Comparison, checks []check) cellResult {
	out := cellResult{Comparison: all, Checks: []checkResult{}}
	for _, c := range checks {
		r, ok := all.Ratio(c.unit)
		if !ok {
			continue
		}
		one := checkResult{Unit: c.unit, Ratio: r, Of: "ratio", AtMost: c.most, Must: c.must, Stretch: c.stretch}
		one.A, _ = bench.Median(all.A, c.unit)
		one.B, _ = bench.Median(all.B, c.unit)
		value := r.Median
		if c.of == valueOfA {
			one.Of, value = "a", one.A
		}
		one.Reached = reaches(value, c.must, c.most)
		out.Checks = append(out.Checks, one)
	}
	return out
}

func reaches(value, limit float64, most bool) bool {
	if most {
		return value <= limit
	}
	return value >= limit
}
