package coding

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// Bounds of one read.
const (
	maxReadLines  = 2000
	maxReadBytes  = 50 << 10
	maxImageBytes = 3 << 20
)

// Read returns the tool that reads a file. It is safe to replay: it changes
// nothing.
func (t *Tools) Read() tool.Tool {
	return tool.Tool{
		Name: "read",
		Description: "Read a file. Text comes as it is, at most 2000 lines or 50 KiB at once; if the file goes on, a note in brackets " +
			"says with which offset to continue. PNG, JPEG, GIF and WebP files come as images. Other binary files are refused.",
		Parameters: `{"type":"object","properties":{` +
			`"path":{"type":"string","minLength":1,"description":"The file, relative to the root folder."},` +
			`"offset":{"type":"integer","minimum":1,"description":"The first line to read, counted from 1."},` +
			`"limit":{"type":"integer","minimum":1,"description":"How many lines to read at most."}},` +
			`"required":["path"],"additionalProperties":false}`,
		Replay:  registers.ReplaySafe,
		Execute: t.read,
	}
}

func (t *Tools) read(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		Path          string
		Offset, Limit count
	}
	if err := decode(call.Arguments, &args); err != nil {
		return tool.Result{}, err
	}
	f, _, err := t.openFile(args.Path)
	if err != nil {
		return tool.Result{}, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	start, err := r.Peek(8 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return tool.Result{}, plain(args.Path, err)
	}
	if kind := imageType(start); kind != "" {
		return readImage(args.Path, kind, r)
	}
	if bytes.IndexByte(start, 0) >= 0 {
		return tool.Result{}, fmt.Errorf("%s is a binary file", args.Path)
	}
	limit := int64(args.Limit)
	if limit == 0 || limit > maxReadLines {
		limit = maxReadLines
	}
	return readLines(ctx, args.Path, r, max(int64(args.Offset), 1), limit)
}

// openFile opens a regular file for reading. It never blocks on a pipe.
func (t *Tools) openFile(path string) (*os.File, os.FileInfo, error) {
	name, err := t.locate(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, plain(path, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info)
	} else {
		err = plain(path, err)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func regular(path string, info os.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

func imageType(start []byte) string {
	switch kind := http.DetectContentType(start); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return kind
	}
	return ""
}

func readImage(path, kind string, r io.Reader) (tool.Result, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxImageBytes+1))
	if err != nil {
		return tool.Result{}, plain(path, err)
	}
	if len(data) > maxImageBytes {
		return tool.Result{}, fmt.Errorf("%s is an image of more than %d bytes, which is too large to show", path, maxImageBytes)
	}
	return tool.Result{Content: []session.Block{
		session.Text{Text: fmt.Sprintf("%s (%s)", path, kind)},
		session.Image{Data: base64.StdEncoding.EncodeToString(data), MIMEType: kind},
	}}, nil
}

// readLines returns limit lines from line offset on.
func readLines(ctx context.Context, path string, r *bufio.Reader, offset, limit int64) (tool.Result, error) {
	for line := int64(1); line < offset; line++ {
		err := skipLine(ctx, r)
		if errors.Is(err, io.EOF) {
			return tool.Result{}, fmt.Errorf("%s has %d lines only, so there is no line %d", path, line-1, offset)
		}
		if err != nil {
			return tool.Result{}, plain(path, err)
		}
	}
	var text []byte
	next := offset
	note := ""
	for ; next < offset+limit; next++ {
		line, err := readLine(r, maxReadBytes+1)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return tool.Result{}, plain(path, err)
		}
		if len(text)+len(line) > maxReadBytes {
			if next == offset {
				text = cutRune(line, maxReadBytes)
				note = fmt.Sprintf("[Line %d is longer than %d bytes; only its beginning is shown. Use bash to see more of it.]", next, maxReadBytes)
				next++
			}
			break
		}
		text = append(text, line...)
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return tool.Result{}, fmt.Errorf("%s is a binary file", path)
	}
	if next == offset && offset > 1 {
		return tool.Result{}, fmt.Errorf("%s has %d lines only, so there is no line %d", path, offset-1, offset)
	}
	if _, err := r.Peek(1); err == nil && note == "" {
		note = fmt.Sprintf("[Lines %d to %d; the file goes on. Continue with offset %d.]", offset, next-1, next)
	}
	return tool.Text(withNotes(text, note)), nil
}

// withNotes makes text well-formed and puts notes on lines of their own behind
// it.
func withNotes(text []byte, notes ...string) string {
	if !utf8.Valid(text) {
		notes = append(notes, "[Some bytes are not UTF-8 and are shown as \uFFFD; edit cannot match them.]")
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	all := string(text)
	for _, note := range notes {
		if note == "" {
			continue
		}
		if all != "" && !strings.HasSuffix(all, "\n") {
			all += "\n"
		}
		all += note + "\n"
	}
	if all == "" {
		return "[The file is empty.]\n"
	}
	return all
}

// skipLine reads over a line; io.EOF if there is none.
func skipLine(ctx context.Context, r *bufio.Reader) error {
	for some := false; ; some = true {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && (some || len(piece) > 0) {
			return nil
		}
		return err
	}
}

// readLine reads a line with its newline, or the first most bytes and
// something of one that is longer; io.EOF if there is none.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull) && len(line) >= most, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return nil, err
		}
	}
}

// cutRune cuts text to at most n bytes, between characters.
func cutRune(text []byte, n int) []byte {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
