package logstore

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"pistore"
)

// survey is the look at MANIFEST and logs before the engine takes its own, which
// takes some damage for the end of what was written. It changes nothing on disk.
type survey struct {
	base vfs.FS
	dir  string
	boot uint32
	// over is asked whether to go on over damage, which only a repair does: then
	// what lies behind the damaged place counts as absent.
	over func(damage *pistore.CorruptError) error

	// ends is where each log ends whose tail a crash has cut, by its path: the
	// engine is to see no more of it, since it may take a hole in what was never
	// acknowledged for damage. A repair cuts damaged files so.
	ends map[string]int64
	// dropped are logs behind one that a repair has cut, and omitted the bytes
	// behind its cuts.
	dropped []string
	omitted int64
}

// refuse is what over is but in a repair.
func refuse(damage *pistore.CorruptError) error { return damage }

// pass asks to go on over an error, if it is damage.
func (v *survey) pass(err error) error {
	var damage *pistore.CorruptError
	if errors.As(err, &damage) {
		return v.over(damage)
	}
	return err
}

func (v *survey) run() error {
	v.ends = map[string]int64{}
	m, err := readManifest(v.base, v.dir)
	if err != nil && m.end >= 0 {
		if err = v.pass(err); err == nil {
			err = v.cut(m.path, m.end)
		}
	}
	if err != nil {
		return err
	}
	if err := m.checkFiles(v.base, v.dir, v.pass); err != nil {
		return err
	}
	if err := v.pass(surveyOptions(v.base, v.dir)); err != nil {
		return err
	}
	return v.logs(m)
}

// cut lets a file end early.
func (v *survey) cut(path string, end int64) error {
	v.ends[path] = end
	info, err := v.base.Stat(path)
	if err == nil {
		v.omitted += max(0, info.Size()-end)
	}
	return err
}

// drop leaves a log out.
func (v *survey) drop(path string) error {
	v.dropped = append(v.dropped, path)
	return v.cut(path, 0)
}

// logs looks at the logs that are not flushed.
func (v *survey) logs(m *manifestState) error {
	logs, err := wal.Scan(wal.Dir{FS: v.base, Dirname: v.dir})
	if err != nil {
		return err
	}
	floor := m.lastSeq + 1
	open := ""      // a log that has records and does not end in order
	broken := false // only in a repair: nothing may follow a cut
	for _, log := range logs {
		if uint64(log.Num) < m.minLog {
			continue // flushed: nobody reads it
		}
		_, path := log.SegmentLocation(0)
		if broken {
			if err := v.drop(path); err != nil {
				return err
			}
			continue
		}
		s, err := scanLogFile(v.base, path, uint32(log.Num))
		if err != nil {
			return err
		}
		if damage, end := v.judge(s, path, floor, open); damage != nil {
			if err := v.over(damage); err != nil {
				return err
			}
			broken = true
			if end > 0 {
				err = v.cut(path, end)
			} else {
				err = v.drop(path)
			}
			if err != nil {
				return err
			}
			continue
		}
		if !s.closed {
			v.ends[path] = s.end
			if s.records > 0 {
				open = path
			}
		}
		if s.records > 0 {
			floor = max(floor, s.endSeq)
			if s.endSeq == 0 { // a head that was split
				floor = ^uint64(0)
			}
		}
	}
	return nil
}

// judge returns what is wrong with a log, and up to where it can be used.
func (v *survey) judge(s *logScan, path string, floor uint64, open string) (damage *pistore.CorruptError, end int64) {
	switch {
	case s.records > 0 && open != "":
		return placedDamage(open, v.ends[open], "the log ends without its trailer, and "+v.base.PathBase(path)+" goes on"), 0
	case s.records > 0 && s.firstSeq > floor:
		return placedDamage(path, 0, fmt.Sprintf(
			"the log begins at batch %d, those from %d on are missing", s.firstSeq, floor)), 0
	case s.damaged(v.boot):
		return logDamage(path, s), s.end
	default:
		return nil, 0
	}
}

func scanLogFile(base vfs.FS, path string, number uint32) (*logScan, error) {
	file, err := base.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	s, err := scanLog(file, number)
	return s, errors.Join(err, file.Close())
}

func logDamage(path string, s *logScan) *pistore.CorruptError {
	problem := fmt.Sprintf("no valid chunk of the log; later data exists at offset %d", s.later)
	if s.later < 0 {
		problem = "no valid chunk of the log, which was closed in order"
	}
	return placedDamage(path, s.fault, problem)
}

func placedDamage(path string, offset int64, problem string) *pistore.CorruptError {
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
