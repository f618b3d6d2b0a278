package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// engineConfig is what an engine is opened with; every field is set.
type engineConfig struct {
	base          vfs.FS
	dir           string // resolved, and locked unless readOnly
	lock          *folderLock
	readOnly      bool
	level         pistore.Durability
	cacheBytes    int64
	memtableBytes int64
	logger        *slog.Logger
	closeBound    time.Duration
	boot          uint32 // names the start of the machine, see bootMark
	// over is set for a repair, which reads over damage; see survey.
	over func(damage *pistore.CorruptError) error
}

// engine is an open Pebble database that neither ends the process, nor hangs
// it, nor is believed after a failure.
type engine struct {
	db    *pebble.DB
	fault *fault
	gate  *compactionGate
	lock  *folderLock
	cache *pebble.Cache
	level pistore.Durability
	water *watermark
	meter meter
	fs    *engineFS // nil when read-only
	// pinned is what a read-only engine reads; else nil.
	pinned *pinnedFS
	// repairing: whatever cannot be read is damage, and omitted the bytes that a
	// repair has not read.
	repairing bool
	omitted   int64
	// wedged is set when a call panicked: the engine may hold its own mutexes,
	// so it is not closed and the folder stays locked until the process ends.
	wedged     atomic.Bool
	closeBound time.Duration
}

// openEngine opens the database in a folder, creating it if there is none. The
// caller keeps the lock if it fails.
func openEngine(cfg engineConfig) (*engine, error) {
	e := &engine{fault: newFault(cfg.closeBound), lock: cfg.lock, closeBound: cfg.closeBound}
	e.level, e.water, e.repairing = cfg.level, &watermark{boot: cfg.boot}, cfg.over != nil
	if cfg.level == pistore.Power && !cfg.readOnly {
		if err := syncLogs(cfg.base, cfg.dir); err != nil {
			return nil, openError(cfg.dir, err)
		}
	}
	look := survey{base: cfg.base, dir: cfg.dir, boot: cfg.boot, over: refuse}
	if cfg.readOnly {
		var err error
		if e.pinned, err = pinFolder(cfg.base, cfg.dir); err != nil {
			return nil, openError(cfg.dir, err)
		}
		look.base = e.pinned
	}
	err := e.look(&look, cfg.over)
	if err != nil {
		return nil, errors.Join(openError(cfg.dir, err), e.unpin())
	}
	e.gate = newCompactionGate(e.fault)
	e.cache = pebble.NewCache(cfg.cacheBytes)
	err = e.call("open", func() (err error) {
		e.db, err = pebble.Open(cfg.dir, engineOptions(cfg, e, look.ends))
		if err == nil && e.fs != nil {
			if err = e.fs.takeOutside(); err != nil {
				e.fault.fail("sync the folder above", err)
			}
		}
		return err
	})
	switch {
	case err == nil:
		e.gate.start()
		return e, nil
	case e.db != nil:
		// What the file system refused was kept from the engine, which is open.
		if cerr := e.close(); errors.Is(cerr, errAbandoned) {
			err = errors.Join(err, cerr)
		}
		return nil, err
	default:
		e.cache.Unref()
		if e.wedged.Load() { // it stumbled over what it found, and may hold files open
			return nil, &pistore.CorruptError{Backend: backendName, Place: cfg.dir, Problem: sentence(err)}
		}
		return nil, errors.Join(openError(cfg.dir, err), e.unpin())
	}
}

// look surveys the folder. For a repair it makes of the pinned files what can be
// opened in spite of their damage.
func (e *engine) look(v *survey, over func(damage *pistore.CorruptError) error) error {
	if over == nil {
		return v.run()
	}
	v.over = over
	err := e.pinned.replaceMarkers(over)
	if err == nil {
		err = v.run()
	}
	for name := range e.pinned.files {
		if strings.HasPrefix(name, "OPTIONS-") || slices.Contains(v.dropped, e.pinned.PathJoin(v.dir, name)) {
			err = errors.Join(err, e.pinned.hide(name))
		}
	}
	e.omitted = v.omitted
	return err
}

// blockBytes is the size of a table's blocks, eight times the engine's own. Texts
// of several turns that are compressed together take a quarter less disk, and a
// tenth to a fifth less CPU time of a commit than one by one.
const blockBytes = 32 << 10

