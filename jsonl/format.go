package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"pistore"
	"pistore/disk"
)

const backend = "jsonl"

// Format is the format of a session file.
type Format string

// The formats.
const (
	Pi1 Format = "jsonl-1" // a linear list without ids
	Pi2 Format = "jsonl-2" // a tree of ids
	Pi3 Format = "jsonl-3" // with the role hookMessage renamed to custom
	V4  Format = "jsonl-4" // transactions
	// V4Values is a format 4 of other writers, with values and lists in place of
	// registers. It is told by what follows the header: see [Report].
	V4Values Format = "jsonl-4-values"
)

// window is how much of a file is looked at to find its format, from its first
// text on. A header, or a record that gives the format away, starts within it.
const (
	window    = 1 << 20
	headChunk = 16 << 10 // what is read at first
)

func formatOf(version int) Format {
	switch version {
	case 1:
		return Pi1
	case 2:
		return Pi2
	default:
		return Pi3
	}
}

// lookInto calls look with a file that is open for reading, and again where the
// file became shorter meanwhile: a writer may have cut a torn tail off. Anything
// but a regular file is ErrForeignFormat.
func lookInto(fs disk.FS, path string, look func(src io.ReaderAt, size int64) error) error {
	for attempt := 1; ; attempt++ {
		f, st, err := openAs(fs, path, disk.Read)
		if err != nil {
			return err
		}
		err = look(f, st.Size)
		f.Close() // read only: nothing can be lost
		if err == nil {
			return nil
		}
		if !errors.Is(err, errShrunk) || attempt == maxAttempts {
			return fmt.Errorf("jsonl: %q: %w", path, err)
		}
	}
}

// openAs opens a regular file. The first look keeps devices from being opened at
// all, the second holds for what was opened.
func openAs(fs disk.FS, path string, how disk.Access) (f disk.File, st disk.Info, err error) {
	st, err = fs.Stat(path)
	if err == nil {
		err = regular(path, st.Mode)
	}
	if err != nil {
		return nil, st, wrapOpen(path, err)
	}
	f, err = fs.Open(path, how)
	if err != nil {
		return nil, st, wrapOpen(path, err)
	}
	if st, err = f.Stat(); err == nil {
		err = regular(path, st.Mode)
	}
	if err != nil {
		f.Close() // the error that counts is the one before
		return nil, st, wrapOpen(path, err)
	}
	return f, st, nil
}

func wrapOpen(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("jsonl: %w: there is no file %q", pistore.ErrNotFound, path)
	}
	return fmt.Errorf("jsonl: open: %w", err)
}

func regular(path string, mode os.FileMode) error {
	what := ""
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a directory"
	case mode&os.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&os.ModeSocket != 0:
		what = "a socket"
	default:
		what = "a device"
	}
	return fmt.Errorf("%w: %q is %s, not a session file", pistore.ErrForeignFormat, path, what)
}

// fileKind is what the head of a file shows it to be.
type fileKind int

const (
	fileForeign fileKind = iota
	fileEmpty
	fileBlank
	fileNUL
	fileUTF16
	fileUTF32
	fileSQLite
	fileV4
	filePi         // a header of formats 1 to 3 comes first
	filePiHeadless // a record of formats 1 to 3 comes first
)

// head is what the first lines of a file show.
type head struct {
	what   fileKind
	v      string       // of a v4 header, as written
	header pistore.JSON // of filePi and fileV4, not validated: it may be torn
	hasIDs bool         // the first record has an id
	start  int64        // of what is neither white space nor NUL
}

// readHead finds the first line that gives a format away. Blank and damaged
// lines are passed over.
func readHead(ctx context.Context, src io.ReaderAt, size int64) (head, error) {
	first := make([]byte, min(size, 16))
	if err := readFull(src, first, 0); err != nil {
		return head{}, err
	} else if what := signature(first); what != fileForeign {
		return head{what: what}, nil
	}
	start, nuls, err := firstText(ctx, src, size)
	h := head{what: fileForeign, start: start}
	switch {
	case err != nil:
		return head{}, err
	case size == 0:
		h.what = fileEmpty
	case start == size && nuls:
		h.what = fileNUL
	case start == size:
		h.what = fileBlank
	default:
		err = h.read(src, size)
	}
	return h, err
}

