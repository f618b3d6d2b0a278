package pipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"pistore"
)

// OpenParams say what an open asks for.
type OpenParams struct {
	Location   string
	Mode       pistore.Mode
	Durability pistore.Durability
	// Create makes what is not there. What is there already is opened.
	Create   bool
	Session  pistore.SessionID // empty: the only one, or with Create a new one
	Metadata pistore.Info      // of a session that is made
}

// Opener opens a session, and gives what closes whatever holds it; nil: nothing
// does.
type Opener func(context.Context, OpenParams) (pistore.Storage, io.Closer, error)

// OpenIn opens a session of a backend by the rules of the protocol: the one that
// is named, else the only one, else with Create a new one. A backend that holds
// several and is asked for none is ErrInvalid.
func OpenIn(ctx context.Context, b pistore.Backend, p OpenParams) (pistore.Storage, error) {
	info := p.Metadata
	if p.Session != "" {
		info.ID = p.Session
	}
	create := p.Create && p.Mode == pistore.ReadWrite
	if info.ID != "" {
		s, err := b.Open(ctx, info.ID, p.Mode)
		if create && errors.Is(err, pistore.ErrNotFound) {
			return b.Create(ctx, info)
		}
		return s, err
	}
	var only pistore.SessionID
	n := 0
	for i, err := range b.List(ctx) {
		if err != nil {
			return nil, err
		}
		only, n = i.ID, n+1
	}
	switch {
	case n == 0 && create:
		return b.Create(ctx, info)
	case n == 0:
		return nil, fmt.Errorf("%w: no session at %s", pistore.ErrNotFound, p.Location)
	case n == 1:
		return b.Open(ctx, only, p.Mode)
	default:
		return nil, fmt.Errorf("%w: %s holds %d sessions; name one", pistore.ErrInvalid, p.Location, n)
	}
}

// server answers requests, in order.
type server struct {
	open   Opener
	st     pistore.Storage // nil: none was opened yet
	holder io.Closer       // nil: nothing to close behind st
	closed bool
}

// Serve answers the requests that come in, one after the other, until the input
// ends or ctx does. It closes what is still open. Bad requests are answered with
// an error and end nothing; the error returned is one of the pipes, or of the
// last closing.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open Opener) (err error) {
	s := &server{open: open}
	defer func() { err = errors.Join(err, s.close()) }()
	r, w := bufio.NewReaderSize(in, 64<<10), bufio.NewWriterSize(out, 64<<10)
	for ctx.Err() == nil {
		line, err := readLine(r)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = nil // whole, or no JSON
		case errors.Is(err, errLineTooLong):
			skipLine(r)
		case err != nil:
			return fmt.Errorf("pipe: serve: %w", err)
		}
		if _, err = w.WriteString(s.answer(ctx, line, err)); err == nil {
			err = w.Flush()
		}
		if err != nil {
			return fmt.Errorf("pipe: serve: %w", err)
		}
	}
	return ctx.Err()
}

// answer makes the line that answers a line, or what was wrong with it.
func (s *server) answer(ctx context.Context, line []byte, err error) string {
	id, result := pistore.JSON("null"), pistore.JSON("")
	if err == nil {
		result, err = s.request(ctx, line, &id)
	}
	var o object
	o.put("id", id)
	if err != nil {
		var e object
		e.text("code", codeOf(err))
		e.text("message", err.Error())
		o.put("error", e.end())
	} else {
		o.put("result", result)
	}
	return string(o.end()) + "\n"
}

// request reads a request and does what it asks. It sets the id as soon as that
// is known.
func (s *server) request(ctx context.Context, line []byte, id *pistore.JSON) (pistore.JSON, error) {
	j, err := compactLine(line)
	if err != nil {
		return "", err
	}
	f, err := fieldsOf("the request", j)
	if err != nil {
		return "", err
	}
	if f.has("id") {
		*id = f["id"]
	}
	method, err := f.text("method")
	if err != nil {
		return "", err
	}
	params := fields{}
	if f.has("params") {
		if params, err = fieldsOf("params", f["params"]); err != nil {
			return "", err
		}
	}
	r := reader{fields: params}
	switch method {
	case "open":
		return s.doOpen(ctx, &r)
	case "close":
		if s.st == nil {
			return "", fmt.Errorf("%w: nothing was opened", pistore.ErrClosed)
		}
		return "{}", s.close()
	}
	do, known := methods[method]
	if !known {
		return "", fmt.Errorf("%w: there is no method %.40q", pistore.ErrInvalid, method)
	}
	if s.st == nil {
		return "", fmt.Errorf("%w: nothing was opened", pistore.ErrClosed)
	}
	return do(ctx, s.st, &r)
}

func (s *server) doOpen(ctx context.Context, r *reader) (pistore.JSON, error) {
	if s.st != nil && !s.closed {
		return "", fmt.Errorf("%w: a store is open; close it first", pistore.ErrInvalid)
	}
	p, err := openParams(r)
	if err != nil {
		return "", err
	}
	st, holder, err := s.open(ctx, p)
	if err != nil {
		return "", err
	}
	s.st, s.holder, s.closed = st, holder, false
	info := st.Info()
	var o object
	o.put("session", encodeInfo(info))
	o.text("format", info.Format)
	o.number("storageVersion", int64(info.StorageVersion))
	return o.end(), nil
}

func openParams(r *reader) (OpenParams, error) {
	p := OpenParams{Location: r.text("location"), Create: r.flag("create"), Session: pistore.SessionID(r.text("session"))}
	mode, durability := r.text("mode"), r.text("durability")
	if r.err != nil {
		return p, r.err
	}
	switch mode {
	case "rw", "":
	case "ro":
		p.Mode = pistore.ReadOnly
	default:
		return p, fmt.Errorf("%w: mode %.40q is neither rw nor ro", pistore.ErrInvalid, mode)
	}
	var err error
	if durability != "" {
		p.Durability, err = pistore.ParseDurability(durability)
	}
	if err == nil && p.Session != "" {
		err = p.Session.Check()
	}
	if err == nil && p.Location == "" {
		err = fmt.Errorf("%w: no location", pistore.ErrInvalid)
	}
	if err == nil && r.has("metadata") {
		if p.Metadata, err = decodeInfo(r.fields["metadata"]); err == nil {
			err = p.Metadata.Check()
		}
	}
	if err == nil && p.Session != "" && p.Metadata.ID != "" && p.Session != p.Metadata.ID {
		err = fmt.Errorf("%w: session and the id of metadata differ", pistore.ErrInvalid)
	}
	return p, err
}

func (s *server) close() error {
	if s.st == nil || s.closed {
		return nil
	}
	s.closed = true
	err := s.st.Close()
	if s.holder != nil {
		err = errors.Join(err, s.holder.Close())
	}
	return err
}
