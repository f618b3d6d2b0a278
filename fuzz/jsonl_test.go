package fuzz

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/disk"
	"pistore/internal/allocs"
	"pistore/jsonl"
)

const sessions = "../jsonl/testdata/sessions"

// Memory that opening a file may allocate: for each byte of it, and once. Lines
// of a dozen bytes cost most.
const (
	openFactor = 250
	openBase   = 4 << 20
)

// FuzzOpenJSONL opens any bytes as a session file. Looking changes nothing; what
// is wrong is typed and located. What opens for writing shows the same, goes on
// from there, and is written again to the same bytes.
func FuzzOpenJSONL(f *testing.F) {
	golden, err := os.ReadFile("../jsonl/testdata/format4.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:len(golden)-40])
	f.Add(bytes.Replace(golden, []byte(`,"sums":"crc32c"`), nil, 1))
	f.Add(bytes.ReplaceAll(golden, []byte("\n"), []byte("\r\n")))
	for _, text := range fixtures(f, "v4", "broken", "v3", "v2", "v1") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := jsonl.Options{
			Clock: func() pistore.UnixMS { return 1_700_000_000_000 }, Rand: rand.NewChaCha8([32]byte{1}),
			DiskPayloadBytes: int64(len(text)%2) * 2, NoCompactOnOpen: true, DropOriginal: true,
		}
		s := newFile(t, text, o)
		allocs.Within(t, len(text), openFactor, openBase, func() {
			if file, err := jsonl.OpenFile(t.Context(), s.path, pistore.ReadOnly, s.o); err == nil {
				_ = file.Close() // read only: nothing can be lost
			}
		})
		shown := s.look()
		if got := s.read(); got != string(text) {
			t.Fatalf("looking changed the file to %q", got)
		}
		if names := s.names(); !slices.Equal(names, []string{"a.jsonl"}) {
			t.Fatalf("looking left %q in the folder", names)
		}
		s.write(text, shown)
	})
}

