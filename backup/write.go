package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"pistore"
	"pistore/jsonl"
	"pistore/session"
)

// A backup is a zstd stream of lines of format 4 with their sums: what is in it
// can be read with any text tool once it is unpacked. A line of kind backup
// opens it. Then come the sessions, each as its header, a line a row, and a line
// of kind end with the count of rows and the digest; a line of kind backup-end
// with the count of sessions closes it.
const version = 1

const (
	flushBytes  = 256 << 10
	windowBytes = 4 << 20
)

// Write writes sessions of a backend, all of them if ids is empty, each as of one
// moment, also while others write them. It keeps no more than one row in memory.
// A session that finds damage in itself is refused, as by [session.Convert].
func Write(ctx context.Context, w io.Writer, src pistore.Backend, ids []pistore.SessionID, progress session.Progress) ([]session.Copied, error) {
	if len(ids) == 0 {
		for info, err := range src.List(ctx) {
			if err != nil {
				return nil, wrap("write", err)
			}
			ids = append(ids, info.ID)
		}
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderCRC(true), zstd.WithWindowSize(windowBytes), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, wrap("write", err)
	}
	b := &writer{ctx: ctx, out: z, progress: progress}
	err = b.run(src, ids)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, wrap("write", err)
	}
	return b.sessions, nil
}

type writer struct {
	ctx      context.Context
	out      io.Writer
	buf      []byte
	progress session.Progress
	sessions []session.Copied
	rows     int64 // of all sessions
}

func (b *writer) run(src pistore.Backend, ids []pistore.SessionID) error {
	b.object(`{"kind":"backup","version":%d}`, version)
	for _, id := range ids {
		if err := b.session(src, id); err != nil {
			return err
		}
	}
	b.object(`{"kind":"backup-end","sessions":%d}`, len(ids))
	return b.flush()
}

func (b *writer) object(format string, args ...any) {
	b.buf = jsonl.AppendObject(b.buf, pistore.JSON(fmt.Sprintf(format, args...)))
}

func (b *writer) session(src pistore.Backend, id pistore.SessionID) (err error) {
	s, err := src.Open(b.ctx, id, pistore.ReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := session.Undamaged(b.ctx, s); err != nil {
		return err
	}
	c := session.Copied{Info: s.Info()}
	c.Digest, err = pistore.DigestRows(func(hash func(pistore.Row, error) bool) {
		for row, err := range s.Export(b.ctx) {
			if err == nil {
				err = b.row(row, &c)
			}
			if !hash(row, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	b.sessions = append(b.sessions, c)
	b.object(`{"kind":"end","rows":%d,"digest":"%s"}`, c.Rows, c.Digest)
	return nil
}

// row writes one row and counts it.
func (b *writer) row(row pistore.Row, c *session.Copied) error {
	b.buf = jsonl.AppendRow(b.buf, row)
	if _, header := row.(pistore.Header); !header {
		c.Rows++
		b.rows++
	}
	if len(b.buf) < flushBytes {
		return nil
	}
	if b.progress != nil {
		b.progress(b.rows)
	}
	return b.flush()
}

func (b *writer) flush() error {
	_, err := b.out.Write(b.buf)
	if cap(b.buf) > 4*flushBytes {
		b.buf = nil // of one large row
	}
	b.buf = b.buf[:0]
	return err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("backup: %s: %w", what, err)
}
