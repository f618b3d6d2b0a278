package logstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
	"pistore/ledger"
)

// Store is an open database: a pistore.Backend whose sessions share one log.
type Store struct {
	dir   string
	opts  Options
	eng   *engine
	codec *payloadCodec
	ids   *pistore.IDs
	gate  *opGate

	// catalog orders changes of the catalog among each other and against
	// opening a session. It guards nextOrdinal.
	catalog     sync.RWMutex
	nextOrdinal ordinal

	backups sync.Mutex // held while a backup is made
	pace    pace

	mu        sync.Mutex // guards what follows; nothing waits while holding it
	open      map[pistore.SessionID]*openSession
	handles   map[*session]struct{}
	snapshots map[*pebble.Snapshot]struct{}
}

// openSession is what the handles of one session share.
type openSession struct {
	handles int
	writer  bool
	deleted atomic.Bool
}

var _ pistore.Backend = (*Store)(nil)

// Open opens the database in a folder and creates it if the folder is empty or
// absent. Errors: *pistore.LockedError, ErrForeignFormat, ErrNewerVersion,
// *pistore.CorruptError; for a read-only open also ErrBusy, and ErrNotFound where
// there is no database yet.
func Open(dir string, opts Options) (*Store, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if onDisk(opts.fs) {
		given := dir
		if dir, err = resolveFolder(dir); err != nil {
			return nil, fmt.Errorf("logstore: %s: %w", given, err)
		}
	}
	lock, err := claimFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	s, err := openStore(dir, opts, lock)
	if err != nil && lock != nil && !errors.Is(err, errAbandoned) {
		err = errors.Join(err, lock.release())
	}
	return s, err
}

// claimFolder looks whether the folder may be used, and takes ownership of it
// for a database that is opened for writing.
func claimFolder(dir string, opts Options) (*folderLock, error) {
	ours, err := checkFolder(opts.fs, dir)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return nil, openError(dir, err)
	}
	if opts.ReadOnly {
		if absent || !ours {
			return nil, fmt.Errorf("logstore: %s: %w", dir, pistore.ErrNotFound)
		}
		return nil, nil // a reader needs no lock, see pinFolder
	}
	if absent {
		if err := makeFolder(opts.fs, dir); err != nil {
			return nil, fmt.Errorf("logstore: create %s: %w", dir, err)
		}
	}
	lock, err := lockFolder(opts.fs, dir, opts.Clock.Read())
	if err != nil {
		var locked *pistore.LockedError
		if errors.As(err, &locked) {
			return nil, err
		}
		return nil, fmt.Errorf("logstore: lock %s: %w", dir, err)
	}
	// Another owner may have come and gone since the first look.
	ours, err = checkFolder(opts.fs, dir)
	if err == nil && !ours {
		err = writeFormat(opts.fs, dir)
	}
	if err != nil {
		return nil, errors.Join(openError(dir, err), lock.release())
	}
	return lock, nil
}

func openStore(dir string, opts Options, lock *folderLock) (*Store, error) {
	codec, err := newPayloadCodec(opts.CompressAboveBytes)
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	eng, err := openEngine(opts.engineConfig(dir, lock))
	if err != nil {
		return nil, err
	}
	s := newStore(dir, opts, eng, codec)
	if err := s.start(); err != nil {
		// The caller lets go of the folder, unless the engine was abandoned.
		return nil, errors.Join(err, eng.close())
	}
	return s, nil
}

func newStore(dir string, opts Options, eng *engine, codec *payloadCodec) *Store {
	return &Store{
		dir: dir, opts: opts, eng: eng, codec: codec,
		ids: pistore.NewIDs(opts.Clock, opts.Random), gate: newOpGate(),
		open:      map[pistore.SessionID]*openSession{},
		handles:   map[*session]struct{}{},
		snapshots: map[*pebble.Snapshot]struct{}{},
	}
}

