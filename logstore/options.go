package logstore

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
	"pistore/disk"
)

// backendName is what this backend calls itself in errors and in Info.Format.
const backendName = "logstore"

// What 0 means in Options.
const (
	defaultCacheBytes    = 64 << 20
	defaultMemtableBytes = 16 << 20
	// defaultCompressAboveBytes: below it, compressing costs as much as the
	// commit and saves less than the engine's blocks do.
	defaultCompressAboveBytes = 8 << 10
)

// The engine takes memtables of these sizes.
const (
	minMemtableBytes = 256 << 10
	maxMemtableBytes = 2 << 30
)

// Options say how a database is opened. The zero value is the safe choice.
type Options struct {
	// Durability is the level of every session of the database.
	Durability pistore.Durability
	// ReadOnly opens the database without ownership and changes nothing on
	// disk. It shows the instant at which it was opened, beside a live writer of
	// this or another process too: whole transactions, and all that was
	// acknowledged before. ErrBusy says that the writer was too quick for an
	// instant to be caught; trying again later helps.
	ReadOnly bool

	// CacheBytes is the size of the cache of table blocks; 0: 64 MiB.
	CacheBytes int64
	// MemtableBytes is how much is written before a table is; what is in
	// memory has to be replayed after a crash, 10 to 15 ms per MB; 0: 16 MiB.
	MemtableBytes int64
	// CompressAboveBytes is the size above which a payload is compressed on
	// its own; 0: 8 KiB, negative: never.
	CompressAboveBytes int

	Logger *slog.Logger  // nil: silent
	Clock  pistore.Clock // nil: the system's
	Random io.Reader     // for session ids and generations; nil: crypto/rand
	FS     disk.FS       // that the folder is on; nil: the operating system's

	// What follows is for the tests of this package.

	fs         vfs.FS
	boot       uint32        // 0: what the system says
	closeBound time.Duration // how long a dead engine may take to close
	version    int           // of the stored vocabulary
	migrations []migration
}

func (o Options) engineConfig(dir string, lock *folderLock) engineConfig {
	return engineConfig{
		base: o.fs, dir: dir, lock: lock, readOnly: o.ReadOnly, level: o.Durability,
		cacheBytes: o.CacheBytes, memtableBytes: o.MemtableBytes,
		logger: o.Logger, closeBound: o.closeBound, boot: o.boot,
	}
}

func (o Options) complete() (Options, error) {
	if o.Durability != pistore.Process && o.Durability != pistore.Power {
		return o, fmt.Errorf("logstore: %w: %v", pistore.ErrInvalid, o.Durability)
	}
	if o.CacheBytes < 0 || o.MemtableBytes < 0 || o.MemtableBytes > maxMemtableBytes {
		return o, fmt.Errorf("logstore: %w: cache of %d bytes, memtable of %d", pistore.ErrInvalid, o.CacheBytes, o.MemtableBytes)
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.MemtableBytes == 0 {
		o.MemtableBytes = defaultMemtableBytes
	}
	o.MemtableBytes = max(o.MemtableBytes, minMemtableBytes)
	if o.CompressAboveBytes == 0 {
		o.CompressAboveBytes = defaultCompressAboveBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = pistore.SystemClock
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	switch {
	case o.fs != nil:
	case o.FS != nil:
		o.fs = diskFS{o.FS}
	default:
		o.fs = vfs.Default
	}
	if o.boot == 0 {
		o.boot = bootMark(o.fs)
	}
	if o.closeBound == 0 {
		o.closeBound = 10 * time.Second
	}
	if o.version == 0 {
		o.version, o.migrations = pistore.StorageVersion, migrations
	}
	return o, nil
}
