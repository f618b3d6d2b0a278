package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"pistore"
)

// Repo is a place with many sessions.
type Repo interface {
	// List lists the sessions of the place, reading headers only. What cannot
	// be read is skipped, and said so in the listing; an error says that the
	// place itself cannot be read, or that the context has ended.
	List(ctx context.Context, q ListQuery) (Listing, error)
}

// ListOrder is the order of a listing.
type ListOrder int

// The orders.
const (
	ByRecency ListOrder = iota // newest first
	ByCWD                      // by working directory, the newest of each first
	ByName                     // by name, those without one last
)

// ListQuery says what to list.
type ListQuery struct {
	Order ListOrder
	// CWD keeps the sessions of a working directory and of those below it;
	// empty: all.
	CWD string
	// Names has names read. In a folder of files that is not free: a file
	// without a name is read to its beginning.
	Names bool
}

// Listed is one session of a listing.
type Listed struct {
	// Info is what the header says. The ID is empty where the header of a file
	// has none.
	Info pistore.Info
	Name string // empty: none, or not asked for
	// ModifiedAt is when the file was changed last; in a backend the time of
	// the newest entry, or that of creation.
	ModifiedAt pistore.UnixMS
	Path       string // of the file; empty in a backend
	SizeBytes  int64  // of the file; 0 in a backend
}

// Skipped is something that a listing could not read.
type Skipped struct {
	Path string // of the file or folder; in a backend the session's id
	Err  error
}

// Listing is the result of listing a repository.
type Listing struct {
	Sessions []Listed
	// Skipped holds the first of what could not be read, and Omitted counts the
	// rest.
	Skipped []Skipped
	Omitted int64
}

const maxSkipped = 1000

func (l *Listing) skip(path string, err error) {
	if len(l.Skipped) == maxSkipped {
		l.Omitted++
		return
	}
	l.Skipped = append(l.Skipped, Skipped{path, err})
}

// keeps reports whether a session is of the working directory asked for.
func (q ListQuery) keeps(info pistore.Info) bool {
	return q.CWD == "" || info.CWD != "" && within(filepath.Clean(info.CWD), filepath.Clean(q.CWD))
}

// within reports whether a path is dir or below it. Both are clean.
func within(path, dir string) bool {
	if path == dir {
		return true
	}
	if !strings.HasSuffix(dir, string(filepath.Separator)) {
		dir += string(filepath.Separator)
	}
	return strings.HasPrefix(path, dir)
}

func (l *Listing) sort(order ListOrder) {
	slices.SortFunc(l.Sessions, func(a, b Listed) int {
		first := 0
		switch order {
		case ByCWD:
			first = cmp.Compare(a.Info.CWD, b.Info.CWD)
		case ByName:
			first = cmp.Or(cmp.Compare(nameless(a), nameless(b)), cmp.Compare(a.Name, b.Name))
		}
		return cmp.Or(first, cmp.Compare(b.ModifiedAt, a.ModifiedAt), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Info.ID, b.Info.ID))
	})
}

func nameless(l Listed) int {
	if l.Name == "" {
		return 1
	}
	return 0
}

// BackendRepo returns the sessions of a backend as a repository. One that is a
// [pistore.Cataloger] is not opened session by session to list them; in others
// the newest entry and the name cost a look each.
func BackendRepo(b pistore.Backend) *Sessions { return &Sessions{b} }

// Sessions are the sessions of a backend.
type Sessions struct{ backend pistore.Backend }

// Create makes a session with the lane main, open for writing.
func (r *Sessions) Create(ctx context.Context, info pistore.Info) (*Session, error) {
	s, err := r.backend.Create(ctx, info)
	if err != nil {
		return nil, wrap("create", err)
	}
	return opening(ctx, s)
}

// Open opens a session; its errors are those of the backend.
func (r *Sessions) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (*Session, error) {
	s, err := r.backend.Open(ctx, id, mode)
	if err != nil {
		return nil, wrap("open", err)
	}
	return opening(ctx, s)
}

func opening(ctx context.Context, storage pistore.Storage) (*Session, error) {
	s, err := Open(ctx, storage)
	if err != nil {
		return nil, errors.Join(err, storage.Close())
	}
	return s, nil
}

// Delete removes a session that nobody has open for writing.
func (r *Sessions) Delete(ctx context.Context, id pistore.SessionID) error {
	return wrap("delete", r.backend.Delete(ctx, id))
}

// Fork makes a new session beside the one that it is made of; [Fork] goes to
// another place.
func (r *Sessions) Fork(ctx context.Context, id pistore.SessionID, o ForkOptions) (c Copied, err error) {
	src, err := r.backend.Open(ctx, id, pistore.ReadOnly)
	if err != nil {
		return Copied{}, wrap("fork", err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return Fork(ctx, src, r.backend, o)
}

// List is part of [Repo].
func (r *Sessions) List(ctx context.Context, q ListQuery) (Listing, error) {
	var l Listing
	for e, err := range r.entries(ctx, q) {
		switch {
		case err != nil:
			return Listing{}, wrap("list", err)
		case e.Err != nil && ctx.Err() != nil:
			return Listing{}, ctx.Err()
		case errors.Is(e.Err, pistore.ErrNotFound): // deleted meanwhile
		case e.Err != nil:
			l.skip(e.Path, e.Err)
		case q.keeps(e.Info):
			l.Sessions = append(l.Sessions, Listed{e.Info, e.Name, e.ModifiedAt, e.Path, e.SizeBytes})
		}
	}
	l.sort(q.Order)
	return l, nil
}

// entries yields the catalog of a backend, or makes one.
func (r *Sessions) entries(ctx context.Context, q ListQuery) iter.Seq2[pistore.CatalogEntry, error] {
	if c, ok := r.backend.(pistore.Cataloger); ok {
		return c.Catalog(ctx, q.Names)
	}
	return func(yield func(pistore.CatalogEntry, error) bool) {
		for info, err := range r.backend.List(ctx) {
			e := pistore.CatalogEntry{Info: info}
			if err == nil && q.keeps(info) {
				if e, e.Err = r.look(ctx, info, q.Names); e.Err != nil {
					e.Path = string(info.ID)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// look reads of a session what its header does not say.
func (r *Sessions) look(ctx context.Context, info pistore.Info, names bool) (l pistore.CatalogEntry, err error) {
	l = pistore.CatalogEntry{Info: info, ModifiedAt: info.CreatedAt}
	s, err := r.backend.Open(ctx, info.ID, pistore.ReadOnly)
	if err != nil {
		return l, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for e, err := range s.ScanEntries(ctx, pistore.ScanQuery{Order: pistore.Reversed, Limit: 1}) {
		if err != nil {
			return l, err
		}
		l.ModifiedAt = max(l.ModifiedAt, e.Timestamp)
	}
	if names {
		l.Name, _, err = New(s).Name(ctx)
	}
	return l, err
}
