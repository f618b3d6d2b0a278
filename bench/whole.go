package bench

import (
	"context"
	"errors"
	"fmt"

	"pistore"
	"pistore/verify"
)

// perSecond sets how many logical bytes an operation goes through in a second.
func (r *run) perSecond(bytes float64) {
	r.report.Metrics[LogicalBytes] = bytes
	r.report.Metrics[MBPerSecond] = bytes * r.report.Metrics[PerSecond] / 1e6
}

// throughAll opens the session read-only, does something with all of it, and
// closes it.
func throughAll(ctx context.Context, r *run, use func(context.Context, pistore.Storage) error) error {
	err := r.measured(ctx, true, func(f *filled) *worker {
		return &worker{do: func(ctx context.Context) (err error) {
			s, err := f.store.Open(ctx, sessionID(0), pistore.ReadOnly)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			return use(ctx, s)
		}}
	})
	if err == nil {
		r.perSecond(r.report.Metrics[LogicalTotal])
	}
	return err
}

// replay reads every row.
func replay(ctx context.Context, r *run) error {
	return throughAll(ctx, r, func(ctx context.Context, s pistore.Storage) error {
		n := 0
		for _, err := range s.Export(ctx) {
			if err != nil {
				return err
			}
			n++
		}
		if n < r.Turns {
			return fmt.Errorf("the store gave %d rows of %d turns", n, r.Turns)
		}
		return nil
	})
}

// check verifies every invariant.
func check(ctx context.Context, r *run) error {
	return throughAll(ctx, r, func(ctx context.Context, s pistore.Storage) error {
		report, err := verify.Check(ctx, s, verify.Options{})
		if err == nil && !report.OK() {
			err = fmt.Errorf("verify found %v", report.Faults)
		}
		return err
	})
}

// compact compacts a session that has grown by a tenth of its turns since it
// was compacted last, dead registers included.
func compact(ctx context.Context, r *run) error {
	content, err := NewContent(Turn, r.Seed)
	if err != nil {
		return err
	}
	stream := content.Stream(1)
	var before, after int64
	err = r.measured(ctx, false, func(f *filled) *worker {
		compacter, ok := pistore.Find[pistore.Compacter](f.session)
		return &worker{
			before: func() error {
				for range r.Turns / 10 {
					if _, err := f.session.Commit(ctx, stream.Next()); err != nil {
						return err
					}
				}
				return nil
			},
			do: func(ctx context.Context) error {
				if !ok {
					return fmt.Errorf("%w: the store does not compact", pistore.ErrUnsupported)
				}
				sizes, err := compacter.Compact(ctx)
				before, after = sizes.BytesBefore, sizes.BytesAfter
				return err
			},
		}
	})
	if err == nil {
		r.report.Metrics[BeforeBytes], r.report.Metrics[AfterBytes] = float64(before), float64(after)
		// The clock also runs while the session grows, so that the latency counts.
		r.report.Metrics[MBPerSecond] = float64(before) / r.report.Metrics[P50] * 1e3
	}
	return err
}
