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

	run    func(ctx context.Context, r *run) error
	tables bool // begins with a history that is in the tables of a store that has some
}

// Workloads are all workloads, in the order in which they are told.
func Workloads() []Workload {
	history := map[string]int64{"turns": 1000, "lanes": 1}
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
		{
			Name: "read-ids", Op: "read", Defaults: history, run: readIDs,
			About: "Reads 100 entries by their ids from a session with a history.",
		},
		{
			Name: "read-latest", Op: "read", Defaults: history, run: readLatest,
			About: "Reads the latest 50 entries of a branch.",
		},
		{
			Name: "read-context", Op: "read", Defaults: history, run: readContext,
			About: "Reads a branch back to its newest compaction, 101 entries.",
		},
		{
			Name: "read-structure", Op: "read", Defaults: history, run: readStructure,
			About: "Reads the structure of a whole branch, without payloads.",
		},
		{
			Name: "restore", Op: "restore", Defaults: map[string]int64{"turns": 50}, run: restore, tables: true,
			About: "Restores the lane of an open session whose run was killed: the time until a harness knows what the lane is doing.",
		},
		{
			Name: "attach", Op: "attach", Defaults: map[string]int64{"turns": 1000}, run: attach,
			About: "Restores a lane and attaches a watcher that has missed its last 50 entries: the time until it is up to date.",
		},
		{
			Name: "open", Op: "open", Defaults: map[string]int64{"turns": 1000}, Ops: 5, run: openClosed,
			About: "A fresh process opens a store that was closed, and a session with a history in it.",
		},
		{
			Name: "open-killed", Op: "open", Defaults: map[string]int64{"turns": 1000, "unflushed": 8 << 20}, Ops: 5, run: openKilled,
			About: "The same behind a SIGKILL of a process that has committed so many bytes since it opened the store.",
		},
		{
			Name: "replay", Op: "replay", Defaults: history, run: replay,
			About: "Opens a session read-only and reads every row.",
		},
		{
			Name: "verify", Op: "check", Defaults: history, run: check,
			About: "Opens a session read-only and verifies every invariant.",
		},
		{
			Name: "compact", Op: "compaction", Defaults: map[string]int64{"turns": 1000}, Ops: 5, run: compact,
			About: "Compacts a session that has grown by a tenth of its turns; MB/s are of the bytes before.",
		},
		{
			Name: "disk", Op: "commit", Defaults: map[string]int64{"turns": 3500}, run: diskSpace,
			About: "Commits turns as the workload turn does to one session, then compacts: bytes on disk before and after.",
		},
		{
			Name: "idle", Op: "open", Defaults: map[string]int64{"sessions": 256, "turns": 50}, run: idle,
			About: "Opens sessions with a history and leaves them open: memory of each.",
		},
		{
			Name: "idle-lanes", Op: "open", Defaults: map[string]int64{"sessions": 256, "turns": 50}, run: idleLanes,
			About: "The same, each with a harness that holds an idle lane.",
		},
		{
			Name: "runs", Op: "run", Defaults: map[string]int64{"sessions": 1, "tools": 0}, run: runs,
			About: "Each session does scripted runs through the harness: a prompt, calls of tools, an answer. A new session takes over after 16 runs.",
		},
		{
			Name: "runs-bare", Op: "run", Defaults: map[string]int64{"sessions": 1, "tools": 0}, run: runsBare,
			About: "Commits the transactions of such runs without the harness.",
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
