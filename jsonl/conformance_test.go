package jsonl

import (
	"flag"
	"testing"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

var conformanceTxs = flag.Int("conformance", 500, "generated transactions of the model row")

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Config{
		Open:         func(dir string) (pistore.Backend, error) { return NewFolder(dir, Options{}), nil },
		Transactions: *conformanceTxs,
	})
}

// TestConformancePower has payloads on disk, and compacts whenever it can.
func TestConformancePower(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Config{
		Open: func(dir string) (pistore.Backend, error) {
			return NewFolder(dir, Options{Durability: pistore.Power, CompactEagerly: true, DiskPayloadBytes: 1}), nil
		},
		Transactions: *conformanceTxs / 5,
		Lacks:        []conformance.Capability{conformance.NoLarge},
	})
}

// TestConformanceReopened opens the folder anew after every commit.
func TestConformanceReopened(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"memory": {}, "disk": {DiskPayloadBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			m := disk.NewMemory()
			o.FS = m
			conformance.Run(t, conformance.Config{
				Open: func(dir string) (pistore.Backend, error) {
					if err := mkdirAll(m, dir); err != nil {
						return nil, err
					}
					return NewFolder(dir, o), nil
				},
				Transactions: *conformanceTxs,
				ReopenEvery:  1,
				Lacks:        []conformance.Capability{conformance.NoLarge},
			})
		})
	}
}
