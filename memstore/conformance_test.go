package memstore_test

import (
	"testing"

	"pistore"
	"pistore/conformance"
	"pistore/memstore"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Config{Open: openVolatile, Volatile: true})
}

// Each commit is followed by closing and opening the session.
func TestConformanceReopening(t *testing.T) {
	conformance.Run(t, conformance.Config{Open: openVolatile, Volatile: true, ReopenEvery: 1, Transactions: 300})
}

func openVolatile(string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil }
