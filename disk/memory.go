package disk

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// Memory is a file system in memory that knows what would survive a power cut:
// see [Memory.Crash]. It has no symbolic links. Names are separated by slashes,
// and relative ones count from the root.
type Memory struct {
	mu   sync.Mutex // guards everything below it
	root *node
	last uint64 // inode given
}

// node is a file or a directory.
type node struct {
	inode uint64
	mode  fs.FileMode

	// Of a file.
	data    []byte
	durable []byte // as the last sync left it
	locked  *memoryFile

	// Of a directory: what it holds, what it held at the last sync, and what was
	// done to it since.
	names        map[string]*node
	durableNames map[string]*node
	pending      []naming
	lock         chan struct{}
}

// naming is a change of names in one directory, which a power cut leaves done or
// undone. A rename between two directories is two of them.
type naming struct {
	gone string // empty: none
	name string // empty: none
	node *node
}

// NewMemory returns an empty file system.
func NewMemory() *Memory {
	m := &Memory{}
	m.root = m.newDir()
	return m
}

func (m *Memory) newNode(mode fs.FileMode) *node {
	m.last++
	return &node{inode: m.last, mode: mode}
}

func (m *Memory) newDir() *node {
	n := m.newNode(fs.ModeDir | 0o700)
	n.names, n.durableNames = map[string]*node{}, map[string]*node{}
	n.lock = make(chan struct{}, 1)
	return n
}

func (d *node) change(c naming) {
	if c.gone != "" {
		delete(d.names, c.gone)
	}
	if c.name != "" {
		d.names[c.name] = c.node
	}
	d.pending = append(d.pending, c)
}

func (n *node) info() Info {
	return Info{Size: int64(len(n.data)), Mode: n.mode, Identity: Identity{Device: 1, Inode: n.inode}, UID: os.Getuid(), GID: os.Getgid()}
}

func failed(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// walk returns the node of a name. The caller holds mu.
func (m *Memory) walk(op, name string) (*node, error) {
	at := m.root
	for part := range strings.SplitSeq(path.Clean("/" + name)[1:], "/") {
		if part == "" {
			continue
		}
		if at = at.names[part]; at == nil {
			return nil, failed(op, name, fs.ErrNotExist)
		}
	}
	return at, nil
}

// parent returns the directory that a name stands in. The caller holds mu.
func (m *Memory) parent(op, name string) (dir *node, base string, err error) {
	d, base := path.Split(path.Clean("/" + name))
	dir, err = m.walk(op, d)
	if err == nil && (dir.names == nil || base == "") {
		err = failed(op, name, fs.ErrInvalid)
	}
	return dir, base, err
}

// Open opens a file.
func (m *Memory) Open(name string, how Access) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("open", name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	switch {
	case how == Create && n != nil:
		return nil, failed("open", name, fs.ErrExist)
	case how == Create:
		n = m.newNode(newFileMode)
		dir.change(naming{name: base, node: n})
	case n == nil:
		return nil, failed("open", name, fs.ErrNotExist)
	case n.names != nil && how != Read:
		return nil, failed("open", name, fs.ErrInvalid)
	}
	return &memoryFile{fs: m, node: n, name: name, how: how}, nil
}

// Mkdir makes a directory.
func (m *Memory) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("mkdir", name)
	if err == nil && dir.names[base] != nil {
		err = failed("mkdir", name, fs.ErrExist)
	}
	if err == nil {
		dir.change(naming{name: base, node: m.newDir()})
	}
	return err
}

// Rename renames a file.
func (m *Memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	source, old, err := m.parent("rename", from)
	if err != nil {
		return err
	}
	target, base, err := m.parent("rename", to)
	if err != nil {
		return err
	}
	n := source.names[old]
	switch {
	case n == nil:
		return failed("rename", from, fs.ErrNotExist)
	case n.names != nil || target.names[base] != nil && target.names[base].names != nil:
		return failed("rename", to, fs.ErrInvalid)
	case source == target:
		target.change(naming{gone: old, name: base, node: n})
	default:
		target.change(naming{name: base, node: n})
		source.change(naming{gone: old})
	}
	return nil
}

// Link gives a file a second name.
func (m *Memory) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk("link", from)
	if err != nil {
		return err
	}
	dir, base, err := m.parent("link", to)
	if err == nil && dir.names[base] != nil {
		err = failed("link", to, fs.ErrExist)
	}
	if err == nil {
		dir.change(naming{name: base, node: n})
	}
	return err
}

