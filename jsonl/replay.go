package jsonl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"

	"pistore"
	"pistore/internal/admit"
	"pistore/internal/inorder"
	"pistore/memstore"
)

// replay reads a file of format 4 into a state.
type replay struct {
	ctx  context.Context
	src  io.ReaderAt
	size int64
	// keepGoing passes over a line that does not fit; else reading ends there.
	keepGoing bool
	// prefix ends reading at the first line behind the header that does not fit,
	// without giving up what stands before it.
	prefix  bool
	stopped bool
	omitted int64 // bytes behind that line

	headed bool // the line of the header was read
	head   header4
	// substitute says that the header is not the one of the file.
	substitute bool
	state      *memstore.State
	places     *[]place // where payloads are left on disk; nil: they are not
	other      *foreign // nil: the file has sums
	faults     collector
	blank      lineCount
	crlf       lineCount

	extras       map[pistore.Seq]string // of ledger rows and registers, see [write4.extras]
	last         pistore.Seq
	torn         int64
	transactions int64
	rowBytes     int64 // of the lines of entries and usage rows

	at  line    // the line at hand
	dec decoder // of lines that are read one by one
}

// place is where the payload members of an entry stand in the file.
type place struct {
	seq pistore.Seq
	span
}

// minSpot is the size of a payload from which on it pays to leave it on disk.
const minSpot = 64

// run reads the file. Errors are those of reading; what is wrong with the file is
// among the faults. The state is nil if there is no header to be read.
func (r *replay) run() error {
	if err := r.readLines(); err != nil && err != errStopped {
		return err
	}
	r.finish()
	return nil
}

// finish judges what the whole of the file shows.
func (r *replay) finish() {
	if r.size == 0 || r.state == nil && r.faults.nErrors == 0 {
		r.fail(kindNoHeader, 0, "there is no header")
	}
	if r.substitute && r.transactions == 0 {
		r.state = nil // a header that cannot be read, and nothing else
	}
	if short := r.head.snapshotRows - r.transactions; short > 0 && r.state != nil && r.faults.nErrors == 0 {
		r.fail(kindCut, 0, fmt.Sprintf("the file ends here, and %d of the %d rows of its snapshot are missing", short, r.head.snapshotRows))
	}
	if r.other != nil && r.state != nil {
		r.other.finish(r)
	}
	if r.state != nil {
		r.state.RaiseNextSeq(r.head.nextSeq)
	}
	r.counted()
}

// readLines reads the lines of the file, blocks of them at once where the lines
// have sums. It ends in errStopped if a fault stopped it.
func (r *replay) readLines() error {
	lines := newLineReader(r.src, r.size)
	lines.limit = maxLine4Bytes
	blocks := inorder.New((*block).decode, r.takeBlock)
	defer blocks.Close()
	for {
		if r.state != nil && r.other == nil {
			if err := r.sendBlocks(lines, blocks); err != nil {
				return err
			}
		}
		l, ok, err := lines.next()
		if err != nil || !ok {
			return err
		}
		if l.number%1024 == 1 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if err := r.line(l); err != nil {
			return err
		}
		if r.stopped {
			return errStopped
		}
	}
}

// sendBlocks passes on the lines that come in whole blocks, until all of them are
// taken. What follows is a line that is longer, or the end.
func (r *replay) sendBlocks(lines *lineReader, blocks *inorder.Queue[block]) error {
	for {
		b, err := blocks.Next()
		if err != nil {
			return err
		}
		b.leave = r.places != nil
		ok, err := lines.block(b)
		if ok {
			blocks.Send()
			err = r.ctx.Err()
		}
		if !ok || err != nil {
			return cmp.Or(blocks.Drain(), err)
		}
	}
}

// takeBlock takes the lines of a block.
func (r *replay) takeBlock(b *block) error {
	for i := range b.lines {
		l := &b.lines[i]
		if r.at = l.at; l.read {
			r.take(&l.dec, l.err)
		} else {
			r.ended(l.at)
		}
		if r.stopped {
			return errStopped
		}
	}
	return nil
}

// line reads one line. An error is that of a header of no such file.
func (r *replay) line(l line) error {
	r.at = l
	if l.number == 1 && bytes.HasPrefix(l.text, []byte(bom)) {
		r.warn(kindBOM, "a byte order mark stands in front of the header")
		l.text, l.offset, l.length = l.text[len(bom):], l.offset+int64(len(bom)), l.length-int64(len(bom))
	}
	switch whole := l.ended && l.long == nil; {
	case !r.headed && whole && isBlank(l.text):
		r.blank.add(l)
	case !r.headed && whole && l.text[0] == 0:
		r.nulLine(l)
	case !r.headed:
		r.headed = true
		return r.header(l)
	case l.long != nil && l.ended:
		r.fail(kindTooLarge, 0, "the line is too long to be held: "+strconv.FormatInt(l.length, 10)+" bytes"+leftOut)
	case !l.ended:
		r.tail(l)
	default:
		r.ended(l)
	}
	return nil
}

