package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// lockHolder looks up in the kernel's table who holds the flock(2) of a file; 0:
// nobody, or somebody whom this system does not show.
func lockHolder(id Identity) int {
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	major := id.Device>>8&0xfff | id.Device>>32&^0xfff
	minor := id.Device&0xff | id.Device>>12&^0xff
	file := fmt.Appendf(nil, "%02x:%02x:%d", major, minor, id.Inode)
	for line := range bytes.Lines(table) {
		// 1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF
		f := bytes.Fields(line)
		if len(f) < 6 || string(f[1]) != "FLOCK" || !bytes.Equal(f[5], file) {
			continue
		}
		if pid, err := strconv.Atoi(string(f[4])); err == nil {
			return max(pid, 0)
		}
	}
	return 0
}
