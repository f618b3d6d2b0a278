package pistore

import "fmt"

// Order is the order of a scan or a branch walk.
type Order int

// The orders. A query's zero value is the natural one: a branch walk goes from
// the newest entry to the root, a scan by rising seq.
const (
	Natural Order = iota
	Reversed
)

// BranchQuery asks for the path from an entry to its root.
//
// The stop is sought first, walking from Start, Start included: the first entry
// of StopAtType or with StopAtID ends the path, inclusive. Then the path is
// filtered by Type and CustomType; a stop entry that does not pass is not
// returned. Then Order turns the result, Cursor cuts it, and Limit ends it.
type BranchQuery struct {
	Start      ID
	StopAtType EntryType // empty: none
	StopAtID   ID        // empty: none
	Type       EntryType // empty: every type
	CustomType string    // empty: every customType
	Order      Order     // Natural: newest first; Reversed: oldest first
	// Cursor is exclusive: newest first keeps seq < Cursor, oldest first
	// seq > Cursor. 0: none.
	Cursor Seq
	Limit  int // 0: no limit
	// StructureOnly leaves Payload empty, which backends with a structure
	// index answer without reading payloads.
	StructureOnly bool
}

// Check returns an error matching ErrInvalid unless the query is well formed.
func (q BranchQuery) Check() error {
	if q.Limit < 0 || q.Cursor < 0 || q.Order != Natural && q.Order != Reversed {
		return fmt.Errorf("%w: branch query: limit %d, cursor %d, order %d", ErrInvalid, q.Limit, q.Cursor, q.Order)
	}
	return nil
}

// Stops reports whether the path ends at e.
func (q BranchQuery) Stops(e Entry) bool {
	return q.StopAtType != "" && e.Type == q.StopAtType || q.StopAtID != "" && e.ID == q.StopAtID
}

// Keeps reports whether e passes the filters and the cursor.
func (q BranchQuery) Keeps(e Entry) bool {
	if q.Type != "" && e.Type != q.Type || q.CustomType != "" && e.CustomType != q.CustomType {
		return false
	}
	switch {
	case q.Cursor == 0:
		return true
	case q.Order == Reversed:
		return e.Seq > q.Cursor
	default:
		return e.Seq < q.Cursor
	}
}

// ScanQuery asks for rows of the whole session by seq.
type ScanQuery struct {
	Type       EntryType // entries only; empty: every type
	CustomType string    // entries only; empty: every customType
	FromSeq    Seq       // inclusive; 0: from the first
	ToSeq      Seq       // inclusive; 0: to the last
	Order      Order     // Natural: rising seq; Reversed: falling seq
	Limit      int       // 0: no limit
	// StructureOnly, entries only, leaves Payload empty, which backends that
	// keep structure apart answer without reading payloads.
	StructureOnly bool
}

// Check returns an error matching ErrInvalid unless the query is well formed.
func (q ScanQuery) Check() error {
	if q.Limit < 0 || q.FromSeq < 0 || q.ToSeq < 0 || q.Order != Natural && q.Order != Reversed {
		return fmt.Errorf("%w: scan: limit %d, seqs %d to %d, order %d", ErrInvalid, q.Limit, q.FromSeq, q.ToSeq, q.Order)
	}
	return nil
}

// Keeps reports whether an entry passes the type filters; the seq range is the
// backend's to keep.
func (q ScanQuery) Keeps(e Entry) bool {
	return (q.Type == "" || e.Type == q.Type) && (q.CustomType == "" || e.CustomType == q.CustomType)
}

// Stats are the statistics of a session: projections of its rows, exact after
// every commit.
type Stats struct {
	Entries  int64 // of every type
	Messages int64 // of type message
	Usage    Totals
}

// Decimal is an exact number as canonical decimal text: no exponent, no
// trailing zeros behind the point, no leading zeros, no -0. Zero is "0".
type Decimal string

// Totals are exact sums over the usage ledger, independent of the order of its
// rows. Package ledger does the arithmetic.
type Totals struct {
	Rows int64 // rows of the ledger, adjustments included
	// Unusable counts rows in which at least one known field had a value that
	// is no number in range; such a value adds nothing.
	Unusable     int64
	Input        Decimal
	Output       Decimal
	CacheRead    Decimal
	CacheWrite   Decimal
	CacheWrite1h Decimal
	Reasoning    Decimal // already inside Output
	TotalTokens  Decimal // summed as given
	Cost         CostTotals
}

// CostTotals are sums of cost, in the currency of the providers, US dollars as
// a rule.
type CostTotals struct {
	Input      Decimal
	Output     Decimal
	CacheRead  Decimal
	CacheWrite Decimal
	Total      Decimal
}