// Remove removes a file or an empty directory.
func (m *Memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	if n == nil {
		return failed("remove", name, fs.ErrNotExist)
	}
	if len(n.names) > 0 {
		return failed("remove", name, fs.ErrInvalid)
	}
	dir.change(naming{gone: base})
	return nil
}

// Stat describes a file.
func (m *Memory) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk("stat", name)
	if err != nil {
		return Info{}, err
	}
	return n.info(), nil
}

// List lists a directory.
func (m *Memory) List(dir string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.walk("list", dir)
	if err == nil && d.names == nil {
		err = failed("list", dir, fs.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(d.names))
	for name, n := range d.names {
		entries = append(entries, Entry{Name: name, Mode: n.mode.Type()})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// SyncDir makes the names in a directory durable.
func (m *Memory) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.walk("sync", dir)
	if err == nil && d.names == nil {
		err = failed("sync", dir, fs.ErrInvalid)
	}
	if err != nil {
		return err
	}
	clear(d.durableNames)
	for name, n := range d.names {
		d.durableNames[name] = n
	}
	d.pending = nil
	return nil
}

// Resolve returns the name from the root.
func (m *Memory) Resolve(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.walk("resolve", name)
	return path.Clean("/" + name), err
}

// LockDir locks a directory.
func (m *Memory) LockDir(dir string) (io.Closer, error) {
	m.mu.Lock()
	d, err := m.walk("lock", dir)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if d.lock == nil {
		return nil, failed("lock", dir, fs.ErrInvalid)
	}
	d.lock <- struct{}{}
	return memoryLock(d.lock), nil
}

type memoryLock chan struct{}

func (l memoryLock) Close() error {
	<-l
	return nil
}

// memoryFile is a descriptor.
type memoryFile struct {
	fs     *Memory
	node   *node
	name   string
	how    Access
	closed bool // under the lock of fs
}

// use runs a call under the lock of the file system.
func (f *memoryFile) use(op string, writes bool, call func(n *node) error) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case f.closed:
		return failed(op, f.name, fs.ErrClosed)
	case writes && f.how == Read:
		return failed(op, f.name, fs.ErrPermission)
	}
	return call(f.node)
}

func (f *memoryFile) ReadAt(p []byte, at int64) (n int, err error) {
	err = f.use("read", false, func(file *node) error {
		if at < 0 || file.names != nil {
			return failed("read", f.name, fs.ErrInvalid)
		}
		if at < int64(len(file.data)) {
			n = copy(p, file.data[at:])
		}
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (f *memoryFile) Write(p []byte) (int, error) {
	err := f.use("write", true, func(file *node) error {
		file.data = append(file.data, p...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memoryFile) Sync() error {
	return f.use("sync", false, func(file *node) error {
		// What is durable up to the same length is so with the same bytes unless
		// the file was cut in between; copying all keeps that simple.
		file.durable = append(file.durable[:0:0], file.data...)
		return nil
	})
}

func (f *memoryFile) SyncData() error { return f.Sync() }

func (f *memoryFile) Truncate(size int64) error {
	return f.use("truncate", true, func(file *node) error {
		if size < 0 || size > int64(len(file.data)) {
			return failed("truncate", f.name, fs.ErrInvalid)
		}
		// What is appended next must not reach what a crash may bring back.
		file.data = slices.Clone(file.data[:size])
		return nil
	})
}

func (f *memoryFile) Stat() (info Info, err error) {
	err = f.use("stat", false, func(file *node) error {
		info = file.info()
		return nil
	})
	return info, err
}

func (f *memoryFile) Lock() error {
	return f.use("lock", false, func(file *node) error {
		if file.locked != nil && file.locked != f {
			return &HeldError{Name: f.name, PID: os.Getpid()}
		}
		file.locked = f
		return nil
	})
}

func (f *memoryFile) SetMode(mode fs.FileMode) error {
	return f.use("chmod", false, func(file *node) error {
		file.mode = file.mode.Type() | mode.Perm()
		return nil
	})
}

func (f *memoryFile) SetOwner(int, int) error {
	return f.use("chown", false, func(*node) error { return nil })
}

func (f *memoryFile) Close() error {
	return f.use("close", false, func(file *node) error {
		f.closed = true
		if file.locked == f {
			file.locked = nil
		}
		return nil
	})
}
