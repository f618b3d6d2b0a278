package disk

import (
	"io"
	"io/fs"
	"sync"
)

// Kind is a kind of call.
type Kind string

// The kinds of calls that a failing file system counts.
const (
	OpOpen     Kind = "open"
	OpCreate   Kind = "create"
	OpRead     Kind = "read"
	OpWrite    Kind = "write"
	OpSync     Kind = "sync"
	OpSyncData Kind = "sync-data"
	OpTruncate Kind = "truncate"
	OpClose    Kind = "close"
	OpLock     Kind = "lock"
	OpMkdir    Kind = "mkdir"
	OpRename   Kind = "rename"
	OpLink     Kind = "link"
	OpRemove   Kind = "remove"
	OpStat     Kind = "stat"
	OpList     Kind = "list"
	OpSyncDir  Kind = "sync-dir"
	OpResolve  Kind = "resolve"
	OpLockDir  Kind = "lock-dir"
	OpSetMode  Kind = "set-mode"
	OpSetOwner Kind = "set-owner"
)

// Call is a call that is about to be made.
type Call struct {
	Kind Kind
	Name string // of the file, the directory, or the new name
	N    int    // how many calls of any kind were made before this one
	Of   int    // how many of this kind
	Size int    // of a write
}

// Verdict is what becomes of a call. The zero value lets it through.
type Verdict struct {
	Err error // what the call fails with, its effect undone
	// Written is how much of a write that fails reaches the file; a failing call
	// of another kind has its effect all the same when it is not 0, which is
	// what a failed sync or rename may mean.
	Written int
}

// Failing is a file system whose calls fail as a rule says. Locks, descriptors
// and everything else are those of the one below.
type Failing struct {
	base FS

	mu    sync.Mutex // guards the rest
	rule  func(Call) Verdict
	total int
	kinds map[Kind]int
}

// NewFailing returns a file system over base on which nothing fails yet.
func NewFailing(base FS) *Failing { return &Failing{base: base, kinds: map[Kind]int{}} }

// Rule has rule decide from now on, counting calls from 0 again; nil lets
// everything through. It is called for one call at a time.
func (f *Failing) Rule(rule func(Call) Verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule, f.total = rule, 0
	clear(f.kinds)
}

// Calls returns how many calls were made since the rule was set.
func (f *Failing) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

// Nth is a rule under which the n-th call, counted from 0, fails and all others
// pass. Of no kind: of any.
func Nth(kind Kind, n int, v Verdict) func(Call) Verdict {
	return func(c Call) Verdict {
		if kind == "" && c.N == n || c.Kind == kind && c.Of == n {
			return v
		}
		return Verdict{}
	}
}

func (f *Failing) judge(kind Kind, name string, size int) Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := Call{Kind: kind, Name: name, N: f.total, Of: f.kinds[kind], Size: size}
	f.total++
	f.kinds[kind]++
	if f.rule == nil {
		return Verdict{}
	}
	return f.rule(c)
}

// do makes a call that returns an error only.
func (f *Failing) do(kind Kind, name string, call func() error) error {
	v := f.judge(kind, name, 0)
	if v.Err == nil {
		return call()
	}
	if v.Written != 0 {
		_ = call() // it counts as failed in any case
	}
	return &fs.PathError{Op: string(kind), Path: name, Err: v.Err}
}

// get makes a call that returns something beside an error.
func get[T any](f *Failing, kind Kind, name string, call func() (T, error)) (result T, err error) {
	err = f.do(kind, name, func() (err error) {
		result, err = call()
		return err
	})
	return result, err
}

// Open fails as OpOpen or OpCreate.
func (f *Failing) Open(name string, how Access) (File, error) {
	kind := OpOpen
	if how == Create {
		kind = OpCreate
	}
	file, err := get(f, kind, name, func() (File, error) { return f.base.Open(name, how) })
	if err != nil {
		if file != nil {
			file.Close() // nobody has it
		}
		return nil, err
	}
	return &failingFile{File: file, fs: f, name: name}, nil
}

// Mkdir fails as OpMkdir.
func (f *Failing) Mkdir(name string) error {
	return f.do(OpMkdir, name, func() error { return f.base.Mkdir(name) })
}

