package jsonl

import (
	"crypto/rand"
	"io"

	"pistore"
	"pistore/disk"
)

// Options say how files are opened and written. The zero value is ready for use.
type Options struct {
	// Durability is the level at which commits are acknowledged.
	Durability pistore.Durability

	Clock pistore.Clock // nil: the system's clock
	Rand  io.Reader     // of session ids and generations; nil: crypto/rand
	FS    disk.FS       // nil: the operating system's

	// NoCompactOnOpen keeps a file from being compacted when it is opened for
	// writing, which happens to one above 1 MiB of which more than half is dead.
	NoCompactOnOpen bool
	// CompactEagerly compacts after each commit that ends an operation, so that
	// what was cancelled leaves the disk at once. Each such commit rewrites the
	// file; a rewrite that fails leaves it as it is, and the commit stands.
	CompactEagerly bool
	// DropOriginal keeps no copy of a file whose first write gives it format 4.
	// By default the original stays beside it as NAME.v3.
	DropOriginal bool

	// DiskPayloadBytes is the size of a file from which on payloads of entries
	// are left on disk; 0: 16 MiB, negative: never.
	DiskPayloadBytes int64

	ids *pistore.IDs // one mint, since Rand is not safe for concurrent use
}

const (
	defaultDiskPayloadBytes = 16 << 20
	compactOnOpenBytes      = 1 << 20
)

func (o Options) complete() Options {
	if o.Clock == nil {
		o.Clock = pistore.SystemClock
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.FS == nil {
		o.FS = disk.OS
	}
	if o.DiskPayloadBytes == 0 {
		o.DiskPayloadBytes = defaultDiskPayloadBytes
	}
	o.ids = pistore.NewIDs(o.Clock, o.Rand)
	return o
}

// onDisk reports whether a file of this size leaves its payloads where they are.
func (o Options) onDisk(size int64) bool {
	return o.DiskPayloadBytes >= 0 && size >= o.DiskPayloadBytes
}
