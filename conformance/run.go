package conformance

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"pistore/conformance/internal/watch"
)

// row is one check of the contract.
type row struct {
	id     string // stable
	title  string // what must hold
	advice string // printed on failure: what a backend author should look at
	needs  []Capability
	inv    []int // invariants that the row covers
	// generated says that the row commits Config.Transactions.
	generated bool
	check     func(p *probe)
}

// group is a set of rows that share a subject.
type group struct {
	name string
	rows []row
}

// groups returns every row, in the order in which they run.
func groups() []group {
	return []group{
		{"transactions", slices.Concat(txRows(), refusalRows(), preconditionRows(), isolationRows())},
		{"registers", registerRows()},
		{"ledger", ledgerRows()},
		{"queries", slices.Concat(branchRows(), scanRows(), snapshotRows())},
		{"payload fidelity", payloadRows()},
		{"limits", limitRows()},
		{"close", closeRows()},
		{"context", contextRows()},
		{"concurrency", slices.Concat(concurrencyRows(), serialRows())},
		{"history", historyRows()},
		{"reopen", reopenRows()},
		{"read-only", readOnlyRows()},
		{"ownership", ownershipRows()},
		{"backend", backendRows()},
		{"load", loadRows()},
		{"rewrite", rewriteRows()},
		{"model", modelRows()},
	}
}

func rows() []row {
	var all []row
	for _, g := range groups() {
		all = append(all, g.rows...)
	}
	return all
}

// Run checks the backend, each row as a subtest named by its id.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg, err := cfg.replayed(os.Getenv(ReplayVariable))
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.complete()
	report := newReport(cfg)
	name := t.Name()
	for _, g := range groups() {
		for _, r := range g.rows {
			if !cfg.selects(r.id) {
				continue
			}
			t.Run(r.id, func(t *testing.T) {
				result := report.run(cfg, g.name, r)
				switch result.Outcome {
				case Fail:
					if result.hung {
						result.Why += "\n" + watch.HintOnHang
					}
					t.Errorf("%s\n%s\nreplay: %s='%s' go test -count=1 -run %s .",
						r.title, result.Why, ReplayVariable, result.Replay, RunPattern(name, result.Replay.Row))
				case Skip:
					t.Skip(r.title + ": " + result.Why)
				}
			})
		}
	}
	t.Log(report)
}

// Check checks the backend and reports. It panics if cfg.Open is nil.
func Check(cfg Config) Report {
	cfg = cfg.complete()
	report := newReport(cfg)
	for _, g := range groups() {
		for _, r := range g.rows {
			if cfg.selects(r.id) {
				report.run(cfg, g.name, r)
			}
		}
	}
	return report
}

// RowIDs returns the ids of all rows, in the order in which they run.
func RowIDs() []string {
	var ids []string
	for _, r := range rows() {
		ids = append(ids, r.id)
	}
	return ids
}

func newReport(cfg Config) Report { return Report{Seed: cfg.Seed, Transactions: cfg.Transactions} }

func (c Config) tell(result Result) {
	if c.Progress != nil {
		c.Progress(result)
	}
}

func (c Config) selects(id string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, id) }

// run runs a row and reports it, unless too many took long before.
func (r *Report) run(cfg Config, groupName string, w row) Result {
	result := Result{ID: w.id, Title: w.title, Group: groupName, Invariants: w.inv}
	if why := r.stalls.Enough(); why != "" {
		result.Outcome, result.Why = Skip, why
	} else {
		result = runRow(cfg, groupName, w)
	}
	switch {
	case result.hung:
		r.stalls.Hung(w.id)
	case result.endless:
		r.stalls.Endless(w.id)
	}
	r.Add(result)
	cfg.tell(result)
	return result
}

// maxRows is after how many rows an iterator counts as endless; far more than any
// row writes.
const maxRows = 1 << 16

// runRow runs a row. A panic of the backend fails the row; so does a call that
// never returns, whose goroutine is then left behind.
func runRow(cfg Config, groupName string, r row) Result {
	result := Result{ID: r.id, Title: r.title, Group: groupName, Invariants: r.inv}
	for _, need := range r.needs {
		if cfg.lacks(need) {
			result.Outcome, result.Why = Skip, fmt.Sprintf("the backend is declared to lack %s", need)
			return result
		}
	}
	p := &probe{cfg: cfg, ctx: context.Background(), watch: watch.Watch{MaxRows: maxRows}}
	done := make(chan verdict, 1)
	go func() {
		v := verdict{outcome: Fail, why: goexit, advice: adviceOnPanic}
		defer func() { done <- v }()
		v = p.run(r.check)
	}()
	v := p.await(done).met(p.watch.Fault())
	result.Outcome, result.Why, result.Replay, result.hung = v.outcome, v.why, v.replay, v.hung
	result.endless = v.endless
	result.Checks, result.Commits = p.checks.Load(), p.commits.Load()
	if result.Outcome == Pass && result.Checks == 0 {
		result.Outcome, result.Why = Fail, "the row compared nothing"
	}
	if result.Outcome == Fail {
		result.Why += "\nwhat to do: " + cmp.Or(v.advice, r.advice)
		if result.Replay == nil {
			result.Replay = &Replay{Row: r.id, Seed: cfg.Seed, ReopenEvery: cfg.ReopenEvery}
			if r.generated {
				result.Replay.Transactions = cfg.Transactions
			}
		}
	}
	return result
}

// verdict ends a row: early when failf or skipf panic with it.
type verdict struct {
	outcome Outcome
	why     string
	replay  *Replay // nil: the row from the seed that it had
	advice  string  // empty: that of the row
	hung    bool
	endless bool // an iterator
}

// met is the verdict on a row in which a call gave what no caller can work with:
// it fails for that, whatever else it came to.
func (v verdict) met(f *watch.Fault) verdict {
	if f == nil || v.hung {
		return v
	}
	if v.outcome != Fail {
		v.why = ""
	}
	v.outcome, v.why, v.advice, v.endless = Fail, f.Before(v.why), f.Advice, f.Endless
	return v
}

func (p *probe) run(check func(*probe)) (v verdict) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case verdict:
			v = r
		default:
			v = verdict{outcome: Fail, why: fmt.Sprintf("panic: %v\n%s", r, debug.Stack()), advice: adviceOnPanic}
		}
	}()
	defer p.cleanUp()
	check(p)
	return verdict{outcome: Pass}
}

// await waits for the row's end, as long as it goes on.
func (p *probe) await(done <-chan verdict) verdict {
	v, hangs := watch.Await(&p.watch, done, func() int64 { return p.checks.Load() + p.commits.Load() })
	if hangs != "" {
		return verdict{outcome: Fail, hung: true, why: fmt.Sprintf("behind %d commits and %d comparisons of the row: %s", p.commits.Load(), p.checks.Load(), hangs), advice: watch.AdviceOnHang}
	}
	return v
}
