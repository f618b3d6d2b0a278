package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pistore"
	"pistore/ledger"
)

// importer turns the lines of one file into the rows of a session. It reads the
// file once from start to end; what records say of each other is resolved after
// that, since a record may stand before the one that it names.
type importer struct {
	ctx   context.Context
	src   io.ReaderAt
	size  int64
	limit int // of a line that is held

	faults    collector
	torn      int64
	hasHeader bool
	header    header
	headerAt  line
	version   int // 0: not decided yet

	records []record
	types   map[string]int64
	byID    map[string]int32 // the first record of an id
	// alias holds ids that were made up for second uses, and uses how many an id
	// has had.
	alias map[string]bool
	uses  map[string]int
	// unresolved are the parents that stood nowhere before their child.
	unresolved []reference
	last       int32 // the last record of the file, -1: none
	sum        ledger.Sum
	summed     bool // a record had usage
	// Of the record at hand: what it used, and what its message has in place of
	// a timestamp, in words.
	spent   pistore.JSON
	untimed string
	broken  error // of reading an earlier line again

	blank, crlf lineCount

	tree
	targets  map[int32]int32        // of context edits
	elements map[int32]pistore.JSON // what records give to a retained tail
	budget   int64                  // left for what compactions retain
}

// reference is a parent by its id.
type reference struct {
	record int32
	id     string // empty: the record names none
}

// lineCount counts lines of one harmless oddity, which is reported once.
type lineCount struct{ n, line, offset int64 }

func (c *lineCount) add(l line) {
	if c.n++; c.n == 1 {
		c.line, c.offset = l.number, l.offset
	}
}

func newImporter(ctx context.Context, src io.ReaderAt, size int64) *importer {
	return &importer{
		ctx: ctx, src: src, size: size, limit: maxLineBytes, last: -1,
		types: map[string]int64{}, byID: map[string]int32{}, alias: map[string]bool{}, uses: map[string]int{},
		targets: map[int32]int32{}, elements: map[int32]pistore.JSON{}, budget: tailFactor*size + tailBase, header: header{time: -1},
	}
}

// scan reads every line.
func (im *importer) scan() error {
	lines := newLineReader(im.src, im.size)
	lines.limit = im.limit
	for {
		l, ok, err := lines.next()
		if err != nil || !ok {
			return err
		}
		if l.number%1024 == 1 && im.ctx.Err() != nil {
			return im.ctx.Err()
		}
		if l.number == 1 && bytes.HasPrefix(l.text, []byte(bom)) {
			im.warn(kindBOM, l, "a byte order mark stands in front of the header")
			l.text, l.offset, l.length = l.text[len(bom):], l.offset+int64(len(bom)), l.length-int64(len(bom))
		}
		switch {
		case l.long != nil:
			if err := im.longLine(l); err != nil {
				return err
			}
		case !l.ended:
			im.tail(l)
		case isBlank(l.text):
			im.blank.add(l)
		default:
			if l.text[len(l.text)-1] == '\r' {
				im.crlf.add(l)
			}
			im.line(l)
			if im.broken != nil {
				return im.broken
			}
		}
	}
}

// longLine judges a line that is too long to be held.
func (im *importer) longLine(l line) error {
	switch o := l.long; {
	case !l.ended && o.solid <= int64(im.limit):
		// What is too long is the NULs at its end.
		l.text = make([]byte, o.solid)
		if err := readFull(im.src, l.text, l.offset); err != nil {
			return err
		}
		im.tail(l)
	case o.lead == 0:
		im.nulLine(l)
	case !l.ended && !o.object():
		im.tornTail(l)
	default:
		im.tooLarge(l, &pistore.LimitError{Limit: "line bytes", Got: l.length, Max: int64(im.limit)})
	}
	return nil
}

func (im *importer) nulLine(l line) {
	im.fail(kindNUL, l, "NUL bytes where a record should start: content never reached the disk")
}

func (im *importer) tornTail(l line) {
	im.torn = l.length
	im.warn(kindTorn, l, fmt.Sprintf("torn tail: %d bytes behind the last newline are no whole record and are set aside", l.length))
}

// counted adds the oddities that were counted.
func (im *importer) counted() {
	for _, c := range []struct {
		lineCount
		kind, what string
	}{
		{im.blank, kindBlank, "blank lines"},
		{im.crlf, kindCRLF, "lines that end in CRLF"},
	} {
		if c.n > 0 {
			im.faults.add(Fault{
				Severity: Warning, Kind: c.kind, Line: c.line, Offset: c.offset, record: -1,
				Message: fmt.Sprintf("%s, %d in the file, this being the first", c.what, c.n),
			})
		}
	}
}

// tail reads what stands behind the last newline. A whole object is a record;
// anything else was torn off while it was written, and NULs are what a file
// system leaves of it after a power loss.
func (im *importer) tail(l line) {
	text := bytes.TrimRight(l.text, "\x00")
	nuls := l.length - int64(len(text))
	if len(text) > 0 && text[0] == 0 && isObject(bytes.TrimLeft(text, "\x00")) {
		im.line(l) // a writer went on behind the NULs
		return
	}
	if isObject(text) {
		im.torn = nuls
		if nuls > 0 {
			im.warn(kindTorn, l, fmt.Sprintf("%d NUL bytes stand behind the last record", nuls))
		} else {
			im.warn(kindNoNewline, l, "the last line has no newline; it is whole, and kept")
		}
		l.text = text
		im.line(l)
		return
	}
	switch {
	case isBlank(text) && nuls == 0:
		im.blank.add(l)
		return
	case welded(text):
		// Of several records more than the last one is at stake.
		l.text = text
		im.line(l)
		return
	}
	im.tornTail(l)
}

func isObject(text []byte) bool {
	object, _, err := readObject(text)
	return err == nil && object.IsObject()
}

// readObject reads a line as JSON and says whether it had to be mended.
func readObject(text []byte) (object pistore.JSON, mended bool, err error) {
	if mended = !utf8.Valid(text); mended {
		text = mendUTF8(text)
	}
	object, err = pistore.CompactJSON(string(text))
	return object, mended, err
}

// line reads one line that is not blank.
func (im *importer) line(l line) {
	text, mended, err := readObject(l.text)
	var limit *pistore.LimitError
	var syntax *pistore.SyntaxError
	switch {
	case errors.As(err, &limit):
		im.tooLarge(l, limit)
	case errors.As(err, &syntax):
		im.malformed(l, syntax)
	case !text.IsObject():
		im.fail(kindNotObject, l, "the line is "+kindOf(string(text))+", not an object")
	default:
		if mended {
			im.warn(kindUTF8, l, "invalid UTF-8, mended with U+FFFD")
		}
		im.entry(l, parseRecord(text))
	}
}

// malformed reports a line that is no JSON.
func (im *importer) malformed(l line, at *pistore.SyntaxError) {
	if l.text[0] == 0 {
		im.nulLine(l)
		return
	}
	f := Fault{Severity: Error, Line: l.number, Offset: l.offset + min(at.Offset, int64(len(l.text))), record: -1}
	switch {
	case bytes.Contains(l.text, []byte("}\r{")):
		f.Kind = kindWelded
		f.Message = "several records in one line, with a CR between them: only LF ends a line"
	case welded(l.text):
		f.Kind = kindWelded
		f.Message = "several records in one line: a write was cut short, and others followed without a newline"
	default:
		f.Kind = kindNotObject
		f.Message = fmt.Sprintf("not a JSON object: %s", at.Problem)
	}
	im.faults.add(f)
}

// leftOut says what becomes of what exceeds a limit.
const leftOut = "; it is left out, and a repair writes the rest"

