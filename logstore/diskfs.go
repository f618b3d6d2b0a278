package logstore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore/disk"
)

// diskFS is the engine's file system over ours, so that the failing and the
// forgetting form of ours serve this backend too, here and elsewhere.
type diskFS struct{ base disk.FS }

var _ vfs.FS = diskFS{}

func (d diskFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.base.Open(name, disk.Create)
	if errors.Is(err, fs.ErrExist) {
		// Whoever has the old one open keeps it.
		if err = d.base.Remove(name); err == nil {
			f, err = d.base.Open(name, disk.Create)
		}
	}
	return d.opened(name, f, err)
}

func (d diskFS) opened(name string, f disk.File, err error, opts ...vfs.OpenOption) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	file := &diskFile{File: f, name: path.Base(name)}
	for _, o := range opts {
		o.Apply(file)
	}
	return file, nil
}

func (d diskFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.base.Open(name, disk.Read)
	return d.opened(name, f, err, opts...)
}

func (d diskFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.base.Open(name, disk.Append)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = d.base.Open(name, disk.Create)
	}
	return d.opened(name, f, err, opts...)
}

func (d diskFS) OpenDir(name string) (vfs.File, error) {
	if _, err := d.base.Stat(name); err != nil {
		return nil, err
	}
	return diskDir{base: d.base, dir: name}, nil
}

func (d diskFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.base.Remove(old); err != nil {
		return nil, err
	}
	return d.Create(name, c)
}

func (d diskFS) RemoveAll(name string) error {
	info, err := d.base.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode.IsDir() {
		var entries []disk.Entry
		entries, err = d.base.List(name)
		for _, e := range entries {
			err = errors.Join(err, d.RemoveAll(path.Join(name, e.Name)))
		}
	}
	return errors.Join(err, d.base.Remove(name))
}

func (d diskFS) MkdirAll(dir string, perm os.FileMode) error {
	if info, err := d.base.Stat(dir); err == nil && info.Mode.IsDir() {
		return nil
	}
	if parent := path.Dir(dir); parent != dir {
		if err := d.MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	if err := d.base.Mkdir(dir); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Lock takes the lock of a file, as another process would find it.
func (d diskFS) Lock(name string) (io.Closer, error) {
	f, err := d.base.Open(name, disk.Append)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = d.base.Open(name, disk.Create)
	}
	if err != nil {
		return nil, err
	}
	var held *disk.HeldError
	if err = f.Lock(); errors.As(err, &held) {
		err = syscall.EAGAIN
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d diskFS) List(dir string) ([]string, error) {
	entries, err := d.base.List(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names, err
}

func (d diskFS) Stat(name string) (vfs.FileInfo, error) {
	info, err := d.base.Stat(name)
	if err != nil {
		return nil, err
	}
	return diskInfo{info, path.Base(name)}, nil
}

func (d diskFS) Link(from, to string) error                 { return d.base.Link(from, to) }
func (d diskFS) Remove(name string) error                   { return d.base.Remove(name) }
func (d diskFS) Rename(from, to string) error               { return d.base.Rename(from, to) }
func (diskFS) PathBase(name string) string                  { return path.Base(name) }
func (diskFS) PathJoin(elem ...string) string               { return path.Join(elem...) }
func (diskFS) PathDir(name string) string                   { return path.Dir(name) }
func (diskFS) GetDiskUsage(string) (vfs.DiskUsage, error)   { return vfs.DiskUsage{}, vfs.ErrUnsupported }
func (diskFS) Unwrap() vfs.FS                               { return nil }
func (f *diskFile) WriteAt([]byte, int64) (int, error)      { return 0, vfs.ErrUnsupported }
func (f *diskFile) Preallocate(int64, int64) error          { return nil }
func (f *diskFile) Prefetch(int64, int64) error             { return nil }
func (f *diskFile) Fd() uintptr                             { return vfs.InvalidFd }
func (f *diskFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

// diskFile is an open file with a place to read from.
type diskFile struct {
	disk.File
	name string
	at   int64
}

func (f *diskFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *diskFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return diskInfo{info, f.name}, nil
}

// diskDir is an open directory, which there is to be synced and nothing else.
type diskDir struct {
	vfs.File // nil
	base     disk.FS
	dir      string
}

func (d diskDir) Sync() error                { return d.base.SyncDir(d.dir) }
func (d diskDir) SyncData() error            { return d.base.SyncDir(d.dir) }
func (d diskDir) SyncTo(int64) (bool, error) { return false, nil }
func (d diskDir) Close() error               { return nil }

type diskInfo struct {
	disk.Info
	name string
}

func (i diskInfo) Name() string         { return i.name }
func (i diskInfo) Size() int64          { return i.Info.Size }
func (i diskInfo) Mode() fs.FileMode    { return i.Info.Mode }
func (i diskInfo) ModTime() time.Time   { return time.UnixMilli(i.ModifiedMS) }
func (i diskInfo) IsDir() bool          { return i.Info.Mode.IsDir() }
func (i diskInfo) Sys() any             { return nil }
func (diskInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
