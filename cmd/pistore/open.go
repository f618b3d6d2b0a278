package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pistore"
	"pistore/logstore"
)

// opened is a store that is open for reading, and the session in it that the
// arguments name.
type opened struct {
	place   string // the folder
	backend pistore.Backend
	// session is nil where none is named and the store does not hold exactly
	// one; sessions lists what it holds then.
	session  pistore.Storage
	sessions []pistore.Info
}

func (o *opened) close() error { return o.backend.Close() }

// openStore finds out what stands at a place and opens it for reading.
func openStore(ctx context.Context, arg string) (*opened, error) {
	place, id, err := splitStore(arg)
	if err != nil {
		return nil, err
	}
	if err := detect(place); err != nil {
		return nil, err
	}
	db, err := logstore.Open(place, logstore.Options{ReadOnly: true})
	if err != nil {
		return nil, refused(place, err)
	}
	o := &opened{place: place, backend: db}
	if err := o.choose(ctx, id); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return o, nil
}

// openSession is openStore for commands that work on one session.
func openSession(ctx context.Context, arg string) (*opened, error) {
	o, err := openStore(ctx, arg)
	if err != nil || o.session != nil {
		return o, err
	}
	err = fmt.Errorf("%s holds no session", o.place)
	if n := len(o.sessions); n > 0 {
		err = usageError(fmt.Sprintf("%s holds %d sessions; name one as STORE#SESSION (\"pistore inspect STORE\" lists them)", o.place, n))
	}
	return nil, errors.Join(err, o.close())
}

// splitStore separates a session from its store. A path may have a # itself.
func splitStore(arg string) (place string, id pistore.SessionID, err error) {
	if strings.HasPrefix(arg, "postgres://") || strings.HasPrefix(arg, "postgresql://") {
		return "", "", errors.New("a Postgres database, which this build does not open")
	}
	at := strings.LastIndexByte(arg, '#')
	if _, err := os.Lstat(arg); err == nil || at < 0 {
		return arg, "", nil
	}
	id = pistore.SessionID(arg[at+1:])
	if err := id.Check(); err != nil {
		return "", "", usageError(fmt.Sprintf("%s: %v", arg, err))
	}
	return arg[:at], id, nil
}

// detect tells by content whether a place is a store that this build opens. It
// never opens what could block: a pipe, a device.
func detect(place string) error {
	info, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is nothing at %s", place)
	case err != nil:
		return fmt.Errorf("%s: %w", place, cause(err))
	case info.IsDir():
		return detectFolder(place)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is %s, not a store", place, kindOfFile(info.Mode()))
	default:
		return detectFile(place)
	}
}

func kindOfFile(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// detectFolder only tells folders apart that are no logstore at all; the
// backend judges its own.
func detectFolder(dir string) error {
	head, err := readHead(filepath.Join(dir, "FORMAT"))
	if err == nil && bytes.HasPrefix(head, []byte("pistore logstore ")) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", dir, cause(err))
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, cause(err))
	}
	files := 0
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".jsonl") {
			files++
		}
	}
	switch {
	case files > 0:
		return fmt.Errorf("%s is a folder of JSONL session files, which this build does not open", dir)
	case len(names) == 0:
		return fmt.Errorf("%s is an empty folder, not a store", dir)
	default:
		return fmt.Errorf("%s is an ordinary folder, not a store", dir)
	}
}

func detectFile(place string) error {
	head, err := readHead(place)
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", place, cause(err))
	case len(head) == 0:
		return fmt.Errorf("%s is an empty file, not a store", place)
	case bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		return fmt.Errorf("%s is an SQLite database, which this build does not open", place)
	case bytes.HasPrefix(text, []byte("{")):
		return fmt.Errorf("%s is a JSONL session file, which this build does not open", place)
	default:
		return fmt.Errorf("%s is a file of no format that pistore knows", place)
	}
}

// readHead reads the first bytes of a regular file.
func readHead(name string) (head []byte, err error) {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, 64))
}

// cause takes the operation and the path off an error of the system.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// refused says what to do about an error of opening.
func refused(place string, err error) error {
	advice := ""
	switch {
	case errors.Is(err, pistore.ErrLocked):
		advice = "; look again when that process has closed it"
	case errors.Is(err, pistore.ErrBusy):
		advice = "; try again in a moment"
	case errors.Is(err, pistore.ErrNewerVersion):
		advice = "; use a newer pistore"
	case errors.Is(err, pistore.ErrCorrupt):
		advice = "; nothing was changed"
	}
	if text := err.Error(); strings.Contains(text, place) {
		return fmt.Errorf("%w%s", err, advice)
	}
	return fmt.Errorf("%s: %w%s", place, err, advice)
}

// choose opens the session that is named, or else the only one.
func (o *opened) choose(ctx context.Context, id pistore.SessionID) error {
	if id == "" {
		for info, err := range o.backend.List(ctx) {
			if err != nil {
				return refused(o.place, err)
			}
			o.sessions = append(o.sessions, info)
		}
		if len(o.sessions) != 1 {
			return nil
		}
		id = o.sessions[0].ID
	}
	s, err := o.backend.Open(ctx, id, pistore.ReadOnly)
	if errors.Is(err, pistore.ErrNotFound) {
		return fmt.Errorf("%s holds no session %s (\"pistore inspect STORE\" lists them)", o.place, id)
	}
	if err != nil {
		return refused(o.place, err)
	}
	o.session = s
	return nil
}

// sizeOnDisk is the size of everything in a folder, 0 if it cannot be told.
func sizeOnDisk(dir string) int64 {
	var bytes int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // a writer removed it meanwhile
		}
		return err
	})
	if err != nil {
		return 0
	}
	return bytes
}
