package logstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Our own look at a log, before the engine replays it. The engine looks ahead
// coarsely: one flipped bit in the middle of a log can pass as its end. This
// scan finds the first invalid place and then every valid chunk behind it.
//
// A log is a sequence of blocks of 32 KiB, a block a sequence of chunks:
//
//	crc u32 | length u16 | type u8 | log number u32 | synced offset u64 | payload
//
// little-endian, where crc is a masked CRC-32C of all behind the length, and
// type is 9 for a whole record, 10, 11 and 12 for the first, a middle and the
// last part of one. Types 5 to 8 say the same of chunks without a synced offset,
// which fill the first log of a new database: the engine begins it before it
// raises the format. A block's rest that is too small for a header is zero. A log
// that was closed ends with a trailer of 11 bytes: crc 0, length 0, type 5 and
// the next number.
const (
	walBlockBytes   = 32 << 10
	walHeaderBytes  = 19
	walTrailerBytes = 11
	walOldHeader    = 11

	walOldFull byte = 5
	walFull    byte = 9
	walFirst   byte = 10
	walLast    byte = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is the checksum of the engine's logs.
func maskedCRC(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// logScan is what a scan has found in one log.
type logScan struct {
	number uint32 // the low half of the log's number
	size   int64

	// Of what comes before the first invalid place:
	end      int64 // behind the last whole record
	records  int   // whole records
	firstSeq uint64
	endSeq   uint64 // behind the last record; 0: not known
	closed   bool   // a trailer ends the log
	fault    int64  // the first invalid place, or behind the trailer; -1: none

	// Of what comes behind it:
	later  int64 // the first valid chunk; -1: none
	sealed bool  // a trailer
	reach  int64 // the furthest place in this log that a mark there calls synced

	// Of all records that could be read:
	plain bool     // one has no mark: the log is of Process level
	mark  *logMark // one of the marks

	inRecord bool
	headSeq  uint64 // behind the record whose head was read last; 0: not known
}

// scanLog reads a log to its end.
func scanLog(in io.Reader, number uint32) (*logScan, error) {
	s := &logScan{number: number, fault: -1, later: -1}
	block := make([]byte, walBlockBytes)
	for {
		n, err := io.ReadFull(in, block)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		at := 0
		if s.fault < 0 {
			at = s.follow(block[:n])
		}
		if s.fault >= 0 {
			s.search(block[at:n], s.size+int64(at))
		}
		s.size += int64(n)
		if n < walBlockBytes {
			break
		}
	}
	if s.fault < 0 && s.inRecord {
		s.fault = s.size // the rest of the record is missing
	}
	return s, nil
}

// follow reads chunks from the start of a block until one is invalid, and
// returns how far it came.
func (s *logScan) follow(block []byte) int {
	at := 0
	for at < len(block) {
		rest := block[at:]
		if len(block) == walBlockBytes && len(rest) < walHeaderBytes && zeros(rest) {
			return len(block)
		}
		if s.isTrailer(rest) && !s.inRecord {
			s.closed = true
			at += walTrailerBytes
			s.fault = s.size + int64(at)
			return at
		}
		kind, payload, size, ok := s.chunk(rest)
		head, tail := kind == walFull || kind == walFirst, kind == walFull || kind == walLast
		if !ok || head == s.inRecord {
			s.fault = s.size + int64(at)
			return at
		}
		at += size
		if head {
			s.head(payload, true)
		}
		s.inRecord = !tail
		if tail {
			s.end, s.endSeq = s.size+int64(at), s.headSeq
			s.records++
		}
	}
	return at
}

// search looks at every byte of a block behind the first invalid place for a
// chunk that is valid: chunks do not cross blocks.
func (s *logScan) search(rest []byte, base int64) {
	for at := 0; at+walTrailerBytes <= len(rest); {
		if s.isTrailer(rest[at:]) {
			s.sealed = true
		}
		kind, payload, size, ok := s.chunk(rest[at:])
		if !ok {
			at++
			continue
		}
		if s.later < 0 {
			s.later = base + int64(at)
		}
		if kind == walFull || kind == walFirst {
			s.head(payload, false)
		}
		at += size
	}
}

func zeros(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// chunk reads the chunk that starts here, if a valid one of this log does. Its
// kind is one of those with a synced offset.
func (s *logScan) chunk(rest []byte) (kind byte, payload []byte, size int, ok bool) {
	if len(rest) < walOldHeader || rest[6] < walOldFull || rest[6] > walLast ||
		binary.LittleEndian.Uint32(rest[7:]) != s.number {
		return 0, nil, 0, false
	}
	kind, header := rest[6], walHeaderBytes
	if kind < walFull {
		kind, header = kind+walFull-walOldFull, walOldHeader
	}
	size = header + int(binary.LittleEndian.Uint16(rest[4:]))
	if size > len(rest) || maskedCRC(rest[6:size]) != binary.LittleEndian.Uint32(rest) {
		return 0, nil, 0, false
	}
	return kind, rest[header:size], size, true
}

func (s *logScan) isTrailer(rest []byte) bool {
	return len(rest) >= walTrailerBytes && rest[6] == walOldFull &&
		binary.LittleEndian.Uint32(rest) == 0 && binary.LittleEndian.Uint16(rest[4:]) == 0 &&
		binary.LittleEndian.Uint32(rest[7:]) == s.number+1
}

// head looks into the start of a record, which is a batch of the engine: its
// sequence number, a count, then the first operation, which is the mark if the
// log is of Power level.
func (s *logScan) head(payload []byte, inOrder bool) {
	const headerBytes, opLogData = 12, 3
	s.headSeq = 0
	if len(payload) < headerBytes {
		return
	}
	seq := binary.LittleEndian.Uint64(payload)
	if inOrder {
		if s.records == 0 {
			s.firstSeq = seq
		}
		s.headSeq = seq + uint64(binary.LittleEndian.Uint32(payload[8:]))
	}
	ops := payload[headerBytes:]
	if len(ops) == 0 {
		return
	}
	if ops[0] != opLogData {
		s.plain = true
		return
	}
	size, n := binary.Uvarint(ops[1:])
	if n <= 0 || size > uint64(len(ops)-1-n) {
		return
	}
	mark, ok := decodeMark(ops[1+n : 1+n+int(size)])
	if !ok {
		return
	}
	s.mark = &mark
	if !inOrder && mark.log == s.number {
		s.reach = max(s.reach, int64(mark.synced))
	}
}

// damaged reports whether the first invalid place is damage, rather than where
// a crash has cut the log.
//
// At Process level, and at Power level as long as the machine has not been
// restarted, whatever lies behind it proves that: a process that dies leaves a
// prefix of what it wrote. Power loss at Power level may leave a hole in what
// was not synced, so there it takes a mark that calls the place synced. Where
// no mark can be read at all, the log is one record that was cut short.
func (s *logScan) damaged(boot uint32) bool {
	switch {
	case s.fault < 0 || s.later < 0 && (s.closed || !s.sealed):
		return false
	case s.closed || s.plain:
		return true
	case s.mark == nil:
		return false
	case boot != 0 && s.mark.boot == boot:
		return true
	default:
		return s.reach > s.fault
	}
}
