package bench

import (
	"context"
	"errors"
	"strings"

	"pistore"
)

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }
func noLog(name string) bool { return !isLog(name) }

// diskSpace commits turns to one session, and measures the folder before and
// after it is compacted.
func diskSpace(ctx context.Context, r *run) (err error) {
	content, err := NewContent(Turn, r.Seed)
	if err != nil {
		return err
	}
	store, err := r.open(r.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := store.Create(ctx, pistore.Info{ID: sessionID(0)})
	if err != nil {
		return err
	}
	stream, tx := content.Stream(0), pistore.Tx{}
	r.Config.Ops, r.Config.Duration = int64(r.Turns), 0
	r.Progress.enter("committing")
	used := newGauge(store)
	err = r.repeat(ctx, []*worker{{
		before: func() error { tx = stream.Next(); return nil },
		do:     func(ctx context.Context) error { _, err := s.Commit(ctx, tx); return err },
	}})
	if err != nil {
		return err
	}
	used.report(r.report, allocationsOf(100, func() { stream.Next() }))
	if size := folderBytes(r.Dir, anyFile); size > 0 {
		r.report.perOp(StoredBytes, float64(size))
	}
	live := int64(0)
	for row, err := range s.Export(ctx) {
		if err != nil {
			return err
		}
		live += rowBytes(row)
	}
	r.report.perOp(LiveBytes, float64(live))
	r.Progress.enter("compacting")
	compacter, ok := pistore.Find[pistore.Compacter](s)
	if !ok {
		return nil
	}
	if _, err := compacter.Compact(ctx); err != nil {
		return err
	}
	if err := store.Close(); err != nil { // what is in use no more may stay until then
		return err
	}
	r.report.perOp(CompactedBytes, float64(folderBytes(r.Dir, noLog)))
	r.report.perOp(LogBytes, float64(folderBytes(r.Dir, isLog)))
	return nil
}

// rowBytes is what a row holds: payloads, names and ids.
func rowBytes(row pistore.Row) int64 {
	switch r := row.(type) {
	case pistore.Entry:
		return int64(len(r.ID) + len(r.ParentID) + len(r.Payload))
	case pistore.Register:
		return int64(len(r.Namespace) + len(r.Key) + len(r.Value))
	case pistore.UsageRow:
		return int64(len(r.ID) + len(r.EntryID) + len(r.Usage) + len(r.Details))
	default:
		return 0
	}
}