// fixtures are the small session files of folders.
func fixtures(f *testing.F, folders ...string) (texts [][]byte) {
	f.Helper()
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(sessions, folder, "*.jsonl"))
		if err != nil || len(names) == 0 {
			f.Fatalf("no fixtures in %s: %v", folder, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			if len(text) < 16<<10 {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// file is a session file alone in a folder in memory.
type file struct {
	t    *testing.T
	path string
	o    jsonl.Options
}

func newFile(t *testing.T, text []byte, o jsonl.Options) *file {
	t.Helper()
	o.FS = disk.NewMemory()
	s := &file{t, "/a.jsonl", o}
	at, err := o.FS.Open(s.path, disk.Create)
	if err == nil {
		_, err = at.Write(text)
	}
	if err = errors.Join(err, at.Close()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *file) read() string {
	s.t.Helper()
	at, err := s.o.FS.Open(s.path, disk.Read)
	if err != nil {
		s.t.Fatal(err)
	}
	defer at.Close()
	info, err := at.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	text := make([]byte, info.Size)
	if n, err := at.ReadAt(text, 0); n < len(text) {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *file) names() (names []string) {
	s.t.Helper()
	entries, err := s.o.FS.List("/")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func (s *file) open(mode pistore.Mode) *jsonl.File {
	s.t.Helper()
	opened, err := jsonl.OpenFile(s.t.Context(), s.path, mode, s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	return opened
}

func (s *file) digest(of pistore.Storage) string {
	s.t.Helper()
	d, err := pistore.Digest(s.t.Context(), of)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// look opens the file read-only and returns the digest of what it shows, empty
// if nothing can be shown.
func (s *file) look() (digest string) {
	s.t.Helper()
	opened, err := jsonl.OpenFile(s.t.Context(), s.path, pistore.ReadOnly, s.o)
	if err != nil {
		s.refused(err)
		return ""
	}
	size := int64(len(s.read()))
	for _, fault := range opened.Report().Faults {
		damage := errors.Is(&fault, pistore.ErrCorrupt) || errors.Is(&fault, pistore.ErrTooLarge)
		if fault.Line < 1 || fault.Offset < 0 || fault.Offset > size || fault.Message == "" || damage != (fault.Severity == jsonl.Error) {
			s.t.Errorf("fault %+v", fault)
		}
	}
	digest = s.digest(opened)
	if err := opened.Close(); err != nil {
		s.t.Error(err)
	}
	return digest
}

// refused checks that an error of opening is one of those that opening gives,
// and that damage says where it is.
func (s *file) refused(err error) {
	s.t.Helper()
	var corrupt *pistore.CorruptError
	switch {
	case errors.As(err, &corrupt):
		if corrupt.Backend == "" || !strings.Contains(corrupt.Place, "line ") || corrupt.Problem == "" {
			s.t.Errorf("damage without its place: %+v", corrupt)
		}
	case errors.Is(err, pistore.ErrForeignFormat), errors.Is(err, pistore.ErrNewerVersion), errors.Is(err, pistore.ErrTooLarge):
	default:
		s.t.Errorf("untyped error %v", err)
	}
}

// write opens the file for writing, commits, and compacts it. shown is the digest
// of what looking at it showed.
func (s *file) write(text []byte, shown string) {
	s.t.Helper()
	opened, err := jsonl.OpenFile(s.t.Context(), s.path, pistore.ReadWrite, s.o)
	if err != nil {
		s.refused(err)
		return
	}
	if got := s.digest(opened); got != shown || s.read() != string(text) {
		s.t.Fatalf("opened for writing it shows %s and holds %q; looking showed %s", got, s.read(), shown)
	}
	_, err = opened.Commit(s.t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "x", Value: "1"}}})
	switch {
	case errors.Is(err, pistore.ErrTooLarge): // the last seq was given
	case err != nil:
		s.t.Fatal(err)
	default:
		shown = s.digest(opened)
	}
	s.close(opened)
	once := s.compacted(shown)
	if twice := s.compacted(shown); twice != once {
		s.t.Fatalf("compacted again the file is another one:\n%s\n%s", once, twice)
	}
	s.loaded(shown, once)
}

func (s *file) close(opened *jsonl.File) {
	s.t.Helper()
	if err := opened.Close(); err != nil {
		s.t.Fatal(err)
	}
	if again := s.open(pistore.ReadOnly); again.Report().Errors > 0 {
		s.t.Fatalf("what was written is damaged: %v", again.Report().Faults)
	}
}

// compacted compacts the file, which changes nothing that it shows, and returns
// its bytes.
func (s *file) compacted(shown string) string {
	s.t.Helper()
	opened := s.open(pistore.ReadWrite)
	if got := s.digest(opened); got != shown {
		s.t.Fatalf("opened again it shows %s instead of %s", got, shown)
	}
	if _, err := opened.Compact(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if got := s.digest(opened); got != shown {
		s.t.Fatalf("compacted it shows %s instead of %s", got, shown)
	}
	s.close(opened)
	return s.read()
}

// loaded loads what the file holds into another folder, which writes behind a
// header what compaction has written.
func (s *file) loaded(shown, text string) {
	s.t.Helper()
	from := s.open(pistore.ReadOnly)
	o := s.o
	o.FS = disk.NewMemory()
	folder := jsonl.NewFolder("/", o)
	info, err := folder.Load(s.t.Context(), from.Export(s.t.Context()))
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := folder.Open(s.t.Context(), info.ID, pistore.ReadOnly)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := s.digest(st); got != shown || info.Generation != from.Info().Generation {
		s.t.Fatalf("loaded it shows %s instead of %s, generation %s instead of %s", got, shown, info.Generation, from.Info().Generation)
	}
	if err := errors.Join(st.Close(), from.Close(), folder.Close()); err != nil {
		s.t.Fatal(err)
	}
	other := &file{s.t, onlyFile(s.t, o.FS, "/"), o}
	_, want, _ := strings.Cut(text, "\n")
	if _, got, _ := strings.Cut(other.read(), "\n"); got != want {
		s.t.Fatalf("loaded it is another file than compacted:\n%s\n%s", got, want)
	}
}

// onlyFile returns the path of the only file below a folder.
func onlyFile(t *testing.T, f disk.FS, dir string) string {
	t.Helper()
	entries, err := f.List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries in %s: %v", len(entries), dir, err)
	}
	path := filepath.Join(dir, entries[0].Name)
	if entries[0].Mode.IsDir() {
		return onlyFile(t, f, path)
	}
	return path
}
