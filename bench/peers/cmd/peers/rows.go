package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pistore"
	"pistore/bench"
	"pistore/bench/peers"
	"pistore/bench/stores"
)

// store names a candidate.
type store struct {
	name  string
	level pistore.Durability
}

// The peers of this module, beside the names in package stores.
const (
	sqlite           = "sqlite"
	typescriptJSONL  = "typescript-jsonl"
	typescriptMemory = "typescript-memory"
)

func (s store) String() string { return s.name + "/" + s.level.String() }

// parseStore is the reverse of String.
func parseStore(text string) (store, error) {
	name, level, _ := strings.Cut(text, "/")
	for _, s := range []store{{name, pistore.Process}, {name, pistore.Power}} {
		if s.level.String() == level {
			return s, nil
		}
	}
	return store{}, fmt.Errorf("peers: %.100q is no store", text)
}

func (s store) candidate(node string) (bench.Candidate, error) {
	switch s.name {
	case sqlite:
		return peers.SQLite(s.level), nil
	case typescriptJSONL:
		return peers.TypeScript(peers.JSONL, node), nil
	case typescriptMemory:
		return peers.TypeScript(peers.Memory, node), nil
	default:
		return stores.Candidate(s.name, s.level)
	}
}

// row is one question: pairs of candidates, and what their ratios should be.
type row struct {
	number int
	about  string
	pairs  int
	cells  []cell
}

// cell is one pair of candidates with their work.
type cell struct {
	a, b     store
	ofA, ofB bench.Config
	checks   []check
}

// check is what a ratio of A by B should be, or a median of A.
type check struct {
	unit          bench.Unit
	of            what
	most          bool // at most, else at least
	must, stretch float64
}

type what int

const (
	ratio what = iota
	valueOfA
)

// Durations of a run: an engine that flushes runs past its third flush.
const flushing, plain, reading = 30 * time.Second, 10 * time.Second, 5 * time.Second

func rateAtLeast(must, stretch float64) []check {
	return []check{{unit: bench.PerSecond, must: must, stretch: stretch}}
}

// commits compares two stores of one level.
func commits(workload string, sessions int, level pistore.Durability, a, b string, must, stretch float64) cell {
	c := bench.Config{Workload: workload, Sessions: sessions, Duration: plain}
	if a == stores.Logstore {
		c.Duration = flushing
	}
	return cell{a: store{a, level}, b: store{b, level}, ofA: c, ofB: c, checks: rateAtLeast(must, stretch)}
}

// reads compares two stores that are filled with the same history.
func reads(workload, a, b string, checks []check) cell {
	c := bench.Config{Workload: workload, Turns: 1, Duration: reading}
	return cell{a: store{name: a, level: pistore.Process}, b: store{name: b, level: pistore.Process}, ofA: c, ofB: c, checks: checks}
}

// unflushed is how much a store was given before it is killed.
const unflushed = 8 << 20

// rows are all rows, with the numbers that they have in the acceptance table.
// Turns that are 1 here are as many as the command line says.
func rows() []row {
	open := bench.Config{Workload: "open", Turns: 1, Ops: 3}
	killed := bench.Config{Workload: "open-killed", Turns: 1, Ops: 3, Unflushed: unflushed}
	all := []row{
		{number: 1, about: "a turn, one session, level process", cells: []cell{
			commits(bench.Turn, 1, pistore.Process, stores.Logstore, sqlite, 5, 8),
			commits(bench.Turn, 1, pistore.Process, stores.Logstore, stores.BarePebble, 0.6, 0.8),
		}},
		{number: 2, about: "a turn, 64 sessions, level process", cells: []cell{
			commits(bench.Turn, 64, pistore.Process, stores.Logstore, sqlite, 6, 10),
		}},
		{number: 3, about: "a turn, 64 sessions, level power", cells: []cell{
			commits(bench.Turn, 64, pistore.Power, stores.Logstore, sqlite, 7, 12),
			commits(bench.Turn, 64, pistore.Power, stores.Logstore, stores.GroupLog, 0.35, 0.5),
		}},
		{number: 4, about: "a small commit, one session and 16, level process", cells: smallCells()},
		{number: 5, about: "a turn, one session, level power, by a raw append and fdatasync", pairs: 9, cells: []cell{
			commits(bench.Turn, 1, pistore.Power, stores.JSONL, stores.RawLog, 0.85, 0.95),
			commits(bench.Turn, 1, pistore.Power, stores.JSONL, stores.RawLogJSON, 0, 0),
		}},
		{number: 6, about: "opening a session file in a fresh process", cells: []cell{{
			a: store{stores.JSONL, pistore.Process}, b: store{typescriptJSONL, pistore.Process}, ofA: open, ofB: open,
			checks: []check{
				{unit: bench.P50, most: true, must: 1. / 5, stretch: 1. / 8},
				{unit: bench.PeakResident, most: true, must: 1. / 4},
			},
		}}},
		{number: 8, about: "opening behind a kill, by opening a session file", cells: []cell{{
			a: store{stores.Logstore, pistore.Process}, b: store{typescriptJSONL, pistore.Process}, ofA: killed, ofB: open,
			checks: []check{
				{unit: bench.P50, most: true, must: 1. / 4, stretch: 1. / 10},
				{unit: bench.P50, of: valueOfA, most: true, must: 15e6*unflushed/1e6 + 50e6},
			},
		}}},
		{number: 9, about: "the structure of a whole branch", cells: []cell{
			reads("read-structure", stores.Memory, typescriptMemory, rateAtLeast(8, 15)),
			reads("read-structure", stores.JSONL, typescriptMemory, rateAtLeast(8, 15)),
			reads("read-structure", stores.Logstore, typescriptMemory, rateAtLeast(3, 5)),
		}},
		{number: 10, about: "100 entries by id, warm", cells: []cell{
			reads("read-ids", stores.Memory, typescriptMemory, rateAtLeast(0.5, 1)),
			reads("read-ids", stores.Logstore, stores.BarePebble, []check{{unit: bench.PerOp, most: true, must: 2.5, stretch: 1}}),
		}},
	}
	for i := range all {
		if all[i].pairs == 0 {
			all[i].pairs = 5
		}
	}
	return all
}

func smallCells() []cell {
	var all []cell
	for _, n := range []int{1, 16} {
		all = append(all,
			commits(bench.Small, n, pistore.Process, stores.JSONL, typescriptJSONL, 15, 25),
			commits(bench.Small, n, pistore.Process, stores.JSONL, stores.RawLogJSON, 0.7, 0),
			commits(bench.Small, n, pistore.Process, stores.JSONL, stores.RawLog, 0, 0),
			commits(bench.Small, n, pistore.Process, stores.Logstore, typescriptJSONL, 5, 9),
		)
	}
	return all
}

func find(number int) (row, bool) {
	all := rows()
	if i := slices.IndexFunc(all, func(r row) bool { return r.number == number }); i >= 0 {
		return all[i], true
	}
	return row{}, false
}

func numbers() []int {
	var all []int
	for _, r := range rows() {
		all = append(all, r.number)
	}
	return all
}
