package pistore

import "fmt"

// EntryType is the kind of an entry.
type EntryType string

// The entry types.
const (
	TypeMessage       EntryType = "message"
	TypeCompaction    EntryType = "compaction"
	TypeBranchSummary EntryType = "branch_summary"
	TypeCustom        EntryType = "custom"
)

// Row is one durable row in one of the three forms, or the [Header] that opens
// an export: Entry, Register, UsageRow or Header.
type Row interface{ isRow() }

// Entry is a node of the conversation tree. It is created once, in one
// transaction, and never changed or deleted.
type Entry struct {
	ID         ID
	ParentID   ID // empty: a root
	Seq        Seq
	Timestamp  UnixMS // of the commit that created it
	Type       EntryType
	CustomType string // 1 to MaxCustomTypeBytes bytes on custom entries, else empty
	// Payload is one JSON object of the entry's members that are not
	// structural; empty when a query asked for structure only.
	Payload JSON
}

// Register is a cell of current state. Setting replaces, deleting removes;
// there is no history. The value null is a value.
type Register struct {
	Namespace string
	Key       string
	Value     JSON
	Seq       Seq // of the write that last set it
}

// Address returns where the register is.
func (r Register) Address() Address { return Address{r.Namespace, r.Key} }

// Address names a register.
type Address struct{ Namespace, Key string }

// UsageRow is an append-only row of the usage ledger.
type UsageRow struct {
	ID         ID
	Seq        Seq
	Usage      JSON // one JSON object, judged by package ledger
	EntryID    ID   // the entry that it belongs to; optional, not checked
	Adjustment bool // a correction, whose numbers may be negative
	Details    JSON // any JSON; empty when absent
}

// Header opens an export and names the session that the rows after it belong to.
type Header struct {
	Info    Info
	NextSeq Seq // the seq of the next write; larger than that of any row
}

func (Entry) isRow()    {}
func (Register) isRow() {}
func (UsageRow) isRow() {}
func (Header) isRow()   {}

// StorageVersion is the version of the stored vocabulary that this module
// writes: which namespaces there are and what their values mean.
const StorageVersion = 1

// Info describes a session.
type Info struct {
	ID              SessionID
	CreatedAt       UnixMS
	CWD             string    // working directory at creation; may be empty
	ParentSessionID SessionID // the session that this one was forked from, or empty
	// LegacyParentPath is the parent's file as an imported file named it, when
	// it could not be resolved to an id.
	LegacyParentPath string
	StorageVersion   int
	// Generation is a random mark that is replaced when history was rewritten
	// (rewrite, repair, restore) and kept by compaction.
	Generation string
	Format     string // "memory", "logstore", "jsonl-4", …; set by the backend
}

// MaxPathBytes bounds the paths in an [Info].
const MaxPathBytes = 32 << 10

// Check returns an error matching ErrInvalid or ErrTooLarge unless the info can
// be stored. ID and ParentSessionID may be empty.
func (i Info) Check() error {
	for _, id := range []SessionID{i.ID, i.ParentSessionID} {
		if id != "" {
			if err := id.Check(); err != nil {
				return err
			}
		}
	}
	if i.CreatedAt < 0 || i.CreatedAt > MaxSeq {
		return fmt.Errorf("%w: session created at %d ms", ErrInvalid, i.CreatedAt)
	}
	if err := checkText("working directory", i.CWD, 0, MaxPathBytes, true); err != nil {
		return err
	}
	if err := checkText("generation", i.Generation, 0, MaxIDBytes, false); err != nil {
		return err
	}
	return checkText("parent session path", i.LegacyParentPath, 0, MaxPathBytes, true)
}
