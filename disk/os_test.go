package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// systems are the forms that have to agree.
func systems(t *testing.T) map[string]struct {
	fs  FS
	dir string
} {
	type system = struct {
		fs  FS
		dir string
	}
	return map[string]system{
		"os":      {OS, t.TempDir()},
		"memory":  {NewMemory(), "/"},
		"failing": {NewFailing(NewMemory()), "/"},
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

func text(t *testing.T, f File) string {
	t.Helper()
	st, err := f.Stat()
	check(t, err)
	buf := make([]byte, st.Size)
	if n, err := f.ReadAt(buf, 0); n != len(buf) {
		t.Fatalf("read %d of %d bytes: %v", n, len(buf), err)
	}
	return string(buf)
}

func put(t *testing.T, f File, s string) {
	t.Helper()
	if n, err := f.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatal(n, err)
	}
}

func TestFiles(t *testing.T) {
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(s.dir, "a")
			f, err := s.fs.Open(at, Create)
			check(t, err)
			_, err = s.fs.Open(at, Create)
			want(t, "creating what is there", err, fs.ErrExist)
			_, err = s.fs.Open(filepath.Join(s.dir, "none"), Append)
			want(t, "opening what is not there", err, fs.ErrNotExist)
			put(t, f, "hello ")
			second, err := s.fs.Open(at, Append)
			check(t, err)
			put(t, second, "world")
			put(t, f, "!")
			check(t, f.Sync())
			check(t, f.SyncData())
			if got := text(t, second); got != "hello world!" {
				t.Errorf("content %q", got)
			}
			check(t, f.Truncate(5))
			put(t, second, "?")
			if got := text(t, f); got != "hello?" {
				t.Errorf("content %q", got)
			}
			st, err := f.Stat()
			check(t, err)
			if st.Size != 6 || st.Mode != 0o600 {
				t.Errorf("stat %+v", st)
			}
			check(t, f.SetMode(0o640))
			check(t, f.SetOwner(st.UID, st.GID))
			named, err := s.fs.Stat(at)
			check(t, err)
			if named.Identity != st.Identity || named.Mode != 0o640 {
				t.Errorf("by name %+v, by descriptor %+v", named, st)
			}
			reader, err := s.fs.Open(at, Read)
			check(t, err)
			if _, err := reader.Write([]byte("x")); err == nil {
				t.Error("a file opened for reading was written")
			}
			for _, f := range []File{f, second, reader} {
				check(t, f.Close())
			}
			_, err = f.Stat()
			want(t, "using a closed file", err, fs.ErrClosed)
		})
	}
}

func TestNames(t *testing.T) {
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			a, b, sub := filepath.Join(s.dir, "a"), filepath.Join(s.dir, "b"), filepath.Join(s.dir, "sub")
			f, err := s.fs.Open(a, Create)
			check(t, err)
			st, err := f.Stat()
			check(t, err)
			check(t, s.fs.Mkdir(sub))
			want(t, "a directory twice", s.fs.Mkdir(sub), fs.ErrExist)
			check(t, s.fs.Link(a, b))
			want(t, "a link over a file", s.fs.Link(a, b), fs.ErrExist)
			moved := filepath.Join(sub, "c")
			check(t, s.fs.Rename(a, moved))
			want(t, "renaming what is gone", s.fs.Rename(a, moved), fs.ErrNotExist)
			for _, name := range []string{b, moved} {
				got, err := s.fs.Stat(name)
				check(t, err)
				if got.Identity != st.Identity {
					t.Errorf("%s is another file", name)
				}
			}
			entries, err := s.fs.List(s.dir)
			check(t, err)
			if len(entries) != 2 || entries[0] != (Entry{Name: "b"}) || entries[1] != (Entry{Name: "sub", Mode: fs.ModeDir}) {
				t.Errorf("list %v", entries)
			}
			check(t, s.fs.SyncDir(s.dir))
			resolved, err := s.fs.Resolve(moved)
			check(t, err)
			if filepath.Base(resolved) != "c" || !filepath.IsAbs(resolved) {
				t.Errorf("resolved to %s", resolved)
			}
			check(t, s.fs.Remove(b))
			check(t, s.fs.Remove(moved))
			_, err = s.fs.Resolve(moved)
			want(t, "resolving what is gone", err, fs.ErrNotExist)
			put(t, f, "still there")
			if got := text(t, f); got != "still there" {
				t.Errorf("a removed file holds %q", got)
			}
			check(t, f.Close())
		})
	}
}

func TestLocks(t *testing.T) {
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(s.dir, "a")
			f, err := s.fs.Open(at, Create)
			check(t, err)
			check(t, f.Lock())
			second, err := s.fs.Open(at, Append)
			check(t, err)
			var held *HeldError
			if err := second.Lock(); !errors.As(err, &held) {
				t.Fatalf("a second lock: %v", err)
			}
			if held.PID != os.Getpid() && held.PID != 0 { // 0: the platform cannot tell
				t.Errorf("held by process %d, this one is %d", held.PID, os.Getpid())
			}
			reader, err := s.fs.Open(at, Read)
			check(t, err)
			check(t, reader.Close())
			if err := second.Lock(); !errors.As(err, &held) {
				t.Errorf("closing another descriptor dropped the lock: %v", err)
			}
			check(t, f.Close())
			check(t, second.Lock())
			check(t, second.Close())

			lock, err := s.fs.LockDir(s.dir)
			check(t, err)
			free := make(chan error)
			go func() {
				second, err := s.fs.LockDir(s.dir)
				if err == nil {
					err = second.Close()
				}
				free <- err
			}()
			select {
			case err := <-free:
				t.Fatalf("a second lock of the directory came through: %v", err)
			default:
			}
			check(t, lock.Close())
			check(t, <-free)
		})
	}
}

func TestSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	f, err := OS.Open(target, Create)
	check(t, err)
	check(t, f.Close())
	link := filepath.Join(dir, "link")
	if err := os.Symlink("target", link); err != nil {
		t.Skip(err)
	}
	wanted, err := filepath.EvalSymlinks(target)
	check(t, err)
	if got, err := OS.Resolve(link); got != wanted || err != nil {
		t.Errorf("resolved to %s, %v", got, err)
	}
}
