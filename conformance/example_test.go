package conformance_test

import (
	"fmt"
	"testing"

	"pistore"
	"pistore/conformance"
	"pistore/memstore"
)

func ExampleCheck() {
	report := conformance.Check(conformance.Config{
		Open:     func(string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil },
		Volatile: true,
		Only:     []string{"TX-01", "QRY-04", "OWN-04"},
	})
	for _, r := range report.Results {
		fmt.Println(r.Outcome, r.ID)
	}
	// Output:
	// pass TX-01
	// pass QRY-04
	// skip OWN-04
}

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Config{
		Open: func(dir string) (pistore.Backend, error) {
			return memstore.New(memstore.Options{}), nil
		},
		Volatile:     true, // leave this out if content outlives Close
		Transactions: 500,
		Lacks:        []conformance.Capability{conformance.NoLarge},
	})
}
