package disk

import (
	"fmt"
	"io"
	"io/fs"
)

// FS is a file system. It is safe for concurrent use. Errors match those of
// io/fs: fs.ErrNotExist, fs.ErrExist and so on. What a call changed survives a
// power cut only when the call that syncs it has returned without error:
// [File.Sync] for content, [FS.SyncDir] for names.
type FS interface {
	// Open opens a file in one of the ways of Access. It never waits for
	// another process, whatever stands at the name.
	Open(name string, how Access) (File, error)

	// Mkdir makes a directory that only its owner may use.
	Mkdir(name string) error

	// Rename gives a file another name in one step. A file that has the new
	// name already loses it.
	Rename(from, to string) error

	// Link gives a file a second name, which nothing may have yet.
	Link(from, to string) error

	// Remove takes a name away. Who has the file open can go on using it.
	Remove(name string) error

	// Stat describes what a name leads to, through symbolic links.
	Stat(name string) (Info, error)

	// List returns what stands in a directory, by name.
	List(dir string) ([]Entry, error)

	// SyncDir makes the names in a directory durable as they are now.
	SyncDir(dir string) error

	// Resolve returns an absolute name that is free of symbolic links. What
	// does not exist is fs.ErrNotExist.
	Resolve(name string) (string, error)

	// LockDir waits for the advisory lock of a directory and takes it; closing
	// gives it back. It keeps out who asks for it, and nobody else.
	LockDir(dir string) (io.Closer, error)
}

// Access says how a file is opened.
type Access int

const (
	// Read: for reading only.
	Read Access = iota
	// Append: for reading and appending.
	Append
	// Create: likewise, a new file that only its owner may use. A name that is
	// taken is fs.ErrExist.
	Create
)

// File is an open file. Reading is safe beside everything else; the other
// methods are for one caller at a time.
type File interface {
	io.ReaderAt
	io.Closer

	// Write appends p with one call to the system. A short write returns what
	// was written and an error.
	Write(p []byte) (int, error)

	// Sync makes content, size and attributes durable.
	Sync() error

	// SyncData makes content and size durable.
	SyncData() error

	// Truncate cuts the file to a length.
	Truncate(size int64) error

	// Stat describes the file, also where its name is gone.
	Stat() (Info, error)

	// Lock takes the advisory lock of the file, or returns a [*HeldError]
	// at once. It is given back by Close and by the death of the process.
	Lock() error

	// SetMode sets the permission bits.
	SetMode(mode fs.FileMode) error

	// SetOwner sets the owner, where the platform has one.
	SetOwner(uid, gid int) error
}

// Info describes a file.
type Info struct {
	Size     int64
	Mode     fs.FileMode
	Identity Identity
	UID, GID int // -1: the platform has none
	// ModifiedMS is when the content was changed last, in Unix milliseconds;
	// 0: it is not kept.
	ModifiedMS int64
}

// Identity tells whether two names or descriptors are of one file. It is
// comparable; a platform without one gives the zero value.
type Identity struct{ Device, Inode uint64 }

// Entry is a name in a directory.
type Entry struct {
	Name string
	Mode fs.FileMode // the type bits only; a symbolic link is one
}

// HeldError says that somebody else has the lock of a file.
type HeldError struct {
	Name string
	PID  int // 0 where the platform cannot tell
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: locked by another owner", e.Name)
	}
	return fmt.Sprintf("%s: locked by process %d", e.Name, e.PID)
}