// read looks at the lines of a window, and at one window more if a line that
// may tell goes on behind the first: it is then read whole.
func (h *head) read(src io.ReaderAt, size int64) error {
	at := h.start
	for range 2 {
		end := min(size, at+window)
		lines := &lineReader{src: io.NewSectionReader(src, at, end-at), size: end - at, limit: maxLineBytes, buf: make([]byte, min(end-at, headChunk))}
		next := end
		for {
			l, ok, err := lines.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if from := at + l.offset; !l.ended && end < size && startsObject(l.text) {
				most := min(size-from, maxLineBytes)
				if l, _, err = newLineReader(io.NewSectionReader(src, from, most), most).next(); err != nil {
					return err
				}
				next = from + l.length + 1
			}
			if h.line(l.text) {
				return nil
			}
		}
		if next <= end {
			return nil
		}
		at = min(next, size)
	}
	return nil
}

// line takes one line in, and reports whether the format is settled.
func (h *head) line(text []byte) bool {
	found := classify(text)
	switch {
	case found.what == fileForeign:
		return false
	case h.what == filePi:
		// The line behind the header says whether records have ids.
		h.hasIDs = found.what == filePiHeadless && found.hasIDs
		return true
	}
	found.start = h.start
	*h = found
	return found.what != filePi
}

// firstText returns where the first byte stands that is neither NUL nor white
// space, and whether there are NULs in front of it. A mark of the byte order
// counts as white space.
func firstText(ctx context.Context, src io.ReaderAt, size int64) (at int64, nuls bool, err error) {
	buf := make([]byte, min(size, 4<<10))
	for at < size {
		if err := ctx.Err(); err != nil {
			return 0, false, err
		}
		part := buf[:min(int64(len(buf)), size-at)]
		if err := readFull(src, part, at); err != nil {
			return 0, false, err
		}
		text := part
		if at == 0 {
			text = bytes.TrimPrefix(text, []byte(bom))
		}
		rest := bytes.TrimLeft(text, " \t\r\n\x00")
		nuls = nuls || bytes.IndexByte(text[:len(text)-len(rest)], 0) >= 0
		at += int64(len(part) - len(rest))
		switch {
		case len(rest) > 0:
			return at, nuls, nil
		case len(buf) < readChunk:
			buf = make([]byte, readChunk)
		}
	}
	return size, nuls, nil
}

const bom = "\xef\xbb\xbf"

// signature tells a file by its first bytes.
func signature(text []byte) fileKind {
	for _, s := range []struct {
		start string
		what  fileKind
	}{
		{"SQLite format 3\x00", fileSQLite},
		// By the mark, or by the NULs that ASCII has there. The mark of UTF-32
		// starts with that of UTF-16.
		{"\xff\xfe\x00\x00", fileUTF32}, {"\x00\x00\xfe\xff", fileUTF32}, {"{\x00\x00\x00", fileUTF32}, {"\x00\x00\x00{", fileUTF32},
		{"\xff\xfe", fileUTF16}, {"\xfe\xff", fileUTF16}, {"{\x00\"\x00", fileUTF16}, {"\x00{\x00\"", fileUTF16},
	} {
		if bytes.HasPrefix(text, []byte(s.start)) {
			return s.what
		}
	}
	return fileForeign
}

func startsObject(l []byte) bool { return bytes.HasPrefix(trimLead(l), []byte("{")) }

// trimLead cuts off what may stand in front of a record.
func trimLead(l []byte) []byte { return bytes.TrimLeft(l, " \t\r\x00") }

