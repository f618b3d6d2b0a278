package logstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
	"pistore/internal/admit"
	"pistore/ledger"
)

// loadBatchBytes bounds what a load holds in memory, one row aside.
const loadBatchBytes = 1 << 20

// Load implements pistore.Backend. Rows are written as they come, under an
// ordinal that no session has; a mark says so. The last batch puts the catalog
// row and takes the mark away, which makes the session exist. What a crash
// leaves of a load is cleared by its mark at the next open.
func (s *Store) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (info pistore.Info, err error) {
	err = s.within(ctx, true, func() error {
		l, err := s.newLoad()
		if err != nil {
			return err
		}
		if info, err = l.run(ctx, rows); err != nil {
			return errors.Join(err, l.drop())
		}
		return nil
	})
	if err != nil {
		return pistore.Info{}, err
	}
	return info, nil
}

// load is a session that is being loaded.
type load struct {
	store  *Store
	header pistore.Header
	// replaces is the session that a rewrite takes the rows from and puts them
	// in the place of; nil: the session is a new one.
	replaces *session
	rows     rowWriter
	batch    *pebble.Batch
	// published is set once the session may exist.
	published bool
}

// newLoad takes an ordinal and marks it. The mark need not be synced: the log
// keeps the order, so no row under the ordinal outlives it.
func (s *Store) newLoad() (*load, error) {
	s.catalog.Lock()
	defer s.catalog.Unlock()
	ord := s.nextOrdinal
	s.nextOrdinal++
	w := newRecordWriter(s.codec)
	b := s.eng.batch(0)
	err := b.Set(metaKey(metaOrdinal), w.number(uint64(s.nextOrdinal)), nil)
	if err == nil {
		err = b.Set(loadingKey(ord), w.loading(), nil)
	}
	if err == nil {
		err = s.apply(b, pebble.NoSync)
	}
	if err != nil {
		return nil, err
	}
	l := &load{store: s}
	v := s.view()
	v.ord = ord
	l.rows, err = newRowWriter(v, state{nextSeq: 1, stats: pistore.Stats{Usage: ledger.Zero()}})
	l.renew()
	return l, err
}

// renew starts a batch through which the rows before it are seen as well.
func (l *load) renew() {
	l.batch = l.store.eng.indexedBatch()
	l.rows.view.src = l.batch
	l.rows.found = nil
}

func (l *load) run(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	for row, err := range admit.Rows(rows, &l.rows) {
		if err == nil {
			err = l.cancelled(ctx)
		}
		if err == nil {
			err = l.row(row)
		}
		if err != nil {
			return pistore.Info{}, fmt.Errorf("logstore: load: %w", err)
		}
	}
	return l.publish()
}

// cancelled tells whether the load is to end: a source may be endless.
func (l *load) cancelled(ctx context.Context) error {
	select {
	case <-l.store.gate.sealed:
		return pistore.ErrClosed
	default:
		return ctx.Err()
	}
}

func (l *load) row(row pistore.Row) error {
	var err error
	switch row := row.(type) {
	case pistore.Header:
		return l.begin(row)
	case pistore.Entry:
		err = l.rows.putEntry(l.batch, row)
	case pistore.UsageRow:
		err = l.rows.putUsage(l.batch, row)
	case pistore.Register:
		err = l.rows.putRegister(l.batch, row)
	default:
		panic(fmt.Sprintf("logstore: row %T was admitted", row))
	}
	if err != nil || l.batch.Len() < loadBatchBytes {
		return err
	}
	if err := l.store.apply(l.batch, pebble.NoSync); err != nil {
		return err
	}
	l.renew()
	return nil
}

// begin takes the header.
func (l *load) begin(h pistore.Header) (err error) {
	info := &h.Info
	if old := l.replaces; old != nil {
		if info.ID != old.info.ID {
			return fmt.Errorf("%w: rows of session %.128q for session %s", pistore.ErrInvalid, string(info.ID), old.info.ID)
		}
		info.Generation = ""
	}
	if info.ID == "" {
		info.ID = pistore.SessionID(l.store.ids.New())
	}
	if info.Generation == "" {
		if info.Generation, err = l.store.mintGeneration(); err != nil {
			return err
		}
	}
	if info.StorageVersion == 0 {
		info.StorageVersion = l.store.opts.version
	}
	if info.StorageVersion < 0 || info.StorageVersion > l.store.opts.version {
		return fmt.Errorf("%w: storage version %d, this program knows %d",
			pistore.ErrNewerVersion, info.StorageVersion, l.store.opts.version)
	}
	info.Format = backendName
	l.header, l.rows.view.session = h, info.ID
	return l.checkFree()
}

// checkFree refuses the id of another session than the one that is replaced.
func (l *load) checkFree() error {
	if l.replaces != nil {
		return nil // and owned, so that it stays
	}
	_, found, err := l.store.lookUp(l.header.Info.ID)
	if err == nil && found {
		err = fmt.Errorf("%w: session %s", pistore.ErrDuplicateID, l.header.Info.ID)
	}
	return err
}

// publish makes the session exist.
func (l *load) publish() (pistore.Info, error) {
	s, info := l.store, l.header.Info
	s.catalog.Lock()
	defer s.catalog.Unlock()
	if err := l.checkFree(); err != nil {
		return pistore.Info{}, fmt.Errorf("logstore: load: %w", err)
	}
	l.rows.nextSeq = max(l.rows.nextSeq, l.header.NextSeq)
	ord := l.rows.view.ord
	if err := l.batch.Delete(loadingKey(ord), nil); err != nil {
		return pistore.Info{}, err
	}
	if old := l.replaces; old != nil {
		s.retire(old)
		lower, upper := sessionRange(old.view.ord)
		if err := l.batch.DeleteRange(lower, upper, nil); err != nil {
			return pistore.Info{}, err
		}
	}
	l.published = true
	err := s.publish(l.batch, catalogRow{ordinal: ord, info: info}, l.rows.state(l.rows.stats()))
	if err != nil {
		return pistore.Info{}, err
	}
	return info, nil
}

// drop takes back what a failed load has written.
func (l *load) drop() error {
	if l.published || l.store.eng.fault.dead.Load() {
		return nil
	}
	return l.store.clearLoad(l.rows.view.ord)
}

func (s *Store) clearLoad(ord ordinal) error {
	b := s.eng.batch(0)
	lower, upper := sessionRange(ord)
	if err := errors.Join(b.DeleteRange(lower, upper, nil), b.Delete(loadingKey(ord), nil)); err != nil {
		return err
	}
	return s.apply(b, pebble.Sync)
}

// clearLoads clears what loads have left that a crash cut short.
func (s *Store) clearLoads() error {
	var left []ordinal
	err := s.view().scan([]byte{areaLoading}, []byte{areaLoading + 1}, false, func(key, _ []byte) (bool, error) {
		ord, ok := ordinalOf(key)
		if !ok {
			return false, errors.New("key without an ordinal")
		}
		left = append(left, ord)
		return true, nil
	})
	for _, ord := range left {
		if err == nil {
			err = s.clearLoad(ord)
		}
	}
	return err
}
