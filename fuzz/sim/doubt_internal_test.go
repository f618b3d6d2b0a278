package sim

import (
	"fmt"
	"testing"

	"pistore/harness"
	"pistore/registers"
)

// Whatever is being committed when the store fails, and whether it is durable
// then or not: the oracle takes the next life's store for what it is.
func TestCommitInDoubt(t *testing.T) {
	for _, kind := range actKinds {
		for _, f := range []fault{beforeFault, afterFault} {
			t.Run(fmt.Sprintf("%s %d", kind.name, f), func(t *testing.T) {
				p := program{
					seed: 1, mode: Wild, lanes: []string{registers.MainLane}, retry: registers.RetryPolicy{MaxAttempts: 1},
					steering: registers.All, followUp: registers.OneAtATime, maxResumes: 3,
				}
				for n, name := range []string{"next-run", "append message", "prompt", kind.name} {
					p.acts = append(p.acts, act{n: n + 1, kind: name, lane: registers.MainLane})
				}
				s, err := newSimulation(t.Context(), p, Config{Backend: Memstore, New: harness.New, Trace: true})
				if err != nil {
					t.Fatal(err)
				}
				s.begin(harness.Manual)
				for _, a := range p.acts[:2] {
					s.perform(a)
				}
				if kind.refused != nil && kind.refused(nil) != nil { // it wants a run
					s.perform(p.acts[2])
				}
				s.life.guard.arm(f)
				s.perform(p.acts[3])
				s.run()
				if err := s.end(); err != nil || s.found() {
					t.Errorf("%v, %v\n%v", err, s.finding, s.story())
				}
			})
		}
	}
}
