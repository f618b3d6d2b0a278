package logstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"pistore"
)

// The key layout. Keys order bytewise.
//
//	00 'v'                          the layout version of the database
//	00 'o'                          the next session ordinal
//	01 SESSION-ID                   catalog: the session's ordinal and Info
//	02 ORDINAL                      a session that is being loaded
//	03 ORDINAL 'e' SEQ              entry
//	03 ORDINAL 'i' ID               seq and kind of the entry or usage row of an id
//	03 ORDINAL 'm'                  nextSeq, newest id time, statistics
//	03 ORDINAL 'r' NAMESPACE 00 KEY register
//	03 ORDINAL 's' SEQ              structure of the entry of that seq
//	03 ORDINAL 'u' SEQ              usage row
//
// ORDINAL is a count of bytes, 1 to 8, and that many bytes of a big-endian
// number without leading zeros. SEQ is 7 bytes big-endian. ID is 00 and 16 bytes
// for a UUID in canonical form, else 01 and the text. SESSION-ID, NAMESPACE and
// KEY are their own bytes; none of them has a NUL.
//
// A session is one range, so deleting it is one range delete. Entries and usage
// rows are logs of their own, so that a scan of either is one range that reads
// nothing else.
const (
	areaMeta    byte = 0x00
	areaCatalog byte = 0x01
	areaLoading byte = 0x02
	areaSession byte = 0x03

	metaVersion byte = 'v'
	metaOrdinal byte = 'o'

	tableEntry     byte = 'e'
	tableID        byte = 'i'
	tableState     byte = 'm'
	tableRegister  byte = 'r'
	tableStructure byte = 's'
	tableUsage     byte = 'u'

	seqBytes = 7
)

// ordinal is the short name of a session in keys. It is never used again.
type ordinal uint64

func metaKey(what byte) []byte { return []byte{areaMeta, what} }

func catalogKey(id pistore.SessionID) []byte { return append([]byte{areaCatalog}, id...) }

func loadingKey(o ordinal) []byte { return appendOrdinal([]byte{areaLoading}, o) }

func appendOrdinal(key []byte, o ordinal) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(o))
	i := 0
	for i < 7 && b[i] == 0 {
		i++
	}
	key = append(key, byte(8-i))
	return append(key, b[i:]...)
}

// sessionKey starts a key in one table of a session, with room for the rest.
func sessionKey(o ordinal, table byte, room int) []byte {
	key := make([]byte, 1, 11+room)
	key[0] = areaSession
	return append(appendOrdinal(key, o), table)
}

func stateKey(o ordinal) []byte { return sessionKey(o, tableState, 0) }

func seqKey(o ordinal, table byte, seq pistore.Seq) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(seq))
	return append(sessionKey(o, table, seqBytes), b[8-seqBytes:]...)
}

func idKey(o ordinal, id pistore.ID) []byte {
	key := sessionKey(o, tableID, 1+len(id))
	if raw, ok := packUUID(string(id)); ok {
		return append(append(key, 0), raw[:]...)
	}
	return append(append(key, 1), id...)
}

func registerKey(o ordinal, namespace, key string) []byte {
	k := append(sessionKey(o, tableRegister, len(namespace)+1+len(key)), namespace...)
	return append(append(k, 0), key...)
}

// sessionRange returns the bounds of everything that a session has.
func sessionRange(o ordinal) (lower, upper []byte) {
	lower = appendOrdinal([]byte{areaSession}, o)
	return lower, prefixEnd(lower)
}

// prefixEnd returns the first key behind all that start with prefix, whose
// first byte is an area and so is not the last one.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; ; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
}

// seqOf reads the seq at the end of a key of the entry, structure or usage
// table.
func seqOf(key []byte) (pistore.Seq, bool) {
	if len(key) < seqBytes {
		return 0, false
	}
	var b [8]byte
	copy(b[8-seqBytes:], key[len(key)-seqBytes:])
	return pistore.Seq(binary.BigEndian.Uint64(b[:])), true
}

