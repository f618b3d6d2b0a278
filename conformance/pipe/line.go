package pipe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"pistore"
)

// maxLine bounds a line: a transaction at its limit, in which much is escaped,
// and what stands around it.
const maxLine = 2*pistore.MaxTxBytes + 1<<20

// errLineTooLong: a line is longer than maxLine.
var errLineTooLong = fmt.Errorf("%w: a line of more than %d bytes", pistore.ErrTooLarge, maxLine)

// readLine returns a line without its end. Of one that is too long, which is
// errLineTooLong, the rest is left; what the input ends in, without an end of its
// own, comes with io.ErrUnexpectedEOF.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, errLineTooLong
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		default:
			return line[:len(line)-1], nil
		}
	}
}

// skipLine reads on behind the end of the line, or to that of the input.
func skipLine(r *bufio.Reader) {
	for {
		if _, err := r.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return // an error of the input comes again
		}
	}
}

// compactLine checks that a line is JSON. A payload at the limit of nesting
// stands some levels deep in its line, so depth alone is no reason to refuse
// one; whoever takes the payload judges it.
func compactLine(line []byte) (pistore.JSON, error) {
	j, err := pistore.CompactJSONBytes(line)
	if !errors.Is(err, pistore.ErrTooLarge) {
		return j, err
	}
	var out bytes.Buffer
	if json.Compact(&out, line) != nil {
		return "", err // the library bounds nesting too, far above what is stored
	}
	return pistore.JSON(out.String()), nil
}
