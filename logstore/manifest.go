package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// manifestState is what the edits of a MANIFEST lead to.
type manifestState struct {
	path    string           // empty without a MANIFEST
	minLog  uint64           // the first log that is not flushed
	lastSeq uint64           // the last batch sequence number that was given out then
	files   map[string]int64 // tables and blobs by name, with their sizes; nil: not known
	placed  map[placedTable]string
	end     int64 // the first invalid place; -1: none
}

// placedTable is a table in a level. A move is a deletion and an addition.
type placedTable struct{ level, number uint64 }

// manifestHeaderBytes is the size of a chunk's header in a MANIFEST.
const manifestHeaderBytes = 7

// firstBatchSeq is where the engine starts counting.
const firstBatchSeq = 10

// readManifest reads the MANIFEST that the marker names. Its edits are synced one
// by one, so only the newest can be cut; one behind an invalid place means damage.
func readManifest(base vfs.FS, dir string) (*manifestState, error) {
	m := &manifestState{lastSeq: firstBatchSeq - 1, files: map[string]int64{}, placed: map[placedTable]string{}, end: -1}
	name, err := atomicfs.ReadMarker(base, dir, "manifest")
	if err != nil || name == "" {
		return m, err
	}
	m.path = base.PathJoin(dir, name)
	if m.end, err = m.follow(base); err != nil || m.end < 0 {
		return m, err
	}
	later, err := laterEdit(base, m.path, m.end)
	if err == nil && later >= 0 {
		err = placedDamage(m.path, m.end, fmt.Sprintf("no valid edit; later data exists at offset %d", later))
	}
	return m, err
}

// follow reads edits up to the first invalid place, and returns where it is; -1:
// there is none.
func (m *manifestState) follow(base vfs.FS) (int64, error) {
	file, err := base.Open(m.path, vfs.SequentialReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, missingManifest(m.path)
	}
	if err != nil {
		return -1, err
	}
	defer file.Close()
	edits := record.NewReader(file, 0)
	for {
		at := edits.Offset()
		edit, err := edits.Next()
		var text []byte
		if err == nil {
			text, err = io.ReadAll(edit)
		}
		switch {
		case err == nil:
			m.apply(text)
		case errors.Is(err, io.EOF):
			return -1, nil
		// The reader wraps what it says of a flipped bit.
		case record.IsInvalidRecord(err), errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrUnexpectedEOF):
			if left := walBlockBytes - at%walBlockBytes; left < manifestHeaderBytes {
				at += left // the block's rest is padding
			}
			return at, nil
		default:
			return -1, err
		}
	}
}

func missingManifest(path string) error {
	return placedDamage(path, 0, "the marker names this MANIFEST, and it is missing")
}

// The tags of an edit's fields, and of the further fields of a new table.
const (
	tagComparator  = 1
	tagLogNumber   = 2
	tagNextFile    = 3
	tagLastSeq     = 4
	tagCompactAt   = 5
	tagGoneTable   = 6
	tagPrevLog     = 9
	tagNewTable2   = 100
	tagNewTable4   = 103
	tagNewTable5   = 104
	tagNewBacking  = 105
	tagGoneBacking = 106
	tagNewBlob     = 107
	tagGoneBlob    = 108

	fieldEnd            = 1
	fieldVirtual        = 66
	fieldBlobReferences = 69

	boundsOfPoints = 1
)

