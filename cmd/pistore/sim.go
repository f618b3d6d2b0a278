package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"pistore/fuzz/sim"
)

var simCommand = command{
	name: "sim", args: "[--duration TIME | --seeds N] [--seed N] [--backend NAME] [flags]",
	short: "try to break the harness, from a seed",
	long: `Runs random programs of prompts, tools, failures, crashes and faults against the
harness, over a store in memory, and checks every commit. A seed replays exactly.
The first one that breaks something is cut short, told step by step, and ends the
command with 1; --acts and --mishaps are what it was cut to.`,
	examples: []string{"pistore sim --seeds 20", "pistore sim --duration 1s --backend memstore --json", "pistore sim --seed 7 --seeds 1 --trace"},
	run:      runSim,
}

// simReport is the JSON of sim.
type simReport struct {
	Backend string           `json:"backend"`
	First   uint64           `json:"first"`
	Seeds   int64            `json:"seeds"`
	Seconds float64          `json:"seconds"`
	Counts  map[string]int64 `json:"counts"`
	Finding *simFinding      `json:"finding,omitempty"`
}

type simFinding struct {
	Seed   uint64   `json:"seed"`
	Mode   sim.Mode `json:"mode"`
	Check  string   `json:"check"`
	Detail string   `json:"detail"`
	Again  string   `json:"again"` // the command that shows it
	Trace  []string `json:"trace"`
}

// simSeeds is how many seeds are run where nothing else is said.
const simSeeds = 100

func runSim(ctx context.Context, in *invocation) error {
	var s sim.Sweep
	duration := in.flags.Duration("duration", 0, "for how long, a `TIME` such as 90s or 8h; 0: as many seeds as --seeds says")
	in.flags.Uint64Var(&s.Seeds, "seeds", simSeeds, "`N` seeds; with --duration not more than these, if given")
	in.flags.Uint64Var(&s.First, "seed", 1, "the first seed `N`")
	in.flags.StringVar(&s.Backend, "backend", sim.Memstore, "`"+strings.Join(sim.Backends, "|")+"`: the store")
	in.flags.IntVar(&s.Acts, "acts", 0, "only the first `N` things are asked of the lanes; 0: all, negative: none")
	in.flags.IntVar(&s.Mishaps, "mishaps", 0, "only `N` crashes and faults happen; 0: all, negative: none")
	trace := in.flags.Bool("trace", false, "tell step by step what happens")
	rest, err := in.parse()
	if err != nil {
		return err
	}
	switch {
	case len(rest) > 0:
		return usageError(`sim takes no argument; see "pistore help sim"`)
	case *duration < 0, s.Seeds == 0:
		return usageError("--duration is not negative, --seeds is 1 or more")
	case !slices.Contains(sim.Backends, s.Backend):
		return usageError(fmt.Sprintf("--backend %q is none of %s", s.Backend, strings.Join(sim.Backends, ", ")))
	case *trace && s.Seeds != 1:
		return usageError("--trace is of one seed; say --seeds 1")
	}
	if *duration > 0 && !in.set("seeds") {
		s.Seeds = 0
	}
	s.Trace = *trace
	return in.sweep(ctx, s, *duration)
}

// sweep simulates and reports.
func (in *invocation) sweep(ctx context.Context, s sim.Sweep, duration time.Duration) error {
	// What a seed leaves behind is little and short-lived: collecting it seldom
	// doubles the seeds per minute.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	report := simReport{Backend: s.Backend, First: s.First, Counts: map[string]int64{}}
	var done atomic.Int64
	s.Each = func(r sim.Result) {
		report.Seeds = done.Add(1)
		sim.Counts(report.Counts).Add(r.Counts)
		if s.Trace && r.Finding == nil && !in.json {
			in.out.trace(r.Trace)
		}
	}
	work, start := ctx, time.Now()
	if duration > 0 {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeout(ctx, duration)
		defer cancel()
	}
	stop := in.progressOf(func() string { return count(done.Load(), "seed", "seeds") })
	found, err := s.Run(work)
	stop()
	if err != nil && ctx.Err() == nil {
		return err
	}
	report.Seconds = time.Since(start).Seconds()
	if found != nil {
		report.Finding = findingOf(s.Backend, *found)
	}
	err = in.reportSim(report)
	if ctx.Err() != nil { // what was done till then is reported all the same
		return &exitError{exitFindings, errors.New("interrupted")}
	}
	return err
}

func findingOf(backend string, r sim.Result) *simFinding {
	again := fmt.Sprintf("pistore sim --seed %d --seeds 1 --backend %s", r.Seed, backend)
	if r.Acts != 0 {
		again += " --acts " + strconv.Itoa(r.Acts)
	}
	if r.Mishaps != 0 {
		again += " --mishaps " + strconv.Itoa(r.Mishaps)
	}
	return &simFinding{Seed: r.Seed, Mode: r.Mode, Check: r.Finding.Check, Detail: r.Finding.Detail, Again: again, Trace: r.Trace}
}

func (in *invocation) reportSim(r simReport) error {
	if in.json {
		if err := in.out.object(r); err != nil {
			return err
		}
	} else {
		printSim(in.out, r)
	}
	if r.Finding != nil {
		return &exitError{code: exitFindings}
	}
	return nil
}

func printSim(p *paper, r simReport) {
	for _, what := range slices.Sorted(maps.Keys(r.Counts)) {
		p.line(plain(fmt.Sprintf("%12s  %s", grouped(strconv.FormatInt(r.Counts[what], 10)), what)))
	}
	if f := r.Finding; f != nil {
		p.blank()
		p.trace(f.Trace)
		p.line(red("FOUND "), bold(f.Check), plain(fmt.Sprintf("  seed %d, %s", f.Seed, f.Mode)))
		p.whole("  " + f.Detail)
		p.whole("again: " + f.Again)
	}
	verdict := "nothing found"
	if r.Finding != nil {
		verdict = "one finding"
	}
	p.line(plain(fmt.Sprintf("%s on %s in %.1f s: %s", count(r.Seeds, "seed", "seeds"), r.Backend, r.Seconds, verdict)))
}

// trace writes what happened, step by step.
func (p *paper) trace(lines []string) {
	for _, line := range lines {
		p.whole(line)
	}
}
