//go:build unix

package jsonl

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pistore"
)

// TestWhatIsNoFile opens what must not be waited for.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, socket := filepath.Join(dir, "fifo.jsonl"), filepath.Join(dir, "s")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, what := range map[string]string{dir: "a directory", fifo: "a named pipe", socket: "a socket", "/dev/null": "a device"} {
		_, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
		_, infoErr := ReadInfo(t.Context(), path)
		_, nameErr := ReadName(t.Context(), path)
		for _, err := range []error{err, infoErr, nameErr} {
			if !errors.Is(err, pistore.ErrForeignFormat) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
