//go:build unix && !solaris && !aix

package disk

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestLockOutlivesNoClose: a copy of the descriptor, as a process has that is
// just being started, does not keep the lock.
func TestLockOutlivesNoClose(t *testing.T) {
	at := filepath.Join(t.TempDir(), "a")
	f, err := OS.Open(at, Create)
	check(t, err)
	check(t, f.Lock())
	other, err := syscall.Dup(int(f.(osFile).Fd()))
	check(t, err)
	check(t, f.Close())
	second, err := OS.Open(at, Append)
	check(t, err)
	check(t, second.Lock())
	check(t, second.Close())
	check(t, syscall.Close(other))
}
