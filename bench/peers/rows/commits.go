package rows

import (
	"pistore"
	"pistore/bench"
	"pistore/bench/stores"
)

var commitColumns = []bench.Unit{bench.PerSecond, bench.P50, bench.P99, bench.P999, bench.Allocs, bench.WrittenBytes, bench.Fsyncs, bench.Resident}

// committing is a run of commits.
func committing(workload string, sessions int, name string, level pistore.Durability) Side {
	c := bench.Config{Workload: workload, Sessions: sessions, Duration: plain}
	if name == stores.Logstore || name == stores.BarePebble {
		c.Duration = flushing
	}
	return side(name, level, c)
}

func faster(a, b int, must, stretch float64) Check {
	return Check{A: a, B: b, Unit: bench.PerSecond, Must: must, Stretch: stretch}
}

// turnWork is what the workload turn commits.
const turnWork = "Each session commits what a turn of an agent leaves, one after the other: 1 entry of 1 to 4 KB of JSON, 3 registers of 0.2 to 2 KB, 1 usage row; 3.7 KB together."

func commitRows() []Row {
	turns := func(sessions int, level pistore.Durability, names ...string) []Side {
		var all []Side
		for _, name := range names {
			all = append(all, committing(bench.Turn, sessions, name, level))
		}
		return all
	}
	many := append(append([]bench.Unit{}, commitColumns...), bench.FewestOps, bench.MostOps)
	return []Row{
		{
			Name: "1", Question: "What does a turn cost that survives the process?", Work: turnWork, Chart: bench.PerSecond, GiB: true,
			Tables: []Table{{
				Rounds: pairs, Show: commitColumns, Sides: turns(1, pistore.Process, stores.Logstore, SQLite, stores.BarePebble),
				Checks: []Check{faster(0, 1, 5, 8), faster(0, 2, 0.6, 0.8)},
			}},
			Not: "A disk that is slower than this one: at this level only flushes and compactions wait for it, and the checkpoints of SQLite.",
		},
		{
			Name: "2", Question: "And with 64 sessions at once?", Chart: bench.PerSecond, GiB: true,
			Work: turnWork + " SQLite has a file for each session. No session starves if the one that did the fewest commits did at least half as many as the one that did the most.",
			Tables: []Table{{
				Rounds: pairs, Show: many, Sides: turns(64, pistore.Process, stores.Logstore, SQLite),
				Checks: []Check{faster(0, 1, 6, 10), {A: 0, B: 0, Unit: bench.FewestOps, UnitB: bench.MostOps, Must: 0.5}},
			}},
			Not: "Sessions that commit at different rates. With 64 committers on a few cores the high percentiles are mostly waiting for a core.",
		},
		{
			Name: "3", Question: "What does a turn cost that survives a power cut, with 64 sessions?", Chart: bench.PerSecond, GiB: true,
			Work: turnWork + " The group log is what the machine can do: the lines of all sessions in one file, those that come while one is synced written and synced together, and nothing checked.",
			Tables: []Table{{
				Rounds: pairs, Show: many, Sides: turns(64, pistore.Power, stores.Logstore, SQLite, stores.GroupLog),
				Checks: []Check{faster(0, 1, 7, 12), faster(0, 2, 0.35, 0.5)},
			}},
			Not: "A disk whose cache really survives a power cut or really does not: what fdatasync costs, and what it is worth, is the disk's affair.",
		},
		{
			Name: "4", Question: "What does a small commit cost beside the reference implementation?", Chart: bench.PerSecond, GiB: true,
			Work:   "Each session commits 1 entry of 256 bytes, 1 register and 1 usage row; 0.5 KB together. The raw log encodes, sums and writes the same lines, after the checks that every backend makes before it looks at what is stored.",
			Tables: []Table{smallTable("one session", 1), smallTable("16 sessions", 16)},
			Not:    "The reference implementation in a process that has other things to do: its sessions share one thread.",
		},
		{
			Name: "5", Question: "What does jsonl add to one append and one fdatasync?", Chart: bench.PerSecond, GiB: true, Work: turnWork,
			Tables: []Table{{
				Rounds: 9, Show: commitColumns, Sides: turns(1, pistore.Power, stores.JSONL, stores.RawLog),
				Checks: []Check{faster(0, 1, 0.85, 0.95)},
			}},
			Not: "Anything but the disk, nearly: what both sides do most of the time is wait for fdatasync.",
		},
	}
}

func smallTable(name string, sessions int) Table {
	t := Table{Name: name, Rounds: pairs, Show: commitColumns}
	for _, store := range []string{stores.JSONL, TypeScriptJSONL, stores.RawLogJSON, stores.Logstore} {
		t.Sides = append(t.Sides, committing(bench.Small, sessions, store, pistore.Process))
	}
	t.Checks = []Check{faster(0, 1, 15, 25), faster(0, 2, 0.7, 0), faster(3, 1, 5, 9)}
	return t
}

// levels is the row for people who choose a level.
func levels() Row {
	table := func(name string, sessions int) Table {
		t := Table{Name: name, Rounds: 3, Show: append([]bench.Unit{bench.PerSecond, bench.P50, bench.P99, bench.P999, bench.Fsyncs, bench.WrittenBytes}, bench.Allocs)}
		add := func(label, store string, level pistore.Durability, c bench.Config) {
			c.Workload, c.Sessions = bench.Turn, sessions
			if c.Duration = plain; store != stores.Logstore { // which is the one that flushes
				c.Duration /= 2
			}
			t.Sides = append(t.Sides, named(label, side(store, level, c)))
		}
		add("memory", stores.Memory, pistore.Process, bench.Config{Ops: 200_000}) // it keeps them all
		add("jsonl, Process", stores.JSONL, pistore.Process, bench.Config{})
		add("jsonl, Power", stores.JSONL, pistore.Power, bench.Config{})
		add("logstore, Process", stores.Logstore, pistore.Process, bench.Config{})
		add("logstore, Power", stores.Logstore, pistore.Power, bench.Config{})
		return t
	}
	return Row{
		Name: Levels, Question: "Which durability level?",
		Work: "`Process` survives the death of any process at any instant; `Power` also a power cut, and pays for it with a sync, which sessions that commit at once share in logstore and not in jsonl, where each has a file of its own. Memory survives nothing. " + turnWork, Chart: bench.PerSecond,
		Tables: []Table{table("1 session", 1), table("64 sessions", 64)},
		Not:    "Peers: the rows below have them, in pairs. Here the stores took turns, and what differs by less than the spread of a store is no difference.",
	}
}