// Rename fails as OpRename, under the new name.
func (f *Failing) Rename(from, to string) error {
	return f.do(OpRename, to, func() error { return f.base.Rename(from, to) })
}

// Link fails as OpLink, under the new name.
func (f *Failing) Link(from, to string) error {
	return f.do(OpLink, to, func() error { return f.base.Link(from, to) })
}

// Remove fails as OpRemove.
func (f *Failing) Remove(name string) error {
	return f.do(OpRemove, name, func() error { return f.base.Remove(name) })
}

// Stat fails as OpStat.
func (f *Failing) Stat(name string) (Info, error) {
	return get(f, OpStat, name, func() (Info, error) { return f.base.Stat(name) })
}

// List fails as OpList.
func (f *Failing) List(dir string) ([]Entry, error) {
	return get(f, OpList, dir, func() ([]Entry, error) { return f.base.List(dir) })
}

// SyncDir fails as OpSyncDir.
func (f *Failing) SyncDir(dir string) error {
	return f.do(OpSyncDir, dir, func() error { return f.base.SyncDir(dir) })
}

// Resolve fails as OpResolve.
func (f *Failing) Resolve(name string) (string, error) {
	return get(f, OpResolve, name, func() (string, error) { return f.base.Resolve(name) })
}

// LockDir fails as OpLockDir.
func (f *Failing) LockDir(dir string) (io.Closer, error) {
	lock, err := get(f, OpLockDir, dir, func() (io.Closer, error) { return f.base.LockDir(dir) })
	if err != nil && lock != nil {
		lock.Close() // nobody has it
	}
	return lock, err
}

// failingFile is an open file. One whose sync has failed is synced no more: the
// system may have given up what it was to write, and later calls say yes to what
// is not there.
type failingFile struct {
	File
	fs     *Failing
	name   string
	gaveUp bool
}

func (f *failingFile) ReadAt(p []byte, at int64) (n int, err error) {
	err = f.fs.do(OpRead, f.name, func() (err error) {
		n, err = f.File.ReadAt(p, at)
		return err
	})
	return n, err
}

func (f *failingFile) Write(p []byte) (int, error) {
	v := f.fs.judge(OpWrite, f.name, len(p))
	if v.Err == nil {
		return f.File.Write(p)
	}
	n := 0
	if v.Written > 0 {
		n, _ = f.File.Write(p[:min(v.Written, len(p))]) // it counts as failed in any case
	}
	return n, &fs.PathError{Op: string(OpWrite), Path: f.name, Err: v.Err}
}

func (f *failingFile) Sync() error     { return f.sync(OpSync, f.File.Sync) }
func (f *failingFile) SyncData() error { return f.sync(OpSyncData, f.File.SyncData) }
func (f *failingFile) Lock() error     { return f.fs.do(OpLock, f.name, f.File.Lock) }

func (f *failingFile) sync(kind Kind, call func() error) error {
	refused := true
	err := f.fs.do(kind, f.name, func() error {
		refused = false
		if f.gaveUp {
			return nil
		}
		return call()
	})
	f.gaveUp = f.gaveUp || err != nil && refused
	return err
}

func (f *failingFile) Truncate(size int64) error {
	return f.fs.do(OpTruncate, f.name, func() error { return f.File.Truncate(size) })
}

// Close closes the file below in any case, as close(2) does.
func (f *failingFile) Close() error {
	v := f.fs.judge(OpClose, f.name, 0)
	err := f.File.Close()
	if v.Err != nil {
		return &fs.PathError{Op: string(OpClose), Path: f.name, Err: v.Err}
	}
	return err
}

func (f *failingFile) Stat() (Info, error) {
	return get(f.fs, OpStat, f.name, f.File.Stat)
}

func (f *failingFile) SetMode(mode fs.FileMode) error {
	return f.fs.do(OpSetMode, f.name, func() error { return f.File.SetMode(mode) })
}

func (f *failingFile) SetOwner(uid, gid int) error {
	return f.fs.do(OpSetOwner, f.name, func() error { return f.File.SetOwner(uid, gid) })
}