// apply takes what it looks for from an edit. One that it does not understand
// leaves the files unknown; the engine judges it.
func (m *manifestState) apply(edit []byte) {
	in := editReader{rest: edit}
	for len(in.rest) > 0 && !in.bad {
		switch in.uint() {
		case tagComparator:
			in.skip()
		case tagLogNumber:
			m.minLog = in.uint()
		case tagLastSeq:
			m.lastSeq = max(m.lastSeq, in.uint())
		case tagNextFile, tagPrevLog:
			in.uint()
		case tagCompactAt:
			in.uint()
			in.skip()
		case tagGoneTable:
			at := placedTable{in.uint(), in.uint()}
			m.drop(m.placed[at])
			delete(m.placed, at)
		case tagNewTable2:
			m.newTable(&in, false, false)
		case tagNewTable4:
			m.newTable(&in, false, true)
		case tagNewTable5:
			m.newTable(&in, true, true)
		case tagNewBacking:
			m.add(fileName(in.uint(), "sst"), in.uint())
		case tagGoneBacking:
			m.drop(fileName(in.uint(), "sst"))
		case tagNewBlob:
			in.uint()
			m.add(fileName(in.uint(), "blob"), in.uint())
			in.uint()
			in.uint()
		case tagGoneBlob:
			in.uint()
			m.drop(fileName(in.uint(), "blob"))
		default:
			in.bad = true
		}
	}
	if in.bad {
		m.files = nil
	}
}

// newTable reads a table: level, number, size, bounds, two seqs, and then further
// fields. A virtual one is a part of a file that is told of on its own.
func (m *manifestState) newTable(in *editReader, ranges, further bool) {
	at := placedTable{in.uint(), in.uint()}
	size := in.uint()
	points := !ranges
	if ranges {
		points = in.byte()&boundsOfPoints != 0
		in.skip()
		in.skip()
	}
	if points {
		in.skip()
		in.skip()
	}
	in.uint()
	in.uint()
	virtual := false
	for further && !in.bad {
		switch in.uint() {
		case fieldEnd:
			further = false
		case fieldVirtual:
			virtual = true
			in.uint()
		case fieldBlobReferences:
			in.uint()
			for n := 2 * in.uint(); n > 0 && !in.bad; n-- {
				in.uint()
			}
		default:
			in.skip()
		}
	}
	if !virtual {
		m.placed[at] = fileName(at.number, "sst")
		m.add(m.placed[at], size)
	}
}

func fileName(number uint64, kind string) string { return fmt.Sprintf("%06d.%s", number, kind) }

func (m *manifestState) add(name string, size uint64) {
	if m.files != nil {
		m.files[name] = int64(size)
	}
}

func (m *manifestState) drop(name string) { delete(m.files, name) }

// checkFiles looks whether every file is there, with its size. pass tells whether
// to go on over an error.
func (m *manifestState) checkFiles(base vfs.FS, dir string, pass func(error) error) error {
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if err := pass(checkFile(base, base.PathJoin(dir, name), m.files[name])); err != nil {
			return err
		}
	}
	return nil
}

func checkFile(base vfs.FS, path string, size int64) error {
	info, err := base.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return placedDamage(path, 0, "the MANIFEST names this file, and it is missing")
	case err != nil:
		return err
	case info.Size() != size:
		return placedDamage(path, min(size, info.Size()),
			fmt.Sprintf("the file has %d bytes, the MANIFEST says %d", info.Size(), size))
	default:
		return nil
	}
}

// editReader reads the fields of an edit.
type editReader struct {
	rest []byte
	bad  bool // cut short, or not understood
}

func (r *editReader) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *editReader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// skip passes over bytes that are preceded by their number.
func (r *editReader) skip() {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return
	}
	r.rest = r.rest[n:]
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

// surveyOptions looks whether the newest OPTIONS file can be read: the engine
// compares its own options with it.
func surveyOptions(base vfs.FS, dir string) error {
	names, err := base.List(dir)
	if err != nil {
		return err
	}
	newest := ""
	for _, name := range names {
		if strings.HasPrefix(name, "OPTIONS-") && (len(name) > len(newest) || len(name) == len(newest) && name > newest) {
			newest = name
		}
	}
	if newest == "" {
		return nil
	}
	path := base.PathJoin(dir, newest)
	file, err := base.Open(path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxOptionsBytes))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	opts := &pebble.Options{}
	opts.EnsureDefaults()
	if err := opts.CheckCompatibility(dir, string(text)); err != nil {
		return placedDamage(path, 0, sentence(err))
	}
	return nil
}

// maxOptionsBytes bounds what is read of an OPTIONS file, which has a few KB.
const maxOptionsBytes = 1 << 20
