package bench

import (
	"context"

	"pistore"
)

// Workload is one kind of work.
type Workload struct {
	Name  string
	About string // what is measured, one sentence
	Op    string // what one operation is
	// Defaults are the parameters that it has, by their names in a report, with
	// what each is if a Config leaves it 0.
	Defaults map[string]int64
	Ops      int64 // if a Config says neither ops nor duration; 0: one second

	run func(ctx context.Context, r *run) error
}

// Workloads are all workloads, in the order in which they are told.
func Workloads() []Workload {
	return []Workload{
		{
			Name: Turn, Op: "commit", Defaults: map[string]int64{"sessions": 1}, run: commits,
			About: "Each session commits what a turn of an agent leaves: 1 entry of 1 to 4 KB, 3 registers of 0.2 to 2 KB, 1 usage row; about 3.5 KB.",
		},
		{
			Name: Small, Op: "commit", Defaults: map[string]int64{"sessions": 1}, run: commits,
			About: "Each session commits 1 entry of 256 bytes, 1 register and 1 usage row.",
		},
		{
			Name: Bulk, Op: "commit", Defaults: map[string]int64{"sessions": 1}, run: commits,
			About: "Each session commits transactions of 100 entries of 0.5 to 1.5 KB.",
		},
	}
}

// run is one run of a workload.
type run struct {
	Config   // completed; Dir is this run's own
	workload Workload
	open     func(dir string) (pistore.Backend, error)
	report   *Report
}