// engineOptions are the engine's options, docs/format-logstore.md says why.
func engineOptions(cfg engineConfig, e *engine, ends map[string]int64) *pebble.Options {
	opts := &pebble.Options{
		// Set explicitly: an unset version is the oldest one, which takes any
		// damage in the log for its end.
		FormatMajorVersion: pebble.FormatNewest,
		Cache:              e.cache,
		MemTableSize:       uint64(cfg.memtableBytes),
		ReadOnly:           cfg.readOnly,
		Logger:             engineLogger{to: cfg.logger, fault: e.fault},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { e.fault.fail("engine, in the background", damage(cfg.dir, err)) },
			// Whoever reads the damaged place gets the error; what else is in
			// the database stays usable.
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				cfg.logger.Error("damaged table", "engine", "pebble", "info", info.String())
			},
		},
		// Twice the engine's own: compactions share the cores with commits, and
		// half as many of them cost a commit an eighth to a fifth less CPU time.
		// A read looks into up to four tables of the upper level for it.
		L0CompactionThreshold: 8,
		// A delayed flush runs behind a timer that Close does not wait for.
		FlushDelayDeleteRange: 0,
		FlushDelayRangeKey:    0,
	}
	if e.repairing {
		opts.DisableConsistencyCheck = true
		// A missing table is fatal to the engine's mind, and not to a repair's.
		opts.Logger = engineLogger{to: cfg.logger, fault: newFault(cfg.closeBound)}
	}
	if cfg.readOnly {
		e.pinned.ends = ends
		opts.FS = e.pinned
	} else {
		e.fs = newEngineFS(cfg, e, ends)
		opts.FS = e.fs
		opts.Lock = cfg.lock.engine
	}
	opts.Experimental.CompactionScheduler = e.gate
	// Fast compression above, zstd in the last level, where nine tenths of the
	// bytes end up; both off the commit path. Fast compression everywhere takes an
	// eighth more disk and saves less CPU time than it moves from run to run.
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = blockBytes
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// listLogs returns the names of the logs in a folder.
func listLogs(base vfs.FS, dir string) ([]string, error) {
	names, err := base.List(dir)
	if err != nil {
		return nil, err
	}
	logs := names[:0]
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, base.PathJoin(dir, name))
		}
	}
	return logs, nil
}

// syncLogs syncs the logs that an earlier owner left. Their last bytes may have
// been written by a process that died before its sync; replay would show them,
// and at Power level nothing may be shown that power loss can take back.
func syncLogs(base vfs.FS, dir string) error {
	logs, err := listLogs(base, dir)
	if err != nil {
		return err
	}
	for _, name := range append(logs, dir) {
		open := func() (vfs.File, error) { return base.Open(name) }
		if name == dir {
			open = func() (vfs.File, error) { return base.OpenDir(name) }
		}
		file, err := open()
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// openError says what a failure to open means. What is not the system's word is
// what the engine says of what it found.
func openError(dir string, err error) error {
	var path *fs.PathError
	var number syscall.Errno
	system := errors.As(err, &path) || errors.As(err, &number)
	switch {
	case isOurs(err):
		return err
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		// Read-only, of a folder that its owner has only just made ours.
		return fmt.Errorf("logstore: %s: %w", dir, pistore.ErrNotFound)
	case pebble.IsCorruptionError(err), !system, errors.Is(err, fs.ErrNotExist):
		return &pistore.CorruptError{Backend: backendName, Place: dir, Problem: sentence(err)}
	default:
		return fmt.Errorf("logstore: open %s: %w", dir, err)
	}
}

// damage gives an error of the engine's that tells of damaged bytes our name and
// their place.
func damage(dir string, err error) error {
	if !pebble.IsCorruptionError(err) {
		return err
	}
	return &pistore.CorruptError{Backend: backendName, Place: dir, Problem: sentence(err)}
}

// isOurs tells whether an error has its meaning already.
func isOurs(err error) bool {
	for _, sentinel := range []error{
		pistore.ErrFaulted, pistore.ErrCorrupt, pistore.ErrBusy, pistore.ErrForeignFormat, pistore.ErrNewerVersion,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// call runs an engine call. A panic in it is caught and poisons the database;
// after a fault nothing that the call said counts.
func (e *engine) call(op string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e.wedged.Store(true)
			e.fault.fail("engine, "+op, fmt.Errorf("panic: %v", r))
		}
		if dead := e.fault.err(); dead != nil {
			err = dead
		}
	}()
	return do()
}

// errAbandoned: the engine did not come back from Close. The folder stays locked
// until the process ends, since the engine may still be at work in it.
var errAbandoned = errors.New("engine abandoned")

// shut closes the database and lets go of the folder.
func (e *engine) shut() error {
	err := e.close()
	if errors.Is(err, errAbandoned) {
		return err
	}
	if e.lock != nil {
		err = errors.Join(err, e.lock.release())
	}
	return err
}

// close closes the database. Once dead, the engine gets a bounded time; one
// that does not come back is abandoned.
func (e *engine) close() error {
	done := make(chan error, 1)
	if !e.wedged.Load() {
		go func() {
			var err error
			_ = e.call("close", func() error { err = e.db.Close(); return nil })
			done <- err
		}()
		if err, ok := e.await(done); ok && !e.wedged.Load() {
			e.cache.Unref()
			err = errors.Join(err, e.unpin())
			if dead := e.fault.err(); dead != nil {
				return dead
			}
			if err != nil {
				return fmt.Errorf("logstore: close: %w", err)
			}
			return nil
		}
	}
	return fmt.Errorf("logstore: close: %w: %w", errAbandoned, e.fault.err())
}

// unpin lets go of the files of a read-only engine.
func (e *engine) unpin() error {
	if e.pinned == nil {
		return nil
	}
	return e.pinned.close()
}

// await waits for the result of closing, once dead for a bounded time.
func (e *engine) await(done <-chan error) (error, bool) {
	select {
	case err := <-done:
		return err, true
	case <-e.fault.tripped:
		timer := time.NewTimer(e.closeBound)
		defer timer.Stop()
		select {
		case err := <-done:
			return err, true
		case <-timer.C:
			return nil, false
		}
	}
}
