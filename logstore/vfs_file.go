package logstore

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// engineFile is a real file, or a directory, in the engine's hands.
type engineFile struct {
	vfs.File
	fs     *engineFS
	name   string
	kind   fileKind
	number uint32 // of a log
	// written counts the bytes of a log. The engine writes and syncs a log from
	// one goroutine, one after the other.
	written atomic.Int64
	// closing guards closed, so that nobody syncs a log that is gone.
	closing sync.Mutex
	closed  bool
	// unsynced tells that a log has bytes that were written and not synced.
	unsynced atomic.Bool
}

// settle takes the result of an operation on the real file. A failure is
// recorded before anyone is woken. It is reported for a table only, once: part
// of its bytes lie in the real file, so the engine must write it again, and
// that lands in memory.
func (f *engineFile) settle(op string, err error) error {
	if err == nil {
		return nil
	}
	f.fs.fault.fail(op+" "+f.name, err)
	return f.refuse()
}

// refuse is the answer to a write after a fault.
func (f *engineFile) refuse() error {
	if f.kind == tableFile {
		return f.fs.fault.err()
	}
	return nil
}

// Write implements vfs.File.
func (f *engineFile) Write(p []byte) (int, error) {
	if !f.fs.dead() {
		f.unsynced.Store(true)
		n, err := f.File.Write(p)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err := f.settle("write", err); err != nil {
			return n, err
		}
		f.written.Add(int64(n))
		f.fs.meter.bytes.Add(int64(n))
		return len(p), nil
	}
	if err := f.refuse(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteAt implements vfs.File.
func (f *engineFile) WriteAt(p []byte, offset int64) (int, error) {
	if f.fs.dead() {
		return len(p), f.refuse()
	}
	f.unsynced.Store(true)
	_, err := f.File.WriteAt(p, offset)
	return len(p), f.settle("write", err)
}

// lazy tells whether this file's syncs are left out.
func (f *engineFile) lazy() bool { return f.kind == logFile && f.fs.level == pistore.Process }

// Sync implements vfs.File.
func (f *engineFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *engineFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *engineFile) sync(real func() error) error {
	if f.fs.dead() {
		return f.refuse()
	}
	if f.lazy() {
		// Commits that are ready to run come first: they join the next write, and
		// the one that waits for this sync gets in line behind them. Without it the
		// session that has just committed goes on until its time slice is over,
		// and the others wait for as many slices as they are.
		runtime.Gosched()
		return nil
	}
	f.unsynced.Store(false)
	upTo := f.written.Load()
	f.fs.meter.syncs.Add(1)
	err := real()
	if err == nil && f.kind == logFile {
		f.fs.water.rise(f.number, upTo)
	}
	return f.settle("sync", err)
}

// SyncTo implements vfs.File.
func (f *engineFile) SyncTo(length int64) (bool, error) {
	if f.fs.dead() {
		return false, f.refuse()
	}
	if f.lazy() {
		return false, nil
	}
	full, err := f.File.SyncTo(length)
	return full, f.settle("sync", err)
}

// Preallocate implements vfs.File. It is a hint; a full disk shows at the write.
func (f *engineFile) Preallocate(offset, length int64) error {
	if f.fs.dead() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// Stat implements vfs.File. The engine asks a new log for its size when it takes
// the place of an old one, and does not survive an error there.
func (f *engineFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err == nil {
		return info, nil
	}
	f.fs.fault.fail("stat "+f.name, err)
	return vfs.NewMemFile(nil).Stat()
}

// Close implements vfs.File. A log that closes with unsynced bytes is really
// synced at every level: the engine closes one log before it opens the next,
// and takes two logs with unclean tails for damage.
func (f *engineFile) Close() error {
	f.closing.Lock()
	defer f.closing.Unlock()
	f.closed = true
	f.fs.logs.remove(f)
	if f.kind == logFile && f.unsynced.Load() && !f.fs.dead() {
		f.fs.meter.syncs.Add(1)
		_ = f.settle("sync", f.File.SyncData())
	}
	err := f.File.Close()
	if f.fs.dead() {
		return f.refuse()
	}
	return f.settle("close", err)
}

// outsideDir is a folder that is not the database's. The engine panics when it
// cannot sync one, so a failure is kept for whoever asked the engine to.
type outsideDir struct {
	vfs.File
	fs *engineFS
}

// Sync implements vfs.File.
func (d outsideDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.fs.outside.CompareAndSwap(nil, &err)
	}
	return nil
}

// takeOutside returns the failure that was kept, once.
func (f *engineFS) takeOutside() error {
	if failed := f.outside.Swap(nil); failed != nil {
		return *failed
	}
	return nil
}

// sinkFile is a log after a fault: what is written to it is gone.
type sinkFile struct{ vfs.File }

func (sinkFile) Write(p []byte) (int, error)            { return len(p), nil }
func (sinkFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
