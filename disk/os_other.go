//go:build !unix || solaris || aix

package disk

import "os"

const noWait = 0

func infoOf(st os.FileInfo) Info {
	return Info{Size: st.Size(), Mode: st.Mode(), UID: -1, GID: -1, ModifiedMS: st.ModTime().UnixMilli()}
}

// There are no locks here: a backend's own registry keeps its process apart, and
// nothing keeps other processes apart.

func lockTry(*os.File) (taken bool, err error) { return false, nil }

func unlock(*os.File) {}

func lockWait(*os.File) error { return nil }

// syncDir: directories cannot be synced here.
func syncDir(*os.File) error { return nil }
