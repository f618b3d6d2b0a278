package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pistore/fuzz/sim"
)

var (
	seed    = flag.Uint64("sim.seed", 0, "run this seed only, with its trace")
	seeds   = flag.Int("sim.seeds", 60, "how many seeds are run over each backend")
	first   = flag.Uint64("sim.first", 1, "the first of them")
	backend = flag.String("sim.backend", "", "run over this backend only")
	acts    = flag.Int("sim.acts", 0, "only so many acts")
	mishaps = flag.Int("sim.mishaps", 0, "only so many mishaps")
)

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
