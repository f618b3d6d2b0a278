package stores

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"pistore"
	"pistore/bench"
)

// Pebble is the engine of the logstore without the logstore: a batch for each
// transaction, with one key for each register, and two for each entry and usage
// row, its place by seq and its place by id. It admits transactions as every
// backend does, looks for duplicate ids unless they are newer than all that its
// session has, and has the same options and log syncs as the logstore. It
// checks no preconditions, keeps no statistics and no structure, writes payloads
// as they are, and is not safe from a failing disk.
func Pebble(level pistore.Durability) bench.Candidate {
	return bench.Candidate{
		Name: "backend=pebble/durability=" + level.String(),
		Open: func(dir string) (pistore.Backend, error) { return openPebble(dir, level) },
	}
}

// barePebble is a database of commits and gets.
type barePebble struct {
	bench.CommitOnly
	db *pebble.DB
	fs *lazyFS

	mu       sync.Mutex // guards sessions
	sessions uint32
}

func openPebble(dir string, level pistore.Durability) (*barePebble, error) {
	cache := pebble.NewCache(64 << 20)
	defer cache.Unref()
	fs := newLazyFS(level)
	opts := &pebble.Options{
		FS: fs, Cache: cache, MemTableSize: 16 << 20, FormatMajorVersion: pebble.FormatNewest,
		L0CompactionThreshold: 8, Logger: silent{},
	}
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = 32 << 10
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	return &barePebble{db: db, fs: fs}, nil
}

// silent drops what the engine says, and ends the program where the engine cannot
// go on.
type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(text string, a ...any) { panic(fmt.Sprintf("stores: pebble: "+text, a...)) }

// Written implements bench.Meter.
func (b *barePebble) Written() bench.Written { return b.fs.written() }

// BlocksRead implements bench.BlockReader.
func (b *barePebble) BlocksRead() int64 {
	m := b.db.Metrics()
	return m.BlockCache.Hits + m.BlockCache.Misses
}

// Close implements pistore.Backend.
func (b *barePebble) Close() error { return b.db.Close() }

// Create implements pistore.Backend.
func (b *barePebble) Create(_ context.Context, info pistore.Info) (pistore.Storage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions++
	return &pebbleSession{CommitOnlySession: bench.CommitOnlySession{ID: info.ID}, store: b, number: b.sessions, next: 1}, nil
}

type pebbleSession struct {
	bench.CommitOnlySession
	store  *barePebble
	number uint32

	mu     sync.Mutex // guards what follows, and orders commits
	next   pistore.Seq
	newest pistore.ID
	key    []byte
	seq    [8]byte
}

// keyOf builds a key of the session, which is good until the next one.
func (s *pebbleSession) keyOf(table byte, parts ...string) []byte {
	s.key = append(binary.BigEndian.AppendUint32(s.key[:0], s.number), table)
	for i, p := range parts {
		if i > 0 {
			s.key = append(s.key, 0)
		}
		s.key = append(s.key, p...)
	}
	return s.key
}

func (s *pebbleSession) seqKey(table byte, seq pistore.Seq) []byte {
	return binary.BigEndian.AppendUint64(s.keyOf(table), uint64(seq))
}

// Commit implements pistore.Storage.
func (s *pebbleSession) Commit(_ context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	tx, err := tx.Admit()
	if err != nil {
		return pistore.Receipt{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := s.store.db.NewBatch()
	defer batch.Close()
	r := pistore.Receipt{FirstSeq: s.next, Timestamp: pistore.SystemClock()}
	newest := s.newest
	for i, w := range tx.Writes {
		if newest, err = s.put(batch, w, s.next+pistore.Seq(i), newest); err != nil {
			return pistore.Receipt{}, err
		}
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return pistore.Receipt{}, err
	}
	s.next += pistore.Seq(len(tx.Writes))
	s.newest = newest
	return r, nil
}

// put adds a write to a batch. It returns the newest id there is now.
func (s *pebbleSession) put(batch *pebble.Batch, w pistore.Write, seq pistore.Seq, newest pistore.ID) (pistore.ID, error) {
	switch w := w.(type) {
	case pistore.InsertEntry:
		if err := batch.Set(s.seqKey('e', seq), row(string(w.ID), string(w.ParentID), string(w.Payload)), nil); err != nil {
			return newest, err
		}
		return s.claim(batch, w.ID, seq, newest)
	case pistore.InsertUsage:
		if err := batch.Set(s.seqKey('u', seq), row(string(w.ID), string(w.EntryID), string(w.Usage)), nil); err != nil {
			return newest, err
		}
		return s.claim(batch, w.ID, seq, newest)
	case pistore.SetRegister:
		return newest, batch.Set(s.keyOf('r', w.Namespace, w.Key), []byte(w.Value), nil)
	case pistore.DeleteRegister:
		return newest, batch.Delete(s.keyOf('r', w.Namespace, w.Key), nil)
	default:
		return newest, fmt.Errorf("%w: write %T", pistore.ErrUnsupported, w)
	}
}

// claim takes an id for a row, unless it is in use.
func (s *pebbleSession) claim(batch *pebble.Batch, id pistore.ID, seq pistore.Seq, newest pistore.ID) (pistore.ID, error) {
	key := s.keyOf('i', string(id))
	if id <= newest {
		_, closer, err := s.store.db.Get(key)
		switch {
		case err == nil:
			return newest, errors.Join(fmt.Errorf("%w: %s", pistore.ErrDuplicateID, id), closer.Close())
		case !errors.Is(err, pebble.ErrNotFound):
			return newest, err
		}
	}
	binary.BigEndian.PutUint64(s.seq[:], uint64(seq))
	return max(id, newest), batch.Set(key, s.seq[:], nil)
}

// row is the texts of a row, each behind its length but the last.
func row(id, other, payload string) []byte {
	b := make([]byte, 0, 2+len(id)+len(other)+len(payload))
	b = append(append(b, byte(len(id))), id...)
	b = append(append(b, byte(len(other))), other...)
	return append(b, payload...)
}

// Entries implements pistore.Storage: two gets for each id.
func (s *pebbleSession) Entries(_ context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]pistore.Entry, 0, len(ids))
	for _, id := range ids {
		seq, err := s.get(s.keyOf('i', string(id)))
		if err != nil {
			return nil, err
		}
		if seq == nil {
			continue
		}
		n := pistore.Seq(binary.BigEndian.Uint64(seq))
		b, err := s.get(s.seqKey('e', n))
		if err != nil {
			return nil, err
		}
		b = b[1+len(id):]
		parent, payload := b[1:1+b[0]], b[1+b[0]:]
		entries = append(entries, pistore.Entry{ID: id, ParentID: pistore.ID(parent), Seq: n, Type: pistore.TypeMessage, Payload: pistore.JSON(payload)})
	}
	return entries, nil
}

// get returns a copy of a value, nil if there is none.
func (s *pebbleSession) get(key []byte) ([]byte, error) {
	value, closer, err := s.store.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return bytes.Clone(value), closer.Close()
}

// Close implements pistore.Storage.
func (s *pebbleSession) Close() error { return nil }
