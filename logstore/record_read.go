package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"pistore"
)

// recordReader decodes one record, from where it lies: a walk over a long history
// decodes hundreds of thousands, so nothing is allocated but what is handed out.
// The first fault sticks: later reads give zeros, and finish reports it. Text and
// payloads are slices of the record until they are made strings.
type recordReader struct {
	codec   *payloadCodec
	rest    []byte
	ids     *idTexts // nil: each id is a string of its own
	flags   uint64
	rawSize int
	err     error
}

// readRecord opens a record of the wanted kind.
func (c *payloadCodec) readRecord(data []byte, kind int) recordReader {
	r := recordReader{codec: c, rest: data}
	n := r.arrayLen()
	// The version comes before all else: what follows it in a newer one is
	// not for this program to judge.
	if v := r.uint(); r.err == nil && v > recordVersion {
		r.err = fmt.Errorf("%w: record version %d", pistore.ErrNewerVersion, v)
	} else if v == 0 {
		r.fault("record version 0")
	}
	if k := r.uint(); r.err == nil && k != uint64(kind) {
		r.fault("record of kind %d, expected %d", k, kind)
	}
	if r.err == nil && n != recordSizes[kind] {
		r.fault("record of %d elements, expected %d", n, recordSizes[kind])
	}
	r.flags = r.uint()
	if r.flags&^recordFlags[kind] != 0 {
		r.fault("flags %#x on a record of kind %d", r.flags, kind)
	}
	r.rawSize = int(r.upTo(maxRawSize))
	switch kind {
	case kindEntry, kindUsage, kindRegister:
	default:
		if r.rawSize != 0 {
			r.fault("a payload size on a record of kind %d, which has none", kind)
		}
	}
	return r
}