// start checks the layout, reads the next ordinal and clears away what loads
// that were cut short have left.
func (s *Store) start() error {
	version, found, err := s.readNumber(metaVersion)
	if err != nil {
		return err
	}
	if found && version > layoutVersion {
		return fmt.Errorf("logstore: %s: %w: layout %d, this program knows %d",
			s.dir, pistore.ErrNewerVersion, version, layoutVersion)
	}
	next, _, err := s.readNumber(metaOrdinal)
	if err != nil || s.opts.ReadOnly {
		return err
	}
	s.nextOrdinal = ordinal(max(next, 1))
	if !found {
		w := newRecordWriter(s.codec)
		b := s.eng.batch(0)
		if err := b.Set(metaKey(metaVersion), w.number(layoutVersion), nil); err != nil {
			return err
		}
		if err := s.apply(b, pebble.Sync); err != nil {
			return err
		}
	}
	return s.clearLoads()
}

func (s *Store) readNumber(what byte) (n uint64, found bool, err error) {
	found, err = s.view().get(metaKey(what), func(value []byte) (err error) {
		n, err = s.codec.number(value)
		return err
	})
	return n, found, err
}

// view reads the rows of the database itself.
func (s *Store) view() view { return view{eng: s.eng, codec: s.codec, src: s.eng.db} }

// apply applies a batch and closes it.
func (s *Store) apply(b *pebble.Batch, o *pebble.WriteOptions) error {
	return s.eng.call("commit", func() error {
		if err := s.eng.db.Apply(b, o); err != nil {
			s.eng.fault.fail("engine, commit", err)
			return err
		}
		return b.Close()
	})
}

// within runs a call of the backend itself.
func (s *Store) within(ctx context.Context, writes bool, do func() error) error {
	if !s.gate.enter() {
		return fmt.Errorf("logstore: %w", pistore.ErrClosed)
	}
	defer s.gate.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	if writes && s.opts.ReadOnly {
		return fmt.Errorf("logstore: %w", pistore.ErrReadOnly)
	}
	if err := s.eng.fault.err(); err != nil {
		return err
	}
	return do()
}

