package logstore

import (
	"flag"
	"slices"
	"testing"

	"pistore"
	"pistore/conformance"
)

var conformanceTxs = flag.Int("conformance", 1000, "generated transactions of the model row")

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			cfg := conformance.Config{
				Open: func(dir string) (pistore.Backend, error) {
					return Open(dir, Options{Durability: level})
				},
				Transactions: *conformanceTxs,
			}
			if level == pistore.Power {
				// What is large is tried once: to it a level means nothing.
				cfg.Lacks = []conformance.Capability{conformance.NoLarge}
			}
			conformance.Run(t, cfg)
		})
	}
}

// secondHandle are rows that look through another handle while they commit.
// Opening the database anew after a commit closes that handle under them.
var secondHandle = []string{"REO-07", "RO-04", "BAK-06"}

// TestConformanceReopened opens the whole database anew after every commit.
func TestConformanceReopened(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			report := conformance.Check(conformance.Config{
				Open: func(dir string) (pistore.Backend, error) {
					return Open(dir, Options{Durability: level})
				},
				Transactions: max(1, *conformanceTxs/10),
				ReopenEvery:  1,
				Lacks:        []conformance.Capability{conformance.NoLarge},
				Dir:          t.TempDir(),
			})
			for _, r := range report.Results {
				if r.Outcome == conformance.Fail && !slices.Contains(secondHandle, r.ID) {
					t.Error(r)
				}
			}
			t.Logf("%d rows passed, %d skipped, not counted: %v", report.Passed, report.Skipped, secondHandle)
		})
	}
}
