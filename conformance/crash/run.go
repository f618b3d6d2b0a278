package crash

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"pistore"
	"pistore/conformance"
	"pistore/conformance/internal/watch"
)

// row is one thing that is done to a store, and what it has to keep.
type row struct {
	id     string // stable
	title  string // what must hold
	advice string // printed on failure: what a backend author should look at
	needs  []conformance.Capability
	check  func(p *probe)
}

// group is a set of rows that need the same of the config.
type group struct {
	name string
	lack func(c Config) string // why its rows cannot be run; empty: they can
	rows []row
}

// groups returns every row, in the order in which they run.
func groups() []group {
	onMachine := func(c Config) string {
		if c.OpenOn == nil {
			return "there is no Config.OpenOn: the store is not run over a file system that can fail and forget"
		}
		return ""
	}
	return []group{
		{"killed processes", func(c Config) string {
			if c.Open == nil {
				return "there is no Config.Open: no process of the store can be killed"
			}
			return ""
		}, killRows()},
		{"power cuts", onMachine, cutRows()},
		{"failed calls", onMachine, faultRows()},
		{"damaged bytes", onMachine, byteRows()},
	}
}

// RowIDs returns the ids of all rows, in the order in which they run.
func RowIDs() []string {
	var ids []string
	for _, g := range groups() {
		for _, r := range g.rows {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// Run checks the backend, each row as a subtest named by its id and the level.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg = cfg.complete()
	report := Report{Seed: cfg.Seed}
	each(cfg, func(g group, r row) {
		t.Run(r.id, func(t *testing.T) {
			for _, level := range cfg.Levels {
				t.Run(level.String(), func(t *testing.T) {
					result := report.run(cfg, g, r, level)
					report.add(result)
					cfg.tell(result)
					switch result.Outcome {
					case conformance.Fail:
						if result.hung {
							result.Why += "\n" + watch.HintOnHang
						}
						t.Errorf("%s\n%s\n%s", r.title, result.Why, cfg.replay(r.id, level, parent(t.Name(), 2)))
					case conformance.Skip:
						t.Skip(r.title + ": " + result.Why)
					}
				})
			}
		})
	})
	t.Log(report)
}

// parent takes the last elements off the name of a test.
func parent(name string, n int) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			if n--; n == 0 {
				return name[:i]
			}
		}
	}
	return name
}

// Check checks the backend and reports. It panics on a config that cannot be run.
func Check(cfg Config) Report {
	cfg = cfg.complete()
	report := Report{Seed: cfg.Seed}
	each(cfg, func(g group, r row) {
		for _, level := range cfg.Levels {
			result := report.run(cfg, g, r, level)
			if result.Outcome == conformance.Fail {
				result.Why += "\n" + cfg.replay(r.id, level, "")
			}
			report.add(result)
			cfg.tell(result)
		}
	})
	return report
}

func each(cfg Config, do func(group, row)) {
	if os.Getenv(childEnv) != "" {
		panic("crash: this process is a child that was to be killed: call crash.Child first of all, in TestMain or main")
	}
	for _, g := range groups() {
		for _, r := range g.rows {
			if cfg.selects(r.id) {
				do(g, r)
			}
		}
	}
}

func (c Config) tell(result Result) {
	if c.Progress != nil {
		c.Progress(result)
	}
}

// probe is what a row works with. Only the row's own goroutine may use it, the
// tally aside.
type probe struct {
	cfg   Config
	level pistore.Durability
	ctx   context.Context
	rng   *rand.Rand
	watch watch.Watch // over the calls of the backend
	tally
}

// verdict ends a row: early when failf or skipf panic with it.
type verdict struct {
	outcome conformance.Outcome
	why     string
	advice  string // empty: that of the row
	hung    bool
	endless bool // an iterator
}

