package rows

import (
	"time"

	"pistore"
	"pistore/bench"
	"pistore/bench/stores"
)

func runRows() []Row {
	scripted := func(label, store string, level pistore.Durability, c bench.Config) Side {
		if c.Workload == "" {
			c.Workload = "runs"
		}
		return named(label, side(store, level, c))
	}
	const many = 2048
	const shown = 6 * time.Second // where nothing is asked
	columns := []bench.Unit{bench.PerSecond, bench.CommitRate, bench.CommitsPerOp, bench.P50, bench.P99, bench.P999, bench.Fsyncs, bench.Resident}
	return []Row{
		{
			Name: "11", Question: "How many runs does a process do with 2,048 sessions at once?", Chart: bench.PerSecond,
			Work: "Runs through the whole harness with a scripted model that answers at once: a prompt, one answer, the end, which takes 3 commits; or with one call of a tool between, 5 commits. A published figure of the system that inspired this is 459 commits/s on SQLite, on another machine.",
			Tables: []Table{{
				Rounds: pairs, Show: columns,
				Sides: []Side{
					scripted("logstore, Process", stores.Logstore, pistore.Process, bench.Config{Sessions: many, Duration: flushing}),
					scripted("the same with a tool call", stores.Logstore, pistore.Process, bench.Config{Sessions: many, Tools: 1, Duration: shown}),
					scripted("logstore, Power", stores.Logstore, pistore.Power, bench.Config{Sessions: many, Duration: shown}),
					scripted("the same with a tool call, Power", stores.Logstore, pistore.Power, bench.Config{Sessions: many, Tools: 1, Duration: shown}),
				},
				Checks: []Check{
					{A: 0, B: -1, Unit: bench.PerSecond, Must: 3000, Stretch: 5000},
					{A: 1, B: -1, Unit: bench.PerSecond}, {A: 2, B: -1, Unit: bench.PerSecond}, {A: 3, B: -1, Unit: bench.PerSecond},
				},
			}},
			Not: "A model: what takes a run its seconds is not here. Latencies are those of 2,048 runs that are all in work at once.",
		},
		{
			Name: "12", Question: "What does the harness add to the commits of a run?", Chart: bench.PerOp,
			Work: "16,000 runs of row 11 with one session at a time, and the very transactions of as many without a harness. An effect is a request or a call of a tool; these runs have one. Syncs are those of 16 runs, which is what a session does before a new one is made.",
			Tables: []Table{
				{
					Name: "time in memory", Rounds: pairs, Show: []bench.Unit{bench.PerOp, bench.PerEffect, bench.P50, bench.P99, bench.Allocs, bench.LogicalBytes, bench.CommitsPerOp},
					Sides: []Side{
						scripted("runs", stores.Memory, pistore.Process, bench.Config{Sessions: 1, Ops: 16_000}),
						scripted("their commits alone", stores.Memory, pistore.Process, bench.Config{Workload: "runs-bare", Sessions: 1, Ops: 16_000}),
					},
					Checks: []Check{{A: 0, B: 1, Unit: bench.PerOp, AtMost: true, Must: 2, Stretch: 1.5}},
				},
				{
					Name: "syncs", Rounds: pairs, Show: []bench.Unit{bench.PerOp, bench.CommitsPerOp, bench.Fsyncs},
					Sides: []Side{scripted("logstore, Power", stores.Logstore, pistore.Power, bench.Config{Sessions: 1, Ops: 16})},
					Checks: []Check{
						{A: 0, B: 0, Unit: bench.Fsyncs, UnitB: bench.CommitsPerOp, AtMost: true, Must: 1},
					},
				},
			},
			Not: "A context that grows: a session is left after 16 runs, and a new one made.",
		},
	}
}
