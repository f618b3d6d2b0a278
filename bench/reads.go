package bench

import (
	"context"

	"pistore"
)

// readIDs reads a sample of entries by their ids.
func readIDs(ctx context.Context, r *run) error {
	return r.measured(ctx, false, func(f *filled) *worker {
		ids := f.history.Sample()
		return &worker{do: func(ctx context.Context) error {
			entries, err := f.session.Entries(ctx, ids)
			if err != nil {
				return err
			}
			return expect(len(entries), len(ids), "entries")
		}}
	})
}

// readBranch reads a branch of the lane main that has want entries.
func readBranch(ctx context.Context, r *run, q pistore.BranchQuery, want int) error {
	return r.measured(ctx, false, func(f *filled) *worker {
		q.Start = f.history.Leaf()
		return &worker{do: func(ctx context.Context) error {
			n := 0
			for _, err := range f.session.Branch(ctx, q) {
				if err != nil {
					return err
				}
				n++
			}
			return expect(n, want, "entries")
		}}
	})
}

func readLatest(ctx context.Context, r *run) error {
	return readBranch(ctx, r, pistore.BranchQuery{Limit: 50}, min(50, r.Turns))
}

func readContext(ctx context.Context, r *run) error {
	return readBranch(ctx, r, pistore.BranchQuery{StopAtType: pistore.TypeCompaction}, min(compactedBefore+1, r.Turns))
}

func readStructure(ctx context.Context, r *run) error {
	return readBranch(ctx, r, pistore.BranchQuery{StructureOnly: true}, r.Turns)
}
