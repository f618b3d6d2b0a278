package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"pistore"
	"pistore/bench"
	"pistore/bench/stores"
	"pistore/conformance/pipe"
)

var benchCommand = command{
	name: "bench", args: "[--workload NAME]... [--backend NAME | --exec COMMAND] [flags]",
	short: "measure a store: throughput, latency, bytes, syncs, memory",
	long: `Runs workloads over a store that it makes and removes again. What cannot be
measured is left out. With --against each run is followed by one of another
store, and the two are compared pair by pair: on a machine that does other things
too, only such ratios mean something. Beside our own backends there are peers: bare
Pebble, and raw logs, which mark what the machine can do: rawlog with a file for
each session, grouplog with one for all. They check nothing; rawlog-json and
grouplog-json check what every backend checks of a transaction. SQLite and the reference implementation in TypeScript
are peers of the module bench/peers, which has a command of its own, so that this
one carries neither. Of a store behind --exec one session can be open at a time.

` + benchWorkloads(),
	examples: []string{
		"pistore bench --backend logstore --sessions 4 --ops 200",
		"pistore bench --workload small --backend jsonl --against rawlog --count 2 --ops 100 --json",
		`pistore bench --exec "pistore storage-server" --ops 50 --benchstat`,
	},
	run: runBench,
}

