package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"pistore"
	"pistore/session"
)

// Session is one session of a repository, as the index is fed with it.
type Session struct {
	Key  string // what names it in its place, for good
	Info pistore.Info
	// Mark changes whenever what is stored does. Empty: that takes a look.
	Mark string
	// Whole: seqs mean nothing across changes, so that a changed session is
	// fed again from its beginning.
	Whole bool
	Open  func(ctx context.Context) (Reader, error)
}

// Reader is a session that is open for reading.
type Reader struct {
	Storage  pistore.Storage
	LegacyID func(pistore.ID) string // ids in the file; nil: no file
	Close    func() error
}

// Fed says what feeding did.
type Fed struct {
	Sessions int   // that were looked into
	Entries  int64 // that were added
	Bytes    int64 // of text that were added
	Removed  int   // sessions that are gone
	Skipped  []Skipped
	Omitted  int64 // skipped, and not in Skipped
}

// Skipped is a session that could not be read, wholly or in part.
type Skipped struct {
	Key string
	Err error
}

const maxSkipped = 1000

func (f *Fed) skip(key string, err error) {
	if len(f.Skipped) == maxSkipped {
		f.Omitted++
		return
	}
	f.Skipped = append(f.Skipped, Skipped{key, err})
}

// known is what the index holds of a session.
type known struct {
	id         int64
	generation string
	mark       string
	seq        pistore.Seq
	problem    string
}

// Feed brings the index in step with the sessions of a place: those that it does
// not name are removed, what is new is added. A session that cannot be read is
// skipped, with what could be read of it in the index. Each session is one
// transaction, so that an interruption loses none that is done.
func (x *Index) Feed(ctx context.Context, sessions []Session) (Fed, error) {
	var fed Fed
	have, err := x.sessions(ctx)
	if err != nil {
		return fed, wrap("feed", err)
	}
	for i := range sessions {
		s := &sessions[i]
		k, there := have[s.Key]
		delete(have, s.Key)
		if there && s.Mark != "" && k.mark == s.Mark {
			if k.problem != "" {
				fed.skip(s.Key, errors.New(k.problem))
			}
			continue
		}
		if err := x.feed(ctx, s, &fed); err != nil {
			return fed, wrap("feed", err)
		}
	}
	for _, k := range have {
		if err := x.write(ctx, func(tx *sql.Conn) error { return forget(ctx, tx, k.id) }); err != nil {
			return fed, wrap("feed", err)
		}
		fed.Removed++
	}
	return fed, nil
}

func (x *Index) sessions(ctx context.Context) (map[string]known, error) {
	rows, err := x.db.QueryContext(ctx, "SELECT key, id, generation, mark, seq, problem FROM sessions")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := map[string]known{}
	for rows.Next() {
		var key string
		var k known
		if err := rows.Scan(&key, &k.id, &k.generation, &k.mark, &k.seq, &k.problem); err != nil {
			return nil, err
		}
		have[key] = k
	}
	return have, rows.Err()
}

// feed feeds one session. An error is one of the index, or of the context.
func (x *Index) feed(ctx context.Context, s *Session, fed *Fed) error {
	r, err := s.Open(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		fed.skip(s.Key, err)
		return x.write(ctx, func(tx *sql.Conn) error { return x.unreadable(ctx, tx, s, err) })
	}
	fed.Sessions++
	var bad error
	err = x.write(ctx, func(tx *sql.Conn) error {
		bad, err = copyEntries(ctx, tx, s, r, fed)
		return err
	})
	if bad != nil {
		fed.skip(s.Key, bad)
	}
	return errors.Join(err, r.Close())
}

// unreadable notes why a session is not in the index.
func (x *Index) unreadable(ctx context.Context, tx *sql.Conn, s *Session, why error) error {
	k, err := lookUp(ctx, tx, s.Key)
	if err == nil && k.id != 0 {
		err = forget(ctx, tx, k.id)
	}
	if err != nil {
		return err
	}
	return put(ctx, tx, s, &known{mark: s.Mark, problem: why.Error()}, "")
}

