package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"pistore"
	"pistore/jsonl"
	"pistore/session"
)

// read reads a backup and lets take read each session in turn, to its end;
// what take counted and hashed has to be what the backup says.
func read(ctx context.Context, r io.Reader, take func(pistore.Header, iter.Seq2[pistore.Row, error]) (session.Copied, error)) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return err
	}
	defer z.Close()
	b := &reader{ctx: ctx, text: bufio.NewReaderSize(z, 64<<10)}
	if err := b.open(); err != nil {
		return err
	}
	for sessions := 0; ; sessions++ {
		row, object, err := b.next()
		if err != nil {
			return err
		}
		h, ok := row.(pistore.Header)
		if !ok {
			return b.close(object, sessions)
		}
		c, err := take(h, b.rows(h))
		if err != nil {
			return err
		}
		if b.end != fmt.Sprintf("%d %s", c.Rows, c.Digest) {
			return b.corrupt("the rows of session %s are not those that were backed up", h.Info.ID)
		}
	}
}

// maxWindowBytes allows for another program that has packed a backup again.
const maxWindowBytes = 32 << 20

// errEnd: the session has ended.
var errEnd = errors.New("end")

// reader reads the lines of a backup.
type reader struct {
	ctx  context.Context
	text *bufio.Reader
	buf  []byte
	line int64
	end  string // count and digest of the session at hand
}

func (b *reader) corrupt(format string, args ...any) error {
	return &pistore.CorruptError{Backend: "backup", Place: fmt.Sprintf("line %d", b.line), Problem: fmt.Sprintf(format, args...)}
}

// open reads the first line, which says what the stream is.
func (b *reader) open() error {
	_, object, err := b.next()
	switch kind, _ := object.Member("kind"); {
	case errors.Is(err, zstd.ErrMagicMismatch), err == nil && kind != `"backup"`:
		return fmt.Errorf("%w: no backup", pistore.ErrForeignFormat)
	case err != nil:
		return err
	}
	if v, _ := object.Member("version"); v != pistore.JSON(fmt.Sprint(version)) {
		return fmt.Errorf("%w: a backup of version %.20s", pistore.ErrNewerVersion, string(v))
	}
	return nil
}

// close reads what follows the last session: nothing but the line that says so.
func (b *reader) close(object pistore.JSON, sessions int) error {
	if want := fmt.Sprintf(`{"kind":"backup-end","sessions":%d}`, sessions); string(object) != want {
		return b.corrupt("neither a session nor the end of a backup of %d sessions", sessions)
	}
	switch _, err := b.text.ReadByte(); {
	case err == nil:
		return b.corrupt("the backup goes on behind its end")
	case err != io.EOF:
		return b.corrupt("%v", err)
	}
	return nil
}

// rows yields a session, up to the line that ends it.
func (b *reader) rows(h pistore.Header) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		for row := pistore.Row(h); ; {
			if !yield(row, nil) {
				return
			}
			next, object, err := b.next()
			if err == nil && next == nil {
				err = b.ended(object)
			}
			if err == errEnd {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			row = next
		}
	}
}

// ended reads the line that ends a session: errEnd if it is one.
func (b *reader) ended(object pistore.JSON) error {
	kind, _ := object.Member("kind")
	rows, _ := object.Member("rows")
	digest, _ := object.Member("digest")
	text, ok := digest.Text()
	if kind != `"end"` || !ok {
		return b.corrupt("neither a row nor the end of a session")
	}
	b.end = string(rows) + " " + text
	return errEnd
}

// next reads a line: a row, or an object that is none.
func (b *reader) next() (pistore.Row, pistore.JSON, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, "", err
	}
	b.line++
	b.buf = b.buf[:0]
	for {
		part, err := b.text.ReadSlice('\n')
		b.buf = append(b.buf, part...)
		switch {
		case len(b.buf) > jsonl.MaxRowLineBytes:
			return nil, "", b.corrupt("the line is too long to be one of a backup")
		case err == bufio.ErrBufferFull:
			continue
		case errors.Is(err, zstd.ErrMagicMismatch) && b.line == 1:
			return nil, "", err
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, "", b.corrupt("the backup is cut short")
		case err != nil:
			return nil, "", b.corrupt("%v", err)
		}
		break
	}
	row, object, err := jsonl.ParseLine(b.buf[:len(b.buf)-1])
	if err != nil {
		return nil, "", b.corrupt("%v", err)
	}
	if object != "" {
		_, err = pistore.CompactJSON(string(object))
	}
	return row, object, err
}
