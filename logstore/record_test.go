package logstore

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"pistore"
)

// decodeAny decodes a record by its kind and encodes it again. It returns nil
// for what is no record of a known kind.
func decodeAny(c *payloadCodec, data []byte) (again []byte, err error) {
	w := newRecordWriter(c)
	const seq = pistore.MaxSeq // every parent is below it
	switch kind := kindAt(data); kind {
	case kindEntry, kindStructure:
		e, parent, err := c.entry(data, seq, kind == kindStructure, nil)
		if err != nil {
			return nil, err
		}
		if kind == kindStructure {
			return w.structure(e, parent), nil
		}
		return w.entry(e, parent), nil
	case kindUsage:
		u, err := c.usage(data, seq)
		if err != nil {
			return nil, err
		}
		return w.usage(u), nil
	case kindRegister:
		seq, value, err := c.register(data, true)
		if err != nil {
			return nil, err
		}
		return w.register(seq, value), nil
	case kindID:
		row, err := c.idRow(data)
		return w.idRow(row), err
	case kindState:
		s, err := c.state(data)
		return w.state(s), err
	case kindCatalog:
		row, err := c.catalog(data, "session")
		return w.catalog(row), err
	case kindNumber:
		n, err := c.number(data)
		return w.number(n), err
	default:
		return nil, errors.New("no kind")
	}
}

// kindAt returns the kind of a record, 0 if it has none.
func kindAt(data []byte) byte {
	if at := versionAt(data) + 1; at < len(data) {
		return data[at]
	}
	return 0
}

// versionAt returns the place of a record's version, behind the array's header.
func versionAt(data []byte) int {
	if len(data) > 0 && data[0] == msgpcode.Array16 {
		return 3
	}
	return 1
}

// TestRecordsRoundTrip: each record decodes to what encodes to the same bytes.
func TestRecordsRoundTrip(t *testing.T) {
	codec := testCodec(t)
	for _, r := range goldenRecords(newRecordWriter(codec)) {
		if kindAt(r.data) == kindLoading {
			continue
		}
		again, err := decodeAny(codec, r.data)
		if err != nil || !bytes.Equal(again, r.data) {
			t.Errorf("%s: error %v\n%x\n%x", r.name, err, r.data, again)
		}
	}
}

// TestDamagedRecords: a record that is cut anywhere, or has more behind it, is
// told from a whole one, and a newer one from a damaged one.
func TestDamagedRecords(t *testing.T) {
	codec := testCodec(t)
	for _, r := range goldenRecords(newRecordWriter(codec)) {
		if kindAt(r.data) == kindLoading {
			continue
		}
		for n := range len(r.data) {
			if again, err := decodeAny(codec, r.data[:n]); err == nil {
				t.Fatalf("%s: cut at %d of %d, decoded to %x", r.name, n, len(r.data), again)
			}
		}
		if _, err := decodeAny(codec, append(r.data[:len(r.data):len(r.data)], 0xc0)); err == nil {
			t.Errorf("%s: a byte more was not noticed", r.name)
		}
		newer := bytes.Clone(r.data)
		newer[versionAt(newer)] = recordVersion + 1
		if _, err := decodeAny(codec, newer); !errors.Is(err, pistore.ErrNewerVersion) {
			t.Errorf("%s: version 2 gives %v", r.name, err)
		}
		for i := range len(r.data) {
			for bit := range 8 {
				flipped := bytes.Clone(r.data)
				flipped[i] ^= 1 << bit
				again, err := decodeAny(codec, flipped) // must not panic
				if err == nil && len(again) == 0 {
					t.Fatalf("%s: bit %d of byte %d", r.name, bit, i)
				}
				if len(r.data) > 4000 && i > 100 {
					break
				}
			}
		}
	}
}

