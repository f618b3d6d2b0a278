package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
)

// destination is where a command puts a new session: a file that ends in .jsonl
// and does not exist yet, or a logstore folder. What the command makes there goes
// again if it fails.
type destination struct {
	place   string
	backend pistore.Backend
	undo    func() error
}

// openDestination opens what an argument names, or makes it.
func openDestination(arg string) (*destination, error) {
	place, id, err := splitStore(arg)
	if err != nil {
		return nil, err
	}
	if id != "" {
		if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
			return nil, usageError("DST is a file or a folder, without #SESSION")
		}
		place = arg // a new path that has a # of its own
	}
	if strings.HasSuffix(place, ".jsonl") && !isFolder(place) {
		return newFile(place)
	}
	d := &destination{place: place}
	if d.undo, err = prepareFolder(place); err != nil {
		return nil, err
	}
	db, err := logstore.Open(place, logstore.Options{Durability: pistore.Power})
	if err != nil {
		return nil, errors.Join(refusedDestination(place, err), d.undo())
	}
	d.backend = db
	return d, nil
}

// refusedDestination says in one sentence why nothing can go into a folder.
func refusedDestination(place string, err error) error {
	if errors.Is(err, pistore.ErrForeignFormat) {
		return usageError(place + " holds files and is no logstore; name a new folder, or a new file that ends in .jsonl")
	}
	return cannotWrite(place, refused(place, err))
}

// newFile makes the folder of a session file that is to be made.
func newFile(place string) (*destination, error) {
	if err := isFree(place); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(place))
	if err != nil {
		return nil, err
	}
	undo := func() error { return nil }
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if undo, err = removeNew(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, errors.Join(cannotWrite(place, err), undo())
		}
	}
	return &destination{place: place, backend: jsonl.NewSingle(place, jsonl.Options{Durability: pistore.Power}), undo: undo}, nil
}

// close ends the work on a destination that failed with err, or did not.
func (d *destination) close(ctx context.Context, err error) error {
	closed := d.backend.Close()
	if err == nil && closed == nil {
		return nil
	}
	if err == nil {
		err = closed // what follows a failure is no news
	}
	if left := d.undo(); left != nil {
		return &exitError{exitFindings, fmt.Errorf("%w; what was made of %s could not be removed: %w", err, d.place, cause(left))}
	}
	if errors.Is(err, pistore.ErrDuplicateID) {
		return usageError(fmt.Sprintf("%s holds a session of that id already; nothing was changed in it", d.place))
	}
	return leftAsItWas(d.place, err)
}

// prepareFolder looks whether a place may become or be a logstore, and returns
// what takes away again what is made there.
func prepareFolder(place string) (undo func() error, err error) {
	info, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return removeNew(place)
	case err != nil:
		return nil, cannotWrite(place, err)
	case !info.IsDir():
		return nil, usageError(place + " is no folder; a session goes into a logstore folder or into a new file that ends in .jsonl")
	}
	names, err := os.ReadDir(place)
	if err != nil {
		return nil, cannotWrite(place, err)
	}
	if len(names) > 0 { // the backend judges it before it writes
		return func() error { return nil }, nil
	}
	return func() error { return empty(place) }, nil
}

// removeNew takes away a folder that does not exist yet, and those above it
// that do not either.
func removeNew(place string) (undo func() error, err error) {
	place, err = filepath.Abs(place)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(place); err == nil {
		return nil, usageError(place + " is a symbolic link to nothing; name another place")
	}
	top := place
	for {
		above := filepath.Dir(top)
		if _, err := os.Lstat(above); err == nil || above == top {
			break
		}
		top = above
	}
	return func() error {
		if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
			// Folders above it may have been made all the same.
			for at := filepath.Dir(place); len(at) >= len(top); at = filepath.Dir(at) {
				if os.Remove(at) != nil && at == top {
					break
				}
			}
			return nil
		}
		return os.RemoveAll(top)
	}, nil
}

// empty takes everything out of a folder that was empty before.
func empty(dir string) error {
	names, err := os.ReadDir(dir)
	for _, n := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, n.Name())))
	}
	return err
}
