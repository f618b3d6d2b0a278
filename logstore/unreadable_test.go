//go:build unix

package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"pistore"
)

// twoLevels makes a database with a table, a log, a MANIFEST, and 20 commits in
// each of the first two, as a killed process leaves it.
func twoLevels(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	st := createT(t, s, "one")
	commitChain(t, st, 20)
	if err := s.eng.db.Flush(); err != nil {
		t.Fatal(err)
	}
	commitChain(t, st, 20)
	image := crashImage(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return image
}

// newestFile returns the newest file of a folder that matches.
func newestFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	return slices.Max(names)
}

// TestOpenPipe: a pipe in place of the folder, or of a file in it, is refused;
// opening it would wait for somebody who writes into it.
func TestOpenPipe(t *testing.T) {
	pipe := func(t *testing.T, name string) {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(t *testing.T, dir string) {
		t.Helper()
		for _, readOnly := range []bool{false, true} {
			_, err := Open(dir, Options{ReadOnly: readOnly})
			wantErr(t, fmt.Sprintf("open, read-only %v", readOnly), err, pistore.ErrForeignFormat)
		}
	}
	at := filepath.Join(t.TempDir(), "pipe")
	pipe(t, at)
	refused(t, at)
	made := twoLevels(t)
	for _, pattern := range []string{formatName, ownerName, "MANIFEST-*", "OPTIONS-*", "*.sst", "*.log", "marker.manifest.*"} {
		t.Run(strings.Trim(pattern, "*."), func(t *testing.T) {
			dir := crashImage(t, made)
			name := newestFile(t, dir, pattern)
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			pipe(t, name)
			refused(t, dir)
		})
	}
}

// TestOpenMissingFile: a file that was lost, or cut, is damage at that file, and
// never told as a database or session that does not exist.
func TestOpenMissingFile(t *testing.T) {
	made := twoLevels(t)
	for _, c := range []struct {
		pattern string
		damage  func(name string) error
		place   string // instead of the file
	}{
		{"*.sst", os.Remove, ""},
		{"*.sst", func(name string) error { return os.Truncate(name, 100) }, ""},
		{"MANIFEST-*", os.Remove, ""},
		{"marker.manifest.*", os.Remove, "db"},
		{"marker.format-version.*", os.Remove, "db"},
		{"OPTIONS-*", func(name string) error { return os.WriteFile(name, []byte("x\n"), 0o600) }, ""},
	} {
		t.Run(strings.Trim(c.pattern, "*."), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			if err := os.Rename(crashImage(t, made), dir); err != nil {
				t.Fatal(err)
			}
			name := newestFile(t, dir, c.pattern)
			if err := c.damage(name); err != nil {
				t.Fatal(err)
			}
			if c.place == "" {
				c.place = filepath.Base(name)
			}
			before := folderState(t, dir)
			for _, readOnly := range []bool{true, false} {
				_, err := Open(dir, Options{ReadOnly: readOnly})
				var corrupt *pistore.CorruptError
				if !errors.As(err, &corrupt) || !strings.Contains(corrupt.Place, c.place) {
					t.Errorf("read-only %v: %v: no damage placed at %s", readOnly, err, c.place)
				}
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, pistore.ErrNotFound) {
					t.Errorf("%v: told as something that does not exist", err)
				}
				if diff := cmp.Diff(before, folderState(t, dir)); diff != "" && readOnly {
					t.Errorf("the folder was changed:\n%s", diff)
				}
			}
		})
	}
}

// lockErrorFS fails to lock.
type lockErrorFS struct {
	vfs.FS
	err error
}

func (f lockErrorFS) Lock(string) (io.Closer, error) { return nil, f.err }
func (f lockErrorFS) Unwrap() vfs.FS                 { return f.FS }

// TestOpenWithoutPermission: a folder in which no file may be written is not
// locked; the kernel's refusal of a lock is.
func TestOpenWithoutPermission(t *testing.T) {
	dir := twoLevels(t)
	opening := &fs.PathError{Op: "open", Path: filepath.Join(dir, lockName), Err: syscall.EACCES}
	_, err := Open(dir, Options{fs: lockErrorFS{vfs.Default, opening}})
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, pistore.ErrLocked) {
		t.Errorf("%v, want the lack of a permission", err)
	}
	for _, number := range []error{syscall.EACCES, syscall.EAGAIN} {
		_, err := Open(dir, Options{fs: lockErrorFS{vfs.Default, number}})
		wantErr(t, "open", err, pistore.ErrLocked)
	}
}

// TestFailedOpenKeepsNothing opens again and again what cannot be opened: no
// goroutine and no file stays behind, and the folder is free.
func TestFailedOpenKeepsNothing(t *testing.T) {
	made := twoLevels(t)
	failing := func(n int) Options {
		var left atomic.Int64
		left.Store(int64(n))
		return Options{fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
			if op.name == lockName || op.name == ownerName || op.what == "close" {
				return nil
			}
			if left.Add(-1) < 0 {
				return syscall.EIO
			}
			return nil
		}}}
	}
	damaged := crashImage(t, made)
	table := newestFile(t, damaged, "*.sst")
	data, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[len(data)-60:]) // only the engine sees it
	if err := os.WriteFile(table, data, 0o600); err != nil {
		t.Fatal(err)
	}
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for n := range 24 {
		if s, err := Open(crashImage(t, made), failing(n)); err == nil {
			_ = s.Close()
		}
		for _, readOnly := range []bool{false, true} {
			if s, err := Open(damaged, Options{ReadOnly: readOnly}); err == nil {
				t.Fatal("opened a damaged database", s.Close())
			}
		}
	}
	// The engine lets go of some things in the background.
	for range 100 {
		if runtime.NumGoroutine() <= goroutines && len(openFiles(t)) <= len(files) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before; open files %q, before %q", runtime.NumGoroutine(), goroutines, openFiles(t), files)
}

// openFiles returns what this process has open, where it can tell.
func openFiles(t *testing.T) (files []string) {
	t.Helper()
	const table = "/proc/self/fd"
	names, err := os.ReadDir(table)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range names {
		if file, err := os.Readlink(filepath.Join(table, name.Name())); err == nil {
			files = append(files, file)
		}
	}
	return files
}
