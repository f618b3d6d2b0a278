package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"pistore"
)

// progressRows is how many rows are copied between two calls of a Progress.
const progressRows = 1024

// Progress is told, now and then and at the end, how many rows were copied. It
// is called between rows, never by two goroutines at once; nil: nobody is told.
type Progress func(rows int64)

func (p Progress) tell(rows int64) {
	if p != nil {
		p(rows)
	}
}

// Copied is what a copy of a session is.
type Copied struct {
	Info   pistore.Info // of the copy
	Digest string       // of the copy, and of the rows that went into it
	Rows   int64
}

// DigestError says that a copy does not hold what its source held. It matches
// ErrCorrupt.
type DigestError struct {
	Session      pistore.SessionID
	Source, Copy string // the digests
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("the copy of session %s differs from its source: digest %s instead of %s", e.Session, e.Copy, e.Source)
}

// Is reports whether target is ErrCorrupt.
func (e *DigestError) Is(target error) bool { return target == pistore.ErrCorrupt }

// Undamaged returns the first damage that a session finds in itself, where it is
// a [pistore.Verifier].
func Undamaged(ctx context.Context, src pistore.Storage) error {
	v, ok := pistore.Find[pistore.Verifier](src)
	if !ok {
		return nil
	}
	for fault, err := range v.VerifyStorage(ctx, false) {
		if err != nil {
			return err
		}
		if fault != nil {
			return fault
		}
	}
	return nil
}

// Copy loads rows into a new session of dst, reads it back and compares digests,
// whatever it is that makes the rows. After any error dst holds no copy. Digests
// that differ are a [*DigestError].
func Copy(ctx context.Context, rows iter.Seq2[pistore.Row, error], dst pistore.Backend, progress Progress) (Copied, error) {
	c, err := hashed(progress, func(tee rowFilter) (pistore.Info, error) { return dst.Load(ctx, tee(rows)) })
	if err != nil {
		return Copied{}, err
	}
	if err := compare(ctx, dst, c); err != nil {
		// The copy goes even when the context has ended, which may be the reason.
		return Copied{}, errors.Join(err, dst.Delete(context.WithoutCancel(ctx), c.Info.ID))
	}
	return c, nil
}

// rowFilter is a step that rows pass.
type rowFilter func(iter.Seq2[pistore.Row, error]) iter.Seq2[pistore.Row, error]

// hashed lets load take rows through a step that counts and hashes them. The
// digest is that of the very rows that are taken, as they pass: what is committed
// to their source meanwhile does not count.
func hashed(progress Progress, load func(tee rowFilter) (pistore.Info, error)) (Copied, error) {
	var c Copied
	var loadErr error
	digest, err := pistore.DigestRows(func(hash func(pistore.Row, error) bool) {
		see := func(row pistore.Row) bool {
			if _, header := row.(pistore.Header); !header {
				if c.Rows++; c.Rows%progressRows == 0 {
					progress.tell(c.Rows)
				}
			}
			return hash(row, nil)
		}
		c.Info, loadErr = load(func(rows iter.Seq2[pistore.Row, error]) iter.Seq2[pistore.Row, error] { return teed(rows, see) })
	})
	if err = errors.Join(loadErr, err); err != nil {
		return Copied{}, err
	}
	progress.tell(c.Rows)
	c.Digest = digest
	return c, nil
}

// errDigest ends a load whose rows cannot be hashed.
var errDigest = errors.New("a row that has no digest")

// teed yields rows and shows each to see before.
func teed(rows iter.Seq2[pistore.Row, error], see func(pistore.Row) bool) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		for row, err := range rows {
			if err == nil && !see(row) {
				row, err = nil, errDigest
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// compare reads the copy back.
func compare(ctx context.Context, dst pistore.Backend, c Copied) (err error) {
	s, err := dst.Open(ctx, c.Info.ID, pistore.ReadOnly)
	if err != nil {
		return err
	}
	digest, err := pistore.Digest(ctx, s)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if digest != c.Digest {
		return &DigestError{Session: c.Info.ID, Source: c.Digest, Copy: digest}
	}
	return nil
}
