package bench

import (
	"context"
	"fmt"
	"slices"

	"pistore"
)

// Comparison is what two candidates did with the same work, in turn.
type Comparison struct {
	A []Report `json:"a"`
	B []Report `json:"b"`
}

// Alternate runs a, b, a, b, …, so that each pair met the same machine.
func Alternate(ctx context.Context, a, b Candidate, c Config, pairs int) (Comparison, error) {
	return AlternateWork(ctx, a, c, b, c, pairs)
}

// AlternateWork is Alternate with work that differs: a does one, b another.
func AlternateWork(ctx context.Context, a Candidate, ofA Config, b Candidate, ofB Config, pairs int) (Comparison, error) {
	if pairs < 1 {
		return Comparison{}, fmt.Errorf("bench: %w: %d pairs", pistore.ErrInvalid, pairs)
	}
	var all Comparison
	for range pairs {
		ra, err := Run(ctx, a, ofA)
		if err != nil {
			return Comparison{}, err
		}
		rb, err := Run(ctx, b, ofB)
		if err != nil {
			return Comparison{}, err
		}
		all.A, all.B = append(all.A, ra), append(all.B, rb)
	}
	return all, nil
}

// Ratio is how much more of something A has than B.
type Ratio struct {
	Pairs  []float64 `json:"pairs"` // of each pair, in the order in which they ran
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
}

// Ratio compares one measurement, A by B. It is false where a report lacks it,
// or has 0 of it in B.
func (c Comparison) Ratio(unit Unit) (Ratio, bool) {
	var r Ratio
	for i := range c.A {
		a, hasA := c.A[i].Metrics[unit]
		b, hasB := c.B[i].Metrics[unit]
		if !hasA || !hasB || b == 0 {
			return Ratio{}, false
		}
		r.Pairs = append(r.Pairs, a/b)
	}
	if len(r.Pairs) == 0 {
		return Ratio{}, false
	}
	sorted := slices.Sorted(slices.Values(r.Pairs))
	r.Min, r.Max, r.Median = sorted[0], sorted[len(sorted)-1], median(sorted)
	return r, true
}

// Difference is how much more A has of one measurement than B, the median of
// the pairs. It is false where a report lacks it.
func (c Comparison) Difference(unit Unit) (float64, bool) {
	var all []float64
	for i := range c.A {
		a, hasA := c.A[i].Metrics[unit]
		b, hasB := c.B[i].Metrics[unit]
		if !hasA || !hasB {
			return 0, false
		}
		all = append(all, a-b)
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return median(all), true
}

// Median returns the median of one measurement over reports; false where one
// lacks it.
func Median(reports []Report, unit Unit) (float64, bool) {
	var all []float64
	for _, r := range reports {
		v, ok := r.Metrics[unit]
		if !ok {
			return 0, false
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return median(all), true
}

func median(sorted []float64) float64 {
	half := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[half-1] + sorted[half]) / 2
	}
	return sorted[half]
}
