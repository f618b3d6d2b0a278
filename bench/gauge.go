package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"pistore"
)

// gauge reads the counters of the process and of a store before and after.
type gauge struct {
	store    pistore.Backend
	memory   runtime.MemStats
	device   int64
	onDevice bool
	written  Written
	blocks   int64
}

func newGauge(store pistore.Backend) *gauge {
	g := &gauge{store: store}
	if m, ok := store.(Meter); ok {
		g.written = m.Written()
	}
	if b, ok := store.(BlockReader); ok {
		g.blocks = b.BlocksRead()
	}
	g.device, g.onDevice = procNumber("/proc/self/io", "write_bytes")
	runtime.ReadMemStats(&g.memory)
	return g
}

// report sets what has been used since. The ops of the report are set. own is
// what the making of the content of one operation allocates.
func (g *gauge) report(r *Report, own allocations) {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	r.perOp(Allocs, max(0, float64(now.Mallocs-g.memory.Mallocs)-own.count*float64(r.Ops)))
	r.perOp(AllocBytes, max(0, float64(now.TotalAlloc-g.memory.TotalAlloc)-own.bytes*float64(r.Ops)))
	if m, ok := g.store.(Meter); ok {
		written := m.Written()
		r.perOp(WrittenBytes, float64(written.Bytes-g.written.Bytes))
		r.perOp(Fsyncs, float64(written.Syncs-g.written.Syncs))
	}
	if b, ok := g.store.(BlockReader); ok {
		r.perOp(BlockReads, float64(b.BlocksRead()-g.blocks))
	}
	if device, ok := procNumber("/proc/self/io", "write_bytes"); ok && g.onDevice {
		r.perOp(DeviceBytes, float64(device-g.device))
	}
	resident(r)
}

// resident sets the memory of this process.
func resident(r *Report) {
	if kb, ok := procNumber("/proc/self/status", "VmRSS"); ok {
		r.Metrics[Resident] = float64(kb) * 1024
	}
	if kb, ok := procNumber("/proc/self/status", "VmHWM"); ok {
		r.Metrics[PeakResident] = float64(kb) * 1024
	}
}

// allocations are of one operation.
type allocations struct{ count, bytes float64 }

// allocationsOf measures what n calls allocate while nothing else runs.
func allocationsOf(n int, call func()) allocations {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		call()
	}
	runtime.ReadMemStats(&after)
	return allocations{float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n)}
}

// procNumber reads the number behind a name in a file of the kernel's; false
// where there is none.
func procNumber(file, name string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// folderBytes is the size of the files of a folder that keep lets pass. Files
// that go while it looks count nothing.
func folderBytes(dir string, keep func(name string) bool) int64 {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !keep(d.Name()) {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

func anyFile(string) bool { return true }
