package pipe

import (
	"errors"
	"fmt"

	"pistore"
)

// codes are the errors of the protocol. An error that matches several of them
// has the code of the first.
var codes = []struct {
	code string
	err  error
}{
	{"faulted", pistore.ErrFaulted},
	{"fenced", pistore.ErrFenced},
	{"closed", pistore.ErrClosed},
	{"conflict", pistore.ErrConflict},
	{"duplicate_id", pistore.ErrDuplicateID},
	{"missing_parent", pistore.ErrMissingParent},
	{"too_large", pistore.ErrTooLarge},
	{"corrupt", pistore.ErrCorrupt},
	{"newer_version", pistore.ErrNewerVersion},
	{"foreign_format", pistore.ErrForeignFormat},
	{"locked", pistore.ErrLocked},
	{"busy", pistore.ErrBusy},
	{"not_found", pistore.ErrNotFound},
	{"read_only", pistore.ErrReadOnly},
	{"unsupported", pistore.ErrUnsupported},
	{"invalid", pistore.ErrInvalid},
}

// codeOf returns the code of an error. What matches no sentinel is a failure of
// the machine below: faulted.
func codeOf(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "faulted"
}

// errorOf returns the error that a response tells of.
func errorOf(method, code, message string) error {
	for _, c := range codes {
		if c.code == code {
			return fmt.Errorf("pipe: %s: %w: %.1000s", method, c.err, message)
		}
	}
	return fmt.Errorf("pipe: %s: an error with the code %.40q, which the protocol does not have: %.1000s", method, code, message)
}
