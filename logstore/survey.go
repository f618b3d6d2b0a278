package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"pistore"
)

// survey looks at MANIFEST and logs before the engine does, which takes some
// damage for the end of what was written. It returns where each log ends whose
// tail a crash has cut, by its path: the engine is to see no more of it, since
// it may take a hole in what was never acknowledged for damage. It changes
// nothing on disk.
func survey(base vfs.FS, dir string, boot uint32) (ends map[string]int64, err error) {
	tail, err := surveyManifest(base, dir)
	if err != nil {
		return nil, err
	}
	logs, err := wal.Scan(wal.Dir{FS: base, Dirname: dir})
	if err != nil {
		return nil, err
	}
	ends = map[string]int64{}
	floor := tail.lastSeq + 1
	cut := "" // a log that has records and does not end in order
	for _, log := range logs {
		if uint64(log.Num) < tail.minLog {
			continue // flushed: nobody reads it
		}
		_, path := log.SegmentLocation(0)
		s, err := scanLogFile(base, path, uint32(log.Num))
		if err != nil {
			return nil, err
		}
		switch {
		case s.damaged(boot):
			return nil, logDamage(path, s)
		case s.records > 0 && cut != "":
			return nil, placedDamage(cut, ends[cut], "the log ends without its trailer, and "+base.PathBase(path)+" goes on")
		case s.records > 0 && s.firstSeq > floor:
			return nil, placedDamage(path, 0, fmt.Sprintf(
				"the log begins at batch %d, those from %d on are missing", s.firstSeq, floor))
		}
		if !s.closed {
			ends[path] = s.end
			if s.records > 0 {
				cut = path
			}
		}
		if s.records > 0 {
			floor = max(floor, s.endSeq)
			if s.endSeq == 0 { // a head that was split
				floor = ^uint64(0)
			}
		}
	}
	return ends, nil
}

func scanLogFile(base vfs.FS, path string, number uint32) (*logScan, error) {
	file, err := base.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	s, err := scanLog(file, number)
	return s, errors.Join(err, file.Close())
}

func logDamage(path string, s *logScan) error {
	problem := fmt.Sprintf("no valid chunk of the log; later data exists at offset %d", s.later)
	if s.later < 0 {
		problem = "no valid chunk of the log, which was closed in order"
	}
	return placedDamage(path, s.fault, problem)
}

func placedDamage(path string, offset int64, problem string) error {
	return &pistore.CorruptError{
		Backend: backendName, Place: fmt.Sprintf("%s, offset %d", path, offset), Problem: problem,
	}
}

// manifestTail is what the last edits of a MANIFEST say.
type manifestTail struct {
	minLog  uint64 // the first log that is not flushed
	lastSeq uint64 // the last batch sequence number that was given out then
}

// manifestHeaderBytes is the size of a chunk's header in a MANIFEST.
const manifestHeaderBytes = 7

// firstBatchSeq is where the engine starts counting.
const firstBatchSeq = 10

// surveyManifest reads the MANIFEST that the marker names. Its edits are synced
// one by one, so only the newest can be cut; one behind an invalid place means
// damage.
func surveyManifest(base vfs.FS, dir string) (manifestTail, error) {
	tail := manifestTail{lastSeq: firstBatchSeq - 1}
	name, err := atomicfs.ReadMarker(base, dir, "manifest")
	if err != nil || name == "" {
		return tail, err
	}
	path := base.PathJoin(dir, name)
	file, err := base.Open(path, vfs.SequentialReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return tail, nil // the engine says what that means
	}
	if err != nil {
		return tail, err
	}
	defer file.Close()
	edits := record.NewReader(file, 0)
	at := int64(0)
	for {
		at = edits.Offset()
		edit, err := edits.Next()
		var text []byte
		if err == nil {
			text, err = io.ReadAll(edit)
		}
		if errors.Is(err, io.EOF) {
			return tail, nil
		}
		if record.IsInvalidRecord(err) {
			break
		}
		if err != nil {
			// The reader wraps what it says of a flipped bit.
			if errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrUnexpectedEOF) {
				break
			}
			return tail, err
		}
		tail.read(text)
	}
	if left := walBlockBytes - at%walBlockBytes; left < manifestHeaderBytes {
		at += left // the block's rest is padding
	}
	later, err := laterEdit(base, path, at)
	if err == nil && later >= 0 {
		err = placedDamage(path, at, fmt.Sprintf("no valid edit; later data exists at offset %d", later))
	}
	return tail, err
}

