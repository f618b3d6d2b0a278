package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
)

// opened is a store that is open for reading, and the session in it that the
// arguments name.
type opened struct {
	place   string          // the folder or file
	backend pistore.Backend // nil: a file
	file    *jsonl.File     // nil: a backend
	// session is nil where none is named and the store does not hold exactly
	// one; sessions lists what it holds then.
	session  pistore.Storage
	sessions []pistore.Info
}

func (o *opened) close() error {
	if o.file != nil {
		return o.file.Close()
	}
	return o.backend.Close()
}

// legacyID returns the id that an entry has in the file, empty where there is
// none.
func (o *opened) legacyID(id pistore.ID) string {
	if o.file == nil {
		return ""
	}
	legacy, _ := o.file.LegacyID(id)
	return legacy
}

// openStore finds out what stands at a place and opens it for reading.
func openStore(ctx context.Context, arg string) (*opened, error) {
	place, id, err := splitStore(arg)
	if err != nil {
		return nil, err
	}
	isFile, err := detect(place)
	if err != nil {
		return nil, err
	}
	if isFile {
		return openFile(ctx, place, id)
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

// openFile opens a session file, which holds one session.
func openFile(ctx context.Context, place string, id pistore.SessionID) (*opened, error) {
	f, err := jsonl.OpenFile(ctx, place, pistore.ReadOnly, jsonl.Options{})
	if err != nil {
		return nil, refusedFile(ctx, place, err)
	}
	if has := f.Info().ID; id != "" && id != has {
		return nil, errors.Join(usageError(fmt.Sprintf("%s holds the session %s and not %s", place, has, id)), f.Close())
	}
	return &opened{place: place, file: f, session: f}, nil
}

// refusedFile says in one sentence why a file does not open.
func refusedFile(ctx context.Context, place string, err error) error {
	var unreadable *jsonl.UnreadableError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &unreadable):
		for i := range unreadable.Report.Faults {
			if f := &unreadable.Report.Faults[i]; f.Severity == jsonl.Error {
				return fmt.Errorf("%s, %s: %s; nothing of it can be shown: take it from a backup", place, f.Place(), f.Message)
			}
		}
		return fmt.Errorf("%s: %w", place, err)
	case errors.Is(err, pistore.ErrNotFound):
		return fmt.Errorf("there is nothing at %s", place)
	case errors.Is(err, pistore.ErrNewerVersion):
		return fmt.Errorf("%s is a session file written by a newer version; use a newer pistore", place)
	case errors.Is(err, pistore.ErrForeignFormat):
		return fmt.Errorf("%s is a file of no format that pistore knows", place)
	default:
		return fmt.Errorf("%s: %w", place, cause(err))
	}
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

// splitStore separates a session from its store. Both may have a # themselves:
// the longest path that is there is the store.
func splitStore(arg string) (place string, id pistore.SessionID, err error) {
	if strings.HasPrefix(arg, "postgres://") || strings.HasPrefix(arg, "postgresql://") {
		return "", "", errors.New("a Postgres database, which this build does not open")
	}
	if _, err := os.Lstat(arg); err == nil {
		return arg, "", nil
	}
	last := strings.LastIndexByte(arg, '#')
	if last < 0 {
		return arg, "", nil
	}
	at := last
	for at >= 0 {
		if _, err := os.Lstat(arg[:at]); err == nil {
			break
		}
		at = strings.LastIndexByte(arg[:at], '#')
	}
	if at < 0 {
		at = last
	}
	id = pistore.SessionID(arg[at+1:])
	if err := id.Check(); err != nil {
		return "", "", badID(arg, id, err)
	}
	return arg[:at], id, nil
}

// cause takes the operation and the path off an error of the system.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// unfinished is what is said of a logstore that a kill has left half made.
func unfinished(place string) error {
	return fmt.Errorf("%s is a logstore whose making was cut short; it holds nothing, and what puts a session into it goes on with it", place)
}

// refused says what to do about an error of opening.
func refused(place string, err error) error {
	advice := ""
	switch {
	case errors.Is(err, pistore.ErrNotFound):
		return unfinished(place)
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
		return noSession(o.place, id)
	}
	if err != nil {
		return refused(o.place, err)
	}
	o.session = s
	return nil
}

func noSession(place string, id pistore.SessionID) error {
	return usageError(fmt.Sprintf("%s holds no session %s (\"pistore inspect STORE\" lists them)", place, id))
}

// size is the size of the store on disk, nil if it cannot be told.
func (o *opened) size() *sizeView {
	if o.file != nil {
		return sizeOfFile(o.file.Report())
	}
	if n := sizeOnDisk(o.place); n > 0 {
		return &sizeView{Bytes: n}
	}
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
