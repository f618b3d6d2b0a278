package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

// ErrNotIndex: the file is there and is no index of this package. It was not
// touched.
var ErrNotIndex = errors.New("no search index")

// Index is an open index. It is safe for concurrent use, and several processes
// may have one open.
type Index struct {
	db   *sql.DB
	path string
	// Rebuilt says why the index was begun anew; empty: it was not.
	Rebuilt string
}

// applicationID marks the files of this package, in SQLite's header.
const applicationID = 0x70737372

// version is that of the tables; another one means to begin anew.
const version = 1

// The tables. A text has the rowid of its entry. Case is folded by the
// tokenizer; deleted text is overwritten.
const tables = `
CREATE TABLE sessions (
	id INTEGER PRIMARY KEY,
	key TEXT NOT NULL UNIQUE,
	session TEXT NOT NULL, name TEXT NOT NULL, cwd TEXT NOT NULL, format TEXT NOT NULL,
	generation TEXT NOT NULL, mark TEXT NOT NULL, seq INTEGER NOT NULL, problem TEXT NOT NULL
);
CREATE TABLE entries (
	id INTEGER PRIMARY KEY,
	session INTEGER NOT NULL,
	entry TEXT NOT NULL, legacy TEXT NOT NULL, seq INTEGER NOT NULL, time INTEGER NOT NULL,
	type TEXT NOT NULL, role TEXT NOT NULL, cut INTEGER NOT NULL
);
CREATE INDEX entries_of_session ON entries (session);
CREATE INDEX entries_by_time ON entries (time, id);
CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'trigram');
INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
`

// Open opens the index in a file, which it makes if there is none, readable by
// its owner only. A file that is no index is ErrNotIndex; an index that is
// damaged or of another version is begun anew.
func Open(ctx context.Context, path string) (*Index, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	why, err := fits(ctx, path)
	if err != nil {
		return nil, err
	}
	if why != "" {
		if err := remove(path); err != nil {
			return nil, err
		}
	}
	x, err := create(ctx, path)
	if err != nil {
		return nil, err
	}
	x.Rebuilt = why
	return x, nil
}

// fits says why what stands at a path has to be begun anew; empty: it need not.
func fits(ctx context.Context, path string) (why string, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("search: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s", ErrNotIndex, path)
	case info.Size() == 0:
		return "", nil
	}
	if mine, err := marked(path); err != nil || !mine {
		return "", errors.Join(err, fmt.Errorf("%w: %s", ErrNotIndex, path))
	}
	db, err := connect(path)
	if err != nil {
		return "", err
	}
	defer db.Close()
	has := 0
	switch err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&has); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case IsDamage(err):
		return "it was damaged", nil
	case err != nil:
		return "", wrap("open", err)
	case has > version:
		return "it was written by a newer version", nil
	case has != version:
		return "it was written by an older version", nil
	}
	return "", nil
}

// marked looks for the mark of this package in the header of a database.
func marked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 100)
	if n, _ := f.ReadAt(head, 0); n < len(head) {
		return false, nil
	}
	id := int(head[68])<<24 | int(head[69])<<16 | int(head[70])<<8 | int(head[71])
	return id == applicationID, nil
}

// connect opens the database. It waits for other processes that write.
func connect(path string) (*sql.DB, error) {
	settings := url.Values{"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)", "secure_delete(ON)", "cache_size(-16384)", "trusted_schema(OFF)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: settings.Encode()}).String())
	if err != nil {
		return nil, wrap("open", err)
	}
	db.SetMaxOpenConns(2) // one reads rows while the other looks their texts up
	return db, nil
}

// create opens the index at a path, and makes it first where there is none.
func create(ctx context.Context, path string) (*Index, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > 0 {
		err = nil // whole, since it gets its name last
	} else if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = build(ctx, path)
	}
	if err != nil {
		return nil, wrap("create", err)
	}
	db, err := connect(path)
	if err != nil {
		return nil, err
	}
	return &Index{db: db, path: path}, nil
}

// build makes an empty index beside a path and gives it its name when it is
// whole, so that whoever finds one there knows it for what it is. Of two who
// build, the first one's stays.
func build(ctx context.Context, path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".index-*") // for its owner only
	if err != nil {
		return err
	}
	made := f.Name()
	defer func() {
		if gone := os.Remove(made); err == nil && !errors.Is(gone, fs.ErrNotExist) {
			err = gone
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: made}).String())
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; %s", applicationID, version, tables))
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	err = os.Link(made, path)
	if info, failed := os.Stat(path); errors.Is(err, fs.ErrExist) && failed == nil && info.Size() > 0 {
		return nil
	}
	if err != nil { // an empty file is there, or the file system has no links
		return os.Rename(made, path)
	}
	return nil
}

// Close closes the index.
func (x *Index) Close() error { return wrap("close", x.db.Close()) }

// Rebuild begins the index anew.
func (x *Index) Rebuild(ctx context.Context, why string) error {
	err := x.db.Close()
	if err := errors.Join(err, remove(x.path)); err != nil {
		return wrap("rebuild", err)
	}
	fresh, err := create(ctx, x.path)
	if err != nil {
		return err
	}
	x.db, x.Rebuilt = fresh.db, why
	return nil
}

func remove(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("search: %w", err)
		}
	}
	return nil
}

// write runs a transaction that owns the index from its beginning, so that what
// it reads stays true until it commits.
func (x *Index) write(ctx context.Context, do func(*sql.Conn) error) (err error) {
	c, err := x.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := do(c); err != nil {
		_, back := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, back)
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	if err != nil {
		_, back := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, back)
	}
	return nil
}

// The result codes of SQLite that say that a file cannot be read.
const (
	sqliteCorrupt     = 11
	sqliteNotDatabase = 26
)

// IsDamage reports whether an error says that the index is damaged: it is to be
// rebuilt, and the sessions are as they were.
func IsDamage(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqliteCorrupt || e.Code()&0xff == sqliteNotDatabase)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("search: %s: %w", what, err)
}
