package logstore

import (
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hookFS calls a hook before each change that reaches the real file system. An
// error of the hook takes the place of the change.
type hookFS struct {
	vfs.FS
	hook func(op fsOp) error
}

// fsOp is a change: create, write, sync, close, remove, rename.
type fsOp struct {
	what string
	kind string // log, table, manifest, dir, other
	name string // base name
}

func opOn(what, path string, dir bool) fsOp {
	op := fsOp{what: what, kind: "other", name: filepath.Base(path)}
	switch {
	case dir:
		op.kind = "dir"
	case strings.HasSuffix(op.name, ".log"):
		op.kind = "log"
	case strings.HasSuffix(op.name, ".sst"):
		op.kind = "table"
	case strings.HasPrefix(op.name, "MANIFEST"):
		op.kind = "manifest"
	}
	return op
}

func (f hookFS) Unwrap() vfs.FS { return f.FS }

func (f hookFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.hook(opOn("create", name, false)); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &hookFile{File: file, fs: f, path: name}, nil
}

func (f hookFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &hookFile{File: file, fs: f, path: name, dir: true}, nil
}

func (f hookFS) Remove(name string) error {
	if err := f.hook(opOn("remove", name, false)); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f hookFS) Rename(from, to string) error {
	if err := f.hook(opOn("rename", to, false)); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

type hookFile struct {
	vfs.File
	fs   hookFS
	path string
	dir  bool
}

func (f *hookFile) Write(p []byte) (int, error) {
	if err := f.fs.hook(opOn("write", f.path, f.dir)); err != nil {
		// Half of it arrives, as on a full disk.
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *hookFile) Sync() error {
	if err := f.fs.hook(opOn("sync", f.path, f.dir)); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) SyncData() error {
	if err := f.fs.hook(opOn("sync", f.path, f.dir)); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *hookFile) Close() error {
	err := f.fs.hook(opOn("close", f.path, f.dir))
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
