package stores

import (
	"sync/atomic"

	"pistore/bench"
	"pistore/disk"
)

// countingFS is the system's file system, and counts what is written to it.
type countingFS struct {
	disk.FS
	bytes, syncs *atomic.Int64
}

func newCountingFS() *countingFS { return &countingFS{disk.OS, new(atomic.Int64), new(atomic.Int64)} }

func (f *countingFS) written() bench.Written {
	return bench.Written{Bytes: f.bytes.Load(), Syncs: f.syncs.Load()}
}

// Open implements disk.FS.
func (f *countingFS) Open(name string, how disk.Access) (disk.File, error) {
	file, err := f.FS.Open(name, how)
	if err != nil {
		return nil, err
	}
	return countingFile{file, f}, nil
}

// SyncDir implements disk.FS.
func (f *countingFS) SyncDir(dir string) error {
	f.syncs.Add(1)
	return f.FS.SyncDir(dir)
}

type countingFile struct {
	disk.File
	fs *countingFS
}

// Write implements disk.File.
func (f countingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.fs.bytes.Add(int64(n))
	return n, err
}

// Sync implements disk.File.
func (f countingFile) Sync() error {
	f.fs.syncs.Add(1)
	return f.File.Sync()
}

// SyncData implements disk.File.
func (f countingFile) SyncData() error {
	f.fs.syncs.Add(1)
	return f.File.SyncData()
}
