package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"pistore"
	"pistore/internal/allocs"
)

func TestWhatIsNoSession(t *testing.T) {
	dir := t.TempDir()
	utf16Text := func(order func(u uint16) []byte, text string) string {
		var b bytes.Buffer
		for _, u := range utf16.Encode([]rune(text)) {
			b.Write(order(u))
		}
		return b.String()
	}
	little := func(u uint16) []byte { return []byte{byte(u), byte(u >> 8)} }
	big := func(u uint16) []byte { return []byte{byte(u >> 8), byte(u)} }
	for _, tt := range []struct {
		name, text string
		want       error
		says       string
	}{
		{"empty", "", pistore.ErrCorrupt, "empty"},
		{"white space", " \n\t\r\n", pistore.ErrCorrupt, "white space"},
		{"NULs", strings.Repeat("\x00", 5000), pistore.ErrCorrupt, "NUL"},
		{"NULs and white space", strings.Repeat("\x00", window) + strings.Repeat(" \n", window), pistore.ErrCorrupt, "NUL"},
		{"much white space", strings.Repeat(" \n", window), pistore.ErrCorrupt, "white space"},
		{"UTF-32", "\xff\xfe\x00\x00{\x00\x00\x00", pistore.ErrCorrupt, "UTF-32"},
		{"UTF-32 without mark, big end first", "\x00\x00\x00{\x00\x00\x00\"", pistore.ErrCorrupt, "UTF-32"},
		{"UTF-16", utf16Text(little, "\ufeff"+v3()), pistore.ErrCorrupt, "UTF-16"},
		{"UTF-16, big end first", utf16Text(big, "\ufeff"+v3()), pistore.ErrCorrupt, "UTF-16"},
		{"UTF-16 without mark", utf16Text(little, v3()), pistore.ErrCorrupt, "UTF-16"},
		{"UTF-16 without mark, big end first", utf16Text(big, v3()), pistore.ErrCorrupt, "UTF-16"},
		{"SQLite", "SQLite format 3\x00" + strings.Repeat("\x01\n", 500), pistore.ErrForeignFormat, "SQLite"},
		{"a log", strings.Repeat("2026-01-01 INFO started\n", 1000), pistore.ErrForeignFormat, "not a session file"},
		{"a log of JSON lines", strings.Repeat(`{"level":"info","type":"message","text":"started","v":1}`+"\n", 100000), pistore.ErrForeignFormat, "not a session file"},
		{"JSON", "[1,\n2]", pistore.ErrForeignFormat, "not a session file"},
		{"binary", "\x7fELF" + strings.Repeat("\xff\x01", 3<<20), pistore.ErrForeignFormat, "not a session file"},
		{"a torn header of format 4", `{"v":4,"ki`, pistore.ErrCorrupt, "header"},
		{"format 5", `{"v":5,"kind":"header"}` + "\n", pistore.ErrNewerVersion, "format"},
		{"a torn header", `{"type":"session","vers`, pistore.ErrCorrupt, "no header"},
	} {
		path := filepath.Join(dir, tt.name+".jsonl")
		write(t, path, tt.text)
		before := listing(t, dir)
		_, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 400 {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := ReadInfo(t.Context(), path); !errors.Is(err, tt.want) {
			t.Errorf("%s: header: %v", tt.name, err)
		}
		if after := listing(t, dir); after != before {
			t.Errorf("%s: the folder changed", tt.name)
		}
	}
	_, err := OpenFile(t.Context(), filepath.Join(dir, "none"), pistore.ReadOnly, Options{})
	if !errors.Is(err, pistore.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
}

// TestMessagesAreShownSafely puts a control sequence wherever a message could
// quote a text of the file.
func TestMessagesAreShownSafely(t *testing.T) {
	const esc = `\u001b[31m\u0007\u009b`
	raw := "\x1b[31m\u009b"
	text := fileOf(`{"type":"session","version":"`+esc+raw+`","id":"`+esc+`","timestamp":"`+esc+`","cwd":"`+esc+`\u0000"}`,
		raw, `{`+raw, `{'type':'message','id':'`+esc+`','parentId':'`+esc+`x','timestamp':'`+esc+`'}`,
		`{'type':'`+esc+`','id':'a','parentId':null}`,
		`{'type':'custom','id':'`+esc+`','parentId':null,'customType':'`+esc+`'}`,
		`{'type':'label','id':'l','parentId':'late`+esc+`','targetId':'`+esc+`y'}`,
		`{'type':'label','id':'late`+esc+`','parentId':'a','targetId':'`+esc+`y'}`,
		`{'type':'context_edit','id':'e','parentId':'a','targetId':'`+esc+`y'}`,
		`{'type':'branch_summary','id':'b','parentId':'a','fromId':'`+esc+`y','summary':''}`,
		`{'type':'compaction','id':'k','parentId':'a','firstKeptEntryId':'`+esc+`y','summary':''}`)
	_, r := importText(t, text)
	if len(r.Faults) < 15 {
		t.Errorf("%d faults", len(r.Faults))
	}
	for i := range r.Faults {
		for _, c := range r.Faults[i].Error() {
			if c < ' ' || 0x7f <= c && c <= 0x9f {
				t.Errorf("%q", r.Faults[i].Message)
			}
		}
	}
}

func TestFormatByContent(t *testing.T) {
	for dir, want := range map[string]Format{"v1": Pi1, "v2": Pi2, "v3": Pi3, "v4": V4} {
		files, err := os.ReadDir(filepath.Join(fixtures, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			// The name says nothing.
			path := filepath.Join(t.TempDir(), "x.db")
			text, err := os.ReadFile(filepath.Join(fixtures, dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, string(text))
			if info, err := ReadInfo(t.Context(), path); err != nil || info.Format != string(want) {
				t.Errorf("%s/%s: %s, %v", dir, f.Name(), info.Format, err)
			}
			if _, err = OpenFile(t.Context(), path, pistore.ReadOnly, Options{}); err != nil {
				t.Errorf("%s/%s: %v", dir, f.Name(), err)
			}
		}
	}
}

// pieces is a source made of parts that need not be in memory.
type pieces []piece

type piece struct {
	text string
	n    int64 // times; text of one byte only
}

func (p piece) size() int64 { return int64(len(p.text)) * p.n }

func (ps pieces) size() (n int64) {
	for _, p := range ps {
		n += p.size()
	}
	return n
}

func (ps pieces) ReadAt(buf []byte, at int64) (n int, err error) {
	for _, p := range ps {
		if at >= p.size() {
			at -= p.size()
			continue
		}
		part := buf[n:min(int64(len(buf)), int64(n)+p.size()-at)]
		if p.n == 1 {
			copy(part, p.text[at:])
		} else if len(part) > 0 {
			part[0] = p.text[0]
			for done := 1; done < len(part); done *= 2 {
				copy(part[done:], part[:done])
			}
		}
		n, at = n+len(part), 0
		if n == len(buf) {
			return n, nil
		}
	}
	return n, io.EOF
}

// TestHugeLine passes over a line of 300 MB and reads the rest.
func TestHugeLine(t *testing.T) {
	before := `{"type":"message","id":"a","parentId":null,"timestamp":0,"message":{"role":"user","content":"x"}}` + "\n"
	huge := `{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"`
	after := "\"}}\n" + `{"type":"message","id":"c","parentId":"a","timestamp":0,"message":{"role":"user","content":"y"}}` + "\n"
	size := int64(300 << 20)
	if raced || testing.Short() {
		size = 80 << 20
	}
	src := pieces{{header3 + "\n" + before + huge, 1}, {"z", size}, {after, 1}}
	allocated := allocs.By(func() {
		f, r, err := read(t.Context(), src, src.size(), noParent)
		if err != nil {
			t.Fatal(err)
		}
		if stats, _ := f.Stats(t.Context()); stats.Entries != 2 || r.LegacyLeafID != "c" {
			t.Errorf("%d entries, leaf %s", stats.Entries, r.LegacyLeafID)
		}
		if len(r.Faults) != 1 || !errors.Is(&r.Faults[0], pistore.ErrTooLarge) || errors.Is(&r.Faults[0], pistore.ErrCorrupt) || r.Faults[0].Line != 3 || r.Faults[0].Offset != int64(len(header3)+1+len(before)) {
			t.Errorf("faults %v", r.Faults)
		}
	})
	if allocated > 300<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

// TestLongChain reads a chain of a million entries, forwards and backwards, and
// one that is a single cycle.
func TestLongChain(t *testing.T) {
	n := 1_000_000
	if raced || testing.Short() {
		n = 20_000
	}
	chain := func(parent func(i int) int) string {
		var b strings.Builder
		b.WriteString(header3 + "\n")
		for i := range n {
			p := "null"
			if at := parent(i); at >= 0 && at < n {
				p = fmt.Sprintf(`"%d"`, at)
			}
			fmt.Fprintf(&b, `{"type":"custom","id":"%d","parentId":%s,"customType":"c"}`+"\n", i, p)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name   string
		parent func(i int) int
		errors int64
	}{
		{"forwards", func(i int) int { return i - 1 }, 0},
		{"backwards", func(i int) int { return i + 1 }, 0},
		{"a cycle", func(i int) int { return (i + 1) % n }, 1},
	} {
		if tt.name != "forwards" {
			n = min(n, 100_000)
		}
		text := chain(tt.parent)
		src, size := reader([]byte(text))
		f, r, err := read(t.Context(), src, size, noParent)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := f.Stats(t.Context())
		if err != nil || stats.Entries != int64(n) || r.Errors != tt.errors {
			t.Errorf("%s: %d entries, %d errors, %v", tt.name, stats.Entries, r.Errors, err)
		}
		if len(r.Faults) > 2*maxFaults {
			t.Errorf("%s: %d faults kept", tt.name, len(r.Faults))
		}
	}
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 3*readChunk)
	for _, text := range []string{"", "a", "\n", "a\n", "a\nb", "\n\na\r\n\n", long, long + "\n" + long, "a\n" + long + "\nb"} {
		r := newLineReader(strings.NewReader(text), int64(len(text)))
		var got strings.Builder
		number := int64(0)
		for {
			l, ok, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if number++; l.number != number || l.offset != int64(got.Len()) || l.length != int64(len(l.text)) {
				t.Errorf("line %d at %d of %d", l.number, l.offset, l.length)
			}
			got.Write(l.text)
			if l.ended {
				got.WriteByte('\n')
			}
		}
		if got.String() != text {
			t.Errorf("%d bytes came back as %d", len(text), got.Len())
		}
	}
}

func TestMendUTF8(t *testing.T) {
	for text, want := range map[string]string{
		"a\xffb": "a�b", "\xff\xfe\xc0\xaf": "����", "\xe5\xb8\"": "�\"", "\xf0\x9f\x8f": "�", "\xf0\x9f\"": "�\"",
		"\xed\xa0\x80": "���", "\xe0\x80\x80": "���", "\xf4\x90\x80\x80": "����", "\xf0\x80": "��", "é\xc3": "é�", "\x80": "�", "\xc3\xe5\xb8\xb3": "�帳",
	} {
		if got := string(mendUTF8([]byte(text))); got != want {
			t.Errorf("%q becomes %q instead of %q", text, got, want)
		}
	}
}

func TestMembers(t *testing.T) {
	for text, want := range map[pistore.JSON]string{
		`{}`:      "",
		`{"a":1}`: `"a"=1 `,
		`{"a\"\\":"\\","b":[{"c":"}]\""},[]],"\u0061":{"x":null}}`: `"a\"\\"="\\" "b"=[{"c":"}]\""},[]] "\u0061"={"x":null} `,
		`[1]`: "", `"x"`: "", `{`: "", `{"a`: "", `{"a":`: "", `{"a":1`: `"a"=1 `, `{"a"}`: "",
	} {
		got := ""
		for m := range members(text) {
			got += m.name + "=" + m.value + " "
		}
		if got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestReadName finds the newest name wherever it stands, at the cost of little.
func TestReadName(t *testing.T) {
	pad := `{"type":"custom","id":"p","parentId":null,"customType":"c","data":"` + strings.Repeat("x", readChunk-200) + `"}` + "\n"
	info := func(name string) string {
		return `{"type":"session_info","id":"n","parentId":null,"name":` + name + "}\n"
	}
	decoy := `{"type":"custom","id":"d","parentId":null,"customType":"c","data":[` + strings.Repeat(`"session_info",`, 50000) + `0]}` + "\n"
	for _, tt := range []struct{ text, want string }{
		{header3, ""},
		{header3 + "\n" + info(`"one"`), "one"},
		{header3 + "\n" + info(`"one"`) + info(`"two"`), "two"},
		{header3 + "\n" + info(`"one"`) + info(`""`), ""},
		{header3 + "\n" + info(`"one"`) + info(`7`), "one"},
		{header3 + "\n" + info(`"one"`) + decoy + pad + decoy, "one"},
		{header3 + "\n" + info(`"one"`) + strings.TrimSuffix(info(`"torn"`), "\"}\n"), "one"},
		{header3 + "\n" + info(`"one"`) + strings.TrimSuffix(info(`"kept"`), "\n"), "kept"},
	} {
		got, err := readName(t.Context(), strings.NewReader(tt.text), int64(len(tt.text)))
		if err != nil || got != tt.want {
			t.Errorf("name %q instead of %q, %v", got, tt.want, err)
		}
		f, _ := importText(t, tt.text)
		for _, row := range rows(t, f) {
			if strings.HasPrefix(row, "fact.name/ = ") && row != "fact.name/ = '"+tt.want+"'" {
				t.Errorf("the import says %s", row)
			}
		}
	}
	// Across every border of a block.
	for shift := range 60 {
		text := header3 + "\n" + info(`"one"`) + pad[:len(pad)-3] + strings.Repeat("y", shift) + `"}` + "\n"
		if got, err := readName(t.Context(), strings.NewReader(text), int64(len(text))); err != nil || got != "one" {
			t.Fatalf("shifted by %d: %q, %v", shift, got, err)
		}
	}
}
