package jsonl

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"pistore"
	"pistore/memstore"
)

// Rewrite replaces what a session's file holds, in the way of a compaction: a
// temporary file, its sync, and a rename. What the file held is gone then, so the
// original that an upgrade has kept goes with it.
func (b *Folder) Rewrite(
	ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error],
) (info pistore.Info, err error) {
	st, err := b.openFor(ctx, id, pistore.ReadWrite, b.opts.untouched())
	if err != nil {
		return pistore.Info{}, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	old := st.(*folderFile).File
	l := loading{folder: b, known: memstore.NewState(pistore.Info{}), replaces: old}
	if err := l.run(ctx, make(looking{st})); err != nil {
		if l.temp != nil {
			err = l.temp.abandon(err)
		}
		return pistore.Info{}, err
	}
	path := old.log.path
	err = l.temp.publish(path)
	if err = errors.Join(err, l.temp.release()); err != nil {
		return pistore.Info{}, fmt.Errorf("jsonl: rewrite: %w: %w", pistore.ErrFaulted, err)
	}
	if err := removeOriginals(b.opts, path, id); err != nil {
		return pistore.Info{}, fmt.Errorf("jsonl: rewrite: it is done, and the original beside it could not be removed: %w", err)
	}
	return l.info, syncDirOf(b.opts, path)
}

// untouched returns options with which opening a file does not rewrite it.
func (o Options) untouched() Options {
	o.NoCompactOnOpen = true
	return o
}

// looking is a session that is open for writing, to be read only.
type looking struct{ pistore.Storage }

func (looking) Commit(context.Context, pistore.Tx) (pistore.Receipt, error) {
	return pistore.Receipt{}, fmt.Errorf("jsonl: commit: %w", pistore.ErrReadOnly)
}

// Unwrap is part of [pistore.Decorator].
func (l looking) Unwrap() pistore.Storage { return l.Storage }
