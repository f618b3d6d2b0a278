package bench

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
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

// memoryInUse is what the runtime has in use, and what the process has of the
// machine, when all garbage is given back.
func memoryInUse() (heap, rss float64) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	kb, _ := procNumber("/proc/self/status", "VmRSS")
	return float64(m.HeapAlloc + m.StackInuse), float64(kb << 10)
}

// idle opens sessions and keeps them open.
func idle(ctx context.Context, r *run) (err error) {
	store, err := r.open(r.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	r.Progress.enter("making sessions")
	for i := range r.Sessions {
		s, err := makeSession(ctx, store, &History{Turns: r.Turns, Lanes: 1, Seed: r.Seed}, sessionID(i))
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			return err
		}
		r.Progress.done.Add(1)
	}
	var open []pistore.Storage
	next := func(ctx context.Context) error {
		s, err := store.Open(ctx, sessionID(len(open)), pistore.ReadWrite)
		if err == nil {
			open = append(open, s)
		}
		return err
	}
	closeAll := func() error {
		var err error
		for _, s := range open {
			err = errors.Join(err, s.Close())
		}
		open = open[:0]
		return err
	}
	r.Progress.enter("opening")
	for range r.Sessions { // once before, for what stays behind of the first time
		if err := next(ctx); err != nil {
			return err
		}
	}
	if err := closeAll(); err != nil {
		return err
	}
	clear(open[:cap(open)])
	heap, rss := memoryInUse()
	r.Config.Ops, r.Config.Duration = int64(r.Sessions), 0
	if err := r.repeat(ctx, []*worker{{do: next}}); err != nil {
		return err
	}
	heapNow, rssNow := memoryInUse()
	r.report.Metrics[HeapPerSession] = (heapNow - heap) / float64(r.Sessions)
	if rss > 0 {
		r.report.Metrics[ResidentPerSession] = (rssNow - rss) / float64(r.Sessions)
	}
	resident(r.report)
	return closeAll()
}
