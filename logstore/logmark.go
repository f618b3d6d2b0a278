package logstore

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// logMark is what each batch of a database at Power level carries in the log: up
// to where the log was known to be on stable storage when the batch was begun.
// Nothing is acknowledged before it is below such a mark, so a later batch tells
// a hole in what was acknowledged, which is damage, from one in what was not,
// which is what power loss leaves.
type logMark struct {
	boot   uint32 // the start of the machine under which it was written; 0: not known
	log    uint32 // the low half of a log's number
	synced uint64 // bytes of that log that are synced
}

const (
	markTag   = 1
	markBytes = 17
)

func (m logMark) encode() []byte {
	b := make([]byte, 0, markBytes)
	b = append(b, markTag)
	b = binary.LittleEndian.AppendUint32(b, m.boot)
	b = binary.LittleEndian.AppendUint32(b, m.log)
	return binary.LittleEndian.AppendUint64(b, m.synced)
}

func decodeMark(b []byte) (logMark, bool) {
	if len(b) != markBytes || b[0] != markTag {
		return logMark{}, false
	}
	return logMark{
		boot:   binary.LittleEndian.Uint32(b[1:]),
		log:    binary.LittleEndian.Uint32(b[5:]),
		synced: binary.LittleEndian.Uint64(b[9:]),
	}, true
}

// watermark holds the newest mark of an open database.
type watermark struct {
	boot uint32
	at   atomic.Pointer[logMark]
}

// rise is called when a log was synced, before anybody hears of it.
func (w *watermark) rise(log uint32, synced int64) {
	w.at.Store(&logMark{boot: w.boot, log: log, synced: uint64(synced)})
}

func (w *watermark) mark() logMark {
	if m := w.at.Load(); m != nil {
		return *m
	}
	return logMark{boot: w.boot}
}

// batch begins a batch that goes into the log. At Power level its mark is the
// first operation, so that it lies in the first chunk of the record.
func (e *engine) batch(size int) *pebble.Batch {
	b := e.db.NewBatchWithSize(size)
	e.addMark(b)
	return b
}

// indexedBatch is a batch that can be read through.
func (e *engine) indexedBatch() *pebble.Batch {
	b := e.db.NewIndexedBatch()
	e.addMark(b)
	return b
}

func (e *engine) addMark(b *pebble.Batch) {
	if e.level == pistore.Power {
		_ = b.LogData(e.water.mark().encode(), nil) // a batch in memory has no errors
	}
}

// bootMark names this start of the machine, where the system can tell. Within
// one a killed process leaves a prefix of what it wrote; only between two can
// unsynced bytes have been lost.
func bootMark(base vfs.FS) uint32 {
	if !onDisk(base) {
		return 0
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	return max(1, crc32.Checksum([]byte(strings.TrimSpace(string(id))), castagnoli))
}