// TestPlantedPayloads: what a compressed payload may claim is bounded.
func TestPlantedPayloads(t *testing.T) {
	codec := testCodec(t)
	zeros := codec.enc.EncodeAll(make([]byte, 64<<20), nil)
	plant := func(rawSize uint64, stored []byte) []byte {
		var buf bytes.Buffer
		enc := msgpack.NewEncoder(&buf)
		_ = enc.EncodeArrayLen(6)
		for _, n := range []uint64{recordVersion, kindRegister, flagZstd, rawSize, 1} {
			_ = enc.EncodeUint(n)
		}
		_ = enc.EncodeBytes(stored)
		return buf.Bytes()
	}
	for _, rawSize := range []uint64{0, 1, 100, 64 << 20, maxRawSize + 1, math.MaxUint64} {
		var err error
		allocated := testing.AllocsPerRun(1, func() { _, _, err = codec.register(plant(rawSize, zeros), true) })
		if err == nil || allocated > 1000 {
			t.Errorf("raw size %d: error %v, %v allocations", rawSize, err, allocated)
		}
	}
	if _, ok := codec.compress(nil, make([]byte, 64<<20)); ok {
		t.Error("a payload was compressed further than it could be read back")
	}
}

// TestPayloadThreshold: at the threshold a payload is stored as it is, above it
// compressed, unless that saves nothing.
func TestPayloadThreshold(t *testing.T) {
	codec := testCodec(t)
	text := strings.Repeat("compressible text ", 1000)
	if _, ok := codec.compress(nil, []byte(text[:defaultCompressAboveBytes])); ok {
		t.Error("compressed at the threshold")
	}
	packed, ok := codec.compress(nil, []byte(text))
	if !ok {
		t.Fatal("not compressed above the threshold")
	}
	raw, err := codec.expand(packed, len(text))
	if err != nil || string(raw) != text {
		t.Errorf("expanded to %d bytes, error %v", len(raw), err)
	}
	noise := make([]byte, 20_000)
	_, _ = newChaCha(1).Read(noise)
	if _, ok := codec.compress(nil, noise); ok {
		t.Error("noise was compressed")
	}
}

func TestKeyOrder(t *testing.T) {
	// Keys of a session order by seq, and sessions by ordinal, at every length.
	var last []byte
	for _, o := range []ordinal{1, 2, 255, 256, 65535, 65536, 1 << 32, 1<<64 - 1} {
		for _, seq := range []pistore.Seq{1, 255, 256, 1 << 40, pistore.MaxSeq} {
			key := seqKey(o, tableEntry, seq)
			if bytes.Compare(last, key) >= 0 {
				t.Errorf("%x is not below %x", last, key)
			}
			if got, ok := seqOf(key); !ok || got != seq {
				t.Errorf("%x reads seq %d", key, got)
			}
			if got, ok := ordinalOf(key); !ok || got != o {
				t.Errorf("%x reads ordinal %d", key, got)
			}
			lower, upper := sessionRange(o)
			if bytes.Compare(key, lower) < 0 || bytes.Compare(key, upper) >= 0 {
				t.Errorf("%x is outside of its session's range %x to %x", key, lower, upper)
			}
			last = key
		}
	}
}

// A record has one form: integers and lengths as short as they can be, and no size of a
// payload that it does not have.
func TestOneFormOfRecord(t *testing.T) {
	codec := testCodec(t)
	for name, data := range map[string]string{
		"a long integer":         "\x95\x01\x08\x00\x00\xcd\x00\x2c",
		"a long length of a bin": "\x96\x01\x03\x00\x02\x01\xc5\x00\x02{}",
		"a long length of a str": "\x9a\x01\x04\x00\x00\xd9\x01a\xa0\x00\x01\x00\xa0",
		"a long array":           "\xdc\x00\x05\x01\x08\x00\x00\x2c",
		"a size without payload": "\x95\x01\x08\x00\x01\xcd\x01\x00",
	} {
		if _, err := decodeAny(codec, []byte(data)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
