package crash

import (
	"fmt"
	"strings"
	"sync/atomic"

	"pistore"
	"pistore/conformance"
	"pistore/conformance/internal/watch"
)

// Depth says how far a row went.
type Depth struct {
	Kills        int64 `json:"kills,omitempty"`
	OpenKills    int64 `json:"openKills,omitempty"`    // kills that hit a call under way
	Acknowledged int64 `json:"acknowledged,omitempty"` // commits that were, and had to be found
	Cuts         int64 `json:"cuts,omitempty"`
	Faults       int64 `json:"faults,omitempty"`   // calls that failed
	Poisoned     int64 `json:"poisoned,omitempty"` // of them, those that faulted the store
	Flips        int64 `json:"flips,omitempty"`
	Truncations  int64 `json:"truncations,omitempty"`
	Opens        int64 `json:"opens"`              // of the backend, to look at what is left
	Refusals     int64 `json:"refusals,omitempty"` // of them, those that ended with an error that was allowed
	Lost         int64 `json:"lost,omitempty"`     // commits that were lost and might be
}

func (d Depth) String() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{
		{d.Kills, "kills"}, {d.OpenKills, "of them inside a call"}, {d.Acknowledged, "acknowledged commits"}, {d.Cuts, "power cuts"},
		{d.Faults, "failed calls"}, {d.Poisoned, "of them poisoned the store"}, {d.Flips, "flips"}, {d.Truncations, "truncations"},
		{d.Opens, "opens"}, {d.Refusals, "of them refused"}, {d.Lost, "commits missing that may be"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// tally counts while a row runs, and tells that it is alive.
type tally struct {
	kills, openKills, acknowledged, cuts, faults, poisoned, flips, truncations, opens, refusals, lost, ticks atomic.Int64
}

func (t *tally) depth() Depth {
	return Depth{
		Kills: t.kills.Load(), OpenKills: t.openKills.Load(), Acknowledged: t.acknowledged.Load(), Cuts: t.cuts.Load(),
		Faults: t.faults.Load(), Poisoned: t.poisoned.Load(), Flips: t.flips.Load(), Truncations: t.truncations.Load(),
		Opens: t.opens.Load(), Refusals: t.refusals.Load(), Lost: t.lost.Load(),
	}
}

// Result is the result of one row at one level.
type Result struct {
	ID      string              `json:"id"` // stable: "CUT-02"
	Title   string              `json:"title"`
	Group   string              `json:"group"`
	Level   string              `json:"level"`
	Outcome conformance.Outcome `json:"outcome"`
	// Why is what was seen and what to do about it, or why the row was skipped.
	Why   string `json:"why,omitempty"`
	Depth Depth  `json:"depth"`
	MS    int64  `json:"ms"` // that it took

	hung, endless bool
}

func (r Result) String() string {
	s := fmt.Sprintf("%s %s at %s: %s", r.Outcome, r.ID, r.Level, r.Title)
	if d := r.Depth.String(); d != "" {
		s += fmt.Sprintf(" (%s; %d ms)", d, r.MS)
	}
	if r.Why != "" {
		s += "\n    " + strings.ReplaceAll(r.Why, "\n", "\n    ")
	}
	return s
}

// Report is the result of a run of the kit.
type Report struct {
	Seed    uint64   `json:"seed"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Results []Result `json:"results"`

	stalls watch.Stalls
}

// OK reports whether rows passed and none failed: what was only skipped says
// nothing about a store.
func (r Report) OK() bool { return r.Failed == 0 && r.Passed > 0 }

// String renders the report for people: each row with its depth, what failed or
// was skipped in full, then one line of totals.
func (r Report) String() string {
	var b strings.Builder
	for _, result := range r.Results {
		fmt.Fprintln(&b, result)
	}
	fmt.Fprintf(&b, "%d rows passed, %d failed, %d skipped (seed %d)", r.Passed, r.Failed, r.Skipped, r.Seed)
	return b.String()
}

func (r *Report) add(result Result) {
	r.Results = append(r.Results, result)
	switch result.Outcome {
	case conformance.Pass:
		r.Passed++
	case conformance.Fail:
		r.Failed++
	case conformance.Skip:
		r.Skipped++
	default:
		panic("crash: outcome " + string(result.Outcome))
	}
}

// replay says how to see a failure again.
func (c Config) replay(id string, level pistore.Durability, test string) string {
	if test == "" {
		return fmt.Sprintf("again with crash.Config{Seed: %d, Only: %q, Levels: %v}", c.Seed, id, level)
	}
	run := "go test -count=1 -run " + conformance.RunPattern(test, id, level.String())
	if !c.flags {
		return fmt.Sprintf("again with %s and crash.Config{Seed: %d}", run, c.Seed)
	}
	return fmt.Sprintf("again with %s -kills %d -cuts %d -faults %d -flips %d -crash-seed %d", run, c.Kills, c.Cuts, c.Faults, c.Flips, c.Seed)
}
