package jsonl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistore"
)

// TestBehindMuchOfNothing reads sessions that stand behind more than a window of
// blank lines or NULs, which cost their lines and nothing else.
func TestBehindMuchOfNothing(t *testing.T) {
	entry := `{'type':'custom','id':'a','parentId':null,@,'customType':'c'}`
	four, err := os.ReadFile("testdata/format4.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, before, text string
		format             Format
		faults             []string
	}{
		{"blank lines", strings.Repeat("\n", 2*window), v3(entry), Pi3, []string{"blank-line@1"}},
		{"a long blank line", strings.Repeat(" ", 2*window) + "\n", v3(entry), Pi3, []string{"blank-line@1"}},
		{"a line of NULs", strings.Repeat("\x00", 2*window) + "\n", v3(entry), Pi3, []string{"nul-line@1"}},
		{"NULs in front of the header", strings.Repeat("\x00", 2*window), v3(entry, entry), Pi3, []string{"nul-line@1", "no-header@2", "repeated-line@3"}},
		{"blank lines before format 4", strings.Repeat("\r\n", window), string(four), V4, []string{"blank-line@1"}},
		{"NULs before format 4", strings.Repeat("\x00", 2*window) + "\n", string(four), V4, []string{"nul-line@1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.jsonl")
			write(t, path, tt.before+tt.text)
			f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := f.Report()
			if got := faultsOf(r); !slices.Equal(got, tt.faults) || r.Format != tt.format {
				t.Errorf("%s, faults %v: %v", r.Format, got, r.Faults)
			}
			if stats, err := f.Stats(t.Context()); err != nil || stats.Entries == 0 {
				t.Errorf("%d entries, %v", stats.Entries, err)
			}
			if h, err := ReadInfo(t.Context(), path); err != nil || h.ID != f.Info().ID && !slices.Contains(tt.faults, "no-header@2") {
				t.Errorf("%v, %v", h, err)
			}
		})
	}
}

// TestLongHeader knows headers, and first records, that are longer than a window.
func TestLongHeader(t *testing.T) {
	long := strings.Repeat("y", window+1)
	old := func(version string) string {
		return fmt.Sprintf(`{"x":%q,"type":"session",%s"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}`, long, version)
	}
	entry := `{'x':'` + long + `','type':'custom','id':'a','parentId':null,@,'customType':'c'}`
	var enc encoder
	enc.header(pistore.Info{ID: "s", StorageVersion: 1, CWD: "/w"}, 1, 0, []member{{`"more"`, string(pistore.QuoteJSON(long))}})
	for n, tt := range []struct {
		text   string
		format Format
	}{
		{fileOf(old(`"version":3,`), entry), Pi3},
		{string(enc.buf), V4},
		{fileOf(old(`"version":2,`), entry), Pi2},
		{fileOf(old(``), strings.Replace(entry, `'id':'a','parentId':null,`, ``, 1)), Pi1},
		{fileOf(old(``), entry), Pi2},
	} {
		if raced && n > 1 {
			break // each byte costs a hundred times as much
		}
		path := filepath.Join(t.TempDir(), "x.jsonl")
		write(t, path, tt.text)
		if h, err := ReadInfo(t.Context(), path); err != nil || h.Format != string(tt.format) || h.ID != "s" || h.CWD != "/w" {
			t.Errorf("%s: %v, %v", tt.format, h, err)
		}
		f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
		if err != nil || f.Report().Format != tt.format {
			t.Errorf("%s: %v", tt.format, err)
		}
	}
}

// TestHugeTail tells what is left of a write behind the last newline from a
// record that is whole and too long, in whatever is too long to be held.
func TestHugeTail(t *testing.T) {
	before := header3 + "\n" + `{"type":"custom","id":"a","parentId":null,"timestamp":0,"customType":"c"}` + "\n"
	record := `{"type":"custom","id":"b","parentId":"a","timestamp":0,"customType":"c"`
	const limit = 1000
	size := int64(limit + 3*readChunk)
	for _, tt := range []struct {
		name    string
		tail    pieces
		faults  []string
		entries int64
		torn    int64
	}{
		{"torn", pieces{{record + `,"x":"`, 1}, {"z", size}}, []string{"torn-tail@3"}, 1, int64(len(record)+6) + size},
		{"whole", pieces{{record + `,"x":"`, 1}, {"z", size}, {`"}`, 1}}, []string{"too-large@3"}, 1, 0},
		{"NULs", pieces{{"\x00", size}}, []string{"torn-tail@3"}, 1, size},
		{"a record and NULs", pieces{{record + `}`, 1}, {"\x00", size}}, []string{"torn-tail@3"}, 2, size},
		{"a line of NULs", pieces{{"\x00", size}, {"\n", 1}}, []string{"nul-line@3"}, 1, 0},
	} {
		src := append(pieces{{before, 1}}, tt.tail...)
		im := newImporter(t.Context(), src, src.size())
		im.limit = limit
		if err := im.scan(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		f, r, err := im.finish(noParent)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := faultsOf(r); !slices.Equal(got, tt.faults) || r.TornBytes != tt.torn {
			t.Errorf("%s: %d bytes torn, faults %v", tt.name, r.TornBytes, r.Faults)
		}
		if stats, _ := f.Stats(t.Context()); stats.Entries != tt.entries {
			t.Errorf("%s: %d entries", tt.name, stats.Entries)
		}
	}
}
