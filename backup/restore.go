package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"pistore"
	"pistore/session"
)

// Check reads a backup to its end and returns what is in it. One that is cut
// short or damaged anywhere is a *pistore.CorruptError that names the line; what
// is no backup is ErrForeignFormat.
func Check(ctx context.Context, r io.Reader) ([]session.Copied, error) {
	var all []session.Copied
	err := read(ctx, r, func(h pistore.Header, rows iter.Seq2[pistore.Row, error]) (session.Copied, error) {
		c, err := count(rows)
		c.Info = h.Info
		all = append(all, c)
		return c, err
	})
	return all, wrap("check", err)
}

// count reads rows to their end.
func count(rows iter.Seq2[pistore.Row, error]) (c session.Copied, err error) {
	c.Digest, err = pistore.DigestRows(func(hash func(pistore.Row, error) bool) {
		for row, err := range rows {
			if _, header := row.(pistore.Header); !header && err == nil {
				c.Rows++
			}
			if !hash(row, err) {
				return
			}
		}
	})
	return c, err
}

// Restore makes the sessions of a backup in dst, those of ids or all, with their
// ids, seqs and times and a generation of their own. It reads the backup twice:
// nothing is made of one that is cut short or damaged, and after any error dst
// holds none of its sessions. An id that dst has is ErrDuplicateID; one that is
// not in the backup ErrNotFound.
func Restore(ctx context.Context, r io.ReadSeeker, dst pistore.Backend, ids []pistore.SessionID, progress session.Progress) ([]session.Copied, error) {
	all, err := Check(ctx, r)
	if err == nil {
		_, err = r.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	re := &restorer{dst: dst, progress: progress, wanted: map[pistore.SessionID]bool{}}
	for _, c := range all {
		re.wanted[c.Info.ID] = len(ids) == 0
	}
	for _, id := range ids {
		if _, ok := re.wanted[id]; !ok {
			return nil, wrap("restore", fmt.Errorf("%w: session %.128q", pistore.ErrNotFound, string(id)))
		}
		re.wanted[id] = true
	}
	err = read(ctx, r, func(h pistore.Header, rows iter.Seq2[pistore.Row, error]) (session.Copied, error) {
		return re.session(ctx, h, rows)
	})
	if err != nil {
		for _, c := range re.made {
			err = errors.Join(err, dst.Delete(context.WithoutCancel(ctx), c.Info.ID))
		}
		return nil, wrap("restore", err)
	}
	return re.made, nil
}

type restorer struct {
	dst      pistore.Backend
	progress session.Progress
	wanted   map[pistore.SessionID]bool
	made     []session.Copied
	rows     int64 // of the sessions before
}

func (re *restorer) session(ctx context.Context, h pistore.Header, rows iter.Seq2[pistore.Row, error]) (session.Copied, error) {
	if !re.wanted[h.Info.ID] {
		return count(rows)
	}
	c, err := session.Copy(ctx, minted(rows), re.dst, func(rows int64) {
		if re.progress != nil {
			re.progress(re.rows + rows)
		}
	})
	if err == nil {
		re.rows += c.Rows
		re.made = append(re.made, c)
	}
	return c, err
}

// minted takes the generation out of a header, so that the backend mints one.
func minted(rows iter.Seq2[pistore.Row, error]) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		for row, err := range rows {
			if h, ok := row.(pistore.Header); ok {
				h.Info.Generation = ""
				row = h
			}
			if !yield(row, err) {
				return
			}
		}
	}
}