// benchWorkloads tells what workloads there are, for the help.
func benchWorkloads() string {
	var b strings.Builder
	b.WriteString("The workloads:\n")
	for _, w := range bench.Workloads() {
		fmt.Fprintf(&b, "\n%s: %s", w.Name, w.About)
		var of []string
		for _, p := range []string{"sessions", "turns", "lanes", "tools", "unflushed"} {
			if own, uses := w.Defaults[p]; uses {
				of = append(of, fmt.Sprintf("--%s %d", p, own))
			}
		}
		fmt.Fprintf(&b, " (%s)\n", strings.Join(of, ", "))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// benchReport is the JSON of bench.
type benchReport struct {
	Reports     []bench.Report    `json:"reports"`
	Comparisons []benchComparison `json:"comparisons,omitempty"`
}

// benchComparison says how much more of something A has than B.
type benchComparison struct {
	A    string     `json:"a"`
	B    string     `json:"b"`
	Unit bench.Unit `json:"unit"`
	bench.Ratio
	Difference float64 `json:"difference"` // of A less B, the median
}

// benchOrders is the environment variable in which a run orders another process
// of this program to do something with the store.
const benchOrders = "PISTORE_BENCH_ORDERS"

// benchStore says which store is measured.
type benchStore struct {
	backend, command, location string
	level                      pistore.Durability
}

// benchPlan is what was asked for.
type benchPlan struct {
	config    bench.Config
	workloads words
	store     benchStore
	against   string
	other     string // workload of against
	count     int
	text      bool // for benchstat
}

func runBench(ctx context.Context, in *invocation) error {
	plan, err := in.benchPlan()
	if err != nil {
		return err
	}
	store, err := plan.store.candidate(ctx)
	if err != nil {
		return usageError(errorText(err))
	}
	if orders := os.Getenv(benchOrders); orders != "" {
		return bench.Obey(ctx, orders, store.Open, os.Stdout)
	}
	plan.config.Child = plan.store.child
	report, err := in.measure(ctx, plan, store)
	switch {
	case errors.Is(err, pistore.ErrInvalid):
		return usageError(errorText(err))
	case err != nil:
		return &exitError{exitFindings, err}
	case in.json:
		return in.out.object(report)
	case plan.text:
		in.out.raw(bench.BenchstatHeader() + "\n") // safe: names come from flags of a few values
		for _, r := range report.Reports {
			in.out.raw(r.Benchstat() + "\n")
		}
		return nil
	default:
		printBench(in.out, report)
		return nil
	}
}

// benchPlan declares and reads the flags.
func (in *invocation) benchPlan() (benchPlan, error) {
	var p benchPlan
	f, c := in.flags, &p.config
	all := strings.Join(append(slices.Clone(stores.Names), stores.BarePebble, stores.RawLog, stores.GroupLog), "|")
	f.Var(&p.workloads, "workload", "the work, a `NAME` as listed above; may be repeated; without: turn")
	f.StringVar(&p.store.backend, "backend", stores.Logstore, "`"+all+"`: what is measured")
	f.StringVar(&p.store.command, "exec", "", "measure the store behind a `COMMAND` that speaks the store protocol; a shell reads it")
	f.StringVar(&p.store.location, "location", "store", "with --exec the last part of the location, a `NAME`")
	level := f.String("durability", "process", "`process|power`: the level at which commits are acknowledged")
	f.DurationVar(&c.Duration, "duration", 0, "for how long, a `TIME` such as 30s")
	f.Int64Var(&c.Ops, "ops", 0, "`N` operations in all; with --duration, whichever ends first")
	f.IntVar(&c.Sessions, "sessions", 0, "`N` sessions at once")
	f.IntVar(&c.Turns, "turns", 0, "a history of `N` turns")
	f.IntVar(&c.Lanes, "lanes", 0, "`N` interleaved lanes in the history")
	f.IntVar(&c.Tools, "tools", 0, "`N` tool calls in each run")
	f.Int64Var(&c.Unflushed, "unflushed", 0, "`N` bytes committed last before a kill")
	f.Uint64Var(&c.Seed, "seed", 1, "a number `N`, from which all content follows")
	f.StringVar(&c.Dir, "dir", "", "make stores in `DIR`; without: in the folder for temporary files, which may be memory")
	f.IntVar(&p.count, "count", 1, "do everything `N` times")
	f.StringVar(&p.against, "against", "", "`"+all+"`: compare with this in turn, --count pairs")
	f.StringVar(&p.other, "against-workload", "", "compare with this work, a `NAME`; without --against of the same store")
	f.BoolVar(&p.text, "benchstat", false, "print lines for benchstat")
	rest, err := in.parse()
	if err != nil {
		return p, err
	}
	if p.store.level, err = pistore.ParseDurability(*level); err != nil {
		return p, usageError(fmt.Sprintf("--durability: %v", err))
	}
	switch {
	case len(rest) > 0:
		return p, usageError(`bench takes no argument; see "pistore help bench"`)
	case p.count < 1:
		return p, usageError("--count is 1 or more")
	case p.store.command != "" && in.set("backend"):
		return p, usageError("--backend and --exec exclude each other")
	case p.store.location == "" || p.store.location != filepath.Base(p.store.location):
		return p, usageError(fmt.Sprintf("--location %q is not the name of a file", p.store.location))
	case p.text && in.json:
		return p, usageError("--benchstat and --json exclude each other")
	}
	if len(p.workloads) == 0 {
		p.workloads = words{bench.Turn}
	}
	return p, nil
}

// candidate returns the store that is measured.
func (s benchStore) candidate(ctx context.Context) (bench.Candidate, error) {
	if s.command == "" {
		return stores.Candidate(s.backend, s.level)
	}
	return bench.Candidate{
		Name: "backend=exec/durability=" + s.level.String(),
		Open: func(dir string) (pistore.Backend, error) {
			return pipe.New(pipe.Options{
				Command:  func() *exec.Cmd { return shell(ctx, s.command) },
				Location: filepath.Join(dir, s.location), Durability: s.level,
			}), nil
		},
	}, nil
}

// child is a process of this program that obeys orders over the same store.
func (s benchStore) child(orders string) *exec.Cmd {
	program, err := exec.LookPath(os.Args[0]) // under the name that this process runs by
	if err != nil {
		program, _ = os.Executable()
	}
	args := []string{"bench", "--durability", s.level.String(), "--backend", s.backend}
	if s.command != "" {
		args = []string{"bench", "--durability", s.level.String(), "--exec", s.command, "--location", s.location}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), benchOrders+"="+orders)
	cmd.Stderr = os.Stderr
	return cmd
}

// measure does what was asked for.
func (in *invocation) measure(ctx context.Context, p benchPlan, store bench.Candidate) (benchReport, error) {
	out := benchReport{Reports: []bench.Report{}}
	other := store
	if p.against != "" {
		var err error
		if other, err = stores.Candidate(p.against, p.store.level); err != nil {
			return out, err
		}
	}
	p.config.Progress = new(bench.Progress)
	for _, name := range p.workloads {
		p.config.Workload = name
		stop := in.progressOf(func() string { return name + ": " + p.config.Progress.String() })
		err := p.run(ctx, store, other, &out)
		stop()
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (p benchPlan) run(ctx context.Context, store, other bench.Candidate, out *benchReport) error {
	if p.against == "" && p.other == "" {
		for range p.count {
			r, err := bench.Run(ctx, store, p.config)
			if err != nil {
				return err
			}
			out.Reports = append(out.Reports, r)
		}
		return nil
	}
	theirs := p.config
	if p.other != "" {
		theirs.Workload = p.other
	}
	if p.against != "" {
		theirs.Child = benchStore{backend: p.against, level: p.store.level}.child
	}
	both, err := bench.AlternateWork(ctx, store, p.config, other, theirs, p.count)
	if err != nil {
		return err
	}
	for i := range both.A {
		out.Reports = append(out.Reports, both.A[i], both.B[i])
	}
	for _, unit := range both.A[0].Units() {
		if ratio, ok := both.Ratio(unit); ok {
			difference, _ := both.Difference(unit)
			out.Comparisons = append(out.Comparisons, benchComparison{both.A[0].Name(), both.B[0].Name(), unit, ratio, difference})
		}
	}
	return nil
}
