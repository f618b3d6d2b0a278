package harness_test

import (
	"flag"
	"testing"

	"pistore"
	"pistore/fuzz/sim"
	"pistore/harness"
)

var faultySeed = flag.Uint64("faulty.seed", 0, "run the faulty planners with this seed only, and show its trace")

// foundBy names seeds that find a defect which others seldom meet. They save the
// search, and are nothing to rely on: where one finds nothing all are tried.
var foundBy = map[string]uint64{
	"asks again about a decided summary":               17,
	"clears the drained queue early":                   279,
	"drops the bill of a supplied summary":             155,
	"forgets that a trigger was checked":               342,
	"generates a summary that was declined":            122,
	"goes on as if a failed summary were there":        39,
	"leaves a branch summary where the lane came from": 28,
	"repeats an attempt at a summary":                  29,
	"retries under new settings":                       54,
}

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
			finds := func(seed uint64) bool {
				found := simulateSeed(t, seed, c).Finding
				if found != nil {
					t.Logf("seed %d: %s", seed, found)
				}
				return found != nil
			}
			if seed := foundBy[name]; seed != 0 && finds(seed) {
				return
			}
			for seed := uint64(1); seed <= most; seed++ {
				if finds(seed) {
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
