package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pistore/fuzz/sim"
)

// What the simulator finds is told step by step, with the command that shows it
// again.
func TestSimReport(t *testing.T) {
	r := simReport{Backend: "memstore", First: 1, Seeds: 12, Seconds: 1.5, Counts: map[string]int64{"commit": 1234}, Finding: findingOf("memstore", sim.Result{
		Seed: 12, Mode: sim.Wild, Acts: 3, Mishaps: -1,
		Finding: &sim.Finding{Check: "invariant 14", Detail: "a \x1b[31mqueue"}, Trace: []string{"main: prompt #1", "FOUND it"},
	})}
	got := printed(t, func(p *paper) { printSim(p, r) })
	for _, want := range []string{
		"1,234  commit\n", "main: prompt #1\nFOUND it\n", "FOUND invariant 14  seed 12, wild\n", `a \x1b[31mqueue`,
		"again: pistore sim --seed 12 --seeds 1 --backend memstore --acts 3 --mishaps -1\n", "12 seeds on memstore in 1.5 s: one finding\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, asJSON := range []bool{false, true} {
		in := &invocation{json: asJSON}
		text := printed(t, func(p *paper) {
			in.out = p
			var exit *exitError
			if err := in.reportSim(r); !errors.As(err, &exit) || exit.code != exitFindings || exit.err != nil {
				t.Errorf("%v", err)
			}
		})
		if asJSON {
			var back simReport
			if err := json.Unmarshal([]byte(text), &back); err != nil || back.Finding.Seed != 12 || back.Counts["commit"] != 1234 {
				t.Errorf("%v: %s", err, text)
			}
		}
	}
}
