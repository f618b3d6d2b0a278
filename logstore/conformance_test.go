package logstore

import (
	"flag"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

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
				if r.Outcome == conformance.Fail {
					t.Error(r)
				}
			}
			t.Logf("%d rows passed, %d skipped", report.Passed, report.Skipped)
		})
	}
}

// TestConformanceInMemory runs the model row over a file system in memory, which
// needs no disk and so can be long.
func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			conformance.Run(t, conformance.Config{
				Open: func(dir string) (pistore.Backend, error) {
					return Open(dir, Options{Durability: level, fs: fs})
				},
				Transactions: max(1, *conformanceTxs/5),
				Only:         []string{"MOD-01"},
			})
		})
	}
}
