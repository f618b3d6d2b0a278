package disk

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

const newFileMode = 0o600

func (osFS) Open(name string, how Access) (File, error) {
	flags := os.O_RDONLY | noWait
	switch how {
	case Append:
		flags = os.O_RDWR | os.O_APPEND | noWait
	case Create:
		flags = os.O_RDWR | os.O_APPEND | os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(name, flags, newFileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Mkdir(name string) error      { return os.Mkdir(name, 0o700) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Link(from, to string) error   { return os.Link(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return infoOf(st), nil
}

func (osFS) List(dir string) ([]Entry, error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(found))
	for i, e := range found {
		entries[i] = Entry{Name: e.Name(), Mode: e.Type()}
	}
	return entries, nil
}

func (osFS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = syncDir(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (osFS) Resolve(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func (osFS) LockDir(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := lockWait(f); err != nil {
		f.Close() // read only: nothing can be lost
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
	return osFile{f}, nil
}

type osFile struct{ *os.File }

// Close gives a lock up before it closes. A process that this one is starting at
// the moment has a copy of the descriptor until it executes its program, and the
// lock would live on in that.
func (f osFile) Close() error {
	unlock(f.File)
	return f.File.Close()
}

func (f osFile) SyncData() error {
	if err := syncData(f.File); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f osFile) Stat() (Info, error) {
	st, err := f.File.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOf(st), nil
}

func (f osFile) Lock() error {
	taken, err := lockTry(f.File)
	switch {
	case taken:
		held := &HeldError{Name: f.Name()}
		if st, err := f.Stat(); err == nil {
			held.PID = lockHolder(st.Identity)
		}
		return held
	case err != nil:
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

func (f osFile) SetMode(mode fs.FileMode) error { return f.Chmod(mode.Perm()) }

func (f osFile) SetOwner(uid, gid int) error { return f.Chown(uid, gid) }
