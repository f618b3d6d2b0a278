package jsonl

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"pistore"
	"pistore/disk"
)

// TestFollowWhatBecameShorter ends in an error that names the place, wherever the
// file was cut in front of what was read; a torn tail may go.
func TestFollowWhatBecameShorter(t *testing.T) {
	_, _, path := openChain(t, 4, Options{})
	text := must(os.ReadFile(path))
	for _, size := range []int{0, 1, bytes.IndexByte(text, '\n') + 1, len(text) - 1} {
		write(t, path, string(text))
		w := watch(t, path, 0)
		w.look(t)
		add(t, path, `{"torn":`)
		w.look(t)
		if err := os.Truncate(path, int64(len(text))); err != nil {
			t.Fatal(err)
		}
		if got := w.look(t); got != nil {
			t.Errorf("behind a torn tail: %v", got)
		}
		if err := os.WriteFile(path, text[:size], 0); err != nil { // in place
			t.Fatal(err)
		}
		_, err := w.lookAtPath()
		wantPlaced(t, err, path)
	}
}

// wantPlaced checks that an error is corruption at a place of a file.
func wantPlaced(t *testing.T, err error, path string) {
	t.Helper()
	var corrupt *pistore.CorruptError
	if !errors.As(err, &corrupt) || !bytes.Contains([]byte(corrupt.Place), []byte(filepath.Base(path))) {
		t.Errorf("%v", err)
	}
}

// TestReadWhatBecameShorter cuts a file under those who have it open: whatever
// reads the file then ends in an error that names the place, and never in less
// than there was.
func TestReadWhatBecameShorter(t *testing.T) {
	o := Options{DiskPayloadBytes: 1}
	b, _, path := openChain(t, 30, o)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	text := must(os.ReadFile(path))
	reader, err := OpenFile(t.Context(), path, pistore.ReadOnly, o)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	writer, err := OpenFile(t.Context(), path, pistore.ReadWrite, o)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	id := chainTx(29).Writes[0].(pistore.InsertEntry).ID
	reads := map[string]func(f *File) error{
		"history": func(f *File) error { return drained(f.History(t.Context(), 0)) },
		"export":  func(f *File) error { return drained(f.Export(t.Context())) },
		"scan":    func(f *File) error { return drained(f.ScanEntries(t.Context(), pistore.ScanQuery{})) },
		"branch":  func(f *File) error { return drained(f.Branch(t.Context(), pistore.BranchQuery{Start: id})) },
		"entries": func(f *File) error { _, err := f.Entries(t.Context(), []pistore.ID{id}); return err },
		"locate":  func(f *File) error { _, err := f.Locate(t.Context(), []pistore.ID{id}); return err },
	}
	inProcess := map[string]func(f *File) error{
		"follow": func(f *File) error { return drained(f.Follow(t.Context(), 0)) },
		"verify": func(f *File) error { return drained(f.VerifyStorage(t.Context(), true)) },
	}
	lastLine := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for _, size := range []int{lastLine + 100, lastLine, 0} {
		if err := os.Truncate(path, int64(size)); err != nil {
			t.Fatal(err)
		}
		for name, read := range reads {
			t.Run(name, func(t *testing.T) {
				wantPlaced(t, read(reader), path)
				wantPlaced(t, read(writer), path)
			})
		}
		for name, read := range inProcess {
			t.Run(name, func(t *testing.T) { wantPlaced(t, read(writer), path) })
		}
	}
	// Bytes that are others now are not passed over.
	for i := lastLine; i < len(text); i++ {
		text[i] = 'x'
	}
	write(t, path, string(text))
	for name, read := range reads {
		t.Run("other bytes/"+name, func(t *testing.T) { wantPlaced(t, read(reader), path) })
	}
}

// drained reads rows to their end.
func drained[T any](rows iter.Seq2[T, error]) error {
	for _, err := range rows {
		if err != nil {
			return err
		}
	}
	return nil
}

// longer is a file system whose files are said to be longer than they are, at the
// first few openings: as if they were cut after that.
type longer struct {
	disk.FS
	by    int64
	times atomic.Int64
}

type longerFile struct {
	disk.File
	by int64
}

func (l *longer) Open(name string, how disk.Access) (disk.File, error) {
	f, err := l.FS.Open(name, how)
	if err != nil || l.times.Add(-1) < 0 {
		return f, err
	}
	return longerFile{f, l.by}, nil
}

func (f longerFile) Stat() (disk.Info, error) {
	st, err := f.File.Stat()
	st.Size += f.by
	return st, err
}

// TestOpenWhatBecomesShorter opens files of every format that are cut while they
// are opened: they are read again, and one that goes on becoming shorter is an
// error.
func TestOpenWhatBecomesShorter(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(fixtures, "v[1234]", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	_, _, path := openChain(t, 5, Options{})
	for _, path := range append(files[:min(len(files), 6)], path) {
		want := openFile(t, path)
		for _, by := range []int64{1, 3 << 20} {
			fs := &longer{FS: disk.OS, by: by}
			o := Options{FS: fs}
			fs.times.Store(2)
			f, err := OpenFile(t.Context(), path, pistore.ReadOnly, o)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if f.Report().Bytes != want.Report().Bytes || digest(t, f) != digest(t, want) {
				t.Errorf("%s: another session", path)
			}
			fs.times.Store(2)
			if _, err := nameAt(t.Context(), fs, path); err != nil {
				t.Errorf("%s: name: %v", path, err)
			}
			fs.times.Store(2)
			if info, err := readInfo(t.Context(), fs, path); err != nil || info.ID != want.Info().ID {
				t.Errorf("%s: header: %v", path, err)
			}
			fs.times.Store(1 << 20)
			_, err = OpenFile(t.Context(), path, pistore.ReadOnly, o)
			_, errRepair := Repair(t.Context(), path, filepath.Join(t.TempDir(), "r.jsonl"), o, RepairOptions{})
			if !errors.Is(err, pistore.ErrCorrupt) || !errors.Is(errRepair, pistore.ErrCorrupt) {
				t.Errorf("%s: %v, %v", path, err, errRepair)
			}
		}
	}
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}
