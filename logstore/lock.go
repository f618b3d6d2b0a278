package logstore

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

const (
	lockName  = "LOCK"  // the engine's lock file; the lock is the kernel's, never the file's
	ownerName = "OWNER" // who holds the lock; information only
)

// owner is the content of the OWNER file.
type owner struct {
	PID       int            `json:"pid"`
	Host      string         `json:"host"`
	StartedAt pistore.UnixMS `json:"startedAtMS"`
}

// openFolders is the in-process half of the lock. A POSIX lock does not keep
// its own process out, and closing any descriptor of the file would drop it, so
// nothing in this process may even look at a LOCK file that it holds.
var openFolders struct {
	mu     sync.Mutex // guards owners
	owners map[folder]owner
}

// folder is a resolved folder of one file system.
type folder struct {
	root vfs.FS
	dir  string
}

func folderOf(base vfs.FS, dir string) folder { return folder{root: vfs.Root(base), dir: dir} }

// folderLock is the ownership of one folder.
type folderLock struct {
	base   vfs.FS
	dir    string
	engine *pebble.Lock
}

// resolveFolder makes a folder's name absolute and free of symbolic links, so
// that two names of one folder meet at one lock. What does not exist yet keeps
// its own last elements.
func resolveFolder(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := abs; ; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		parent := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || parent == at {
			return "", err
		}
		if _, lerr := os.Lstat(at); lerr == nil {
			return "", err // a link that leads nowhere
		}
		at, rest = parent, filepath.Join(filepath.Base(at), rest)
	}
}

// lockFolder takes ownership of an existing, resolved folder, or says who has
// it. The kernel drops a dead owner's lock, so none ever needs removing.
func lockFolder(base vfs.FS, dir string, now pistore.UnixMS) (*folderLock, error) {
	host, _ := os.Hostname()
	me := owner{PID: os.Getpid(), Host: host, StartedAt: now}

	openFolders.mu.Lock()
	defer openFolders.mu.Unlock()
	if o, ok := openFolders.owners[folderOf(base, dir)]; ok {
		return nil, &pistore.LockedError{Place: dir, PID: o.PID, Host: o.Host, Since: o.StartedAt}
	}
	engine, err := pebble.LockDirectory(dir, base)
	if err != nil {
		if lockTaken(err) {
			return nil, lockedBy(base, dir)
		}
		return nil, err
	}
	if openFolders.owners == nil {
		openFolders.owners = make(map[folder]owner)
	}
	openFolders.owners[folderOf(base, dir)] = me
	l := &folderLock{base: base, dir: dir, engine: engine}
	l.writeOwner(me)
	return l, nil
}

// release gives the folder up. It must not be called while an engine that did
// not close may still be at work.
func (l *folderLock) release() error {
	openFolders.mu.Lock()
	defer openFolders.mu.Unlock()
	err := l.base.Remove(l.base.PathJoin(l.dir, ownerName))
	if errors.Is(err, fs.ErrNotExist) || !onDisk(l.base) {
		err = nil
	}
	delete(openFolders.owners, folderOf(l.base, l.dir))
	return errors.Join(err, l.engine.Close())
}

// writeOwner leaves a note for whoever finds the folder locked. Nothing depends
// on it, so a failure is no error.
func (l *folderLock) writeOwner(o owner) {
	text, err := json.Marshal(o)
	if err != nil {
		return
	}
	file, err := l.base.Create(l.base.PathJoin(l.dir, ownerName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, _ = file.Write(append(text, '\n'))
	_ = file.Close()
}

// lockedBy describes the owner of a folder: the pid is the kernel's word, host
// and start time are the OWNER file's, if it speaks of the same process.
func lockedBy(base vfs.FS, dir string) error {
	locked := &pistore.LockedError{Place: dir}
	if onDisk(base) {
		// A holder beyond this system's sight is named by the OWNER file at best.
		locked.PID = max(0, lockHolder(filepath.Join(dir, lockName)))
	}
	file, err := base.Open(base.PathJoin(dir, ownerName))
	if err != nil {
		return locked
	}
	defer file.Close()
	var o owner
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil || json.Unmarshal(text, &o) != nil || locked.PID != 0 && o.PID != locked.PID {
		return locked
	}
	locked.PID, locked.Host, locked.Since = o.PID, o.Host, o.StartedAt
	return locked
}

// onDisk tells whether a file system is the operating system's, below whatever
// wraps it.
func onDisk(base vfs.FS) bool { return vfs.Root(base) == vfs.Default }
