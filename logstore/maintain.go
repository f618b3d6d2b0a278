package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// Compact implements pistore.Compacter: it gives back what the session's
// overwritten registers and old tables take. Commits go on meanwhile, more slowly
// the longer it takes: see pace. Bytes are
// those of the session in tables; what is in memory is written to one first.
func (h *session) Compact(ctx context.Context) (result pistore.CompactResult, err error) {
	if h.mode == pistore.ReadOnly {
		return result, fmt.Errorf("logstore: session %s: compact: %w", h.info.ID, pistore.ErrReadOnly)
	}
	lower, upper := sessionRange(h.view.ord)
	return h.store.compact(ctx, h.gate, h.closedError(), lower, upper)
}

// Compact gives back what all sessions leave unused, deleted ones too.
func (s *Store) Compact(ctx context.Context) (pistore.CompactResult, error) {
	if s.opts.ReadOnly {
		return pistore.CompactResult{}, fmt.Errorf("logstore: compact: %w", pistore.ErrReadOnly)
	}
	closed := fmt.Errorf("logstore: compact: %w", pistore.ErrClosed)
	return s.compact(ctx, s.gate, closed, []byte{areaMeta}, []byte{areaSession + 1})
}

// compact runs on the caller's time: ending the context, or closing, ends the
// wait; a part that has begun is finished and counts.
func (s *Store) compact(
	ctx context.Context, gate *opGate, closed error, lower, upper []byte,
) (result pistore.CompactResult, err error) {
	if !gate.enter() {
		return result, closed
	}
	defer gate.leave()
	if err := ctx.Err(); err != nil {
		return result, err
	}
	if err := s.eng.fault.err(); err != nil {
		return result, err
	}
	// A dead engine grants no compaction, so waiting for one would not end.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-gate.sealed:
			cancel(closed)
		case <-s.eng.fault.tripped:
			cancel(s.eng.fault.err())
		case <-ended:
		}
	}()
	s.pace.begin()
	defer s.pace.end()
	err = s.eng.call("compact", func() (err error) {
		if err := s.eng.db.Flush(); err != nil {
			return err
		}
		if result.BytesBefore, err = s.tableBytes(lower, upper); err != nil {
			return err
		}
		if err := s.eng.db.Compact(ctx, lower, upper, false); err != nil {
			return err
		}
		result.BytesAfter, err = s.tableBytes(lower, upper)
		return err
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, pistore.ErrFaulted), errors.Is(err, closed), ctx.Err() != nil:
		return pistore.CompactResult{}, err
	case pebble.IsCorruptionError(err):
		return pistore.CompactResult{}, corrupt("", lower, err)
	default:
		return pistore.CompactResult{}, fmt.Errorf("logstore: compact: %w", err)
	}
}

func (s *Store) tableBytes(lower, upper []byte) (int64, error) {
	n, err := s.eng.db.EstimateDiskUsage(lower, upper)
	return int64(n), err
}

// Backup writes a copy of the whole database, as of now, into a folder that does
// not exist yet, beside everything else that goes on. Tables are hard links where
// the file system can, so it costs little; the copy opens like any database, and
// neither notices what becomes of the other. The folder is there whole and
// durably when Backup returns without error; a failure leaves nothing and does
// not poison the database, unless its own log failed.
func (s *Store) Backup(ctx context.Context, dir string) error {
	return s.within(ctx, true, func() error {
		base := s.opts.fs
		if onDisk(base) {
			var err error
			if dir, err = resolveFolder(dir); err != nil {
				return fmt.Errorf("logstore: backup: %w", err)
			}
		}
		if inside := s.dir + string(filepath.Separator); strings.HasPrefix(dir+string(filepath.Separator), inside) {
			return fmt.Errorf("logstore: backup: %w: %s lies in the database's own folder", pistore.ErrInvalid, dir)
		}
		s.backups.Lock()
		defer s.backups.Unlock()
		// Without its FORMAT it is nobody's, and only the whole gets the name.
		partial, err := freePlace(base, dir)
		if err != nil {
			return fmt.Errorf("logstore: backup: %w", err)
		}
		err = s.eng.call("backup", func() error {
			err := s.eng.db.Checkpoint(partial, pebble.WithFlushedWAL())
			return errors.Join(err, s.eng.fs.takeOutside())
		})
		if err == nil {
			err = writeFormat(base, partial)
		}
		if err == nil {
			err = publishFolder(base, partial, dir)
		}
		if err != nil {
			if !errors.Is(err, pistore.ErrFaulted) {
				err = fmt.Errorf("logstore: backup: %w", err)
			}
			return errors.Join(err, base.RemoveAll(partial))
		}
		return nil
	})
}

// freePlace returns the name under which a new folder is built up, and refuses a
// place where something stands.
func freePlace(base vfs.FS, dir string) (partial string, err error) {
	partial = dir + ".partial"
	for _, name := range []string{dir, partial} {
		if _, err := base.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: %w", name, errors.Join(err, fs.ErrExist))
		}
	}
	return partial, nil
}

// publishFolder gives a folder that is whole its name, durably.
func publishFolder(base vfs.FS, partial, dir string) error {
	if err := base.Rename(partial, dir); err != nil {
		return err
	}
	if err := syncDir(base, base.PathDir(dir)); err != nil {
		return errors.Join(err, base.RemoveAll(dir))
	}
	return nil
}
