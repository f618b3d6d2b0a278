package jsonl

import (
	"fmt"
	"hash/crc32"
	"strconv"

	"pistore"
)

// castagnoli is the polynomial of CRC-32C (RFC 3720, appendix B.4).
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A line ends in its sum: the comma, the name, eight hex digits, the brace, and
// the bracket of an array behind that.
const (
	sumStart  = `,"sum":"`
	sumDigits = 8
	sumBytes  = len(sumStart) + sumDigits + len(`"}`)
)

// encoder builds lines of format 4 in one buffer that it keeps. Where payloads
// came to stand is told by at, by the number of the write.
type encoder struct {
	buf []byte
	at  []span
	// extras are members that rows had in the file before, by their seqs.
	extras map[pistore.Seq]string
}

// span is a part of a buffer, or of a file.
type span struct{ offset, length int64 }

// keepBuffer bounds the buffer that is kept for the next commit.
const keepBuffer = 1 << 20

func (e *encoder) reset() {
	if cap(e.buf) > keepBuffer {
		e.buf = nil
	}
	e.buf, e.at = e.buf[:0], e.at[:0]
}

// transaction appends the line of a transaction, newline included.
func (e *encoder) transaction(t pistore.Transaction) {
	start := len(e.buf)
	array := len(t.Writes) > 1
	if array {
		e.buf = append(e.buf, '[')
	}
	for i, w := range t.Writes {
		if i > 0 {
			e.buf = append(e.buf, '}', ',')
		}
		e.write(w, t.Seqs[i], t.Timestamp)
	}
	e.endLine(start, array)
}

// endLine appends the sum of what stands from start on, the end of the object
// and the newline.
func (e *encoder) endLine(start int, array bool) {
	sum := crc32.Checksum(e.buf[start:], castagnoli)
	e.buf = append(e.buf, sumStart...)
	const hex = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		e.buf = append(e.buf, hex[sum>>shift&15])
	}
	e.buf = append(e.buf, '"', '}')
	if array {
		e.buf = append(e.buf, ']')
	}
	e.buf = append(e.buf, '\n')
}

// write appends the object of one write without its closing brace.
func (e *encoder) write(w pistore.Write, seq pistore.Seq, at pistore.UnixMS) {
	payload := span{}
	b := e.buf
	switch w := w.(type) {
	case pistore.InsertEntry:
		b = appendNumber(append(b, `{"kind":"entry","seq":`...), int64(seq))
		b = appendNumber(append(b, `,"timestamp":`...), int64(at))
		b = appendText(append(b, `,"id":`...), string(w.ID))
		b = append(b, `,"parentId":`...)
		if w.ParentID == "" {
			b = append(b, "null"...)
		} else {
			b = appendText(b, string(w.ParentID))
		}
		b = appendText(append(b, `,"type":`...), string(w.Type))
		if w.CustomType != "" {
			b = appendText(append(b, `,"customType":`...), w.CustomType)
		}
		if len(w.Payload) > len("{}") {
			b = append(b, ',')
			payload = span{int64(len(b)), int64(len(w.Payload) - len("{}"))}
			b = append(b, w.Payload[1:len(w.Payload)-1]...)
		}
	case pistore.InsertUsage:
		b = appendNumber(append(b, `{"kind":"usage","seq":`...), int64(seq))
		b = appendText(append(b, `,"id":`...), string(w.ID))
		if w.EntryID != "" {
			b = appendText(append(b, `,"entryId":`...), string(w.EntryID))
		}
		b = strconv.AppendBool(append(b, `,"adjustment":`...), w.Adjustment)
		b = append(append(b, `,"usage":`...), w.Usage...)
		if w.Details != "" {
			b = append(append(b, `,"details":`...), w.Details...)
		}
	case pistore.SetRegister:
		b = appendNumber(append(b, `{"kind":"register","op":"set","seq":`...), int64(seq))
		b = appendAddress(b, w.Namespace, w.Key)
		b = append(append(b, `,"value":`...), w.Value...)
	case pistore.DeleteRegister:
		b = appendNumber(append(b, `{"kind":"register","op":"delete","seq":`...), int64(seq))
		b = appendAddress(b, w.Namespace, w.Key)
	default:
		panic(fmt.Sprintf("jsonl: write %T", w))
	}
	e.buf, e.at = b, append(e.at, payload)
}

