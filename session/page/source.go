package page

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"pistore"
	"pistore/ledger"
)

// Source is what a page is made of: an open session, and what is known of it
// beside its rows.
type Source struct {
	Storage pistore.Storage
	// LegacyID returns the id that an entry has in a file of an old format, empty
	// if it has none; nil: no such file.
	LegacyID func(pistore.ID) string
	Bytes    int64 // of the store; 0: not known
	// TornBytes stand at the end of a file and are set aside.
	TornBytes int64
	Lanes     []Lane // the one whose path is shown first comes first
	// Spent is what the session used; nil: not known.
	Spent *ledger.Breakdown

	Faults        []Fault
	OmittedFaults int64 // found, and not in Faults
	// Incomplete: damage kept rows from being read.
	Incomplete bool

	MadeAt pistore.UnixMS
	MadeBy string // the program
}

// Lane is a lane and what it is doing, in words.
type Lane struct {
	Name   string
	Leaf   pistore.ID
	Doing  string
	Busy   bool   // an operation is open
	Model  string // the configured one; optional
	Result string // how its newest operation ended; optional
}

// Fault is something wrong with the store.
type Fault struct {
	Warning bool
	Name    string // its kind, or the invariant
	Place   string
	ID      string
	Message string
}

// Limits of a page. What they leave out is counted in the page.
type Limits struct {
	Entries    int   // with their content
	Bytes      int64 // of content
	EntryBytes int   // of content, an entry
	ImageBytes int   // of one image, encoded
	ImagesSum  int   // of all images, encoded
	Rows       int   // of each list beside the transcript
}

// DefaultLimits keep a page of any session usable in a browser.
var DefaultLimits = Limits{
	Entries: 6000, Bytes: 12 << 20, EntryBytes: 48 << 10,
	ImageBytes: 1 << 20, ImagesSum: 8 << 20, Rows: 600,
}

// Write writes the page. Content is read and written entry by entry; what is
// held of an entry is its place in the tree and a line of text. Damage ends the
// page early or leaves a gap, and the page says so; an error says that writing
// failed or that the context has ended.
func Write(ctx context.Context, w io.Writer, src Source, limits Limits) error {
	m, err := read(ctx, src, limits)
	if err != nil {
		return fmt.Errorf("page: read: %w", err)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	if err := newWriter(ctx, m, out).write(); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// IsPage reports whether a text is a page that Write has made, which its
// beginning tells.
func IsPage(r io.Reader) (bool, error) {
	head, err := io.ReadAll(io.LimitReader(r, int64(len(beginning))))
	return string(head) == beginning, err
}