func (im *importer) tooLarge(l line, limit *pistore.LimitError) {
	im.faults.add(Fault{
		Severity: Error, Kind: kindTooLarge, Line: l.number, Offset: l.offset, record: -1,
		Message: "the line cannot be kept: " + limit.Error() + leftOut, cause: limit,
	})
}

// entry places one object of the file.
func (im *importer) entry(l line, p parsed) {
	switch {
	case p.hasType && p.typ == typeSession:
		im.headerLine(l, p)
	case !p.hasType:
		im.fail(kindNotObject, l, "an object without a type is no record")
	default:
		if !im.hasHeader && len(im.records) == 0 {
			im.fail(kindNoHeader, l, "a record where the header should stand")
		}
		im.record(l, p)
	}
}

// headerLine takes the first header of a file; any other is a fault.
func (im *importer) headerLine(l line, p parsed) {
	if im.hasHeader {
		im.fail(kindSecondHeader, l, "a second header inside the file; it is not counted")
		return
	}
	im.hasHeader = true
	im.header = readHeaderRecord(p)
	im.headerAt = line{number: l.number, offset: l.offset}
	for _, problem := range im.header.warnings {
		im.warn(kindHeaderField, l, problem)
	}
	if im.header.idProblem != "" {
		im.fail(kindBadHeader, l, im.header.idProblem)
	}
}

// decideVersion settles how records are read, at the first of them.
func (im *importer) decideVersion(hasID bool) {
	if !im.hasHeader {
		im.version = headless(hasID)
		return
	}
	odd := false
	im.version, odd = readVersion(im.header.version, hasID)
	if odd {
		im.warn(kindOddVersion, im.headerAt, fmt.Sprintf("the header's version is %s; the records are read as version %d", shownVersion(im.header.version), im.version))
	}
}

func shownVersion(v string) string {
	switch {
	case v == "":
		return "absent, which means records without ids"
	case isNumber(v) && len(v) <= 20, v == "null":
		return v
	default:
		return show(v)
	}
}

// record adds one record.
func (im *importer) record(l line, p parsed) {
	if im.version == 0 {
		im.decideVersion(p.hasID)
	}
	index := int32(len(im.records))
	r := record{line: l.number, offset: l.offset, length: int32(len(l.text)), time: p.time, parent: -1, typ: p.typ}
	if im.version == 1 {
		r.legacy = "#" + strconv.Itoa(int(index))
		r.parent = index - 1
	} else if !im.identify(l, p, &r, index) {
		return
	}
	if err := im.content(&r, p); err != nil {
		// The line costs itself; who names it finds it missing.
		im.faults.add(Fault{
			Severity: Error, Kind: kindTooLarge, Line: l.number, Offset: l.offset, LegacyID: r.legacy, record: -1,
			Message: "the record cannot be kept: " + err.Error() + leftOut, cause: err,
		})
		return
	}
	if _, known := im.types[p.typName]; !known {
		p.typName = strings.Clone(p.typName) // not the whole line with it
	}
	im.types[p.typName]++
	im.last = index
	if im.version != 1 {
		r.parent = im.link(p, r.legacy, index)
	}
	im.reserve(l)
	im.records = append(im.records, r)
	im.note(&im.records[index], index, p)
}

// reserve makes room for as many records as the file seems to have, judged by
// what it had up to a line, but at most four times as many as there are.
func (im *importer) reserve(l line) {
	n := len(im.records)
	if n < 1024 || n < cap(im.records) {
		return
	}
	seems := min(int64(n)*im.size/max(l.offset, 1), int64(4*n))
	im.records = slices.Grow(im.records, max(int(seems)-n, n/4))
}