// met is the verdict on a row in which a call gave what no caller can work with:
// it fails for that, whatever else it came to.
func (v verdict) met(f *watch.Fault) verdict {
	if f == nil || v.hung {
		return v
	}
	if v.outcome != conformance.Fail {
		v.why = ""
	}
	v.outcome, v.why, v.advice, v.endless = conformance.Fail, f.Before(v.why), f.Advice, f.Endless
	return v
}

func (p *probe) failf(format string, args ...any) {
	panic(verdict{outcome: conformance.Fail, why: fmt.Sprintf(format, args...)})
}

func (p *probe) skipf(format string, args ...any) {
	panic(verdict{outcome: conformance.Skip, why: fmt.Sprintf(format, args...)})
}

// run runs a row at a level, unless too many took long before.
func (r *Report) run(cfg Config, g group, w row, level pistore.Durability) Result {
	if why := r.stalls.Enough(); why != "" {
		return Result{ID: w.id, Title: w.title, Group: g.name, Level: level.String(), Outcome: conformance.Skip, Why: why}
	}
	result := runRow(cfg, g, w, level)
	switch {
	case result.hung:
		r.stalls.Hung(w.id + " at " + level.String())
	case result.endless:
		r.stalls.Endless(w.id + " at " + level.String())
	}
	return result
}

// maxRows is after how many rows an iterator counts as endless; far more than what
// a process commits to one session before it is killed.
const maxRows = 1 << 18

// runRow runs a row at a level. A panic of the backend fails the row; so does a
// call that never returns, whose goroutine is then left behind.
func runRow(cfg Config, g group, r row, level pistore.Durability) Result {
	result := Result{ID: r.id, Title: r.title, Group: g.name, Level: level.String(), Outcome: conformance.Skip, Why: g.lack(cfg)}
	for _, need := range r.needs {
		if cfg.lacks(need) {
			result.Why = fmt.Sprintf("the backend is declared to lack %s", need)
		}
	}
	if result.Why != "" {
		return result
	}
	seed := fnv.New64a()
	fmt.Fprint(seed, r.id, level)
	p := &probe{cfg: cfg, level: level, ctx: context.Background(), rng: rand.New(rand.NewPCG(cfg.Seed, seed.Sum64())), watch: watch.Watch{MaxRows: maxRows}}
	done, began := make(chan verdict, 1), time.Now()
	go func() {
		v := verdict{outcome: conformance.Fail, why: "the store ended its caller's goroutine: runtime.Goexit was called", advice: adviceOnPanic}
		defer func() { done <- v }()
		v = p.run(r.check)
	}()
	v := p.await(done).met(p.watch.Fault())
	result.MS = time.Since(began).Milliseconds()
	result.Outcome, result.Why, result.Depth, result.hung, result.endless = v.outcome, v.why, p.depth(), v.hung, v.endless
	if v.outcome == conformance.Pass && result.Depth.Opens == 0 {
		result.Outcome, result.Why = conformance.Fail, "the row looked at nothing"
	}
	if result.Outcome == conformance.Fail {
		result.Why += "\nwhat to look at: " + cmp.Or(v.advice, r.advice)
	}
	return result
}

func (p *probe) run(check func(*probe)) (v verdict) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case verdict:
			v = r
		default:
			v = panicked(r)
		}
	}()
	check(p)
	return verdict{outcome: conformance.Pass}
}

// await waits for the row's end, as long as it goes on.
func (p *probe) await(done <-chan verdict) verdict {
	v, hangs := watch.Await(&p.watch, done, func() int64 { return p.ticks.Load() + p.opens.Load() })
	if hangs != "" {
		return verdict{outcome: conformance.Fail, hung: true, why: hangs, advice: watch.AdviceOnHang}
	}
	return v
}

// spread returns up to n of the numbers 0 to of-1: all of them, or some from all
// over the range.
func (p *probe) spread(n, of int) []int {
	var all []int
	for i := range min(n, of) {
		from, to := i*of/min(n, of), (i+1)*of/min(n, of)
		all = append(all, from+p.rng.IntN(to-from))
	}
	return slices.Compact(all)
}
