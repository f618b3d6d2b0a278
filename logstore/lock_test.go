package logstore

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

var quiet = slog.New(slog.DiscardHandler)

// TestLockOfAnotherProcess: a second writer in another process is refused and
// told who the owner is, a reader is not; the lock dies with its owner.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, lines := startChild(t, "hold", dir)
	if !lines.Scan() {
		t.Fatal("the child could not open the folder")
	}
	host, _ := os.Hostname()
	_, err := Open(dir, Options{})
	var locked *pistore.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, pistore.ErrLocked) {
		t.Fatalf("%v, want a LockedError", err)
	}
	if locked.PID != cmd.Process.Pid || locked.Host != host || locked.Since == 0 {
		t.Errorf("owner %+v, want process %d on %s", locked, cmd.Process.Pid, host)
	}
	before := folderState(t, dir)
	if err := openStoreT(t, dir, Options{ReadOnly: true}).Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, folderState(t, dir)); diff != "" {
		t.Errorf("reading changed the folder:\n%s", diff)
	}
	// The OWNER file is information only.
	if err := os.Remove(filepath.Join(dir, ownerName)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, Options{})
	locked = nil
	if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid {
		t.Errorf("without OWNER: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := openStoreT(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ownerName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OWNER after Close: %v", err)
	}
}

func TestLockWithinOneProcess(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, link, filepath.Join(dir, "..", filepath.Base(dir))} {
		_, err := Open(name, Options{})
		var locked *pistore.LockedError
		if !errors.As(err, &locked) || locked.PID != os.Getpid() {
			t.Errorf("%s: %v, want a LockedError", name, err)
		}
		if err := openStoreT(t, name, Options{ReadOnly: true}).Close(); err != nil {
			t.Errorf("%s: read-only: %v", name, err)
		}
	}
	// Neither they nor the readers may have let go of the kernel's lock.
	if out, err := childOpens(dir); err == nil {
		t.Errorf("another process could open: %s", out)
	}
	createT(t, s, "one")
	if _, err := s.Open(ctx, "one", pistore.ReadWrite); !errors.Is(err, pistore.ErrLocked) {
		t.Errorf("second writer of a session: %v", err)
	}
	openT(t, s, "one", pistore.ReadOnly)
}

// childOpens lets another process open a folder.
func childOpens(dir string) (string, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=hold "+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