// classify judges one line, which may be torn or cut.
func classify(l []byte) head {
	l = trimLead(l)
	if len(l) < 2 || l[0] != '{' {
		return head{}
	}
	text, err := pistore.CompactJSONBytes(l)
	if err != nil {
		// A torn or welded line is looked at as far as its members go.
		text = pistore.JSON(strings.ToValidUTF8(string(l), "\ufffd"))
	}
	var f struct{ kind, v, typ, id, message, seq pistore.JSON }
	hasParent := false
	for name, value := range text.Members() {
		switch name {
		case "kind":
			f.kind = value
		case "v":
			f.v = value
		case "seq":
			f.seq = value
		case "type":
			f.typ = value
		case "id":
			f.id = value
		case "parentId":
			hasParent = true
		case "message":
			f.message = value
		}
	}
	typ, _ := f.typ.Text()
	_, hasID := f.id.Text()
	_, hasRole := f.message.Member("role")
	switch {
	case f.v != "" && (f.kind == `"header"` || err != nil && f.typ == "" && f.v == "4"):
		return head{what: fileV4, v: string(f.v), header: text}
	case f.seq != "" && isWriteKind(f.kind), hasSum(l):
		return head{what: fileV4} // the header, which is damaged, stood before
	case typ == "session":
		return head{what: filePi, header: text}
	case typ == "message" && hasRole, hasParent && typeOf(typ) != typeUnknown:
		return head{what: filePiHeadless, hasIDs: hasID}
	}
	return head{}
}

// isWriteKind reports whether a write of format 4 is of this kind.
func isWriteKind(kind pistore.JSON) bool {
	switch kind {
	case `"entry"`, `"usage"`, `"register"`, `"value"`, `"list"`:
		return true
	}
	return false
}

// hasSum reports whether a line ends like one of format 4, which no line of
// another format does.
func hasSum(l []byte) bool {
	_, ok, _ := checkSum(bytes.TrimRight(l, "\r"))
	return ok
}

// refusal returns why a file is not read, nil if it is.
func (h head) refusal() error {
	switch h.what {
	case filePi, filePiHeadless:
		return nil
	case fileV4:
		if h.v != "4" && h.v != "" {
			return fmt.Errorf("%w: a session file of format %.20q", pistore.ErrNewerVersion, h.v)
		}
		return nil
	case fileSQLite:
		return fmt.Errorf("%w: a SQLite database, not a session file of JSON lines", pistore.ErrForeignFormat)
	case fileEmpty, fileBlank, fileNUL, fileUTF16, fileUTF32:
		return errNothing
	default:
		return fmt.Errorf("%w: not a session file: none of its first lines is a session header or a record of one", pistore.ErrForeignFormat)
	}
}

// errNothing says that there is nothing to read in what may have been a
// session file.
var errNothing = fmt.Errorf("%w: nothing that can be read", pistore.ErrCorrupt)

// nothing returns the fault of a file that holds nothing to read.
func (h head) nothing() Fault {
	f := Fault{Severity: Error, Kind: kindNoHeader, Line: 1, record: -1}
	switch h.what {
	case fileEmpty:
		f.Message = "the file is empty: a session file starts with a header"
	case fileBlank:
		f.Message = "the file holds white space only: a session file starts with a header"
	case fileNUL:
		f.Kind, f.Message = kindNUL, "the file holds NUL bytes only: its content never reached the disk"
	case fileUTF16:
		f.Kind, f.Message = kindUTF16, "the file is UTF-16 text: a session file is UTF-8"
	case fileUTF32:
		f.Kind, f.Message = kindUTF16, "the file is UTF-32 text: a session file is UTF-8"
	default:
		panic("jsonl: a file with something to read")
	}
	return f
}

// version returns how records are to be read, by the header and the first of
// them. See [readVersion].
func (h head) version() int {
	if h.what == filePiHeadless {
		return headless(h.hasIDs)
	}
	version, _ := h.header.Member("version")
	v, _ := readVersion(string(version), h.hasIDs)
	return v
}

// headless returns how to read the records of a file without header.
func headless(hasIDs bool) int {
	if hasIDs {
		return 3
	}
	return 1
}

// readVersion returns how to read the records of a file whose header has this
// version, as written, and whether that is an odd one. Records are read as what
// they are: where they have ids, these count, whatever the header says.
func readVersion(version string, hasIDs bool) (v int, odd bool) {
	switch version {
	case "3":
		return 3, false
	case "2":
		return 2, false
	case `"2"`:
		return 2, true
	case "", "1":
		if !hasIDs {
			return 1, false
		}
		return 2, true
	case "null", "0", `"1"`:
		if !hasIDs {
			return 1, true
		}
		return 2, true
	default:
		return 3, true
	}
}

// show quotes a text of the file for a message, cut to a length that fits.
func show(s string) string {
	const most = 64
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q…", s[:cut])
}
