package pistore

import (
	"context"
	"fmt"
	"iter"
)

// Durability is the level at which a commit is acknowledged.
type Durability int

const (
	// Process: an acknowledged commit survives the death of any process at any
	// instant. After power loss the store opens to a prefix of whole commits or
	// refuses with ErrCorrupt.
	Process Durability = iota
	// Power: an acknowledged commit also survives power loss and a kernel crash.
	Power
)

func (d Durability) String() string {
	switch d {
	case Process:
		return "process"
	case Power:
		return "power"
	default:
		return fmt.Sprintf("durability(%d)", int(d))
	}
}

// ParseDurability reads the name of a level. An unknown one is ErrInvalid.
func ParseDurability(name string) (Durability, error) {
	switch name {
	case "process":
		return Process, nil
	case "power":
		return Power, nil
	default:
		return 0, fmt.Errorf("%w: durability %.64q is neither process nor power", ErrInvalid, name)
	}
}

// Mode says how a session is opened.
type Mode int

const (
	// ReadWrite takes ownership.
	ReadWrite Mode = iota
	// ReadOnly takes no ownership and changes nothing.
	ReadOnly
)

// Backend holds sessions in one place. It is safe for concurrent use.
type Backend interface {
	// Create makes an empty session and opens it for writing. An empty
	// info.ID is minted, CreatedAt 0 is the present; Generation,
	// StorageVersion and Format are the backend's to set. An id in use is
	// ErrDuplicateID. The session exists durably when Create returns.
	Create(ctx context.Context, info Info) (Storage, error)

	// Open opens a session: ErrNotFound, ErrLocked, ErrCorrupt,
	// ErrNewerVersion, ErrForeignFormat.
	Open(ctx context.Context, id SessionID, mode Mode) (Storage, error)

	// Load builds a new session from an export: a Header, then rows by rising
	// seq. Ids, seqs and timestamps are kept; an empty Generation in the header
	// is minted, and a NextSeq that is not above the last row is raised. A
	// header needs a session id. The session is there whole when Load returns
	// without error, and absent otherwise, after a crash too. Rows are read once. A row that
	// breaks the contract is ErrInvalid, ErrTooLarge, ErrDuplicateID or
	// ErrMissingParent; an error of the stream is returned as it came.
	Load(ctx context.Context, rows iter.Seq2[Row, error]) (Info, error)

	// Rewrite replaces everything that a session holds by rows that are made
	// of it, in one step: after a crash too it is the old or the new. It owns
	// the session meanwhile (ErrLocked while it is open for writing) and calls
	// make once, with the session as it is, to be read until the rows have
	// been: its Commit is ErrReadOnly. The rows are those of an export, under the id of the session; the
	// generation is minted. Errors are those of Open and of Load, and the
	// session is then as it was. Handles that have it open for reading show
	// what they showed, or give ErrNotFound.
	Rewrite(ctx context.Context, id SessionID, make func(old Storage) iter.Seq2[Row, error]) (Info, error)

	// List yields every session by id, reading headers only.
	List(ctx context.Context) iter.Seq2[Info, error]

	// Delete removes a session and everything in it: ErrNotFound; ErrLocked
	// while it is open for writing.
	Delete(ctx context.Context, id SessionID) error

	// Close closes the sessions that are still open, then the backend, and
	// releases ownership. It is idempotent; later calls give ErrClosed.
	Close() error
}

// Storage is one open session. It is safe for concurrent use; reads run beside
// commits and hold no lock.
//
// Every read is a snapshot of its start: an iterator's start is the moment it
// is ranged over, and ranging again reads again. It may show a commit that is
// not acknowledged yet. Iterators yield at most one error, as their last pair.
// Results are the caller's; JSON and strings are immutable and may be shared.
// Ending the context ends a read with the context's error.
type Storage interface {
	// Info describes the session; it does no I/O and works after Close.
	Info() Info

	// Commit makes a transaction durable at the level of the store. Commits
	// take effect one after the other, in the order of their admission, and
	// each write gets the next seq. Preconditions are tested at admission,
	// before duplicates and parents.
	//
	// Before admission: ErrInvalid, ErrTooLarge, ErrConflict, ErrDuplicateID,
	// ErrMissingParent, ErrReadOnly, ErrClosed, ErrFaulted, or the context's
	// error; nothing was written and, the last but one aside, the store stays
	// usable. After admission the context no longer counts, and an I/O failure
	// is ErrFaulted wrapping its cause: the outcome is unknown until the store
	// is reopened. A transaction without writes only tests its preconditions.
	Commit(ctx context.Context, tx Tx) (Receipt, error)

	// Entries returns those of the entries that exist, in no order; an id
	// given twice is returned once.
	Entries(ctx context.Context, ids []ID) ([]Entry, error)

	// Registers returns those of the registers that exist, in no order; an
	// address given twice is returned once.
	Registers(ctx context.Context, at []Address) ([]Register, error)

	// RegistersByPrefix yields a namespace's registers whose key starts with
	// prefix, by bytewise key order.
	RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[Register, error]

	// Branch yields the path that the query describes. An unknown Start is
	// ErrNotFound, a parent that is missing ErrCorrupt.
	Branch(ctx context.Context, q BranchQuery) iter.Seq2[Entry, error]

	// ScanEntries yields entries of the whole session by seq.
	ScanEntries(ctx context.Context, q ScanQuery) iter.Seq2[Entry, error]

	// ScanUsage yields ledger rows of the whole session by seq.
	ScanUsage(ctx context.Context, q ScanQuery) iter.Seq2[UsageRow, error]

	// Stats returns the statistics.
	Stats(ctx context.Context) (Stats, error)

	// Export yields a Header and then every live row by rising seq, all of one
	// instant: what Load takes and Digest hashes.
	Export(ctx context.Context) iter.Seq2[Row, error]

	// Close seals admission, lets admitted commits finish and releases
	// ownership. It is idempotent; later calls give ErrClosed.
	Close() error
}
