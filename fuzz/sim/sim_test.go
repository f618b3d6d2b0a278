package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"pistore/fuzz/sim"
)

var (
	seed    = flag.Uint64("sim.seed", 0, "run this seed only, with its trace")
	seeds   = flag.Int("sim.seeds", 20, "how many seeds are run over each backend")
	first   = flag.Uint64("sim.first", 1, "the first of them")
	backend = flag.String("sim.backend", "", "run over this backend only")
	acts    = flag.Int("sim.acts", 0, "only so many acts")
	mishaps = flag.Int("sim.mishaps", 0, "only so many mishaps")
)

// TestMain has garbage collected as seldom as the command does.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// TestSeeds runs some seeds over every backend; -sim.seed replays one.
func TestSeeds(t *testing.T) {
	for _, name := range sim.Backends {
		if *backend != "" && *backend != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if *seed != 0 {
				runSeed(t, *seed, sim.Config{Backend: name, Acts: *acts, Mishaps: *mishaps, Trace: true})
				return
			}
			counts := sim.Counts{}
			for i := range *seeds {
				counts.Add(runSeed(t, *first+uint64(i), sim.Config{Backend: name}))
				if t.Failed() {
					return
				}
			}
			for _, what := range slices.Sorted(maps.Keys(counts)) {
				t.Logf("%6d %s", counts[what], what)
			}
		})
	}
}

func runSeed(t *testing.T, seed uint64, c sim.Config) sim.Counts {
	t.Helper()
	r, err := sim.Run(t.Context(), seed, c)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if c.Trace {
		fmt.Println(strings.Join(r.Trace, "\n"))
	}
	if r.Finding != nil {
		t.Errorf("%s\nagain: go test ./fuzz/sim -run TestSeeds -sim.backend %s -sim.seed %d", r.Finding, c.Backend, seed)
	}
	return r.Counts
}

// A seed replays exactly: the same things happen, in the same order, with the
// same ids.
func TestSeedReplays(t *testing.T) {
	for _, name := range sim.Backends {
		for seed := range uint64(8) {
			var traces [2][]string
			for i := range traces {
				r, err := sim.Run(t.Context(), seed, sim.Config{Backend: name, Trace: true})
				if err != nil || len(r.Trace) == 0 {
					t.Fatalf("%s, seed %d: %d lines, %v", name, seed, len(r.Trace), err)
				}
				traces[i] = r.Trace
			}
			for i := range max(len(traces[0]), len(traces[1])) {
				if i >= len(traces[0]) || i >= len(traces[1]) || traces[0][i] != traces[1][i] {
					t.Errorf("%s, seed %d: two runs tell two stories from line %d on: %.300q", name, seed, i+1,
						[][]string{traces[0][min(i, len(traces[0])):], traces[1][min(i, len(traces[1])):]})
					break
				}
			}
		}
	}
}

// What a seed may do is done by some, and every check of the end is made.
func TestCoverage(t *testing.T) {
	counts := sim.Counts{}
	for seed := range uint64(150) {
		r, err := sim.Run(t.Context(), seed, sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		counts.Add(r.Counts)
	}
	for _, what := range sim.Happenings() {
		if counts[what] == 0 {
			t.Errorf("in 150 seeds there is no %s", what)
		}
	}
}
