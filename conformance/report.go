package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pistore/conformance/internal/watch"
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

	hung, endless bool
	// Replay is what fails again in the same way, if the row failed.
	Replay *Replay `json:"replay,omitempty"`
}

// Replay is a run of one row. A failing program is the first one that its seed
// generates.
type Replay struct {
	Row          string `json:"row"`
	Seed         int64  `json:"seed"`
	Transactions int    `json:"transactions,omitempty"`
	ReopenEvery  int    `json:"reopenEvery,omitempty"`
}

// String is what the environment variable [ReplayVariable] takes.
func (r Replay) String() string {
	s := fmt.Sprintf("row=%s seed=%d", r.Row, r.Seed)
	if r.Transactions > 0 {
		s += fmt.Sprintf(" transactions=%d", r.Transactions)
	}
	if r.ReopenEvery > 0 {
		s += fmt.Sprintf(" reopen-every=%d", r.ReopenEvery)
	}
	return s
}

// RunPattern returns what go test takes behind -run to run one test: each name
// taken literally, all of it quoted for a shell. The first name may be that of a
// nested test.
func RunPattern(names ...string) string {
	parts := strings.Split(strings.Join(names, "/"), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return "'" + strings.ReplaceAll(strings.Join(parts, "/"), "'", `'\''`) + "'"
}

// ReplayVariable names the environment variable that makes [Run] run one row as a
// failure asks for: PISTORE_CONFORMANCE='row=MOD-01 seed=17 transactions=60'.
const ReplayVariable = "PISTORE_CONFORMANCE"

// replayed is the config that an assignment of ReplayVariable asks for.
func (c Config) replayed(text string) (Config, error) {
	for _, part := range strings.Fields(text) {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch name {
		case "row":
			err = nil
			if !slices.Contains(RowIDs(), value) {
				err = errors.New("there is no such row")
			}
			c.Only = []string{value}
		case "seed":
			c.Seed = n
		case "transactions":
			c.Transactions = int(n)
		case "reopen-every":
			c.ReopenEvery = int(n)
		default:
			err = errors.New("want row, seed, transactions and reopen-every")
		}
		if err != nil || n < 0 {
			return c, fmt.Errorf("conformance: %s: %q: %w", ReplayVariable, part, cmp.Or(err, errors.New("negative")))
		}
	}
	return c, nil
}

// Report is the result of a run of the kit.
type Report struct {
	Seed         int64    `json:"seed"`
	Transactions int      `json:"transactions"` // asked of the model row
	Passed       int      `json:"passed"`
	Failed       int      `json:"failed"`
	Skipped      int      `json:"skipped"`
	Results      []Result `json:"results"`

	stalls watch.Stalls
}

// OK reports whether rows passed and none failed: what was only skipped says
// nothing about a store.
func (r Report) OK() bool { return r.Failed == 0 && r.Passed > 0 }

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
	if r.Replay != nil {
		s += "\n    replay: " + r.Replay.String()
	}
	return s
}

// Add puts a result behind the others and counts it.
func (r *Report) Add(result Result) {
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
