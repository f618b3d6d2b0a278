package logstore

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"pistore"
)

// survey looks at MANIFEST and logs before the engine does, which takes some
// damage for the end of what was written. It returns where each log ends whose
// tail a crash has cut, by its path: the engine is to see no more of it, since
// it may take a hole in what was never acknowledged for damage. It changes
// nothing on disk.
func survey(base vfs.FS, dir string, boot uint32) (ends map[string]int64, err error) {
	m, err := readManifest(base, dir)
	if err == nil {
		err = m.checkFiles(base, dir)
	}
	if err == nil {
		err = surveyOptions(base, dir)
	}
	if err != nil {
		return nil, err
	}
	logs, err := wal.Scan(wal.Dir{FS: base, Dirname: dir})
	if err != nil {
		return nil, err
	}
	ends = map[string]int64{}
	floor := m.lastSeq + 1
	cut := "" // a log that has records and does not end in order
	for _, log := range logs {
		if uint64(log.Num) < m.minLog {
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
