package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pistore"
)

// cannotWrite says in one sentence why something could not be written at a
// place, which is the one that the user named: what is written first has another
// name. The arguments are wrong if nothing can ever be written there, and else
// writing has failed. An error that the system did not make is returned as it
// is.
func cannotWrite(place string, err error) error {
	var errno syscall.Errno
	var exit *exitError
	if errors.As(err, &exit) || !errors.As(err, &errno) || errors.Is(err, pistore.ErrLocked) || readFailed(err) {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usageError(fmt.Sprintf("%s cannot be written: there is no folder %s; make it first", place, filepath.Dir(place)))
	case impossible(errno):
		return usageError(fmt.Sprintf("%s cannot be written: %v; name another place", place, errno))
	default:
		return &exitError{exitFindings, fmt.Errorf("%s cannot be written: %w%s", place, errno, remedyOf(errno))}
	}
}

// readFailed reports whether it was reading that failed.
func readFailed(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && at.Op == "read"
}

// impossible reports whether nothing can be written at a place, whatever is done
// about the disk.
func impossible(errno syscall.Errno) bool {
	switch errno {
	case syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ENAMETOOLONG, syscall.ELOOP:
		return true
	}
	return false
}

func remedyOf(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOSPC, syscall.EDQUOT:
		return "; make room there and try again"
	case syscall.EFBIG:
		return "; raise the limit of the size of files (ulimit -f) and try again"
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return "; get the right to write there, or name another place"
	}
	return ""
}

// asItWas says that a failure left a place as it was.
type asItWas struct {
	place string
	err   error // names the place
}

func (e *asItWas) Error() string { return fmt.Sprintf("%v; %s is as it was", e.err, e.place) }
func (e *asItWas) Unwrap() error { return e.err }

// leftAsItWas is cannotWrite for what appears whole or not at all.
func leftAsItWas(place string, err error) error {
	var exit *exitError
	if errors.As(err, &exit) {
		return err
	}
	err = cannotWrite(place, err)
	switch {
	case !errors.As(err, &exit):
		return &asItWas{place, fmt.Errorf("%s: %w", place, err)}
	case exit.code == exitFindings:
		return &exitError{exitFindings, &asItWas{place, exit.err}}
	default:
		return err
	}
}

// interrupted is what a command says that was told to stop.
func interrupted(err error) error {
	var left *asItWas
	if errors.As(err, &left) {
		return fmt.Errorf("interrupted; %s is as it was", left.place)
	}
	return errors.New("interrupted")
}

// isFree checks that nothing stands where something is to be made.
func isFree(place string) error {
	_, err := os.Lstat(place)
	switch {
	case err == nil:
		return usageError(place + " is there already; name a new place")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return cannotWrite(place, err)
	}
}
