package bench_test

import (
	"context"
	"fmt"

	"pistore"
	"pistore/bench"
	"pistore/memstore"
)

// Measure a store of your own, here the one in memory.
func ExampleRun() {
	mine := bench.Candidate{
		Name: "backend=mine",
		Open: func(dir string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil },
	}
	r, err := bench.Run(context.Background(), mine, bench.Config{Workload: bench.Turn, Sessions: 4, Ops: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, counts := r.Metrics[bench.Fsyncs] // a store that implements bench.Meter has it
	fmt.Println(r.Name(), r.Ops, r.Metrics[bench.PerSecond] > 0, counts)
	// Output: Turn/backend=mine/sessions=4 1000 true false
}

// Compare two stores in turn, and the ratio of each pair.
func ExampleAlternate() {
	memory := bench.Candidate{
		Name: "backend=memory",
		Open: func(dir string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil },
	}
	both, err := bench.Alternate(context.Background(), memory, bench.RawLog(pistore.Process, true), bench.Config{Workload: bench.Small, Ops: 200}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	ratio, ok := both.Ratio(bench.PerSecond)
	fmt.Println(len(ratio.Pairs), ok, ratio.Min <= ratio.Median)
	// Output: 3 true true
}