// header reads the first line that says something. With keepGoing a damaged one
// is replaced.
func (r *replay) header(l line) error {
	text := bytes.TrimSuffix(l.text, []byte("\r"))
	if len(text) > 0 && l.text[len(l.text)-1] == '\r' {
		r.crlf.add(l)
	}
	h, err := readHeader4(text)
	if err == nil && !l.ended {
		err = fmt.Errorf("%w: the header was torn off in front of its newline", pistore.ErrCorrupt)
	}
	switch {
	case err == nil:
	case !errors.Is(err, pistore.ErrCorrupt):
		return err
	default:
		r.fail(kindBadHeader, 0, describe(err))
		if !r.keepGoing {
			return nil
		}
		if h.info.ID == "" || h.info.Check() != nil {
			h.info = pistore.Info{Format: string(V4), StorageVersion: pistore.StorageVersion}
			if h.info.ID, err = substituteID(r.src, r.size); err != nil {
				return err
			}
		}
		_, h.summed, _ = checkSum(text)
		r.substitute = true
	}
	r.head = h
	r.state = memstore.NewState(h.info)
	if !h.summed {
		r.other, r.places = newForeign(), nil
		r.dec.foreign = r.noteType
	}
	return nil
}

// describe returns what a wrapped ErrCorrupt says.
func describe(err error) string {
	const start = "corrupt: "
	s := err.Error()
	if len(s) > len(start) && s[:len(start)] == start {
		return s[len(start):]
	}
	return s
}

// ended reads a line that its writer ended.
func (r *replay) ended(l line) {
	text := l.text
	if n := len(text); n > 0 && text[n-1] == '\r' {
		r.crlf.add(l)
		text = text[:n-1]
	}
	if isBlank(text) {
		r.blank.add(l)
		return
	}
	if r.other != nil {
		r.unsummed(text)
		return
	}
	comma, ok, holds := checkSum(text)
	switch {
	case holds:
		r.transaction(withoutSum(text, comma))
	case l.offset+l.length+1 == r.size && unwritten(l):
		// The newest line, with a sector that never reached the disk: it cannot
		// have been acknowledged as power-safe.
		r.torn = l.length + 1
		r.warn(kindTorn, fmt.Sprintf("torn tail: %d bytes of the last line with sectors that were never written; they are set aside", r.torn))
	case text[0] == 0:
		r.nulLine(l)
	case !ok:
		r.fail(kindSum, 0, "the line does not end in its sum"+r.behind(l))
	default:
		r.fail(kindSum, 0, "the sum of the line does not hold"+r.behind(l))
	}
}

func (r *replay) nulLine(l line) {
	r.fail(kindNUL, 0, "NUL bytes where a line should start: content never reached the disk"+r.behind(l))
}

// behind says that damage is not at the end of the file.
func (r *replay) behind(l line) string {
	if n := r.size - l.offset - l.length - 1; n > 0 {
		return fmt.Sprintf("; %d bytes of later data follow", n)
	}
	return ""
}

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// unwritten reports whether all that a line has of some sector of the file is
// NUL. No line has a NUL by itself.
func unwritten(l line) bool {
	for at := int64(0); at < l.length; {
		end := min(l.length, at+sectorBytes-(l.offset+at)%sectorBytes)
		if len(bytes.Trim(l.text[at:end], "\x00")) == 0 {
			return true
		}
		at = end
	}
	return false
}

// tail judges what stands behind the last newline. It was never acknowledged,
// with one exception: a whole line whose newline became something else.
func (r *replay) tail(l line) {
	r.torn = l.length
	if len(l.text) > 0 && r.other == nil && (l.text[0] == '{' || l.text[0] == '[') {
		end := containerEnd(l.text)
		rest := l.text[end:]
		if _, _, holds := checkSum(l.text[:end]); holds && len(rest) > 0 && rest[0] != 0 && string(rest) != "\r" {
			r.torn = 0
			r.faults.add(Fault{
				Severity: Error, Kind: kindWelded, Line: l.number, Offset: l.offset + int64(end), record: -1,
				Message: fmt.Sprintf("a whole line is followed by %q instead of a newline", rest[:1]),
			})
			r.stopped = !r.keepGoing
			return // what stands behind the line is lost, and so is the line
		}
	}
	r.warn(kindTorn, fmt.Sprintf("torn tail: %d bytes behind the last newline were never acknowledged and are set aside", l.length))
}

// unsummed reads a line of a file without sums, which is checked as JSON.
func (r *replay) unsummed(text []byte) {
	compact, err := pistore.CompactJSONBytes(text)
	var syntax *pistore.SyntaxError
	switch {
	case errors.As(err, &syntax):
		r.at.offset += min(syntax.Offset, int64(len(text)))
		kind := kindNotObject
		if text[0] == 0 {
			kind = kindNUL
		}
		r.fail(kind, 0, "not JSON: "+syntax.Problem)
	case err != nil:
		r.fail(kindTooLarge, 0, "the line cannot be kept: "+err.Error()+leftOut)
	case compact == "[]":
		r.transactions++
	default:
		r.transaction([]byte(compact))
	}
}

