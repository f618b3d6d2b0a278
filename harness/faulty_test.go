package harness_test

import (
	"flag"
	"testing"

	"pistore"
	"pistore/fuzz/sim"
	"pistore/harness"
)

var faultySeed = flag.Uint64("faulty.seed", 0, "run the faulty planners with this seed only, and show its trace")

// The simulator finds each planted defect of the planner.
func TestSimulatorFindsPlantedDefects(t *testing.T) {
	const most = 1000
	for _, name := range harness.FaultyPlanners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sim.Config{New: func(s pistore.Storage, o harness.Options) (*harness.Harness, error) {
				return harness.NewFaulty(s, o, name)
			}}
			if *faultySeed != 0 {
				c.Trace = true
				for _, line := range simulateSeed(t, *faultySeed, c).Trace {
					t.Log(line)
				}
				return
			}
			for seed := uint64(1); seed <= most; seed++ {
				if found := simulateSeed(t, seed, c).Finding; found != nil {
					t.Logf("seed %d: %s", seed, found)
					return
				}
			}
			t.Errorf("no seed up to %d finds it", most)
		})
	}
}

func simulateSeed(t *testing.T, seed uint64, c sim.Config) sim.Result {
	t.Helper()
	r, err := sim.Run(t.Context(), seed, c)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return r
}
