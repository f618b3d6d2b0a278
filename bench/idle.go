package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"pistore"
	"pistore/harness"
)

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
func idle(ctx context.Context, r *run) error {
	return r.keepOpen(ctx, 1, func(_ context.Context, s pistore.Storage) (func() error, error) { return s.Close, nil })
}

// idleLanes opens sessions and keeps each open below a harness, with a lane on
// which nothing runs.
func idleLanes(ctx context.Context, r *run) error {
	return r.keepOpen(ctx, 2, func(ctx context.Context, s pistore.Storage) (func() error, error) {
		h, err := harness.New(s, harness.Options{})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		end := func() error { return errors.Join(h.Close(context.WithoutCancel(ctx)), s.Close()) }
		lane, err := h.Lane(ctx, idleLane)
		if err == nil && lane.Handle() != nil {
			err = fmt.Errorf("something runs on the lane %q", idleLane)
		}
		if err != nil {
			return nil, errors.Join(err, end())
		}
		return end, nil
	})
}

// keepOpen makes sessions with a history of so many lanes, opens each of them and
// hold keeps what it likes of it, until what it returns is called.
func (r *run) keepOpen(ctx context.Context, lanes int, hold func(context.Context, pistore.Storage) (end func() error, err error)) (err error) {
	store, err := r.open(r.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := r.makeSessions(ctx, store, lanes); err != nil {
		return err
	}
	var held []func() error
	next := func(ctx context.Context) error {
		s, err := store.Open(ctx, sessionID(len(held)), pistore.ReadWrite)
		if err != nil {
			return err
		}
		end, err := hold(ctx, s)
		if err == nil {
			held = append(held, end)
		}
		return err
	}
	letGo := func() error {
		var err error
		for _, end := range held {
			err = errors.Join(err, end())
		}
		clear(held)
		held = held[:0]
		return err
	}
	defer func() { err = errors.Join(err, letGo()) }()
	r.Progress.enter("opening")
	for range r.Sessions { // once before, for what stays behind of the first time
		if err := next(ctx); err != nil {
			return err
		}
	}
	if err := letGo(); err != nil {
		return err
	}
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
	return nil
}

// makeSessions makes the sessions of a workload, each with a history.
func (r *run) makeSessions(ctx context.Context, store pistore.Backend, lanes int) error {
	r.Progress.enter("making sessions")
	for i := range r.Sessions {
		s, err := makeSession(ctx, store, &History{Turns: r.Turns, Lanes: lanes, Seed: r.Seed}, sessionID(i))
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			return err
		}
		r.Progress.done.Add(1)
	}
	return nil
}
