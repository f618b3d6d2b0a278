package crash_test

import (
	"encoding/json"
	"fmt"

	"pistore"
	"pistore/conformance/crash"
	"pistore/memstore"
)

// A store that keeps nothing on disk loses everything with its process.
func ExampleCheck() {
	report := crash.Check(crash.Config{
		OpenOn: func(crash.Place) (pistore.Backend, error) {
			return memstore.New(memstore.Options{}), nil
		},
		Levels: []pistore.Durability{pistore.Power},
		Only:   []string{"KIL-01", "CUT-01"},
		Seed:   1,
	})
	for _, r := range report.Results {
		fmt.Println(r.Outcome, r.ID, r.Level)
	}
	depth, _ := json.Marshal(report.Results[0].Depth)
	fmt.Println(string(depth))
	// Output:
	// skip KIL-01 power
	// fail CUT-01 power
	// {"opens":0}
}