// addressOf reads the address at the end of a register's key, behind n bytes.
func addressOf(key []byte, n int) (pistore.Address, bool) {
	if len(key) < n {
		return pistore.Address{}, false
	}
	namespace, name, ok := strings.Cut(string(key[n:]), "\x00")
	return pistore.Address{Namespace: namespace, Key: name}, ok
}

// ordinalOf reads the ordinal behind the area byte.
func ordinalOf(key []byte) (ordinal, bool) {
	if len(key) < 2 || key[1] < 1 || key[1] > 8 || len(key) < 2+int(key[1]) {
		return 0, false
	}
	var b [8]byte
	n := int(key[1])
	copy(b[8-n:], key[2:2+n])
	return ordinal(binary.BigEndian.Uint64(b[:])), true
}

// packUUID returns the 16 bytes of a UUID in canonical lower-case form.
func packUUID(s string) (raw [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return raw, false
	}
	n := 0
	for i := 0; i < len(s); {
		if s[i] == '-' {
			i++
			continue
		}
		if i+1 >= len(s) {
			return raw, false
		}
		hi, lo := hexDigit(s[i]), hexDigit(s[i+1])
		if hi > 15 || lo > 15 || n >= len(raw) {
			return raw, false
		}
		raw[n] = hi<<4 | lo
		n++
		i += 2
	}
	return raw, n == len(raw)
}

func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	default:
		return 0xff
	}
}

const uuidTextBytes = 36

// unpackUUID is the inverse of packUUID.
func unpackUUID(raw []byte) string {
	text := uuidText(raw)
	return string(text[:])
}

func uuidText(raw []byte) (s [uuidTextBytes]byte) {
	hex.Encode(s[0:8], raw[0:4])
	s[8] = '-'
	hex.Encode(s[9:13], raw[4:6])
	s[13] = '-'
	hex.Encode(s[14:18], raw[6:8])
	s[18] = '-'
	hex.Encode(s[19:23], raw[8:10])
	s[23] = '-'
	hex.Encode(s[24:36], raw[10:16])
	return s
}

// describeKey names a key in words and hex, for errors.
func describeKey(key []byte) string {
	what := "key"
	switch {
	case len(key) == 0:
	case key[0] == areaMeta:
		what = "meta"
	case key[0] == areaCatalog:
		return fmt.Sprintf("catalog %.128q", key[1:])
	case key[0] == areaLoading:
		what = "loading"
	case key[0] == areaSession:
		if o, ok := ordinalOf(key); ok {
			rest := key[2+int(key[1]):]
			if len(rest) > 0 {
				return describeRow(o, rest[0], rest[1:])
			}
		}
	}
	return fmt.Sprintf("%s %x", what, key)
}

func describeRow(o ordinal, table byte, rest []byte) string {
	names := map[byte]string{tableEntry: "entry", tableStructure: "structure", tableUsage: "usage"}
	if name, ok := names[table]; ok {
		if seq, ok := seqOf(rest); ok && len(rest) == seqBytes {
			return fmt.Sprintf("session #%d %s seq %d", o, name, seq)
		}
	}
	switch table {
	case tableState:
		return fmt.Sprintf("session #%d state", o)
	case tableRegister:
		if at, ok := addressOf(rest, 0); ok {
			return fmt.Sprintf("session #%d register %.128q/%.128q", o, at.Namespace, at.Key)
		}
	case tableID:
		if len(rest) == 17 && rest[0] == 0 {
			return fmt.Sprintf("session #%d id %s", o, unpackUUID(rest[1:]))
		}
		if len(rest) > 0 && rest[0] == 1 {
			return fmt.Sprintf("session #%d id %.128q", o, rest[1:])
		}
	}
	return fmt.Sprintf("session #%d table %q key %x", o, table, rest)
}
