package conformance_test

import (
	"fmt"

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
