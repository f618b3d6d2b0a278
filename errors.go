package pistore

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of opening a store or a session. Nothing was changed.
var (
	// ErrLocked: another owner has the store open for writing; see [*LockedError].
	ErrLocked = errors.New("locked by another owner")
	// ErrBusy: a consistent snapshot could not be taken beside a very busy writer;
	// trying again later may succeed.
	ErrBusy = errors.New("busy")
	// ErrCorrupt: the store is damaged; see [*CorruptError].
	ErrCorrupt = errors.New("corrupt")
	// ErrNewerVersion: a newer program wrote the store.
	ErrNewerVersion = errors.New("written by a newer version")
	// ErrForeignFormat: the place holds something that this backend does not
	// write, and does not touch.
	ErrForeignFormat = errors.New("foreign format")
	// ErrUnsupported: the backend or the platform lacks what was asked for.
	ErrUnsupported = errors.New("unsupported")
	// ErrNotFound: no such session, or no such entry to start a branch walk at.
	ErrNotFound = errors.New("not found")
)

// Errors of a commit before its admission. Nothing was written and the store
// stays usable.
var (
	// ErrInvalid: malformed input: an id, a name, a JSON text, a payload member.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: a limit was exceeded; see [*LimitError].
	ErrTooLarge = errors.New("too large")
	// ErrDuplicateID: the id of an entry, usage row or session is in use.
	ErrDuplicateID = errors.New("duplicate id")
	// ErrMissingParent: a parent id names no entry.
	ErrMissingParent = errors.New("missing parent")
	// ErrConflict: a precondition does not hold; see [*ConflictError].
	ErrConflict = errors.New("conflict")
	// ErrReadOnly: the session was opened read-only.
	ErrReadOnly = errors.New("read-only")
)

// Errors after admission. The outcome of the failing commit is unknown; only
// reopening tells.
var (
	// ErrFaulted: an I/O failure poisoned the store. This call and all later
	// ones fail with it, wrapping the cause, until the store is reopened.
	ErrFaulted = errors.New("faulted")
	// ErrFenced: ownership was lost to another owner; nothing more is committed.
	ErrFenced = errors.New("fenced")
)

// ErrClosed: the handle was closed.
var ErrClosed = errors.New("closed")

// CorruptError locates damage. It matches [ErrCorrupt].
type CorruptError struct {
	Backend   string    // "logstore", "jsonl", …
	Session   SessionID // empty when the damage is not within one session
	Place     string    // where: a line and byte offset, a file and offset, or a key
	Invariant int       // the invariant that is broken, by number; 0: physical damage
	Problem   string    // what was expected and what was found
}

func (e *CorruptError) Error() string {
	var b strings.Builder
	b.WriteString(e.Backend)
	if e.Session != "" {
		fmt.Fprintf(&b, ": session %s", e.Session)
	}
	if e.Place != "" {
		b.WriteString(": " + e.Place)
	}
	b.WriteString(": corrupt: " + e.Problem)
	if e.Invariant != 0 {
		fmt.Fprintf(&b, " (invariant %d)", e.Invariant)
	}
	return b.String()
}

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// ConflictError names the first precondition, in the given order, that does
// not hold. It matches [ErrConflict].
type ConflictError struct {
	Namespace, Key string
	Want           Seq // 0: the register was to be absent
	Got            Seq // 0: the register is absent
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict: register %s/%s is at seq %d, expected %d", e.Namespace, e.Key, e.Got, e.Want)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LockedError names the owner of a store as far as the platform can tell. It
// matches [ErrLocked].
type LockedError struct {
	Place string // what is locked
	PID   int    // 0 when unknown
	Host  string // empty when unknown
	Since UnixMS // 0 when unknown
}

func (e *LockedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: locked by another owner", e.Place)
	if e.PID != 0 {
		fmt.Fprintf(&b, ": process %d", e.PID)
	}
	if e.Host != "" {
		fmt.Fprintf(&b, " on %s", e.Host)
	}
	if e.Since != 0 {
		fmt.Fprintf(&b, " since %s", e.Since.Time().UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return b.String()
}

// Is reports whether target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }
