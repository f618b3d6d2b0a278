package jsonl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistore"
	"pistore/internal/allocs"
	"pistore/memstore"
	"pistore/registers"
	"pistore/session"
)

// Memory that an import may allocate in all: for each byte of the file, and
// once. Records of a dozen bytes cost most.
const (
	fuzzFactor = 250
	fuzzBase   = 4 << 20
)

// FuzzImport reads any bytes. Reading never panics, allocates in proportion, and
// gives the same each time; faults are located; what it gives satisfies the
// contract of a load and can be projected.
func FuzzImport(f *testing.F) {
	for _, dir := range []string{"v1", "v2", "v3", "broken"} {
		files, err := filepath.Glob(filepath.Join(fixtures, dir, "*.jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			if len(text) < 16<<10 {
				f.Add(text)
			}
		}
	}
	for _, text := range []string{
		v3(`{'type':'usage','id':'u','parentId':null,@,'usage':{'input':1e300}}`, `{'type':'usage','id':'u','parentId':'u',@,'usage':[]}`),
		v3(`{'type':'message','id':'a','parentId':'b',@,'message':{'role':'assistant','usage':{'input':1e-399,'output':-1,'cost':7}}}`,
			`{'type':'message','id':'b','parentId':'a',@,'message':{'role':'assistant','usage':{'input':9e399}}}`),
		v3(compactionLine("k", "k", `,'firstKeptEntryId':'k'`), `{'type':'context_edit','id':'e','parentId':'k',@,'targetId':'k','replacement':{'content':1}}`),
		v3(`{'type':'future','id':'a','parentId':null,'x':` + strings.Repeat("[", 998) + strings.Repeat("]", 998) + `}`),
		v3(`{'type':'message','id':'a','parentId':null,'message':{'role':'user','x':`+strings.Repeat("[", 998)+strings.Repeat("]", 998)+`}}`,
			compactionLine("k", "a", `,'firstKeptEntryId':'a'`)),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var file *File
		var report Report
		var err error
		allocs.Within(t, len(text), fuzzFactor, fuzzBase, func() {
			file, report, err = read(t.Context(), bytes.NewReader(text), int64(len(text)), noParent)
		})
		if _, nameErr := readName(t.Context(), bytes.NewReader(text), int64(len(text))); nameErr != nil {
			t.Error(nameErr)
		}
		if err != nil {
			if !errors.Is(err, pistore.ErrForeignFormat) && !errors.Is(err, pistore.ErrNewerVersion) {
				t.Errorf("error %v", err)
			}
			return
		}
		checkFaults(t, report, int64(len(text)))
		if report.Version == 4 {
			return // see FuzzOpenJSONL of package fuzz
		}
		if file == nil {
			if report.Errors == 0 {
				t.Error("nothing to show, and no error")
			}
			return
		}
		checkImported(t, file, text)
	})
}

// checkFaults checks that faults are counted, typed and located.
func checkFaults(t *testing.T, r Report, size int64) {
	for i := range r.Faults {
		f := &r.Faults[i]
		damage := errors.Is(f, pistore.ErrCorrupt) || errors.Is(f, pistore.ErrTooLarge)
		if f.Line < 1 || f.Offset < 0 || f.Offset > size || f.Kind == "" || f.Message == "" || damage != (f.Severity == Error) {
			t.Errorf("fault %+v", *f)
		}
		if i > 0 && f.Line < r.Faults[i-1].Line {
			t.Errorf("fault %d stands out of order", i)
		}
	}
	if r.Omitted() < 0 {
		t.Errorf("%d faults, %d errors, %d warnings", len(r.Faults), r.Errors, r.Warnings)
	}
}

func checkImported(t *testing.T, f *File, text []byte) {
	again, _, err := read(t.Context(), bytes.NewReader(text), int64(len(text)), noParent)
	if err != nil {
		t.Fatal(err)
	}
	want := digest(t, f)
	if digest(t, again) != want {
		t.Error("the second reading differs")
	}
	b := memstore.New(memstore.Options{})
	info, err := b.Load(t.Context(), f.Export(t.Context()))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	loaded, err := b.Open(t.Context(), info.ID, pistore.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	if digest(t, loaded) != want {
		t.Error("what was loaded differs")
	}
	lane, err := session.New(f).Lane(t.Context(), registers.MainLane)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.ProjectBranch(t.Context(), f, lane.Leaf, nil); err != nil {
		t.Errorf("project: %v", err)
	}
	if _, err := session.New(f).Labels(t.Context()); err != nil {
		t.Error(err)
	}
}
