package pistore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

// ID names an entry or a usage row; both share one namespace per session.
// Those minted here are UUIDv7 in canonical lower case; storage accepts any
// valid UTF-8 of 1 to [MaxIDBytes] bytes without control characters.
type ID string

// SessionID names a session of a backend, under the same rules as an [ID].
type SessionID string

// Seq is the position of a write in its session: 1 to [MaxSeq], strictly
// increasing in write order across all three forms; gaps are legal. 0 is none.
type Seq int64

// UnixMS is an instant in Unix milliseconds, 0 to [MaxSeq].
type UnixMS int64

// Time converts t.
func (t UnixMS) Time() time.Time { return time.UnixMilli(int64(t)) }

// Clock tells the present. It may go backwards.
type Clock func() UnixMS

// SystemClock reads the system's wall clock.
func SystemClock() UnixMS { return UnixMS(time.Now().UnixMilli()).clamp() }

// clamp brings an instant into the range that can be stored, since a clock may
// be set to any nonsense and a commit must not fail for it.
func (t UnixMS) clamp() UnixMS { return min(max(t, 0), MaxSeq) }

// Read returns the clock's instant, forced into the range that can be stored.
func (c Clock) Read() UnixMS { return c().clamp() }

// IDs mints ids. With a seeded source and a fixed clock it is reproducible. It
// is safe for concurrent use.
type IDs struct {
	clock Clock

	mu   sync.Mutex // guards rand
	rand io.Reader
}

// NewIDs returns a mint over a clock and a source of random bytes, such as
// crypto/rand.Reader.
func NewIDs(clock Clock, random io.Reader) *IDs { return &IDs{clock: clock, rand: random} }

// New mints an id of the present instant.
func (g *IDs) New() ID { return g.At(g.clock.Read()) }

// At mints an id that carries instant t: a follower is minted with the instant
// of its leader, so that they sort together. It panics if the random source
// fails, since an id that may repeat is worse than none.
func (g *IDs) At(t UnixMS) ID {
	var b [16]byte
	g.mu.Lock()
	_, err := io.ReadFull(g.rand, b[6:])
	g.mu.Unlock()
	if err != nil {
		panic("pistore: random source: " + err.Error())
	}
	return UUIDv7(t, b[6:])
}

// UUIDv7 formats the UUID version 7 (RFC 9562, section 5.7) of instant t, taken
// modulo 2^48, with the last 74 bits of random, of which the first 10 bytes are
// used; six bits give way to version and variant.
func UUIDv7(t UnixMS, random []byte) ID {
	var b [16]byte
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t))
	copy(b[:6], ms[2:])
	copy(b[6:], random[:10])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	s[8] = '-'
	hex.Encode(s[9:13], b[4:6])
	s[13] = '-'
	hex.Encode(s[14:18], b[6:8])
	s[18] = '-'
	hex.Encode(s[19:23], b[8:10])
	s[23] = '-'
	hex.Encode(s[24:36], b[10:16])
	return ID(s[:])
}

// Time returns the instant that a UUIDv7 in canonical form carries, and whether
// the id is one.
func (id ID) Time() (UnixMS, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[14] != '7' || id[18] != '-' || id[23] != '-' {
		return 0, false
	}
	var t UnixMS
	for i := range len(id) {
		c := id[i]
		var d byte
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			continue
		case '0' <= c && c <= '9':
			d = c - '0'
		case 'a' <= c && c <= 'f':
			d = c - 'a' + 10
		default:
			return 0, false
		}
		if i < 13 {
			t = t<<4 | UnixMS(d)
		}
		if i == 19 && d&0xc != 0x8 {
			return 0, false
		}
	}
	return t, true
}

// Check returns an error matching ErrInvalid or ErrTooLarge unless the id is
// one that can be stored.
func (id ID) Check() error { return checkID("id", string(id)) }

// Check returns an error matching ErrInvalid or ErrTooLarge unless the id is
// one that can be stored.
func (id SessionID) Check() error { return checkID("session id", string(id)) }

func checkID(what, s string) error { return checkText(what, s, 1, MaxIDBytes, false) }

// checkText checks a short structural text: length in bytes, UTF-8, and no
// control characters (C0, DEL, C1); with controls allowed only NUL is refused.
func checkText(what, s string, minBytes, maxBytes int, controls bool) error {
	if len(s) < minBytes {
		return fmt.Errorf("%w: empty %s", ErrInvalid, what)
	}
	if len(s) > maxBytes {
		return &LimitError{Limit: what + " bytes", Got: int64(len(s)), Max: int64(maxBytes)}
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s %.64q is not UTF-8", ErrInvalid, what, s)
	}
	for _, r := range s {
		if r == 0 || !controls && (r < 0x20 || 0x7f <= r && r <= 0x9f) {
			return fmt.Errorf("%w: %s %.64q has a control character", ErrInvalid, what, s)
		}
	}
	return nil
}
