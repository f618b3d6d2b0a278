package rows

import (
	"pistore"
	"pistore/bench"
	"pistore/bench/stores"
)

func spaceRows() []Row {
	disk := bench.Config{Workload: "disk", Turns: 3500}
	verify := bench.Config{Workload: "verify", Turns: manyTurns, Duration: reading}
	idle := func(label string, sessions, turns int) Side {
		return named(label, side(stores.Logstore, pistore.Process, bench.Config{Workload: "idle", Sessions: sessions, Turns: turns}))
	}
	memory := func(a int, unit bench.Unit) Check {
		return Check{A: a, B: -1, Unit: unit, AtMost: true, Must: 64 << 10, Stretch: 16 << 10}
	}
	return []Row{
		{
			Name: "13", Question: "How much disk does a turn take?",
			Work: "3,500 turns of row 1 are committed to one session, which is then compacted. The text is made of words with the frequencies of a language, paths and numbers; zstd makes 0.37 of it in blocks of 32 KB, about what it makes of source and documents. Registers that were overwritten are dead bytes until compaction.",
			Tables: []Table{{
				Rounds: pairs, Show: []bench.Unit{bench.StoredBytes, bench.CompactedBytes, bench.LogBytes, bench.LiveBytes},
				Sides: []Side{side(stores.Logstore, pistore.Process, disk), side(stores.JSONL, pistore.Process, disk)},
				Checks: []Check{
					{A: 0, B: 1, Unit: bench.CompactedBytes, UnitB: bench.StoredBytes, AtMost: true, Must: 0.3, Stretch: 0.2},
					{A: 1, B: 1, Unit: bench.CompactedBytes, UnitB: bench.LiveBytes, AtMost: true, Must: 1.25},
				},
			}},
			Chart: bench.CompactedBytes,
			Not:   "Content that compresses better or worse. Log files, which stay until the next flush, are a column of their own.",
		},
		{
			Name: "14", Question: "How much memory does an open session take?", Chart: bench.HeapPerSession,
			Work: "Sessions with a history are opened and left open; what they add to the heap and to the memory of the process is counted after a collection. The last side has a harness with an idle lane over each of 2,048 sessions, in one process: it stands for a host with so many sessions.",
			Tables: []Table{{
				Rounds: pairs, Show: []bench.Unit{bench.HeapPerSession, bench.ResidentPerSession, bench.Resident, bench.PeakResident},
				Sides: []Side{
					idle("logstore, 50 turns", 1024, 50), idle("logstore, 3,500 turns", 64, 3500),
					named("2,048 lanes in one process", side(stores.Logstore, pistore.Process, bench.Config{Workload: "idle-lanes", Sessions: 2048, Turns: 50})),
				},
				Checks: []Check{
					memory(0, bench.HeapPerSession), memory(0, bench.ResidentPerSession), memory(1, bench.HeapPerSession),
					{A: 2, B: -1, Unit: bench.PeakResident, AtMost: true, Must: 512 << 20},
				},
			}},
			Not: "Clients that watch the sessions, and runs that are in work.",
		},
		{
			Name: "15", Question: "How fast is everything verified?", Chart: bench.MBPerSecond, GiB: true,
			Work: "A session of 100,000 turns is opened read-only and every invariant is checked, on both cores, payloads decoded. MB are of logical bytes: payloads, names and ids.",
			Tables: []Table{{
				Rounds: pairs, Show: []bench.Unit{bench.MBPerSecond, bench.P50, bench.LogicalTotal, bench.DiskBytes, bench.PeakResident},
				Sides: []Side{side(stores.JSONL, pistore.Process, verify), side(stores.Logstore, pistore.Process, verify)},
				Checks: []Check{
					{A: 0, B: -1, Unit: bench.MBPerSecond, Must: 300, Stretch: 600},
					{A: 1, B: -1, Unit: bench.MBPerSecond, Must: 100, Stretch: 300},
				},
			}},
			Not: "A store that is not in the system's cache.",
		},
	}
}
