package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistore"
	"pistore/disk"
	"pistore/registers"
	"pistore/verify"
)

// TestUpgrade opens every fixture of versions 1 to 3 for writing, the broken ones
// too: it stays as it is until the first commit, which changes the format and
// nothing else. One with an error is not written at all.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"v1", "v2", "v3", "broken"} {
		files, err := filepath.Glob(filepath.Join(fixtures, dir, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m := newMemory(t)
			const name = storyDir + "/a.jsonl"
			writeOn(t, m, name, string(text))
			checkUpgrade(t, m, name, path, string(text))
		}
	}
}

func checkUpgrade(t *testing.T, m *disk.Memory, name, path, text string) {
	o := fixedOptions(m, pistore.Power)
	view, unreadable := OpenFile(t.Context(), name, pistore.ReadOnly, o)
	f, err := OpenFile(t.Context(), name, pistore.ReadWrite, o)
	switch {
	case unreadable != nil || view.Report().Errors > 0:
		if err == nil || readOn(t, m, name) != text {
			t.Errorf("%s: opened for writing (%v), although: %v", path, err, unreadable)
		}
		return
	case view.Info().Format == string(V4) || view.Info().Format == string(V4Values):
		return // never upgraded
	case err != nil:
		t.Errorf("%s: %v", path, err)
		return
	}
	before, err := f.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if digest(t, f) != digest(t, view) || readOn(t, m, name) != text {
		t.Errorf("%s: opening for writing changed something", path)
	}
	r, err := f.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "app.x", Key: "k", Value: "1"}}})
	if err != nil || r.Stats != before {
		t.Errorf("%s: commit: %v; totals %+v before, %+v behind it", path, err, before, r.Stats)
	}
	want, info := digest(t, f), f.Info()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if readOn(t, m, name+".v3") != text {
		t.Errorf("%s: the original was not kept", path)
	}
	again, err := OpenFile(t.Context(), name, pistore.ReadWrite, o)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	if digest(t, again) != want || again.Info() != info || info.Format != string(V4) || info.ID != view.Info().ID {
		t.Errorf("%s: reopened it is %+v, was %+v", path, again.Info(), info)
	}
	report, err := verify.Check(t.Context(), again, verify.Options{Deep: true})
	if err != nil || !report.OK() {
		t.Errorf("%s: verify: %v %v", path, report.Faults, err)
	}
	if _, err := again.Compact(t.Context()); err != nil || digest(t, again) != want {
		t.Errorf("%s: compaction changed something: %v", path, err)
	}
}

// TestOtherWriters refuses to write what other programs keep in format 4, and
// converts it.
func TestOtherWriters(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(fixtures, "v4", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	values := 0
	for _, path := range files {
		f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f.Info().Format == string(V4Values) {
			values++
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(t.TempDir(), "a.jsonl")
			write(t, copied, string(text))
			_, err = OpenFile(t.Context(), copied, pistore.ReadWrite, Options{})
			if !errors.Is(err, pistore.ErrForeignFormat) || !strings.Contains(err.Error(), "convert") {
				t.Errorf("%s: opening for writing: %v", path, err)
			}
		}
		b := NewFolder(t.TempDir(), Options{})
		info, err := b.Load(t.Context(), f.Export(t.Context()))
		if err != nil {
			t.Errorf("%s: load: %v", path, err)
			continue
		}
		st, err := b.Open(t.Context(), info.ID, pistore.ReadWrite)
		if err != nil || digest(t, st) != digest(t, f) {
			t.Errorf("%s: what was converted differs: %v", path, err)
		}
		for _, o := range oracles(t) {
			if o.Path != "v4/"+filepath.Base(path) {
				continue
			}
			stats, err := f.Stats(t.Context())
			if err != nil || int(stats.Entries) != o.PiAgentCore.EntryCount {
				t.Errorf("%s: %d entries, %d in the real program; %v", path, stats.Entries, o.PiAgentCore.EntryCount, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of %d files hold values", values, len(files))
}

// TestValues maps values and lists.
func TestValues(t *testing.T) {
	f, err := OpenFile(t.Context(), filepath.Join(fixtures, "v4", "session-values.jsonl"), pistore.ReadOnly, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row, err := range f.Export(t.Context()) {
		if r, ok := row.(pistore.Register); ok && err == nil {
			got = append(got, r.Namespace+" "+r.Key+" "+string(r.Value))
		}
	}
	want := []string{
		`app.ext.demo k "two"`, `app.ext.demo  false`,
		`app.ext.demo.list q#0000000000000006 {"i":0,"t":"the carry is lost for negative cents"}`,
		`app.ext.demo.list q#0000000000000007 {"i":1,"t":"an empty last column is dropped"}`,
		`app.ext.demo.list q#0000000000000008 {"i":2,"t":"the header row repeats"}`,
		`app.ext.demo.list q#0000000000000009 {"i":3,"t":"quotes are doubled, not escaped"}`,
		`app.ext.demo.list dropped#000000000000000c "after delete"`,
	}
	last := len(got) - 1 // its key ends in a lone surrogate, which no Go string holds
	if !strings.HasPrefix(got[last], "app.ext.uni ") || !strings.HasSuffix(got[last], "\ufffd "+`"\udfff \u0000"`) ||
		strings.Join(got[:last], "\n") != strings.Join(want, "\n") {
		t.Errorf("registers:\n%s", strings.Join(got, "\n"))
	}
}

// TestOpenOperations leaves operations out, lists them, and gives lanes an idle
// state.
func TestOpenOperations(t *testing.T) {
	f, err := OpenFile(t.Context(), filepath.Join(fixtures, "v4", "open-tool-parallel.jsonl"), pistore.ReadOnly, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := f.Report()
	if r.LeftOut["pi.op.state"] == 0 || r.LeftOut["pi.op.meta"] == 0 || r.Errors > 0 || r.Format != V4Values {
		t.Errorf("left out %v, faults %v", r.LeftOut, r.Faults)
	}
	found, err := f.Registers(t.Context(), []pistore.Address{{Namespace: registers.LaneStateNS, Key: registers.MainLane}})
	if err != nil || len(found) != 1 || found[0].Value != registers.EncodeLaneState(registers.LaneState{}) {
		t.Errorf("state of the lane: %v, %v", found, err)
	}
}

// TestUnsummed upgrades a format 4 without sums like an older format.
func TestUnsummed(t *testing.T) {
	m := newMemory(t)
	const name = storyDir + "/a.jsonl"
	text := `{"v":4,"kind":"header","id":"x","storageVersion":1,"createdAt":1,"cwd":"","mine":[1.0],"nextSeq":9}` + "\n" +
		` {"timestamp":3, "seq":2, "more":"\u2028", "kind":"entry", "type":"message", "usage":1, "id":"a", "parentId":null, "message":{"role":"user"}}` + "\r\n"
	writeOn(t, m, name, text)
	o := fixedOptions(m, pistore.Process)
	f, err := OpenFile(t.Context(), name, pistore.ReadWrite, o)
	if err != nil {
		t.Fatal(err)
	}
	found, err := f.Entries(t.Context(), []pistore.ID{"a"})
	if err != nil || len(found) != 1 || found[0].Payload != `{"more":"\u2028","usage":1,"message":{"role":"user"}}` {
		t.Errorf("%+v, %v", found, err)
	}
	r, err := f.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "n", Value: "1"}}})
	if err != nil || r.FirstSeq != 9 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got := readOn(t, m, name)
	if readOn(t, m, name+".v4") != text || !strings.Contains(got, `"mine":[1.0],"sums":"crc32c"`) {
		t.Errorf("rewritten as %s", got)
	}
}
