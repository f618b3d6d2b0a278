package stores

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
	"pistore/bench"
)

// lazyFS gives bare Pebble the log of the logstore: at level Process the sync of
// a log is none while the log is open, and a real one when it is closed; logs are
// never recycled. It counts what is written.
type lazyFS struct {
	vfs.FS
	lazy         bool
	bytes, syncs atomic.Int64
}

func newLazyFS(level pistore.Durability) *lazyFS {
	return &lazyFS{FS: vfs.Default, lazy: level == pistore.Process}
}

func (f *lazyFS) written() bench.Written {
	return bench.Written{Bytes: f.bytes.Load(), Syncs: f.syncs.Load()}
}

func (f *lazyFS) wrap(file vfs.File, err error, lazy bool) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &lazyFile{File: file, fs: f, lazy: lazy}, nil
}

// Create implements vfs.FS.
func (f *lazyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return f.wrap(file, err, f.lazy && strings.HasSuffix(name, ".log"))
}

// OpenDir implements vfs.FS.
func (f *lazyFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.wrap(file, err, false)
}

// ReuseForWrite implements vfs.FS.
func (f *lazyFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.Create(newname, category)
}

// Unwrap implements vfs.FS.
func (f *lazyFS) Unwrap() vfs.FS { return f.FS }

// lazyFile is a file that the engine writes, or a folder.
type lazyFile struct {
	vfs.File
	fs   *lazyFS
	lazy bool
}

// Write implements vfs.File.
func (f *lazyFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.fs.bytes.Add(int64(n))
	return n, err
}

func (f *lazyFile) sync(real func() error) error {
	if f.lazy {
		return nil
	}
	f.fs.syncs.Add(1)
	return real()
}

// Sync implements vfs.File.
func (f *lazyFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *lazyFile) SyncData() error { return f.sync(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *lazyFile) SyncTo(length int64) (bool, error) {
	if f.lazy {
		return false, nil
	}
	return f.File.SyncTo(length)
}

// Close implements vfs.File.
func (f *lazyFile) Close() error {
	var err error
	if f.lazy {
		f.fs.syncs.Add(1)
		err = f.File.SyncData()
	}
	return errors.Join(err, f.File.Close())
}
