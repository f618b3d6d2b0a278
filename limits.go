package pistore

import "fmt"

// Limits that every backend keeps, so that what one accepts all accept.
// Exceeding one is a [*LimitError], which matches [ErrTooLarge].
const (
	// MaxIDBytes bounds an entry, usage or session id: 1 to 128 bytes.
	MaxIDBytes = 128
	// MaxNamespaceBytes bounds a register namespace: 1 to 128 bytes.
	MaxNamespaceBytes = 128
	// MaxKeyBytes bounds a register key: 0 to 1,024 bytes.
	MaxKeyBytes = 1024
	// MaxCustomTypeBytes bounds the customType of a custom entry: 1 to 128 bytes.
	MaxCustomTypeBytes = 128
	// MaxPayloadBytes bounds one payload: an entry's payload, a register value,
	// a usage object or its details.
	MaxPayloadBytes = 64 << 20
	// MaxTxBytes bounds one transaction: its payloads, names and ids together.
	MaxTxBytes = 256 << 20
	// MaxJSONDepth bounds the nesting of arrays and objects in one payload.
	MaxJSONDepth = 1000
	// MaxSeq is the largest seq, timestamp or count: 2^53-1, the largest integer
	// that every JSON reader keeps exactly.
	MaxSeq = 1<<53 - 1
)

// LimitError says which limit was exceeded and by how much. It matches
// [ErrTooLarge].
type LimitError struct {
	Limit string // what is limited, in words: "register key bytes"
	Got   int64
	Max   int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %d exceeds the limit of %d", e.Limit, e.Got, e.Max)
}

// Is reports whether target is ErrTooLarge.
func (e *LimitError) Is(target error) bool { return target == ErrTooLarge }
