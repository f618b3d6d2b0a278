//go:build unix && !solaris && !aix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// noWait keeps the opening of a named pipe from waiting for its other end.
const noWait = syscall.O_NONBLOCK

func infoOf(st os.FileInfo) Info {
	info := Info{Size: st.Size(), Mode: st.Mode(), UID: -1, GID: -1, ModifiedMS: st.ModTime().UnixMilli()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		info.Identity = Identity{Device: uint64(sys.Dev), Inode: uint64(sys.Ino)}
		info.UID, info.GID = int(sys.Uid), int(sys.Gid)
	}
	return info
}

// lockTry uses flock(2): its lock belongs to the descriptor, so that another
// descriptor of the same file, opened and closed by a reader of this process,
// does not drop it, as it would drop one of fcntl(2).
func lockTry(f *os.File) (taken bool, err error) {
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// unlock gives a lock up for all copies of the descriptor.
func unlock(f *os.File) { _ = flock(f, syscall.LOCK_UN) } // one that fails goes with the descriptors

func lockWait(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// syncDir syncs a directory. A file system that has no such call keeps its names
// without it.
func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