func (r *recordReader) fault(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// peek returns the code of the next element. Nil, which no record has, stands
// for a record that is cut short.
func (r *recordReader) peek() byte {
	if len(r.rest) == 0 {
		return msgpcode.Nil
	}
	return r.rest[0]
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes behind the code of an element,
// and reports whether it is there.
func (r *recordReader) number(bytes int) (n uint64, ok bool) {
	if len(r.rest) < 1+bytes {
		return 0, false
	}
	switch raw := r.rest[1 : 1+bytes]; bytes {
	case 1:
		n = uint64(raw[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(raw))
	case 4:
		n = uint64(binary.BigEndian.Uint32(raw))
	case 8:
		n = binary.BigEndian.Uint64(raw)
	}
	r.rest = r.rest[1+bytes:]
	return n, true
}

func (r *recordReader) arrayLen() int {
	var n uint64
	ok := false
	code := r.peek()
	switch {
	case msgpcode.IsFixedArray(code):
		n, ok = uint64(code&msgpcode.FixedArrayMask), true
		r.rest = r.rest[1:]
	case code == msgpcode.Array16:
		n, ok = r.number(2)
	case code == msgpcode.Array32:
		n, ok = r.number(4)
	}
	if !ok || n < 4 || n < leastLen(code) {
		r.fault("not a record")
	}
	return int(n)
}

// leastLen returns the least length that needs the form of a code, since each
// length is written in the shortest.
func leastLen(code byte) uint64 {
	switch code {
	case msgpcode.Array16:
		return 1 << 4
	case msgpcode.Str8:
		return 1 << 5
	case msgpcode.Str16, msgpcode.Bin16:
		return 1 << 8
	case msgpcode.Array32, msgpcode.Str32, msgpcode.Bin32:
		return 1 << 16
	default:
		return 0
	}
}

// uint reads an integer that is not negative.
func (r *recordReader) uint() uint64 {
	if r.err != nil {
		return 0
	}
	code := r.peek()
	if code <= msgpcode.PosFixedNumHigh {
		r.rest = r.rest[1:]
		return uint64(code)
	}
	if code < msgpcode.Uint8 || code > msgpcode.Uint64 {
		r.fault("not an integer")
		return 0
	}
	n, ok := r.number(1 << (code - msgpcode.Uint8))
	if !ok {
		r.fault("integer cut short")
		return 0
	}
	if code != shortestUint(n) {
		r.fault("integer %d is longer than it needs to be", n)
	}
	return n
}

// shortestUint returns the code of the one form in which an integer is written.
func shortestUint(n uint64) byte {
	switch {
	case n <= uint64(msgpcode.PosFixedNumHigh):
		return byte(n)
	case n <= math.MaxUint8:
		return msgpcode.Uint8
	case n <= math.MaxUint16:
		return msgpcode.Uint16
	case n <= math.MaxUint32:
		return msgpcode.Uint32
	default:
		return msgpcode.Uint64
	}
}

// upTo reads an integer of at most limit.
func (r *recordReader) upTo(limit uint64) uint64 {
	n := r.uint()
	if n > limit {
		r.fault("%d is above %d", n, limit)
		return 0
	}
	return n
}

func (r *recordReader) seq() pistore.Seq { return pistore.Seq(r.upTo(pistore.MaxSeq)) }

func (r *recordReader) count() int64 { return int64(r.upTo(pistore.MaxSeq)) }

// slice reads a bin or a str without copying it.
func (r *recordReader) slice(wantBin bool) []byte {
	if r.err != nil {
		return nil
	}
	code := r.peek()
	isBin := code >= msgpcode.Bin8 && code <= msgpcode.Bin32
	isStr := msgpcode.IsFixedString(code) || code >= msgpcode.Str8 && code <= msgpcode.Str32
	if wantBin && !isBin || !wantBin && !isStr {
		r.fault("not a bin or str where one is due")
		return nil
	}
	var n uint64
	ok := true
	switch {
	case isBin:
		n, ok = r.number(1 << (code - msgpcode.Bin8))
	case code >= msgpcode.Str8 && code <= msgpcode.Str32:
		n, ok = r.number(1 << (code - msgpcode.Str8))
	default:
		n = uint64(code & msgpcode.FixedStrMask)
		r.rest = r.rest[1:]
	}
	if !ok || n > uint64(len(r.rest)) {
		r.fault("text cut short")
		return nil
	}
	if n < leastLen(code) {
		r.fault("length %d is longer than it needs to be", n)
		return nil
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text
}

func (r *recordReader) text() string { return string(r.slice(false)) }

// ownID reads the id of a row of some kind, which has to have one.
func (r *recordReader) ownID(kind string) pistore.ID {
	packed := r.peek() == msgpcode.Bin8
	id := pistore.ID(r.id())
	if packed {
		return id // 16 bytes make a good id, whatever they are
	}
	if err := id.Check(); err != nil {
		r.fault("%s %w", kind, err)
	}
	return id
}

// id reads an id; an absent one is empty.
func (r *recordReader) id() string {
	if r.err != nil {
		return ""
	}
	if code := r.peek(); code < msgpcode.Bin8 || code > msgpcode.Bin32 {
		s := r.text()
		if len(s) > pistore.MaxIDBytes {
			r.fault("id of %d bytes", len(s))
		}
		if _, isUUID := packUUID(s); isUUID {
			r.fault("UUID as text") // an id has one form
		}
		return s
	}
	raw := r.slice(true)
	if len(raw) != 16 {
		r.fault("id of %d bytes", len(raw))
		return ""
	}
	if r.ids != nil {
		return r.ids.text(raw)
	}
	return unpackUUID(raw)
}

// payload reads the last element and brings it into its raw form.
func (r *recordReader) payload() []byte {
	stored := r.slice(true)
	if r.err != nil {
		return nil
	}
	if r.flags&flagZstd == 0 {
		if len(stored) != r.rawSize {
			r.fault("payload of %d bytes, the record says %d", len(stored), r.rawSize)
		}
		return stored
	}
	raw, err := r.codec.expand(stored, r.rawSize)
	if err != nil {
		r.fault("%w", err)
	}
	return raw
}

// finish ends the record and returns its first fault.
func (r *recordReader) finish() error {
	if r.err == nil && len(r.rest) != 0 {
		r.fault("%d bytes behind the record", len(r.rest))
	}
	return r.err
}

// entry decodes an entry's record, whose seq is in its key. Without payload it
// reads a structure record. A run of rows gives its ids.
func (c *payloadCodec) entry(data []byte, seq pistore.Seq, structure bool, ids *idTexts) (pistore.Entry, pistore.Seq, error) {
	kind := kindEntry
	if structure {
		kind = kindStructure
	}
	r := c.readRecord(data, kind)
	r.ids = ids
	e := pistore.Entry{Seq: seq}
	e.ID = r.ownID("entry")
	e.ParentID = pistore.ID(r.id())
	parentSeq := r.seq()
	e.Timestamp = pistore.UnixMS(r.upTo(pistore.MaxSeq))
	if code := r.uint(); code < uint64(len(entryTypes)) {
		e.Type = entryTypes[code]
	} else {
		r.fault("entry type %d", code)
	}
	e.CustomType = r.text()
	if !structure {
		raw := r.payload()
		if len(raw) == 0 || raw[0] != '{' {
			r.fault("payload is no JSON object")
		}
		e.Payload = pistore.JSON(raw)
	}
	if (e.ParentID == "") != (parentSeq == 0) || parentSeq >= seq {
		r.fault("parent %q at seq %d", e.ParentID, parentSeq)
	}
	if (e.Type == pistore.TypeCustom) != (e.CustomType != "") {
		r.fault("customType %q on type %q", e.CustomType, e.Type)
	}
	return e, parentSeq, r.finish()
}

func (c *payloadCodec) usage(data []byte, seq pistore.Seq) (pistore.UsageRow, error) {
	r := c.readRecord(data, kindUsage)
	u := pistore.UsageRow{Seq: seq, Adjustment: r.flags&flagAdjustment != 0}
	u.ID = r.ownID("usage row")
	u.EntryID = pistore.ID(r.id())
	size := r.upTo(pistore.MaxPayloadBytes)
	raw := r.payload()
	if size > uint64(len(raw)) || size == 0 || raw[0] != '{' {
		r.fault("usage of %d bytes in a payload of %d", size, len(raw))
	}
	if r.err == nil {
		u.Usage, u.Details = pistore.JSON(raw[:size]), pistore.JSON(raw[size:])
	}
	return u, r.finish()
}

// register decodes a register; without its value it reads only the seq.
func (c *payloadCodec) register(data []byte, value bool) (pistore.Seq, pistore.JSON, error) {
	r := c.readRecord(data, kindRegister)
	seq := r.seq()
	if seq == 0 {
		r.fault("register without seq")
	}
	if !value {
		r.slice(true)
		return seq, "", r.finish()
	}
	raw := r.payload()
	if len(raw) == 0 {
		r.fault("register without value")
	}
	return seq, pistore.JSON(raw), r.finish()
}

func (c *payloadCodec) idRow(data []byte) (idRow, error) {
	r := c.readRecord(data, kindID)
	row := idRow{seq: r.seq(), usage: r.flags&flagUsage != 0}
	if row.seq == 0 {
		r.fault("id without seq")
	}
	return row, r.finish()
}

func (c *payloadCodec) state(data []byte) (state, error) {
	r := c.readRecord(data, kindState)
	var s state
	s.nextSeq = pistore.Seq(r.upTo(pistore.MaxSeq + 1))
	s.idTimeEnd = pistore.UnixMS(r.upTo(1 << 48))
	t := &s.stats.Usage
	for _, n := range []*int64{&s.stats.Entries, &s.stats.Messages, &t.Rows, &t.Unusable} {
		*n = r.count()
	}
	for _, sum := range sums(t) {
		*sum = pistore.Decimal(r.text())
	}
	if s.nextSeq == 0 {
		r.fault("nextSeq 0")
	}
	return s, r.finish()
}

func (c *payloadCodec) catalog(data []byte, id pistore.SessionID) (catalogRow, error) {
	r := c.readRecord(data, kindCatalog)
	row := catalogRow{ordinal: ordinal(r.uint())}
	row.info = pistore.Info{ID: id, Format: backendName}
	row.info.CreatedAt = pistore.UnixMS(r.upTo(pistore.MaxSeq))
	row.info.CWD = r.text()
	row.info.ParentSessionID = pistore.SessionID(r.id())
	row.info.LegacyParentPath = r.text()
	row.info.StorageVersion = int(r.upTo(1 << 31))
	row.info.Generation = r.text()
	if err := row.info.Check(); err != nil {
		r.fault("session: %w", err)
	}
	return row, r.finish()
}

func (c *payloadCodec) number(data []byte) (uint64, error) {
	r := c.readRecord(data, kindNumber)
	n := r.uint()
	return n, r.finish()
}

// corrupt says where a record is that could not be decoded. A newer version is
// no damage.
func corrupt(session pistore.SessionID, key []byte, err error) error {
	if errors.Is(err, pistore.ErrCorrupt) {
		return err // it says so itself
	}
	if errors.Is(err, pistore.ErrNewerVersion) {
		return fmt.Errorf("logstore: %s: %w", describeKey(key), err)
	}
	return &pistore.CorruptError{Backend: backendName, Session: session, Place: describeKey(key), Problem: sentence(err)}
}

// sentence is the text of an error without the lines that the engine hangs on it.
func sentence(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