// transaction reads and takes one line.
func (r *replay) transaction(text []byte) {
	r.dec.offset, r.dec.direct = r.at.offset, r.places != nil
	r.take(&r.dec, r.dec.parse(text))
}

// take takes the transaction that was read of the line at hand, or what was wrong
// with it.
func (r *replay) take(d *decoder, err error) {
	if err != nil {
		r.fail(kindShape, 0, err.Error()+r.behind(r.at))
		return
	}
	if kind, invariant, err := r.admit(d); err != nil {
		r.fail(kind, invariant, err.Error()+r.behind(r.at))
		return
	}
	r.transactions++
	r.rowBytes += d.rows
	if len(d.extra) > 0 && r.extras == nil {
		r.extras = map[pistore.Seq]string{}
	}
	maps.Copy(r.extras, d.extra)
	if len(d.seqs) > 0 {
		r.last = d.seqs[len(d.seqs)-1]
	}
	if r.other != nil {
		r.other.add(r)
		return
	}
	if r.places != nil {
		*r.places = append(*r.places, d.spots...)
	}
	r.apply(d)
}

// apply puts a transaction into the state, in runs of one timestamp: rows of
// a transaction share it, but nothing in the file says so.
func (r *replay) apply(d *decoder) {
	for from := 0; from < len(d.writes); {
		to, at := from, pistore.UnixMS(-1)
		for ; to < len(d.writes); to++ {
			if t := d.times[to]; t >= 0 && at >= 0 && t != at {
				break
			} else if t >= 0 {
				at = t
			}
		}
		r.state.Apply(pistore.Transaction{
			FirstSeq: d.seqs[from], Seqs: d.seqs[from:to], Timestamp: max(at, 0), Writes: d.writes[from:to],
		})
		from = to
	}
}

// admit checks a transaction against what was read before it.
func (r *replay) admit(d *decoder) (kind string, invariant int, err error) {
	last, inserts := r.last, 0
	for i, seq := range d.seqs {
		if seq <= last {
			return kindSeq, 2, fmt.Errorf("seq %d after %d", seq, last)
		}
		last = seq
		switch d.writes[i].(type) {
		case pistore.InsertEntry, pistore.InsertUsage:
			inserts++
		}
	}
	if inserts == 0 {
		return "", 0, nil
	}
	var known admit.State = r.state
	if r.other != nil {
		known = r.other
	}
	err = admit.Check(pistore.Tx{Writes: d.writes}, known)
	switch {
	case errors.Is(err, pistore.ErrDuplicateID):
		return kindDuplicate, 1, err
	case errors.Is(err, pistore.ErrMissingParent):
		return kindMissingParent, 6, err
	}
	return kindShape, 0, err
}

// counted reports the oddities that were counted.
func (r *replay) counted() {
	for _, c := range []struct {
		lineCount
		kind, what string
	}{{r.blank, kindBlank, "blank lines"}, {r.crlf, kindCRLF, "lines that end in CRLF"}} {
		if c.n > 0 {
			r.faults.add(Fault{
				Severity: Warning, Kind: c.kind, Line: c.line, Offset: c.offset, record: -1,
				Message: fmt.Sprintf("%s, %d in the file, this being the first", c.what, c.n),
			})
		}
	}
}

func (r *replay) warn(kind, message string) {
	r.faults.add(Fault{Severity: Warning, Kind: kind, Line: r.at.number, Offset: r.at.offset, Message: message, record: -1})
}

func (r *replay) fail(kind string, invariant int, message string) {
	r.faults.add(Fault{
		Severity: Error, Kind: kind, Invariant: invariant, Line: max(r.at.number, 1), Offset: r.at.offset, Message: message, record: -1,
	})
	if r.stopped = !r.keepGoing || r.prefix && r.headed && r.state != nil; r.stopped {
		r.omitted = max(0, r.size-r.at.offset-r.at.length-1)
	}
}

// report sums up what was found.
func (r *replay) report() Report {
	rep := Report{Format: V4, Version: 4, Bytes: r.size, TornBytes: r.torn, Transactions: r.transactions, Summed: r.other == nil}
	if r.other != nil && r.other.values {
		rep.Format, rep.LeftOut = V4Values, r.other.leftOut
	}
	r.faults.into(&rep)
	return rep
}

// file returns what was read, nil if there is nothing to show.
func (r *replay) file() (*File, Report) {
	report := r.report()
	if r.state == nil {
		return nil, report
	}
	if r.other == nil {
		report.DeadBytes = max(0, r.size-r.torn-liveBytes(r.state, r.rowBytes))
	}
	f := &File{state: r.state, report: report, extra: r.head.extra, rowExtras: r.extras, unsummed: r.other != nil}
	f.info.Store(&r.head.info)
	return f, report
}
