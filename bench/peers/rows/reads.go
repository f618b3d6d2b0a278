package rows

import (
	"pistore"
	"pistore/bench"
	"pistore/bench/stores"
)

func readRows() []Row {
	reads := func(workload string, names ...string) []Side {
		var all []Side
		for _, name := range names {
			all = append(all, side(name, pistore.Process, bench.Config{Workload: workload, Turns: manyTurns, Duration: reading}))
		}
		return all
	}
	columns := []bench.Unit{bench.PerSecond, bench.P50, bench.P99, bench.Allocs, bench.BlockReads, bench.Resident}
	return []Row{
		{
			Name: "9", Question: "How fast is the structure of a whole branch read?", Chart: bench.PerSecond,
			Work: "The branch of a lane with 100,000 entries is walked to its root, without payloads. The TypeScript store hands out objects that it has in memory anyway.",
			Tables: []Table{{
				Rounds: pairs, Show: columns, Sides: reads("read-structure", stores.Memory, stores.JSONL, stores.Logstore, TypeScriptMemory),
				Checks: []Check{faster(0, 3, 8, 15), faster(1, 3, 8, 15), faster(2, 3, 3, 5)},
			}},
			Not: "A tree with many branches, and lanes that are interleaved: `pistore bench --workload read-structure --lanes N` has them.",
		},
		{
			Name: "10", Question: "How fast are 100 entries read by their ids?", Chart: bench.PerSecond,
			Work: "The same 100 of 100,000 entries, spread over them, again and again, so that all is warm. The TypeScript store returns objects that it shares with its callers; ours return JSON that nobody can change. Bare Pebble does two gets for each id.",
			Tables: []Table{{
				Rounds: pairs, Show: columns, Sides: reads("read-ids", stores.Memory, TypeScriptMemory, stores.Logstore, stores.BarePebble),
				Checks: []Check{faster(0, 1, 0.5, 1), {A: 2, B: 3, Unit: bench.PerOp, AtMost: true, Must: 2.5, Stretch: 1}},
			}},
			Not: "Reads of what is in no cache, and reads beside commits.",
		},
	}
}