// identify gives a record its id. It returns false for a line that is there
// already, byte for byte.
func (im *importer) identify(l line, p parsed, r *record, index int32) bool {
	if !p.hasID {
		r.legacy = im.unique("#" + strconv.Itoa(int(index)))
		return true
	}
	first, used := im.byID[p.id]
	switch {
	case !used && !im.alias[p.id]:
		r.legacy = strings.Clone(p.id)
	case !used:
		r.legacy = im.unique(p.id)
	case im.sameLine(first, l.text):
		im.warnAt(kindRepeated, l, first, fmt.Sprintf("the line repeats line %d byte for byte; it is not counted", im.records[first].line))
		im.last = first
		return false
	default:
		r.legacy = im.unique(p.id)
	}
	return true
}

// unique returns an id that no record has: the given one, else with #2, #3 and
// so on behind it.
func (im *importer) unique(id string) string {
	name := strings.Clone(id)
	for {
		if _, used := im.byID[name]; !used && !im.alias[name] {
			im.alias[name] = true
			return name
		}
		im.uses[id]++
		name = id + "#" + strconv.Itoa(im.uses[id]+1)
	}
}

// sameLine reports whether a record came from a line of exactly this text.
func (im *importer) sameLine(index int32, text []byte) bool {
	r := &im.records[index]
	if int(r.length) != len(text) {
		return false
	}
	earlier := make([]byte, len(text))
	if err := readFull(im.src, earlier, r.offset); err != nil {
		im.broken = err
	}
	return bytes.Equal(earlier, text)
}

// link notes a record's id and returns its parent, or -1 for none, or for one
// that is to be resolved when all records are there.
func (im *importer) link(p parsed, legacy string, index int32) int32 {
	parent := int32(-1)
	if known, ok := im.byID[p.parent]; p.parentOK && ok {
		parent = known
	} else if !p.isRoot {
		ref := reference{record: index}
		if p.parentOK {
			ref.id = strings.Clone(p.parent)
		}
		im.unresolved = append(im.unresolved, ref)
	}
	if _, used := im.byID[p.id]; p.hasID && !used {
		key := legacy
		if key != p.id {
			key = strings.Clone(p.id)
		}
		im.byID[key] = index
	}
	return parent
}

// note reports what is odd about a record by itself.
func (im *importer) note(r *record, index int32, p parsed) {
	l := line{number: r.line, offset: r.offset}
	if im.version != 1 && !p.hasID {
		im.failAt(kindNoID, 0, l, index, "a record without an id")
	}
	if first, used := im.byID[p.id]; im.version != 1 && p.hasID && used && first != index {
		im.failAt(kindDuplicate, 1, l, index, fmt.Sprintf("the id %s is that of line %d already, with other content", show(p.id), im.records[first].line))
	}
	if r.time < 0 {
		im.warnAt(kindTimestamp, l, index, "a timestamp that cannot be read; the nearest earlier one is used")
	}
	if im.untimed != "" {
		im.warnAt(kindTimestamp, l, index, "the timestamp inside the message is "+im.untimed+" instead of Unix milliseconds; that of the record stands for it")
	}
	im.addUsage(index, im.spent)
	if p.typ == typeUnknown {
		im.warnAt(kindUnknownType, l, index, fmt.Sprintf("the type %s is not known; the record is kept as a custom entry", show(p.typName)))
	}
}

func (im *importer) warn(kind string, l line, message string) { im.warnAt(kind, l, -1, message) }

func (im *importer) warnAt(kind string, l line, record int32, message string) {
	im.faults.add(Fault{Severity: Warning, Kind: kind, Line: l.number, Offset: l.offset, Message: message, record: record})
}

func (im *importer) fail(kind string, l line, message string) { im.failAt(kind, 0, l, -1, message) }

func (im *importer) failAt(kind string, invariant int, l line, record int32, message string) {
	im.faults.add(Fault{
		Severity: Error, Kind: kind, Invariant: invariant, Line: l.number, Offset: l.offset, Message: message, record: record,
	})
}

// at returns the place of a record.
func (im *importer) at(index int32) line {
	r := &im.records[index]
	return line{number: r.line, offset: r.offset}
}
