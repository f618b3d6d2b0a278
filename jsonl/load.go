package jsonl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"pistore"
	"pistore/internal/admit"
	"pistore/memstore"
)

// Load builds a new session from an export.
func (b *Folder) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	if err := cmp.Or(b.usable(), ctx.Err()); err != nil {
		return pistore.Info{}, err
	}
	l := loading{folder: b, known: memstore.NewState(pistore.Info{})}
	err := l.run(ctx, rows)
	switch {
	case err != nil && l.temp != nil:
		return pistore.Info{}, l.temp.abandon(err)
	case err != nil:
		return pistore.Info{}, err
	}
	if err := b.publish(l.temp, l.path, l.info.ID); err != nil {
		return pistore.Info{}, fmt.Errorf("jsonl: load: %w", err)
	}
	return l.info, l.temp.release()
}

// loading is a load at work. What it needs of the rows before is what admission
// asks for: ids and addresses.
type loading struct {
	folder *Folder
	known  *memstore.State
	// replaces is the file that a rewrite takes the rows from and puts them in
	// the place of; nil: the session is a new one.
	replaces *File
	info     pistore.Info
	temp     *temp
	path     string
}

func (l *loading) run(ctx context.Context, rows iter.Seq2[pistore.Row, error]) error {
	for row, err := range admit.Rows(rows, l.known) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if h, ok := row.(pistore.Header); ok {
			err = l.header(h)
		} else {
			err = l.row(row)
		}
		if err != nil {
			return fmt.Errorf("jsonl: load: %w", err)
		}
	}
	if err := l.temp.sync(); err != nil {
		return fmt.Errorf("jsonl: load: %w", err)
	}
	return nil
}

func (l *loading) header(h pistore.Header) error {
	if h.Info.ID == "" {
		return fmt.Errorf("%w: a header without a session id", pistore.ErrInvalid)
	}
	switch v := h.Info.StorageVersion; {
	case v < 0:
		return fmt.Errorf("%w: storage version %d", pistore.ErrInvalid, v)
	case v == 0: // rows that were made, not exported
		h.Info.StorageVersion = pistore.StorageVersion
	case v > pistore.StorageVersion:
		return fmt.Errorf("%w: storage version %d", pistore.ErrNewerVersion, v)
	}
	if l.replaces != nil {
		h.Info.Generation = ""
	}
	if h.Info.Generation == "" {
		h.Info.Generation = string(l.folder.opts.ids.New())
	}
	h.Info.Format = string(V4)
	l.info = h.Info
	if l.replaces != nil {
		return l.replace(h)
	}
	if _, err := l.folder.find(h.Info.ID); err == nil {
		return fmt.Errorf("%w: session %s", pistore.ErrDuplicateID, h.Info.ID)
	} else if !errors.Is(err, pistore.ErrNotFound) {
		return err
	}
	var err error
	if l.temp, l.path, err = l.folder.newFile(h.Info); err == nil {
		l.temp.enc.header(h.Info, h.NextSeq, 0, nil)
	}
	return err
}

// replace is header for a rewrite.
func (l *loading) replace(h pistore.Header) error {
	old := l.replaces
	if h.Info.ID != old.Info().ID {
		return fmt.Errorf("%w: rows of session %.140q for session %s", pistore.ErrInvalid, string(h.Info.ID), old.Info().ID)
	}
	var err error
	if l.temp, err = old.log.replacement(); err == nil {
		l.temp.enc.header(h.Info, h.NextSeq, 0, old.extra)
	}
	return err
}

func (l *loading) row(row pistore.Row) error {
	w, seq, _ := writeOf(row)
	switch known := w.(type) {
	case pistore.InsertEntry:
		known.Payload = ""
		w = known
	case pistore.InsertUsage:
		known.Usage, known.Details = "{}", ""
		w = known
	case pistore.SetRegister:
		known.Value = ""
		w = known
	}
	l.known.Apply(pistore.Transaction{FirstSeq: seq, Seqs: []pistore.Seq{seq}, Writes: []pistore.Write{w}})
	return l.temp.row(row)
}
