package bench

import (
	"context"

	"pistore"
)

// Candidate is what is measured: a store, or a peer that does the same work in
// its own way.
type Candidate struct {
	// Name says what it is, as key=value joined by slashes:
	// "backend=logstore/durability=process".
	Name string

	// Open opens the store in a folder that exists and is empty, or that an
	// earlier Open of this candidate has filled. The store is closed before the
	// folder goes. A store that can do only part of what a Backend does gives
	// pistore.ErrUnsupported for the rest (see [CommitOnly]), and the workloads
	// that need it fail with that.
	Open func(dir string) (pistore.Backend, error)

	// Run does a workload instead of Open, for a peer that is no store of ours,
	// another program for instance. It does the work that the workload's
	// description names, with content from [NewContent] or [History], and leaves
	// out of the Report what it cannot measure. A workload that it does not know
	// is pistore.ErrUnsupported.
	Run func(ctx context.Context, c Config) (Report, error)
}

// Meter is what a Backend may be beside: it knows what it wrote since it was
// opened. Where a store is none, its written bytes and syncs are absent from
// the Report.
type Meter interface{ Written() Written }

// BlockReader is what a Backend may be beside: it knows how many blocks of its
// tables were asked for since it was opened, cached or not.
type BlockReader interface{ BlocksRead() int64 }

// Written counts what a store did to its files.
type Written struct {
	Bytes int64 // handed to the system
	Syncs int64 // of files and folders, real ones
}
