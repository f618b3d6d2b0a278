package jsonl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"pistore"
)

var _ pistore.Cataloger = (*Folder)(nil)

// Catalog yields the sessions of the folder by path. Of two files that hold one
// session the second is told as an error, as in [Folder.List].
func (b *Folder) Catalog(ctx context.Context, names bool) iter.Seq2[pistore.CatalogEntry, error] {
	return func(yield func(pistore.CatalogEntry, error) bool) {
		err := cmp.Or(b.usable(), ctx.Err())
		files := map[string]seenFile{}
		if err == nil {
			files, err = b.look(ctx)
		}
		if err != nil {
			yield(pistore.CatalogEntry{}, fmt.Errorf("jsonl: catalog: %w", err))
			return
		}
		seen := map[pistore.SessionID]bool{}
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if err := ctx.Err(); err != nil {
				yield(pistore.CatalogEntry{}, err)
				return
			}
			e, ok := b.catalogued(ctx, path, files[path], names)
			if ok && e.Err == nil && seen[e.Info.ID] {
				e = pistore.CatalogEntry{Path: path, Err: fmt.Errorf("%w: another file holds the session %s too", pistore.ErrDuplicateID, e.Info.ID)}
			}
			seen[e.Info.ID] = true
			if ok && !yield(e, nil) {
				return
			}
		}
	}
}

// catalogued looks at one file; ok is false where it is no session, or gone.
func (b *Folder) catalogued(ctx context.Context, path string, f seenFile, names bool) (e pistore.CatalogEntry, ok bool) {
	e = pistore.CatalogEntry{Info: f.info, Path: path, Err: f.err}
	st, err := b.opts.FS.Stat(path)
	if err == nil && e.Err == nil && names {
		e.Name, err = nameAt(ctx, b.opts.FS, path)
	}
	switch {
	case errors.Is(e.Err, pistore.ErrForeignFormat), e.Err == nil && e.Info.ID == "", errors.Is(err, fs.ErrNotExist), errors.Is(err, pistore.ErrNotFound):
		return e, false
	case e.Err != nil:
		return pistore.CatalogEntry{Path: path, Err: e.Err}, true
	case err != nil:
		return pistore.CatalogEntry{Path: path, Err: err}, true
	}
	e.ModifiedAt, e.SizeBytes = pistore.UnixMS(max(st.ModifiedMS, 0)), st.Size
	return e, true
}
