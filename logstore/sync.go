package logstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// liveLogs are the logs that the engine has open for writing. A log that is
// closed was synced by that.
type liveLogs struct {
	mu   sync.Mutex // guards open
	open map[*engineFile]struct{}
}

func (l *liveLogs) add(f *engineFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*engineFile]struct{}{}
	}
	l.open[f] = struct{}{}
}

func (l *liveLogs) remove(f *engineFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, f)
}

func (l *liveLogs) all() (logs []*engineFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.open {
		logs = append(logs, f)
	}
	return logs
}

// syncLogs makes what the logs hold survive power loss, at either level.
func (f *engineFS) syncLogs() error {
	for _, log := range f.logs.all() {
		if err := log.syncForReal(); err != nil {
			return err
		}
	}
	if err := f.fault.err(); err != nil {
		return err
	}
	if err := syncDir(f.base, f.dir); err != nil {
		f.fault.fail("sync "+f.dir, err)
	}
	return f.fault.err()
}

// syncForReal syncs a log whatever the level, unless it was closed meanwhile.
func (f *engineFile) syncForReal() error {
	f.closing.Lock()
	defer f.closing.Unlock()
	if f.closed || f.fs.dead() {
		return f.fs.fault.err()
	}
	f.fs.meter.syncs.Add(1)
	if err := f.File.SyncData(); err != nil {
		f.fs.fault.fail("sync "+f.name, err)
	}
	return f.fs.fault.err()
}

// Sync makes everything that was acknowledged so far, in all sessions, survive
// power loss. An error poisons the database; it is not tried again.
func (s *Store) Sync(ctx context.Context) error {
	return s.syncWithin(ctx, s.gate, fmt.Errorf("logstore: %w", pistore.ErrClosed))
}

// Sync implements pistore.Syncer. Sessions share the log, so it syncs them all.
func (h *session) Sync(ctx context.Context) error {
	return h.store.syncWithin(ctx, h.gate, h.closedError())
}

// syncWithin syncs on a goroutine of its own, which keeps the gate: ending the
// context ends the wait, not the work, and Close waits for it.
func (s *Store) syncWithin(ctx context.Context, gate *opGate, closed error) error {
	if !gate.enter() {
		return closed
	}
	if err := ctx.Err(); err != nil || s.opts.ReadOnly { // nothing was acknowledged here
		gate.leave()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer gate.leave()
		done <- s.sync()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sync waits until what was acknowledged has left the process, then syncs it.
func (s *Store) sync() error {
	if err := s.eng.fault.err(); err != nil {
		return err
	}
	// The log keeps the order: behind an empty batch that was written out there
	// is nothing left of those before it.
	b := s.eng.batch(0)
	err := b.LogData(nil, nil)
	if err == nil {
		err = s.apply(b, pebble.Sync)
	}
	if err == nil {
		err = s.eng.fs.syncLogs()
	}
	if err != nil && !errors.Is(err, pistore.ErrFaulted) {
		return s.poisoned(err)
	}
	return err
}
