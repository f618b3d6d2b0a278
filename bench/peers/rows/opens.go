package rows

import (
	"pistore"
	"pistore/bench"
	"pistore/bench/stores"
)

// unflushed is how much a store was given before it is killed.
const unflushed = 8 << 20

// manyTurns is the history of what is opened and read.
const manyTurns = 100_000

func openRows() []Row {
	file := bench.Config{Workload: open, Turns: manyTurns, Ops: 3}
	killed := bench.Config{Workload: openKilled, Turns: manyTurns, Ops: 3, Unflushed: unflushed}
	million := bench.Config{Workload: openKilled, Turns: 1_000_000, Ops: 5, Unflushed: unflushed}
	restore := func(label string, turns int) Side {
		return named(label, side(stores.Logstore, pistore.Process, bench.Config{Workload: "restore", Turns: turns, Duration: reading}))
	}
	behindKill := Check{A: 0, B: -1, Unit: bench.P50, AtMost: true, Must: 15e6*unflushed/1e6 + 50e6}
	return []Row{
		{
			Name: "6", Question: "How long does it take to open a session file?", Chart: bench.P50, GiB: true,
			Work: "A file of 100,000 turns, one line each, is opened by a fresh process, three times a round; starting the process is in no figure. jsonl is opened by a program that holds no engine of another backend, so that the memory of the two compares.",
			Tables: []Table{{
				Rounds: pairs, Show: []bench.Unit{bench.P50, bench.Longest, bench.PeakResident},
				Sides: []Side{side(stores.JSONL, pistore.Process, file), side(TypeScriptJSONL, pistore.Process, file)},
				Checks: []Check{
					{A: 0, B: 1, Unit: bench.P50, AtMost: true, Must: 1. / 5, Stretch: 1. / 8},
					{A: 0, B: 1, Unit: bench.PeakResident, AtMost: true, Must: 1. / 4},
				},
			}},
			Not: "A file that is not in the system's cache.",
		},
		{
			Name: "7", Question: "How long until an interrupted run is known again?", Chart: bench.P50,
			Work: "A session of the logstore whose run was killed behind the intent of a request is open, its history in the tables of the database. Measured is the time until a harness knows what the lane is doing, and what that reads: calls, rows, and blocks of tables, cached or not.",
			Tables: []Table{{
				Rounds: pairs, Show: []bench.Unit{bench.P50, bench.P99, bench.P999, bench.ReadCalls, bench.ReadRows, bench.BlockReads},
				Sides: []Side{restore("50 turns", 50), restore("35,000 turns", 35_000)},
				Checks: []Check{
					{A: 1, B: 0, Unit: bench.ReadRows, AtMost: true, Must: 1},
					{A: 1, B: 0, Unit: bench.BlockReads, AtMost: true, Must: 1},
					{A: 1, B: 0, Unit: bench.P50},
					{A: 1, B: -1, Unit: bench.P99, AtMost: true, Stretch: 1e6},
				},
			}},
			Not: "Opening the database, which row 8 has; blocks that have to come from the disk.",
		},
		{
			Name: "8", Question: "How long does a database take to open behind a kill?", Chart: bench.P50, GiB: true,
			Work: "A process with 100,000 or 1,000,000 turns in its database is killed (SIGKILL) when it has committed 8 MiB that no table has yet. A fresh process opens the database and the session. Every acknowledged commit is counted afterwards. Of 1,000,000 turns there is one database, which is killed and opened five times; else there are three a round. The reference implementation opens its session file, as in row 6.",
			Tables: []Table{
				{
					Name: "100,000 turns", Rounds: pairs, Show: []bench.Unit{bench.P50, bench.Longest, bench.StoreOpen, bench.SessionOpen, bench.PeakResident, bench.KilledLogs},
					Sides:  []Side{side(stores.Logstore, pistore.Process, killed), side(TypeScriptJSONL, pistore.Process, file)},
					Checks: []Check{behindKill, {A: 0, B: 1, Unit: bench.P50, AtMost: true, Must: 1. / 4, Stretch: 1. / 10}},
				},
				{
					Name: "1,000,000 turns", Rounds: 1,
					Show:   []bench.Unit{bench.P50, bench.Longest, bench.StoreOpen, bench.SessionOpen, bench.PeakResident, bench.KilledLogs},
					Sides:  []Side{side(stores.Logstore, pistore.Process, million)},
					Checks: []Check{behindKill},
				},
			},
			Not: "Tables that are not in the system's cache; a machine that lost power.",
		},
	}
}