// lookUp returns what the index holds of a session; id 0: nothing.
func lookUp(ctx context.Context, tx *sql.Conn, key string) (known, error) {
	var k known
	err := tx.QueryRowContext(ctx, "SELECT id, generation, mark, seq, problem FROM sessions WHERE key = ?", key).Scan(&k.id, &k.generation, &k.mark, &k.seq, &k.problem)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return k, err
}

// put writes what the index holds of a session, and gives it an id if it has none.
func put(ctx context.Context, tx *sql.Conn, s *Session, k *known, name string) error {
	var id any
	if k.id != 0 {
		id = k.id
	}
	err := tx.QueryRowContext(ctx, `INSERT OR REPLACE INTO sessions (id, key, session, name, cwd, format, generation, mark, seq, problem)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		id, s.Key, string(s.Info.ID), name, s.Info.CWD, s.Info.Format, k.generation, k.mark, k.seq, k.problem).Scan(&k.id)
	return err
}

// forget removes a session and all of its text.
func forget(ctx context.Context, tx *sql.Conn, id int64) error {
	for _, q := range []string{
		"DELETE FROM texts WHERE rowid IN (SELECT id FROM entries WHERE session = ?)",
		"DELETE FROM entries WHERE session = ?",
		"DELETE FROM sessions WHERE id = ?",
	} {
		if _, err := tx.ExecContext(ctx, q, id); err != nil {
			return err
		}
	}
	return nil
}

// copyEntries adds what is new of a session. bad says what of it could not be
// read; err is an error of the index.
func copyEntries(ctx context.Context, tx *sql.Conn, s *Session, r Reader, fed *Fed) (bad, err error) {
	// Read again: another process may have fed it meanwhile.
	k, err := lookUp(ctx, tx, s.Key)
	if err != nil {
		return nil, err
	}
	info := r.Storage.Info()
	s.Info = info
	if k.id != 0 && (s.Whole || info.Generation == "" || info.Generation != k.generation || k.problem != "") {
		if err := forget(ctx, tx, k.id); err != nil {
			return nil, err
		}
		k = known{}
	}
	k.generation, k.mark, k.problem = info.Generation, s.Mark, ""
	name, _, bad := session.New(r.Storage).Name(ctx)
	if err := put(ctx, tx, s, &k, name); err != nil {
		return nil, err
	}
	a, err := newAdder(ctx, tx, k.id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	for e, problem := range r.Storage.ScanEntries(ctx, pistore.ScanQuery{FromSeq: k.seq + 1}) {
		if problem != nil {
			bad = problem
			break
		}
		k.seq = e.Seq
		legacy := ""
		if r.LegacyID != nil {
			legacy = r.LegacyID(e.ID)
		}
		if err := a.add(ctx, e, legacy); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	fed.Entries, fed.Bytes = fed.Entries+a.entries, fed.Bytes+a.bytes
	if bad != nil {
		k.problem = bad.Error()
	}
	return bad, put(ctx, tx, s, &k, name)
}

// adder adds entries to the index.
type adder struct {
	session        int64
	entry, text    *sql.Stmt
	entries, bytes int64
}

func newAdder(ctx context.Context, tx *sql.Conn, session int64) (*adder, error) {
	entry, err := tx.PrepareContext(ctx, "INSERT INTO entries (session, entry, legacy, seq, time, type, role, cut) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return nil, err
	}
	text, err := tx.PrepareContext(ctx, "INSERT INTO texts (rowid, text) VALUES (?, ?)")
	if err != nil {
		return nil, errors.Join(err, entry.Close())
	}
	return &adder{session: session, entry: entry, text: text}, nil
}

func (a *adder) close() error { return errors.Join(a.entry.Close(), a.text.Close()) }

func (a *adder) add(ctx context.Context, e pistore.Entry, legacy string) error {
	role, text := textOf(e)
	if text == "" {
		return nil
	}
	whole := len(text)
	if whole > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	done, err := a.entry.ExecContext(ctx, a.session, string(e.ID), legacy, e.Seq, e.Timestamp, string(e.Type), role, whole-len(text))
	if err != nil {
		return err
	}
	id, err := done.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := a.text.ExecContext(ctx, id, text); err != nil {
		return fmt.Errorf("entry %s: %w", e.ID, err)
	}
	a.entries++
	a.bytes += int64(len(text))
	return nil
}
