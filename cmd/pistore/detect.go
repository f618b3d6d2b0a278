package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// detect tells by content whether a place is a store that this build may open:
// a file, whose format is looked into later, or a logstore folder. It never
// opens what could block: a pipe, a device.
func detect(place string) (isFile bool, err error) {
	info, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("there is nothing at %s", place)
	case err != nil:
		return false, fmt.Errorf("%s: %w", place, cause(err))
	case info.IsDir():
		return false, detectFolder(place)
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("%s is %s, not a store", place, kindOfFile(info.Mode()))
	default:
		return true, detectFile(place)
	}
}

func kindOfFile(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

func isFolder(place string) bool {
	info, err := os.Stat(place)
	return err == nil && info.IsDir()
}

func isFile(place string) bool {
	info, err := os.Stat(place)
	return err == nil && info.Mode().IsRegular()
}

// isLogstore reports whether a folder is a logstore, whatever its state.
func isLogstore(dir string) (bool, error) {
	head, err := readHead(filepath.Join(dir, "FORMAT"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return bytes.HasPrefix(head, []byte("pistore logstore ")), err
}

// detectFolder only tells folders apart that are no logstore at all; the
// backend judges its own.
func detectFolder(dir string) error {
	is, err := isLogstore(dir)
	if is {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, cause(err))
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, cause(err))
	}
	files, begun := 0, 0
	for _, n := range names {
		switch n.Name() {
		case "LOCK", "OWNER", "FORMAT.tmp": // what comes before FORMAT
			begun++
		}
		if strings.HasSuffix(n.Name(), ".jsonl") {
			files++
		}
	}
	switch {
	case files > 0:
		return fmt.Errorf("%s is a folder of session files; name one of them (\"pistore ls\" lists them)", dir)
	case len(names) > 0 && begun == len(names):
		return unfinished(dir)
	case len(names) == 0:
		return fmt.Errorf("%s is an empty folder, not a store", dir)
	default:
		return fmt.Errorf("%s is an ordinary folder, not a store", dir)
	}
}

// detectFile names files of other formats that are known.
func detectFile(place string) error {
	head, err := readHead(place)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", place, cause(err))
	case len(head) == 0:
		return fmt.Errorf("%s is an empty file, not a store", place)
	case bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		return fmt.Errorf("%s is an SQLite database, which this build does not open", place)
	default:
		return nil
	}
}

// readHead reads the first bytes of a regular file.
func readHead(name string) (head []byte, err error) {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, 64))
}