// row appends the line of one row of an export.
func (e *encoder) row(row pistore.Row) {
	start := len(e.buf)
	w, seq, at := writeOf(row)
	e.write(w, seq, at)
	e.buf = append(e.buf, e.extras[seq]...)
	e.endLine(start, false)
}

// writeOf returns the write that makes a row.
func writeOf(row pistore.Row) (w pistore.Write, seq pistore.Seq, at pistore.UnixMS) {
	switch r := row.(type) {
	case pistore.Entry:
		return pistore.InsertEntry{ID: r.ID, ParentID: r.ParentID, Type: r.Type, CustomType: r.CustomType, Payload: r.Payload}, r.Seq, r.Timestamp
	case pistore.UsageRow:
		return pistore.InsertUsage{ID: r.ID, Usage: r.Usage, EntryID: r.EntryID, Adjustment: r.Adjustment, Details: r.Details}, r.Seq, 0
	case pistore.Register:
		return pistore.SetRegister{Namespace: r.Namespace, Key: r.Key, Value: r.Value}, r.Seq, 0
	default:
		panic(fmt.Sprintf("jsonl: row %T", row))
	}
}

// header appends the first line of a file. snapshotRows is how many rows follow
// as one snapshot, 0 if that is not known; extra are members of an older header
// that are kept as they stand.
func (e *encoder) header(info pistore.Info, next pistore.Seq, snapshotRows int64, extra []member) {
	start := len(e.buf)
	b := appendText(append(e.buf, `{"v":4,"kind":"header","id":`...), string(info.ID))
	b = appendNumber(append(b, `,"storageVersion":`...), int64(info.StorageVersion))
	b = appendNumber(append(b, `,"createdAt":`...), int64(info.CreatedAt))
	b = appendText(append(b, `,"cwd":`...), info.CWD)
	if info.ParentSessionID != "" {
		b = appendText(append(b, `,"parentSessionId":`...), string(info.ParentSessionID))
	}
	if info.LegacyParentPath != "" {
		b = appendText(append(b, `,"legacyParentSessionPath":`...), info.LegacyParentPath)
	}
	if next > 1 {
		b = appendNumber(append(b, `,"nextSeq":`...), int64(next))
	}
	if snapshotRows > 0 {
		b = appendNumber(append(b, `,"snapshotRows":`...), snapshotRows)
	}
	b = appendText(append(b, `,"generation":`...), info.Generation)
	for _, m := range extra {
		b = append(append(append(append(b, ','), m.name...), ':'), m.value...)
	}
	e.buf = append(b, `,"sums":"crc32c"`...)
	e.endLine(start, false)
}

func appendAddress(b []byte, namespace, key string) []byte {
	b = appendText(append(b, `,"namespace":`...), namespace)
	return appendText(append(b, `,"key":`...), key)
}

func appendNumber(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendText appends a string as [pistore.QuoteJSON] writes it, of which ordinary
// ones need no more than their quotes.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return append(b, pistore.QuoteJSON(s)...)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

// checkSum finds the sum of a line at its place from the end. It returns where
// the comma in front of it stands; ok is false if there is none, holds if it is
// that of the line.
func checkSum(text []byte) (comma int, ok, holds bool) {
	end := len(text)
	if end > 0 && text[end-1] == ']' {
		end--
	}
	comma = end - sumBytes
	if comma <= 0 || string(text[comma:comma+len(sumStart)]) != sumStart || string(text[end-2:end]) != `"}` {
		return 0, false, false
	}
	want := uint32(0)
	for _, c := range text[comma+len(sumStart) : end-2] {
		switch {
		case '0' <= c && c <= '9':
			want = want<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			want = want<<4 | uint32(c-'a'+10)
		default:
			return 0, false, false
		}
	}
	// The bracket belongs to the first byte, which the sum covers.
	array := end < len(text)
	return comma, true, array == (text[0] == '[') && crc32.Checksum(text[:comma], castagnoli) == want
}

// withoutSum takes the sum out of a line, in place.
func withoutSum(text []byte, comma int) []byte {
	array := text[0] == '['
	text[comma] = '}'
	if !array {
		return text[:comma+1]
	}
	text[comma+1] = ']'
	return text[:comma+2]
}
