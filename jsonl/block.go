package jsonl

import (
	"bytes"

	"pistore"
)

// block is some whole lines of a file with sums, which are decoded together.
type block struct {
	leave  bool   // payloads stay in the file
	buf    []byte // the lines, newlines included
	number int64  // how many lines stand before them
	offset int64  // of the first
	lines  []blockLine
}

// blockLine is a line and, if it was read, its transaction.
type blockLine struct {
	at   line
	dec  decoder
	read bool  // its sum holds, and was taken out of its text
	err  error // what is wrong with it beside its sum
}

// decode reads the lines that are as they should be: that needs nothing that
// stands before them. The others are left to be judged in their order.
func (b *block) decode() {
	b.lines = b.lines[:0]
	newest := pistore.ID("")
	for at := 0; at < len(b.buf); {
		if len(b.lines) == cap(b.lines) {
			b.lines = append(b.lines, blockLine{})
		} else {
			b.lines = b.lines[:len(b.lines)+1] // with the buffers of its decoder
		}
		n := bytes.IndexByte(b.buf[at:], '\n')
		l := &b.lines[len(b.lines)-1]
		l.at = line{
			number: b.number + int64(len(b.lines)), offset: b.offset + int64(at), length: int64(n),
			text: b.buf[at : at+n], ended: true,
		}
		l.dec.newest = newest
		l.decode(b.leave)
		newest = l.dec.newest
		at += n + 1
	}
}

func (l *blockLine) decode(leave bool) {
	l.read, l.err = false, nil
	if comma, _, holds := checkSum(l.at.text); holds {
		l.dec.offset, l.dec.direct = l.at.offset, leave
		l.read, l.err = true, l.dec.parse(withoutSum(l.at.text, comma))
	}
}
