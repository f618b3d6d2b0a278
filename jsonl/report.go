package jsonl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"pistore"
)

// Severity says what a fault means for the file.
type Severity string

const (
	// Error: something of the file is lost or cannot be placed. The rest is
	// shown; the file is not opened for writing, only repaired.
	Error Severity = "error"
	// Warning: the file can be used, and something in it is not as it should be.
	Warning Severity = "warning"
)

// Fault is one thing that is wrong with a file, and where. As an error it
// matches ErrCorrupt, or ErrTooLarge when a limit was exceeded; a warning
// matches neither.
type Fault struct {
	Severity  Severity
	Kind      string // what is wrong, as a stable word such as "missing-parent"
	Invariant int    // by number; 0: none, or physical damage
	Line      int64  // from 1, every line counted
	Offset    int64  // of the line's first byte; for bad JSON of the first bad byte
	LegacyID  string // the id in the file of the record at fault; empty: unknown
	// ID is the id of the entry or usage row that the record became; empty: none.
	ID      pistore.ID
	Message string // what was expected and what was found; texts of the file are quoted

	cause  error // a limit that was exceeded
	record int32 // index of the record at fault, -1: none
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%s: %s", f.Place(), f.Message)
}

// Place returns where the fault is, in words.
func (f *Fault) Place() string { return Place{f.Line, f.Offset}.String() }

// Place is a place in a file: a line, from 1, and the offset of its first byte.
type Place struct{ Line, Offset int64 }

func (p Place) String() string { return fmt.Sprintf("line %d, byte %d", p.Line, p.Offset) }

// Is reports whether target is ErrCorrupt and the fault damage.
func (f *Fault) Is(target error) bool {
	return target == pistore.ErrCorrupt && f.Severity == Error && f.cause == nil
}

// Unwrap returns the limit that was exceeded, if one was.
func (f *Fault) Unwrap() error { return f.cause }

// The kinds of faults. Warnings come first.
const (
	kindBlank        = "blank-line"
	kindCRLF         = "crlf"
	kindBOM          = "bom"
	kindNoNewline    = "no-final-newline"
	kindTorn         = "torn-tail"
	kindHeaderField  = "header-field"
	kindOddVersion   = "odd-version"
	kindUnknownType  = "unknown-type"
	kindForward      = "parent-later"
	kindRepeated     = "repeated-line"
	kindDangling     = "dangling-reference"
	kindUnusable     = "unusable-value"
	kindUsage        = "absurd-usage"
	kindTimestamp    = "bad-timestamp"
	kindUTF8         = "invalid-utf8"
	kindLongerBranch = "longer-branch"

	kindNotObject     = "not-an-object"
	kindNUL           = "nul-line"
	kindWelded        = "welded-records"
	kindNoID          = "no-id"
	kindDuplicate     = "duplicate-id"
	kindMissingParent = "missing-parent"
	kindCycle         = "parent-cycle"
	kindSecondHeader  = "second-header"
	kindNoHeader      = "no-header"
	kindBadHeader     = "unusable-header"
	kindUTF16         = "utf-16"
	kindTooLarge      = "too-large"

	// KindSchema: a record, or a message in it, without what its type demands.
	KindSchema = "schema"

	// Of format 4 only.
	kindSum      = "bad-sum"
	kindShape    = "bad-write"
	kindSeq      = "seq-order"
	kindCut      = "cut-snapshot"
	kindLeftOut  = "left-out"       // a warning
	kindNotOwned = "owner-not-kept" // a warning
)

// Report is what reading a file found beside its rows.
type Report struct {
	Format  Format
	Version int // how the records were read: 1 to 4
	// Bytes of the file, and of its end those that were set aside as torn.
	Bytes, TornBytes int64

	// RecordsByType counts the records after the header by their type.
	RecordsByType map[string]int64
	// LeafID is the legacy id of the last record of the file, which is where the
	// lane main stood; empty: none. LegacyLeafID is that of the entry that it
	// resolved to. A record of version 1, or one without id, is named #n,
	// counting from #0 after the header.
	LeafID, LegacyLeafID string

	// Model, ThinkingLevel and ActiveTools are those of the nearest change on
	// the path of the leaf; they never become configuration of the lane.
	Model         *Model
	ThinkingLevel string
	ActiveTools   []string

	// ParentSession is the parent's file as the header names it.
	ParentSession string
	// LongerBranch is set when the file ends in mere metadata that points back
	// to an entry with others below it.
	LongerBranch *LongerBranch

	// Summed says that the lines of a file of format 4 have sums, as all have that
	// are written here.
	Summed bool
	// Transactions counts the lines of format 4 that were read, and DeadBytes
	// those bytes of them that a compaction would give back.
	Transactions, DeadBytes int64
	// LeftOut counts, by namespace, what of other writers' registers has no
	// meaning here and is not converted.
	LeftOut map[string]int64

	// Faults stand by line. Of each severity the first ones only are kept;
	// Errors and Warnings count all.
	Faults           []Fault
	Errors, Warnings int64
}

// Model names a model of a provider.
type Model struct{ Provider, ModelID string }

// LongerBranch is a branch that goes on below the leaf.
type LongerBranch struct {
	LegacyTipID string // where it ends
	TipID       pistore.ID
	Entries     int // below the leaf
}

// maxFaults bounds the faults of one severity that a report keeps.
const maxFaults = 1000

// Omitted counts the faults that were found and not kept.
func (r *Report) Omitted() int64 { return r.Errors + r.Warnings - int64(len(r.Faults)) }

// collector gathers faults. Those of the two severities are bounded apart, so
// that a million warnings hide no error.
type collector struct {
	errors, warnings   []Fault
	nErrors, nWarnings int64
}

func (c *collector) add(f Fault) {
	if f.Severity == Error {
		if c.nErrors++; c.nErrors <= maxFaults {
			c.errors = append(c.errors, f)
		}
		return
	}
	if c.nWarnings++; c.nWarnings <= maxFaults {
		c.warnings = append(c.warnings, f)
	}
}

// into moves what was gathered into a report, by place in the file.
func (c *collector) into(r *Report) {
	r.Faults = slices.Concat(c.errors, c.warnings)
	slices.SortStableFunc(r.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Offset, b.Offset))
	})
	r.Errors, r.Warnings = c.nErrors, c.nWarnings
}

// UnreadableError says that nothing of a damaged file could be shown. It
// matches ErrCorrupt and holds what was found.
type UnreadableError struct {
	Report Report
	err    *pistore.CorruptError
}

func (e *UnreadableError) Error() string { return e.err.Error() }

// Unwrap returns a [*pistore.CorruptError].
func (e *UnreadableError) Unwrap() error { return e.err }

// unreadable makes the error from the first error of a report.
func unreadable(path string, r Report) error {
	i := slices.IndexFunc(r.Faults, func(f Fault) bool { return f.Severity == Error })
	if i < 0 {
		return errors.New("jsonl: a file without content and without fault")
	}
	f := r.Faults[i]
	return &UnreadableError{Report: r, err: &pistore.CorruptError{
		Backend: backend, Place: fmt.Sprintf("%q, %s", path, f.Place()), Invariant: f.Invariant, Problem: f.Message,
	}}
}
