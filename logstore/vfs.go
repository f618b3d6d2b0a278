package logstore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"pistore"
)

// engineFS stands between the engine and the file system. It does two things
// that the engine cannot be told to do.
//
// It makes the log's syncs cheap where the level allows it. At Process level a
// commit asks for a sync, so that the engine waits until its bytes have left
// the process, and the sync itself is a no-op here; everything that is not a
// log of this database really syncs at every level.
//
// It keeps failures from the engine, which would end the process, hang, or
// acknowledge what failed. The first failure is recorded in fault; from then on
// writes go to memory and real files stay as they are, so that the engine runs
// on to its Close without doing harm. Only reads, and a table that is half
// written, report their error.
type engineFS struct {
	base  vfs.FS
	mem   *vfs.MemFS // takes what is written after a fault
	dir   string
	level pistore.Durability
	fault *fault
	water *watermark
	meter *meter
	// outside is the first failed sync of a folder that is not the database's: of
	// a backup, or the one above while the engine is opened.
	outside atomic.Pointer[error]
	// wrote tells that the engine has begun to write.
	wrote atomic.Bool
	logs  liveLogs
	ends  map[string]int64 // where logs of an earlier owner end whose tail was cut
}

func newEngineFS(cfg engineConfig, e *engine, ends map[string]int64) *engineFS {
	return &engineFS{
		base: cfg.base, mem: vfs.NewMem(), dir: cfg.dir, level: cfg.level, fault: e.fault, water: e.water, meter: &e.meter, ends: ends,
	}
}

// fileKind decides how a file's failures and syncs are treated.
type fileKind int

const (
	// plainFile is a MANIFEST, marker, OPTIONS or temporary file: the engine
	// does not read it back while the database is open.
	plainFile fileKind = iota
	// logFile is a log of this database.
	logFile
	// tableFile is read back by the engine soon after it was written.
	tableFile
)

func (f *engineFS) kindOf(name string) fileKind {
	switch filepath.Ext(name) {
	case ".log":
		// A checkpoint's copy of a log lies elsewhere and is no live log.
		if f.base.PathDir(name) == f.dir {
			return logFile
		}
	case ".sst", ".blob":
		return tableFile
	}
	return plainFile
}

func (f *engineFS) dead() bool { return f.fault.dead.Load() }

// ours tells whether a path is the database's folder or lies in it. What lies
// elsewhere belongs to a backup, whose errors are no concern of the database.
func (f *engineFS) ours(name string) bool { return name == f.dir || f.base.PathDir(name) == f.dir }

// Create implements vfs.FS.
func (f *engineFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !f.ours(name) {
		return f.base.Create(name, category)
	}
	if f.dead() {
		return f.createInMemory(name, category)
	}
	err := f.syncForMarker(name)
	var file vfs.File
	if err == nil {
		file, err = f.base.Create(name, category)
	}
	if err != nil {
		f.fault.fail("create "+name, err)
		return f.createInMemory(name, category)
	}
	return f.newFile(file, name), nil
}

// syncForMarker syncs the folder before a marker is made in it, and before one is
// removed. A marker says all that it says by its name. If one sync is to keep
// several names, a power cut may keep the new marker's and take that of the file
// that it points to, or take the names of the new marker and of the old one.
func (f *engineFS) syncForMarker(name string) error {
	if !strings.HasPrefix(f.base.PathBase(name), "marker.") {
		return nil
	}
	dir, err := f.base.OpenDir(f.dir)
	if err != nil {
		return err
	}
	f.meter.syncs.Add(1)
	return errors.Join(dir.Sync(), dir.Close())
}

func (f *engineFS) newFile(file vfs.File, name string) *engineFile {
	f.wrote.Store(true)
	e := &engineFile{File: file, fs: f, name: name, kind: f.kindOf(name)}
	if number, _, ok := wal.ParseLogFilename(f.base.PathBase(name)); ok {
		e.number = uint32(number)
	}
	if e.kind == logFile {
		f.logs.add(e)
	}
	return e
}

