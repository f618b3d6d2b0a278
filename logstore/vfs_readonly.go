package logstore

import (
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// readOnlyFS shows a folder to an engine that is opened read-only: its lock is
// a no-op and every change is refused, so that nothing on disk can change.
type readOnlyFS struct {
	vfs.FS
	ends map[string]int64 // where logs end whose tail was cut
}

func refuseChange(op, name string) error {
	return fmt.Errorf("logstore: %s %s: %w", op, name, pistore.ErrReadOnly)
}

// Lock implements vfs.FS.
func (readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Create implements vfs.FS.
func (readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuseChange("create", name)
}

// Link implements vfs.FS.
func (readOnlyFS) Link(_, newname string) error { return refuseChange("link", newname) }

// OpenReadWrite implements vfs.FS.
func (readOnlyFS) OpenReadWrite(
	name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption,
) (vfs.File, error) {
	return nil, refuseChange("open", name)
}

// Remove implements vfs.FS.
func (readOnlyFS) Remove(name string) error { return refuseChange("remove", name) }

// RemoveAll implements vfs.FS.
func (readOnlyFS) RemoveAll(name string) error { return refuseChange("remove", name) }

// Rename implements vfs.FS.
func (readOnlyFS) Rename(oldname, _ string) error { return refuseChange("rename", oldname) }

// ReuseForWrite implements vfs.FS.
func (readOnlyFS) ReuseForWrite(oldname, _ string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuseChange("reuse", oldname)
}

// MkdirAll implements vfs.FS.
func (readOnlyFS) MkdirAll(dir string, _ os.FileMode) error { return refuseChange("create", dir) }

// Unwrap implements vfs.FS.
func (f readOnlyFS) Unwrap() vfs.FS { return f.FS }
