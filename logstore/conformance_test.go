package logstore

import (
	"testing"

	"pistore"
	"pistore/conformance"
)

func TestConformance(t *testing.T) {
	for _, level := range []pistore.Durability{pistore.Process, pistore.Power} {
		t.Run(level.String(), func(t *testing.T) {
			conformance.Run(t, conformance.Config{
				Open: func(dir string) (pistore.Backend, error) {
					return Open(dir, Options{Durability: level})
				},
				Transactions: 2000,
			})
		})
	}
}
