package conformance

import (
	"fmt"
	"strings"
)

// Outcome is the result of a row.
type Outcome string

// The outcomes. Skipped is not passed: Result.Why says what was missing.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// Result is the result of one row.
type Result struct {
	ID         string  `json:"id"` // stable: "TX-05"
	Title      string  `json:"title"`
	Group      string  `json:"group"`
	Invariants []int   `json:"invariants,omitempty"` // of the design, by number, that the row checks
	Outcome    Outcome `json:"outcome"`
	// Why is what was seen and what to do about it, or why the row was skipped.
	Why string `json:"why,omitempty"`
	// Checks and Commits say how deep the row went: comparisons made, commits
	// asked of the backend.
	Checks  int64 `json:"checks"`
	Commits int64 `json:"commits"`
}

// Report is the result of a run of the kit.
type Report struct {
	Seed         int64    `json:"seed"`
	Transactions int      `json:"transactions"` // asked of the model row
	Passed       int      `json:"passed"`
	Failed       int      `json:"failed"`
	Skipped      int      `json:"skipped"`
	Results      []Result `json:"results"`
}

// OK reports whether no row failed.
func (r Report) OK() bool { return r.Failed == 0 }

// FailedIDs returns the ids of the rows that failed, in order.
func (r Report) FailedIDs() []string {
	var ids []string
	for _, result := range r.Results {
		if result.Outcome == Fail {
			ids = append(ids, result.ID)
		}
	}
	return ids
}

// String renders the report for people: what failed and what was skipped in
// full, then one line of totals.
func (r Report) String() string {
	var b strings.Builder
	for _, result := range r.Results {
		if result.Outcome != Pass {
			fmt.Fprintln(&b, result)
		}
	}
	fmt.Fprintf(&b, "%d rows passed, %d failed, %d skipped (seed %d)", r.Passed, r.Failed, r.Skipped, r.Seed)
	return b.String()
}

func (r Result) String() string {
	s := fmt.Sprintf("%s %s: %s", r.Outcome, r.ID, r.Title)
	if r.Why != "" {
		s += "\n    " + strings.ReplaceAll(r.Why, "\n", "\n    ")
	}
	return s
}

func (r *Report) add(result Result) {
	r.Results = append(r.Results, result)
	switch result.Outcome {
	case Pass:
		r.Passed++
	case Fail:
		r.Failed++
	case Skip:
		r.Skipped++
	default:
		panic("conformance: outcome " + string(result.Outcome))
	}
}
