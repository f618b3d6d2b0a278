package pistore

import (
	"context"
	"iter"
)

// The optional abilities of a Storage. [Find] looks for one through decorators.
type (
	// Compacter gives space back without changing the digest.
	Compacter interface {
		Compact(ctx context.Context) (CompactResult, error)
	}

	// Syncer makes everything acknowledged so far survive power loss, at
	// either level. Ending the context ends the wait, not the work; an I/O
	// failure is ErrFaulted.
	Syncer interface {
		Sync(ctx context.Context) error
	}

	// Follower yields each acknowledged transaction with seqs above after, once
	// and in order, first those that are stored and then new ones as they come.
	// The context ends it with its error, Close with ErrClosed.
	Follower interface {
		Follow(ctx context.Context, after Seq) iter.Seq2[Transaction, error]
	}

	// Historian yields old transactions in order, as far as history exists,
	// those with a seq from from on. What was compacted is there in part: what is
	// left of a transaction, or each row that is left of it for itself. A session
	// without history gives ErrUnsupported.
	Historian interface {
		History(ctx context.Context, from Seq) iter.Seq2[Transaction, error]
	}

	// Verifier checks what only the backend can see: checksums, indexes,
	// statistics. It yields every fault it finds; an error ends it.
	Verifier interface {
		VerifyStorage(ctx context.Context, deep bool) iter.Seq2[*CorruptError, error]
	}
)

// Cataloger is a Backend that tells what its sessions are without opening them.
// What cannot be read is yielded with its error, and does not end the listing.
type Cataloger interface {
	Catalog(ctx context.Context, names bool) iter.Seq2[CatalogEntry, error]
}

// CatalogEntry is one session of a catalog.
type CatalogEntry struct {
	Info       Info
	Name       string // if names are asked for
	ModifiedAt UnixMS
	Path       string // of its file
	SizeBytes  int64  // of its file
	Err        error  // why it could not be read; then only Path is known
}

// CompactResult is the size of a store before and after compaction.
type CompactResult struct{ BytesBefore, BytesAfter int64 }

// Transaction is a committed transaction: writes with the seqs they got.
type Transaction struct {
	FirstSeq  Seq
	Seqs      []Seq
	Timestamp UnixMS
	Writes    []Write
}

// Decorator is what a Storage that wraps another one implements, so that
// [Find] can see through it.
type Decorator interface{ Unwrap() Storage }

// Find returns the outermost layer of s that has ability A, looking through
// decorators.
func Find[A any](s Storage) (A, bool) {
	for s != nil {
		if a, ok := s.(A); ok {
			return a, true
		}
		d, ok := s.(Decorator)
		if !ok {
			break
		}
		s = d.Unwrap()
	}
	var none A
	return none, false
}
