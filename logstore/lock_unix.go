//go:build unix

package logstore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// lockTaken tells whether an error of locking says that another process has it.
// The error of opening the lock file, which carries its path, does not.
func lockTaken(err error) bool {
	var opening *fs.PathError
	if errors.As(err, &opening) {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES)
}

// lockHolder asks the kernel (F_GETLK) who holds a lock file. It returns 0 if
// nobody does or nobody can tell, -1 if the holder is beyond this system's sight.
// This process must not hold the file itself: closing it here would let go.
func lockHolder(name string) int {
	file, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer file.Close()
	ask := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &ask); err != nil || ask.Type == syscall.F_UNLCK {
		return 0
	}
	if ask.Pid <= 0 {
		return -1
	}
	return int(ask.Pid)
}