// Create implements pistore.Backend.
func (s *Store) Create(ctx context.Context, info pistore.Info) (st pistore.Storage, err error) {
	err = s.within(ctx, true, func() error {
		if err := info.Check(); err != nil {
			return fmt.Errorf("logstore: create: %w", err)
		}
		if info.ID == "" {
			info.ID = pistore.SessionID(s.ids.New())
		}
		if info.CreatedAt == 0 {
			info.CreatedAt = s.opts.Clock.Read()
		}
		info.StorageVersion, info.Format = s.opts.version, backendName
		if info.Generation, err = s.mintGeneration(); err != nil {
			return err
		}
		st, err = s.create(info)
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (s *Store) create(info pistore.Info) (*session, error) {
	s.catalog.Lock()
	defer s.catalog.Unlock()
	if _, found, err := s.lookUp(info.ID); err != nil || found {
		if found {
			err = fmt.Errorf("logstore: create: %w: session %s", pistore.ErrDuplicateID, info.ID)
		}
		return nil, err
	}
	row := catalogRow{ordinal: s.nextOrdinal, info: info}
	b := s.eng.batch(0)
	first := state{nextSeq: 1, stats: pistore.Stats{Usage: ledger.Zero()}}
	if err := s.publish(b, row, first); err != nil {
		return nil, err
	}
	return s.newSession(s.sessionView(row), row, pistore.ReadWrite)
}

// publish ends a batch with what makes a session exist, and applies it. The
// caller holds the catalog.
func (s *Store) publish(b *pebble.Batch, row catalogRow, st state) error {
	w := newRecordWriter(s.codec)
	s.nextOrdinal = max(s.nextOrdinal, row.ordinal+1)
	err := b.Set(metaKey(metaOrdinal), w.number(uint64(s.nextOrdinal)), nil)
	if err == nil {
		err = b.Set(stateKey(row.ordinal), w.state(st), nil)
	}
	if err == nil {
		err = b.Set(catalogKey(row.info.ID), w.catalog(row), nil)
	}
	if err != nil {
		return err
	}
	return s.apply(b, pebble.Sync)
}

func (s *Store) mintGeneration() (string, error) {
	var random [16]byte
	if _, err := io.ReadFull(s.opts.Random, random[:]); err != nil {
		return "", fmt.Errorf("logstore: random source: %w", err)
	}
	return hex.EncodeToString(random[:]), nil
}

// lookUp reads a session's catalog row.
func (s *Store) lookUp(id pistore.SessionID) (row catalogRow, found bool, err error) {
	v := s.view()
	v.session = id
	found, err = v.get(catalogKey(id), func(value []byte) (err error) {
		row, err = s.codec.catalog(value, id)
		return err
	})
	return row, found, err
}

func (s *Store) sessionView(row catalogRow) view {
	v := s.view()
	v.session, v.ord = row.info.ID, row.ordinal
	return v
}

// Open implements pistore.Backend.
func (s *Store) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (st pistore.Storage, err error) {
	err = s.within(ctx, mode == pistore.ReadWrite, func() error {
		st, err = s.openSession(id, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (s *Store) openSession(id pistore.SessionID, mode pistore.Mode) (*session, error) {
	s.catalog.RLock()
	defer s.catalog.RUnlock()
	row, found, err := s.lookUp(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("logstore: session %.128q: %w", string(id), pistore.ErrNotFound)
	}
	return s.newSession(s.sessionView(row), row, mode)
}

// List implements pistore.Backend.
func (s *Store) List(ctx context.Context) iter.Seq2[pistore.Info, error] {
	return func(yield func(pistore.Info, error) bool) {
		after := []byte{areaCatalog}
		for more := true; more; {
			more = false
			var infos []pistore.Info
			err := s.within(ctx, false, func() error {
				return s.view().scan(after, []byte{areaCatalog + 1}, false, func(key, value []byte) (bool, error) {
					row, err := s.codec.catalog(value, pistore.SessionID(key[1:]))
					infos = append(infos, row.info)
					after = append(append(after[:0:0], key...), 0)
					more = len(infos) == maxPageRows
					return !more, err
				})
			})
			if err != nil {
				yield(pistore.Info{}, err)
				return
			}
			for _, info := range infos {
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// Delete implements pistore.Backend.
func (s *Store) Delete(ctx context.Context, id pistore.SessionID) error {
	return s.within(ctx, true, func() error {
		s.catalog.Lock()
		defer s.catalog.Unlock()
		row, found, err := s.lookUp(id)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("logstore: delete: session %.128q: %w", string(id), pistore.ErrNotFound)
		}
		if err := s.disown(id); err != nil {
			return err
		}
		lower, upper := sessionRange(row.ordinal)
		b := s.eng.batch(0)
		if err := errors.Join(b.DeleteRange(lower, upper, nil), b.Delete(catalogKey(id), nil)); err != nil {
			return err
		}
		return s.apply(b, pebble.Sync)
	})
}

// disown cuts a session that is about to go off from its readers.
func (s *Store) disown(id pistore.SessionID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.open[id]
	if open == nil {
		return nil
	}
	if open.writer {
		return s.lockedSession(id)
	}
	open.deleted.Store(true)
	delete(s.open, id)
	return nil
}

// lockedSession is the refusal of a session that this process has open.
func (s *Store) lockedSession(id pistore.SessionID) error {
	host, _ := os.Hostname()
	return &pistore.LockedError{Place: s.dir + ": session " + string(id), PID: os.Getpid(), Host: host}
}

// Close implements pistore.Backend.
func (s *Store) Close() error {
	if !s.gate.seal() {
		return nil
	}
	s.gate.wait(s.eng.fault)
	s.mu.Lock()
	var handles []*session
	for h := range s.handles {
		handles = append(handles, h)
	}
	s.mu.Unlock()
	var err error
	for _, h := range handles {
		err = errors.Join(err, h.Close())
	}
	s.mu.Lock()
	snapshots := s.snapshots
	s.snapshots = nil
	s.mu.Unlock()
	for snapshot := range snapshots {
		_ = s.eng.call("close snapshot", snapshot.Close)
	}
	return errors.Join(err, s.eng.shut())
}
