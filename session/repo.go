package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// BackendRepo returns the sessions of a backend as a repository. Names cost a
// look at one register each.
func BackendRepo(b pistore.Backend) Repo { return backendRepo{b} }

type backendRepo struct{ backend pistore.Backend }

func (r backendRepo) List(ctx context.Context, q ListQuery) (Listing, error) {
	var l Listing
	for info, err := range r.backend.List(ctx) {
		if err != nil {
			return Listing{}, wrap("list", err)
		}
		if !q.keeps(info) {
			continue
		}
		listed, err := r.look(ctx, info, q.Names)
		switch {
		case err == nil:
			l.Sessions = append(l.Sessions, listed)
		case ctx.Err() != nil:
			return Listing{}, ctx.Err()
		case errors.Is(err, pistore.ErrNotFound): // deleted meanwhile
		default:
			l.skip(string(info.ID), err)
		}
	}
	l.sort(q.Order)
	return l, nil
}

// look reads of a session what its header does not say.
func (r backendRepo) look(ctx context.Context, info pistore.Info, names bool) (l Listed, err error) {
	l = Listed{Info: info, ModifiedAt: info.CreatedAt}
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
