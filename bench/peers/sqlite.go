package peers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"pistore"
	"pistore/bench"
)

// SQLite is a store of one SQLite file for each session, as one would write it
// by hand: tables for entries, registers and usage, a transaction for each
// commit, prepared statements, a write-ahead log. At level Process it is
// synchronous NORMAL, which syncs at checkpoints only; at Power FULL, which syncs
// each commit. It admits transactions as every backend does; the primary keys of
// its tables find duplicate ids, and a foreign key missing parents. It checks no
// preconditions, keeps no statistics, and does not see an id that is both an
// entry's and a usage row's.
func SQLite(level pistore.Durability) bench.Candidate {
	return bench.Candidate{
		Name: "backend=sqlite/durability=" + level.String(),
		Open: func(dir string) (pistore.Backend, error) { return openSQLite(dir, level) },
	}
}

// schema has an index of ids beside the rows, which lie by seq: rows of this size
// are larger than what SQLite keeps well in an index.
const schema = `
CREATE TABLE entries (
	seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, parent TEXT REFERENCES entries (id),
	timestamp INTEGER NOT NULL, type TEXT NOT NULL, custom_type TEXT NOT NULL, payload TEXT NOT NULL
);
CREATE TABLE registers (
	namespace TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, value TEXT NOT NULL,
	PRIMARY KEY (namespace, key)
);
CREATE TABLE usage (
	seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, entry TEXT NOT NULL,
	adjustment INTEGER NOT NULL, usage TEXT NOT NULL, details TEXT
);`

// statements are what a commit needs.
var statements = [...]string{
	begin:          `BEGIN IMMEDIATE`,
	commit:         `COMMIT`,
	rollback:       `ROLLBACK`,
	insertEntry:    `INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)`,
	insertUsage:    `INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?)`,
	setRegister:    `INSERT INTO registers VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET seq = excluded.seq, value = excluded.value`,
	deleteRegister: `DELETE FROM registers WHERE namespace = ? AND key = ?`,
}

const (
	begin = iota
	commit
	rollback
	insertEntry
	insertUsage
	setRegister
	deleteRegister
)

type sqliteStore struct {
	bench.CommitOnly
	dir   string
	level pistore.Durability

	mu   sync.Mutex // guards open
	open []*sqliteSession
}

func openSQLite(dir string, level pistore.Durability) (*sqliteStore, error) {
	// Our backends sync data only. SQLite does so too where its build finds
	// fdatasync; this build has to be told. Where there is none, it stays as it is.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, err
	}
	return &sqliteStore{dir: dir, level: level}, nil
}

// Create implements pistore.Backend.
func (s *sqliteStore) Create(ctx context.Context, info pistore.Info) (_ pistore.Storage, err error) {
	synchronous := "NORMAL"
	if s.level == pistore.Power {
		synchronous = "FULL"
	}
	address := url.URL{Scheme: "file", Opaque: url.PathEscape(filepath.Join(s.dir, string(info.ID)+".sqlite"))}
	address.RawQuery = url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(" + synchronous + ")", "foreign_keys(ON)"}}.Encode()
	one := &sqliteSession{CommitOnlySession: bench.CommitOnlySession{ID: info.ID}, next: 1}
	if one.db, err = sql.Open("sqlite", address.String()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, one.end())
		}
	}()
	if one.conn, err = one.db.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err := one.conn.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	for i, text := range statements {
		if one.statements[i], err = one.conn.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, one)
	return one, nil
}

// Close implements pistore.Backend. It closes the sessions too.
func (s *sqliteStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, one := range s.open {
		err = errors.Join(err, one.end())
	}
	s.open = nil
	return err
}

// sqliteSession is a file with one connection.
type sqliteSession struct {
	bench.CommitOnlySession
	db         *sql.DB
	conn       *sql.Conn
	statements [len(statements)]*sql.Stmt

	mu   sync.Mutex // guards next, and orders commits
	next pistore.Seq
}

// Close implements pistore.Storage. The file is closed with the store.
func (s *sqliteSession) Close() error { return nil }

func (s *sqliteSession) end() error {
	var err error
	for _, statement := range s.statements {
		if statement != nil {
			err = errors.Join(err, statement.Close())
		}
	}
	if s.conn != nil {
		err = errors.Join(err, s.conn.Close())
	}
	return errors.Join(err, s.db.Close())
}

// do runs a statement. A commit is not stopped half way: the context is not the
// caller's.
func (s *sqliteSession) do(statement int, args ...any) error {
	_, err := s.statements[statement].ExecContext(context.Background(), args...)
	return err
}

// Commit implements pistore.Storage.
func (s *sqliteSession) Commit(_ context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	tx, err := tx.Admit()
	if err != nil {
		return pistore.Receipt{}, err
	}
	if len(tx.Expect) > 0 {
		return pistore.Receipt{}, fmt.Errorf("%w: this peer has no preconditions", pistore.ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := pistore.Receipt{FirstSeq: s.next, Timestamp: pistore.SystemClock()}
	if err := s.do(begin); err != nil {
		return pistore.Receipt{}, err
	}
	for i, w := range tx.Writes {
		if err := s.write(w, s.next+pistore.Seq(i), r.Timestamp); err != nil {
			return pistore.Receipt{}, errors.Join(err, s.do(rollback))
		}
	}
	if err := s.do(commit); err != nil {
		return pistore.Receipt{}, errors.Join(err, s.do(rollback))
	}
	s.next += pistore.Seq(len(tx.Writes))
	return r, nil
}

func (s *sqliteSession) write(w pistore.Write, seq pistore.Seq, at pistore.UnixMS) error {
	switch w := w.(type) {
	case pistore.InsertEntry:
		err := s.do(insertEntry, int64(seq), string(w.ID), orNull(string(w.ParentID)), int64(at), string(w.Type), w.CustomType, string(w.Payload))
		return meaning(err, string(w.ID))
	case pistore.InsertUsage:
		err := s.do(insertUsage, int64(seq), string(w.ID), string(w.EntryID), w.Adjustment, string(w.Usage), orNull(string(w.Details)))
		return meaning(err, string(w.ID))
	case pistore.SetRegister:
		return s.do(setRegister, w.Namespace, w.Key, int64(seq), string(w.Value))
	case pistore.DeleteRegister:
		return s.do(deleteRegister, w.Namespace, w.Key)
	default:
		return fmt.Errorf("%w: write %T", pistore.ErrUnsupported, w)
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// meaning gives the refusals of a row their names.
func meaning(err error, id string) error {
	var theirs *sqlite.Error
	if !errors.As(err, &theirs) {
		return err
	}
	switch theirs.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return fmt.Errorf("%w: %s", pistore.ErrDuplicateID, id)
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fmt.Errorf("%w of %s", pistore.ErrMissingParent, id)
	default:
		return err
	}
}
