package logstore

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"pistore"
)

// The record format. A record is a msgpack array, positional, integers in their
// smallest form, without maps and extension types. It starts with
//
//	[version, kind, flags, rawSize, …
//
// where version is 1, rawSize is the size of the payload before compression (0
// without one), and kind decides what follows:
//
//	1 entry      id, parentId, parentSeq, timestamp, type, customType, payload
//	2 usage      id, entryId, usageSize, payload: usage, then details
//	3 register   seq, payload
//	4 structure  id, parentId, parentSeq, timestamp, type, customType
//	5 id         seq
//	6 state      nextSeq, idTimeEnd, entries, messages, usage rows, unusable rows,
//	             then as text: input, output, cacheRead, cacheWrite, cacheWrite1h,
//	             reasoning, totalTokens, cost.input, cost.output, cost.cacheRead,
//	             cost.cacheWrite, cost.total
//	7 catalog    ordinal, createdAt, cwd, parentSessionId, legacyParentPath,
//	             storageVersion, generation
//	8 number     the number
//	9 loading    nothing
//
// An id is a bin of 16 bytes when it is a UUID in canonical form, else a str;
// an absent one is the empty str. A payload is a bin, the last element, and the
// JSON as it was admitted, or that in one zstd frame. Types: 0 message,
// 1 compaction, 2 branch_summary, 3 custom. An entry's own seq is in its key.
const (
	recordVersion = 1

	kindEntry     = 1
	kindUsage     = 2
	kindRegister  = 3
	kindStructure = 4
	kindID        = 5
	kindState     = 6
	kindCatalog   = 7
	kindNumber    = 8
	kindLoading   = 9
)

// The flags of a record.
const (
	flagZstd       = 1 // the payload is compressed
	flagAdjustment = 2 // usage: an adjustment
	flagUsage      = 4 // id: of a usage row
)

// recordSizes are the counts of elements by kind.
var recordSizes = [...]int{
	kindEntry: 11, kindUsage: 8, kindRegister: 6, kindStructure: 10, kindID: 5,
	kindState: 22, kindCatalog: 11, kindNumber: 5, kindLoading: 4,
}

// recordFlags are the flags that a kind may have.
var recordFlags = [...]uint64{
	kindEntry: flagZstd, kindUsage: flagZstd | flagAdjustment, kindRegister: flagZstd,
	kindID: flagUsage, kindLoading: 0,
}

var entryTypes = [...]pistore.EntryType{
	pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary, pistore.TypeCustom,
}

func typeCode(t pistore.EntryType) uint64 {
	for code, known := range entryTypes {
		if t == known {
			return uint64(code)
		}
	}
	panic(fmt.Sprintf("logstore: entry type %q was admitted", t))
}

// state is the row of a session that every commit rewrites.
type state struct {
	nextSeq pistore.Seq
	// idTimeEnd is above the time of every UUIDv7 in the session: an id of that
	// time or later is new.
	idTimeEnd pistore.UnixMS
	stats     pistore.Stats
}

// sums returns the decimals of totals in their order in a record.
func sums(t *pistore.Totals) [12]*pistore.Decimal {
	return [...]*pistore.Decimal{
		&t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.CacheWrite1h, &t.Reasoning, &t.TotalTokens,
		&t.Cost.Input, &t.Cost.Output, &t.Cost.CacheRead, &t.Cost.CacheWrite, &t.Cost.Total,
	}
}

// catalogRow is what the catalog holds of a session.
type catalogRow struct {
	ordinal ordinal
	info    pistore.Info // ID comes from the key, Format is constant
}

// idRow is what the id index holds.
type idRow struct {
	seq   pistore.Seq
	usage bool
}

// recordWriter encodes records, one at a time: the result of a method lasts
// until the next call. It is not safe for concurrent use.
type recordWriter struct {
	codec   *payloadCodec
	buf     bytes.Buffer
	enc     *msgpack.Encoder
	scratch []byte
}

// keptBuffer bounds what a writer keeps between transactions.
const keptBuffer = 1 << 20

func newRecordWriter(codec *payloadCodec) *recordWriter {
	w := &recordWriter{codec: codec}
	w.enc = msgpack.NewEncoder(&w.buf)
	return w
}

// The encoder's errors are those of its buffer, which has none.

func (w *recordWriter) uint(n uint64)     { _ = w.enc.EncodeUint(n) }
func (w *recordWriter) text(s string)     { _ = w.enc.EncodeString(s) }
func (w *recordWriter) bytes(b []byte)    { _ = w.enc.EncodeBytes(b) }
func (w *recordWriter) seq(n pistore.Seq) { w.uint(uint64(n)) }

