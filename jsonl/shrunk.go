package jsonl

import (
	"errors"
	"fmt"
	"io"

	"pistore"
)

// errShrunk says that a file ends in front of what it had when it was measured.
// A writer cuts only a torn tail off: whoever looks on his own can measure again.
var errShrunk = fmt.Errorf("%w: the file became shorter while it was read; open it again to see what is left", pistore.ErrCorrupt)

// readFull fills p from a byte of a file on.
func readFull(src io.ReaderAt, p []byte, at int64) error {
	n, err := src.ReadAt(p, at)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("byte %d: %w", at+int64(n), errShrunk)
	default:
		return fmt.Errorf("read at byte %d: %w", at+int64(n), err)
	}
}

// altered is the error about a place in a file that somebody changed under its
// reader. What is not that stays as it is.
func altered(err error, session pistore.SessionID, path string, at int64) error {
	switch {
	case errors.Is(err, errShrunk):
		return &pistore.CorruptError{
			Backend: backend, Session: session, Place: fmt.Sprintf("%q, byte %d", path, at),
			Problem: "the file became shorter than it was when it was opened; open it again to see what is left",
		}
	case errors.Is(err, errShape):
		return &pistore.CorruptError{
			Backend: backend, Session: session, Place: fmt.Sprintf("%q, byte %d", path, at),
			Problem: fmt.Sprintf("the line was changed since the file was opened: %v; open it again to see what is there", err),
		}
	default:
		return err
	}
}
