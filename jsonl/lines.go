package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"pistore"
)

// maxLineBytes bounds the line that is held in memory: the largest payload, and
// room for the members around it. A longer one is counted and passed over.
const maxLineBytes = pistore.MaxPayloadBytes + 1<<20

const readChunk = 256 << 10

// maxLine4Bytes bounds a line of format 4: the largest transaction, whose names
// may grow sixfold by escapes, and room for the members around it.
const maxLine4Bytes = 6*pistore.MaxTxBytes + 64<<20

// line is one line of a file. Its text, without the newline, is valid until the
// next call and the receiver's to change; it is empty when the line is too long
// to be held.
type line struct {
	number int64 // from 1
	offset int64 // of its first byte
	length int64 // of its text
	text   []byte
	ended  bool     // a newline stands behind it
	long   *outline // of a line too long to be held, else nil
}

// outline is what is known of a line that is not held.
type outline struct {
	lead  byte  // its first byte
	solid int64 // its length without the NULs at its end

	read   int64
	depth  int
	values int // that began at depth 0
	inText bool
	escape bool // the next byte of a text is escaped
}

// add takes in the next part of the line.
func (o *outline) add(part []byte) {
	if o.read == 0 && len(part) > 0 {
		o.lead = part[0]
	}
	if text := bytes.TrimRight(part, "\x00"); len(text) > 0 {
		o.solid = o.read + int64(len(text))
	}
	o.read += int64(len(part))
	for _, c := range part {
		switch {
		case o.escape:
			o.escape = false
		case o.inText:
			o.escape, o.inText = c == '\\', c != '"'
		case c == '"':
			o.inText = true
		case c == '{', c == '[':
			if o.depth == 0 {
				o.values++
			}
			o.depth++
		case c == '}', c == ']':
			o.depth--
		}
	}
}

// object reports whether the line looks like one whole object.
func (o *outline) object() bool {
	return o.lead == '{' && o.values == 1 && o.depth == 0 && !o.inText
}

// lineReader yields the lines of the first size bytes of a source, which ends in
// errShrunk if it has fewer. Only \n ends a line. Its memory is that of the
// longest line that is held.
type lineReader struct {
	src    io.ReaderAt
	size   int64
	limit  int // of a line that is held
	buf    []byte
	start  int   // in buf, of what was not handed out
	end    int   // in buf, of what was read
	pos    int64 // in the source, of buf[end]
	number int64
}

func newLineReader(src io.ReaderAt, size int64) *lineReader {
	return &lineReader{src: src, size: size, limit: maxLineBytes, buf: make([]byte, min(size, readChunk))}
}

// next returns the next line; ok is false at the end. A file that ends in a
// newline has no line behind it.
func (r *lineReader) next() (l line, ok bool, err error) {
	scanned := 0 // of buf[start:end], without a newline
	for {
		if i := bytes.IndexByte(r.buf[r.start+scanned:r.end], '\n'); i >= 0 {
			n := scanned + i
			l = r.take(n)
			l.ended = true
			r.start++
			return l, true, nil
		}
		scanned = r.end - r.start
		if scanned > r.limit {
			return r.passOver()
		}
		switch more, err := r.fill(); {
		case err != nil:
			return line{}, false, err
		case !more && scanned == 0:
			return line{}, false, nil
		case !more:
			return r.take(scanned), true, nil
		}
	}
}

// block moves whole lines into b, as many as a chunk holds; ok is false if the next
// line is longer than that or not ended.
func (r *lineReader) block(b *block) (ok bool, err error) {
	for {
		held := r.buf[r.start:r.end]
		if n := bytes.LastIndexByte(held[:min(len(held), readChunk)], '\n') + 1; n > 0 {
			b.number, b.offset = r.number, r.pos-int64(len(held))
			b.buf = append(b.buf[:0], held[:n]...)
			r.number += int64(bytes.Count(b.buf, []byte{'\n'}))
			r.start += n
			return true, nil
		}
		if len(held) >= readChunk {
			return false, nil
		}
		if more, err := r.fill(); err != nil || !more {
			return false, err
		}
	}
}

// take hands out the next n bytes.
func (r *lineReader) take(n int) line {
	r.number++
	l := line{number: r.number, offset: r.pos - int64(r.end-r.start), length: int64(n), text: r.buf[r.start : r.start+n]}
	r.start += n
	if n > r.limit {
		l.long = &outline{}
		l.long.add(l.text)
		l.text = nil
	}
	return l
}

// passOver reads to the end of a line that is too long to be held.
func (r *lineReader) passOver() (line, bool, error) {
	r.number++
	l := line{number: r.number, offset: r.pos - int64(r.end-r.start), long: &outline{}}
	for {
		part := r.buf[r.start:r.end]
		i := bytes.IndexByte(part, '\n')
		if l.ended = i >= 0; l.ended {
			part = part[:i]
		}
		l.long.add(part)
		l.length += int64(len(part))
		r.start += len(part)
		if l.ended {
			r.start++
			return l, true, nil
		}
		if more, err := r.fill(); err != nil {
			return line{}, false, err
		} else if !more {
			return l, true, nil
		}
	}
}

// fill reads more behind what is held, and reports whether there was any.
func (r *lineReader) fill() (bool, error) {
	if r.pos >= r.size {
		return false, nil
	}
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) {
		bigger := make([]byte, min(2*len(r.buf), r.limit+readChunk))
		copy(bigger, r.buf[:r.end])
		r.buf = bigger
	}
	want := min(int64(len(r.buf)-r.end), r.size-r.pos)
	n, err := r.src.ReadAt(r.buf[r.end:r.end+int(want)], r.pos)
	r.end += n
	r.pos += int64(n)
	switch {
	case n > 0: // whatever comes behind it is told when that is read
		return true, nil
	case errors.Is(err, io.EOF):
		return false, fmt.Errorf("byte %d: %w", r.pos, errShrunk)
	default:
		return false, fmt.Errorf("read at byte %d: %w", r.pos, err)
	}
}