func (w *recordWriter) id(id string) {
	if raw, ok := packUUID(id); ok {
		w.bytes(raw[:])
		return
	}
	w.text(id)
}

func (w *recordWriter) start(kind int, flags, rawSize uint64) {
	if w.buf.Cap() > keptBuffer {
		w.buf = bytes.Buffer{}
		w.enc.Reset(&w.buf)
	}
	w.buf.Reset()
	_ = w.enc.EncodeArrayLen(recordSizes[kind])
	w.uint(recordVersion)
	w.uint(uint64(kind))
	w.uint(flags)
	w.uint(rawSize)
}

// payload is what a record stores of a payload that has two parts.
type payload struct {
	a, b   string
	packed []byte // in place of both, when that is smaller
	flags  uint64
}

func (w *recordWriter) pack(a, b string) payload {
	p := payload{a: a, b: b}
	if !w.codec.worthwhile(len(a) + len(b)) {
		return p
	}
	if cap(w.scratch) > keptBuffer {
		w.scratch = nil
	}
	packed, ok := w.codec.compress(w.scratch[:0], []byte(a+b))
	w.scratch = packed
	if ok {
		p.packed, p.flags = packed, flagZstd
	}
	return p
}

func (p payload) rawSize() uint64 { return uint64(len(p.a) + len(p.b)) }

func (w *recordWriter) payload(p payload) {
	if p.packed != nil {
		w.bytes(p.packed)
		return
	}
	_ = w.enc.EncodeBytesLen(len(p.a) + len(p.b))
	w.buf.WriteString(p.a)
	w.buf.WriteString(p.b)
}

func (w *recordWriter) entry(e pistore.Entry, parentSeq pistore.Seq) []byte {
	p := w.pack(string(e.Payload), "")
	w.start(kindEntry, p.flags, p.rawSize())
	w.place(e, parentSeq)
	w.payload(p)
	return w.buf.Bytes()
}

func (w *recordWriter) structure(e pistore.Entry, parentSeq pistore.Seq) []byte {
	w.start(kindStructure, 0, 0)
	w.place(e, parentSeq)
	return w.buf.Bytes()
}

func (w *recordWriter) place(e pistore.Entry, parentSeq pistore.Seq) {
	w.id(string(e.ID))
	w.id(string(e.ParentID))
	w.seq(parentSeq)
	w.uint(uint64(e.Timestamp))
	w.uint(typeCode(e.Type))
	w.text(e.CustomType)
}

func (w *recordWriter) usage(u pistore.UsageRow) []byte {
	p := w.pack(string(u.Usage), string(u.Details))
	flags := p.flags
	if u.Adjustment {
		flags |= flagAdjustment
	}
	w.start(kindUsage, flags, p.rawSize())
	w.id(string(u.ID))
	w.id(string(u.EntryID))
	w.uint(uint64(len(u.Usage)))
	w.payload(p)
	return w.buf.Bytes()
}

func (w *recordWriter) register(seq pistore.Seq, value pistore.JSON) []byte {
	p := w.pack(string(value), "")
	w.start(kindRegister, p.flags, p.rawSize())
	w.seq(seq)
	w.payload(p)
	return w.buf.Bytes()
}

func (w *recordWriter) idRow(r idRow) []byte {
	flags := uint64(0)
	if r.usage {
		flags = flagUsage
	}
	w.start(kindID, flags, 0)
	w.seq(r.seq)
	return w.buf.Bytes()
}

func (w *recordWriter) state(s state) []byte {
	w.start(kindState, 0, 0)
	w.seq(s.nextSeq)
	w.uint(uint64(s.idTimeEnd))
	t := &s.stats.Usage
	for _, n := range []int64{s.stats.Entries, s.stats.Messages, t.Rows, t.Unusable} {
		w.uint(uint64(n))
	}
	for _, sum := range sums(t) {
		w.text(string(*sum))
	}
	return w.buf.Bytes()
}

func (w *recordWriter) catalog(c catalogRow) []byte {
	w.start(kindCatalog, 0, 0)
	w.uint(uint64(c.ordinal))
	w.uint(uint64(c.info.CreatedAt))
	w.text(c.info.CWD)
	w.id(string(c.info.ParentSessionID))
	w.text(c.info.LegacyParentPath)
	w.uint(uint64(c.info.StorageVersion))
	w.text(c.info.Generation)
	return w.buf.Bytes()
}

func (w *recordWriter) number(n uint64) []byte {
	w.start(kindNumber, 0, 0)
	w.uint(n)
	return w.buf.Bytes()
}

func (w *recordWriter) loading() []byte {
	w.start(kindLoading, 0, 0)
	return w.buf.Bytes()
}
