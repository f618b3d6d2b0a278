package logstore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// migration brings a session from one version of the stored vocabulary to the
// next one.
type migration struct {
	from  int
	apply func(v view, b *pebble.Batch) error
}

// migrations are the steps, by rising version. There is one version so far.
var migrations []migration

// migrate brings a session up to date, each step in one transaction with the
// version that it leads to. A session that is opened read-only is migrated in
// memory: the view that is returned reads through a batch that is never
// committed.
func (s *Store) migrate(v view, row catalogRow, mode pistore.Mode) (view, catalogRow, error) {
	if row.info.StorageVersion > s.opts.version {
		return v, row, fmt.Errorf("logstore: session %s: %w: storage version %d, this program knows %d",
			row.info.ID, pistore.ErrNewerVersion, row.info.StorageVersion, s.opts.version)
	}
	for row.info.StorageVersion < s.opts.version {
		step := s.migrationFrom(row.info.StorageVersion)
		if step == nil {
			return v, row, fmt.Errorf("logstore: session %s: %w: storage version %d",
				row.info.ID, pistore.ErrUnsupported, row.info.StorageVersion)
		}
		b, inMemory := v.src.(*pebble.Batch)
		if !inMemory {
			b = s.eng.indexedBatch()
		}
		v.src = b
		if err := step.apply(v, b); err != nil {
			return v, row, fmt.Errorf("logstore: session %s: migration from version %d: %w",
				row.info.ID, row.info.StorageVersion, err)
		}
		row.info.StorageVersion++
		w := newRecordWriter(s.codec)
		if err := b.Set(catalogKey(row.info.ID), w.catalog(row), nil); err != nil {
			return v, row, err
		}
		if mode == pistore.ReadOnly {
			continue
		}
		if err := s.apply(b, pebble.Sync); err != nil {
			return v, row, err
		}
		v.src = s.eng.db
	}
	return v, row, nil
}

func (s *Store) migrationFrom(version int) *migration {
	for i := range s.opts.migrations {
		if s.opts.migrations[i].from == version {
			return &s.opts.migrations[i]
		}
	}
	return nil
}
