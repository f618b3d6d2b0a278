package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"pistore"
)

// progressRows is how many rows a conversion copies between two calls of its
// progress function.
const progressRows = 1024

// ConvertOptions say how a session is converted. The zero value is the usual
// choice.
type ConvertOptions struct {
	// Progress is told, now and then and at the end, how many rows were copied;
	// nil: nobody is. It is called between rows, never by two goroutines at once.
	Progress func(rows int64)
}

// Converted is what a conversion made.
type Converted struct {
	Info   pistore.Info // of the copy
	Digest string       // of the source and of the copy
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

// Convert copies a session from any backend into another, reads the copy back
// and compares digests. Ids, seqs and timestamps are kept; the source is only
// read, at one moment, and the copy is closed again.
//
// A source that finds damage in itself (a [pistore.Verifier]) is refused with
// the first *pistore.CorruptError, since a copy would pass off what is left as
// the whole. An id that dst has already is ErrDuplicateID; digests that differ
// are a [*DigestError]. After any error dst holds no copy.
func Convert(ctx context.Context, src pistore.Storage, dst pistore.Backend, o ConvertOptions) (Converted, error) {
	if err := undamaged(ctx, src); err != nil {
		return Converted{}, wrap("convert", err)
	}
	c, err := load(ctx, src, dst, o)
	if err != nil {
		return Converted{}, wrap("convert", err)
	}
	if err := compare(ctx, dst, c); err != nil {
		// The copy goes even when the context has ended, which may be the reason.
		err = errors.Join(err, dst.Delete(context.WithoutCancel(ctx), c.Info.ID))
		return Converted{}, wrap("convert", err)
	}
	return c, nil
}

func undamaged(ctx context.Context, src pistore.Storage) error {
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

// load copies the rows. The digest of the source is taken of the very rows that
// are copied, as they pass: what is committed to the source meanwhile counts in
// neither.
func load(ctx context.Context, src pistore.Storage, dst pistore.Backend, o ConvertOptions) (Converted, error) {
	var c Converted
	var loadErr error
	progress := func() {
		if o.Progress != nil {
			o.Progress(c.Rows)
		}
	}
	digest, err := pistore.DigestRows(func(hash func(pistore.Row, error) bool) {
		c.Info, loadErr = dst.Load(ctx, teed(src.Export(ctx), func(row pistore.Row) bool {
			if _, header := row.(pistore.Header); !header {
				if c.Rows++; c.Rows%progressRows == 0 {
					progress()
				}
			}
			return hash(row, nil)
		}))
	})
	if err = errors.Join(loadErr, err); err != nil {
		return Converted{}, err
	}
	progress()
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
func compare(ctx context.Context, dst pistore.Backend, c Converted) (err error) {
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
