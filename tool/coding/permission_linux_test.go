package coding

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestWriteHonoursPermissions replaces no file that may not be written, though
// its folder would allow that. Run by the superuser, it gives up the right to
// everything for its own thread, which ends with it.
func TestWriteHonoursPermissions(t *testing.T) {
	b := newBench(t)
	b.put("fixed", "fixed")
	for path, mode := range map[string]os.FileMode{"fixed": 0o444, ".": 0o777} {
		if err := os.Chmod(filepath.Join(b.root, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	var fixed, free string
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread() // for good
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		fixed = b.text("write", m{"path": "fixed", "content": "x"})
		free = b.text("write", m{"path": "free", "content": "x"})
	}()
	<-done
	b.want(fixed, "error: fixed may not be accessed: permission denied")
	b.want(free, "Wrote 1 bytes to free.")
	b.want(b.content("fixed"), "fixed")
	b.clean()
}
