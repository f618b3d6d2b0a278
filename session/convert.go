package session

import (
	"context"

	"pistore"
)

// ConvertOptions say how a session is converted. The zero value is the usual
// choice.
type ConvertOptions struct {
	Progress Progress
}

// Convert copies a session from any backend into another, reads the copy back
// and compares digests. Ids, seqs and timestamps are kept; the source is only
// read, at one moment, and the copy is closed again.
//
// A source that finds damage in itself (a [pistore.Verifier]) is refused with
// the first *pistore.CorruptError, since a copy would pass off what is left as
// the whole. An id that dst has already is ErrDuplicateID; digests that differ
// are a [*DigestError]. After any error dst holds no copy.
func Convert(ctx context.Context, src pistore.Storage, dst pistore.Backend, o ConvertOptions) (Copied, error) {
	if err := Undamaged(ctx, src); err != nil {
		return Copied{}, wrap("convert", err)
	}
	c, err := Copy(ctx, src.Export(ctx), dst, o.Progress)
	return c, wrap("convert", err)
}
