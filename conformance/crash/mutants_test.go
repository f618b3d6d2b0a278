package crash

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/conformance"
)

func (d defect) config() Config {
	return Config{
		Open: store(d), OpenOn: store(d),
		Child: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), defectEnv+"="+string(d))
			return cmd
		},
		Seed: 1, Kills: 8, Cuts: 80, Faults: 150, Flips: 60,
	}
}

// TestSurvey says which rows notice a broken store, for the table of mutants.
func TestSurvey(t *testing.T) {
	if os.Getenv("SURVEY") == "" {
		t.Skip("only when asked for")
	}
	for _, m := range mutants() {
		t.Run(string(m.defect), func(t *testing.T) {
			cfg := m.defect.config()
			counts := map[string]int{}
			for seed := range uint64(2) {
				cfg.Seed = seed + 1
				for _, r := range Check(cfg).Results {
					if r.Outcome == conformance.Fail {
						counts[r.ID+"/"+r.Level]++
						if os.Getenv("SURVEY") == "why" {
							t.Log(r)
						}
					}
				}
			}
			var all []string
			for id, n := range counts {
				all = append(all, fmt.Sprintf("%s:%d", id, n))
			}
			slices.Sort(all)
			t.Logf("SURVEY %s: %s", m.defect, strings.Join(all, " "))
		})
	}
}

var _ = pistore.Process