// read takes what it looks for from the start of an edit: fields are tagged, and
// come in a fixed order before those of tables.
func (t *manifestTail) read(edit []byte) {
	const comparator, logNumber, nextFile, lastSeq, prevLog = 1, 2, 3, 4, 9
	const createdBacking, removedBacking = 105, 106
	next := func() uint64 {
		n, size := binary.Uvarint(edit)
		if size <= 0 {
			edit = nil
			return 0
		}
		edit = edit[size:]
		return n
	}
	for len(edit) > 0 {
		switch next() {
		case comparator:
			edit = edit[min(next(), uint64(len(edit))):]
		case logNumber:
			t.minLog = next()
		case lastSeq:
			t.lastSeq = max(t.lastSeq, next())
		case nextFile, prevLog, removedBacking:
			next()
		case createdBacking:
			next()
			next()
		default:
			return
		}
	}
}

// laterEdit looks at every byte behind an offset of a MANIFEST for the start of
// a valid edit and returns where it is, or -1. Its chunks are those of a log
// without number and offset: crc, length, type 1 (whole) or 2 (first part).
func laterEdit(base vfs.FS, path string, offset int64) (int64, error) {
	file, err := base.Open(path)
	if err != nil {
		return -1, err
	}
	defer file.Close()
	const headerBytes = manifestHeaderBytes
	block := make([]byte, walBlockBytes)
	for at := offset / walBlockBytes * walBlockBytes; ; at += walBlockBytes {
		n, err := file.ReadAt(block, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return -1, err
		}
		for i := max(0, int(offset+1-at)); i+headerBytes <= n; i++ {
			end := i + headerBytes + int(binary.LittleEndian.Uint16(block[i+4:]))
			if kind := block[i+6]; kind != 1 && kind != 2 || end > n {
				continue
			}
			if maskedCRC(block[i+6:end]) == binary.LittleEndian.Uint32(block[i:]) {
				return at + int64(i), nil
			}
		}
		if n < walBlockBytes {
			return -1, nil
		}
	}
}

// openToEnd opens a file of which the engine sees no more than up to its end.
func openToEnd(base vfs.FS, ends map[string]int64, name string, opts []vfs.OpenOption) (vfs.File, error) {
	file, err := base.Open(name, opts...)
	if end, ok := ends[name]; ok && err == nil {
		return &endedFile{File: file, end: end}, nil
	}
	return file, err
}

// endedFile is a file of which no more is seen than up to its end.
type endedFile struct {
	vfs.File
	at, end int64
}

// Read implements vfs.File.
func (f *endedFile) Read(p []byte) (int, error) {
	if f.at >= f.end {
		return 0, io.EOF
	}
	n, err := f.File.Read(p[:min(int64(len(p)), f.end-f.at)])
	f.at += int64(n)
	return n, err
}

// ReadAt implements vfs.File.
func (f *endedFile) ReadAt(p []byte, at int64) (int, error) {
	if at >= f.end {
		return 0, io.EOF
	}
	short := int64(len(p)) > f.end-at
	if short {
		p = p[:f.end-at]
	}
	n, err := f.File.ReadAt(p, at)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Stat implements vfs.File.
func (f *endedFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return endedInfo{info, min(info.Size(), f.end)}, nil
}

type endedInfo struct {
	vfs.FileInfo
	size int64
}

// Size implements vfs.FileInfo.
func (i endedInfo) Size() int64 { return i.size }
