package jsonl

import (
	"errors"
	"os"
	"sync"

	"pistore"
	"pistore/disk"
)

// owned are the files that this process has open for writing. The lock of the
// system keeps other processes out; this keeps two openers of one process apart
// also where the system has no locks, and knows since when.
var owned struct {
	mu    sync.Mutex // guards files
	files map[ownedFile]pistore.UnixMS
}

// ownedFile is a file by what it is, or by its name where the system does not
// tell one file from another.
type ownedFile struct {
	fs   disk.FS
	id   disk.Identity
	path string
}

func ownedKey(fs disk.FS, id disk.Identity, path string) ownedFile {
	if id != (disk.Identity{}) {
		path = ""
	}
	return ownedFile{fs, id, path}
}

// own takes ownership of an open file, or says who has it.
func own(fs disk.FS, path string, f disk.File, now pistore.UnixMS) (ownedFile, error) {
	st, err := f.Stat()
	if err != nil {
		return ownedFile{}, err
	}
	key := ownedKey(fs, st.Identity, path)
	owned.mu.Lock()
	defer owned.mu.Unlock()
	if since, ok := owned.files[key]; ok {
		return ownedFile{}, &pistore.LockedError{Place: path, PID: os.Getpid(), Since: since}
	}
	var held *disk.HeldError
	if err := f.Lock(); errors.As(err, &held) {
		return ownedFile{}, &pistore.LockedError{Place: path, PID: held.PID}
	} else if err != nil {
		return ownedFile{}, err
	}
	if owned.files == nil {
		owned.files = map[ownedFile]pistore.UnixMS{}
	}
	owned.files[key] = now
	return key, nil
}

// disown gives ownership up. The lock goes with the file when that is closed,
// which must come after: an opener of this process asks here first.
func (k ownedFile) disown() {
	owned.mu.Lock()
	defer owned.mu.Unlock()
	delete(owned.files, k)
}

// renamed follows a file to its new name, where the name is all that is known
// of it.
func (k ownedFile) renamed(path string) ownedFile {
	if k.path == "" {
		return k
	}
	owned.mu.Lock()
	defer owned.mu.Unlock()
	since := owned.files[k]
	delete(owned.files, k)
	k.path = path
	owned.files[k] = since
	return k
}