// createInMemory gives the engine something to write to after a fault: a log
// goes nowhere, anything else may be read back.
func (f *engineFS) createInMemory(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.kindOf(name) == logFile {
		return sinkFile{vfs.NewMemFile(nil)}, nil
	}
	if err := f.mem.MkdirAll(f.base.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	return f.mem.Create(name, category)
}

// ReuseForWrite implements vfs.FS. Logs are never recycled: a reader that has
// pinned the old log would find the new one's bytes in it.
func (f *engineFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.Create(newname, category)
}

// OpenReadWrite implements vfs.FS.
func (f *engineFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	if f.dead() {
		return f.createInMemory(name, category)
	}
	file, err := f.base.OpenReadWrite(name, category, opts...)
	if err != nil {
		f.fault.fail("open "+name, err)
		return f.createInMemory(name, category)
	}
	return f.newFile(file, name), nil
}

// Open implements vfs.FS. Errors of opening for reading are reported.
func (f *engineFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.dead() {
		if file, err := f.mem.Open(name, opts...); err == nil {
			return file, nil
		}
	}
	return openToEnd(f.base, f.ends, name, opts)
}

// OpenDir implements vfs.FS. The engine opens directories only while it opens
// the database, where it reports an error in order.
func (f *engineFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.base.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if !f.ours(name) {
		return outsideDir{file, f}, nil
	}
	return &engineFile{File: file, fs: f, name: name, kind: plainFile}, nil
}

// Remove implements vfs.FS.
func (f *engineFS) Remove(name string) error {
	if !f.ours(name) {
		return f.base.Remove(name)
	}
	return f.change("remove "+name, func() error {
		if err := f.syncForMarker(name); err != nil {
			return err
		}
		return f.base.Remove(name)
	}, func() error { return f.mem.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *engineFS) RemoveAll(name string) error {
	if !f.ours(name) {
		return f.base.RemoveAll(name)
	}
	return f.change("remove "+name, func() error { return f.base.RemoveAll(name) },
		func() error { return f.mem.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *engineFS) Rename(oldname, newname string) error {
	if !f.ours(newname) {
		return f.base.Rename(oldname, newname)
	}
	return f.change("rename "+oldname, func() error { return f.base.Rename(oldname, newname) },
		func() error { return f.mem.Rename(oldname, newname) })
}

// change runs a change of the folder, or after a fault its form in memory,
// whose failures mean nothing: the file may never have been there.
func (f *engineFS) change(op string, real, inMemory func() error) error {
	if !f.dead() {
		err := real()
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.fault.fail(op, err)
	}
	_ = inMemory()
	return nil
}

// Link implements vfs.FS. Links are made for checkpoints, which hear of errors.
func (f *engineFS) Link(oldname, newname string) error {
	if err := f.fault.err(); err != nil {
		return err
	}
	return f.base.Link(oldname, newname)
}

// MkdirAll implements vfs.FS.
func (f *engineFS) MkdirAll(dir string, perm os.FileMode) error {
	if f.dead() && f.ours(dir) {
		return f.mem.MkdirAll(dir, perm)
	}
	return f.base.MkdirAll(dir, perm)
}

// Lock implements vfs.FS.
func (f *engineFS) Lock(name string) (io.Closer, error) { return f.base.Lock(name) }

// List implements vfs.FS. The engine lists its folder before it writes, where an
// error ends the opening in order, and once more behind the flush of a recovery:
// by then tables are being looked at in the background, which does not survive
// that the opening fails.
func (f *engineFS) List(dir string) ([]string, error) {
	names, err := f.base.List(dir)
	if err != nil && f.wrote.Load() && f.ours(dir) {
		f.fault.fail("list "+dir, err)
	}
	if !f.dead() {
		return names, err
	}
	more, _ := f.mem.List(dir)
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Stat implements vfs.FS.
func (f *engineFS) Stat(name string) (vfs.FileInfo, error) {
	if f.dead() {
		if info, err := f.mem.Stat(name); err == nil {
			return info, nil
		}
	}
	return f.base.Stat(name)
}

// PathBase implements vfs.FS.
func (f *engineFS) PathBase(path string) string { return f.base.PathBase(path) }

// PathJoin implements vfs.FS.
func (f *engineFS) PathJoin(elem ...string) string { return f.base.PathJoin(elem...) }

// PathDir implements vfs.FS.
func (f *engineFS) PathDir(path string) string { return f.base.PathDir(path) }

// GetDiskUsage implements vfs.FS. The engine only paces itself by it, so not
// knowing is no failure.
func (f *engineFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	usage, err := f.base.GetDiskUsage(path)
	if err != nil {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return usage, nil
}

// Unwrap implements vfs.FS.
func (f *engineFS) Unwrap() vfs.FS { return f.base }
