package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pistore"
)

// Query is a search.
type Query struct {
	// Terms must all stand in an entry, anywhere in it, in any case.
	Terms []string
	In    []string // roles or types of entries; empty: all
	Rank  bool     // the best first, by BM25; else the newest
	Limit int      // above 0
}

// Hit is an entry that was found.
type Hit struct {
	Key      string
	Session  pistore.SessionID
	Name     string // of the session; may be empty
	Entry    pistore.ID
	LegacyID string
	Seq      pistore.Seq
	Time     pistore.UnixMS
	Type     pistore.EntryType
	Role     string
	Snippet  []Part
}

// Part is a piece of a snippet; Match: it is what was sought.
type Part struct {
	Text  string
	Match bool
}

// MaxQueryBytes bounds the text of a query.
const MaxQueryBytes = 1000

// ParseTerms takes a text apart: what stands in quotes is one term, any other
// white space parts terms. A quote that is not closed goes on to the end.
func ParseTerms(text string) ([]string, error) {
	if len(text) > MaxQueryBytes {
		return nil, fmt.Errorf("%w: a search of %d bytes; it may have %d", pistore.ErrTooLarge, len(text), MaxQueryBytes)
	}
	var terms []string
	add := func(term string) {
		if term != "" && !slices.Contains(terms, term) {
			terms = append(terms, term)
		}
	}
	for i, piece := range strings.Split(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", " "), "\ufffd"), `"`) {
		if i%2 == 1 {
			add(strings.TrimSpace(piece))
			continue
		}
		for _, term := range strings.Fields(piece) {
			add(term)
		}
	}
	if len(terms) == 0 {
		return nil, fmt.Errorf("%w: nothing to search for", pistore.ErrInvalid)
	}
	return terms, nil
}

// indexed is how many characters a term needs for the index to know it.
const indexed = 3

// match is the expression for the terms that the index knows, empty if it knows
// none. Each is quoted, so that nothing in it is an operator.
func match(terms []string) string {
	var known []string
	for _, t := range terms {
		if utf8.RuneCountInString(t) >= indexed {
			known = append(known, `"`+strings.ReplaceAll(t, `"`, `""`)+`"`)
		}
	}
	return strings.Join(known, " AND ")
}

// Find returns the hits of a query, and whether there are more of them. Terms of
// one or two characters are sought in the texts themselves.
func (x *Index) Find(ctx context.Context, q Query) (hits []Hit, more bool, err error) {
	if len(q.Terms) == 0 || q.Limit < 1 {
		return nil, false, wrap("find", pistore.ErrInvalid)
	}
	query, args := sqlOf(q)
	rows, err := x.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, false, wrap("find", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	texts, err := x.db.PrepareContext(ctx, "SELECT text FROM texts WHERE rowid = ?")
	if err != nil {
		return nil, false, wrap("find", err)
	}
	defer func() { err = errors.Join(err, texts.Close()) }()
	for rows.Next() {
		var id int64
		var h Hit
		if err := rows.Scan(&id, &h.Key, &h.Session, &h.Name, &h.Entry, &h.LegacyID, &h.Seq, &h.Time, &h.Type, &h.Role); err != nil {
			return nil, false, wrap("find", err)
		}
		var text string
		switch err := texts.QueryRowContext(ctx, id).Scan(&text); {
		case errors.Is(err, sql.ErrNoRows):
			continue // removed meanwhile
		case err != nil:
			return nil, false, wrap("find", err)
		}
		if !holds(text, q.Terms) {
			continue
		}
		if len(hits) == q.Limit {
			return hits, true, nil
		}
		h.Snippet = snippet(text, q.Terms)
		hits = append(hits, h)
	}
	return hits, false, wrap("find", rows.Err())
}

// sqlOf selects entries without their texts, which a sort would have to carry.
func sqlOf(q Query) (query string, args []any) {
	query = `SELECT e.id, s.key, s.session, s.name, e.entry, e.legacy, e.seq, e.time, e.type, e.role FROM `
	order := "e.time DESC, e.id DESC"
	if m := match(q.Terms); m != "" {
		query += "texts JOIN entries e ON e.id = texts.rowid JOIN sessions s ON s.id = e.session WHERE texts MATCH ?"
		args = append(args, m)
		if q.Rank {
			order = "texts.rank, " + order
		}
	} else {
		query += "entries e JOIN sessions s ON s.id = e.session WHERE 1"
	}
	if len(q.In) > 0 {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(q.In)), ", ")
		query += " AND (e.role IN (" + marks + ") OR e.type IN (" + marks + "))"
		for range 2 {
			for _, in := range q.In {
				args = append(args, in)
			}
		}
	}
	return query + " ORDER BY " + order, args
}

func holds(text string, terms []string) bool {
	for _, t := range terms {
		if at, _ := index(text, t); at < 0 && utf8.RuneCountInString(t) < indexed {
			return false
		}
	}
	return true
}

// index finds a term in a text, whatever the case, and returns where it begins
// and ends; -1: nowhere.
func index(text, term string) (begin, end int) {
	first, _ := utf8.DecodeRuneInString(term)
	for i, r := range text {
		if r != first && !sameFold(r, first) {
			continue
		}
		if n := prefix(text[i:], term); n >= 0 {
			return i, i + n
		}
	}
	return -1, -1
}

// prefix returns how much of a text a term takes that stands at its beginning,
// -1 if it does not.
func prefix(text, term string) int {
	at := 0
	for _, want := range term {
		r, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 || r != want && !sameFold(r, want) {
			return -1
		}
		at += size
	}
	return at
}

func sameFold(a, b rune) bool {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return unicode.ToLower(a) == unicode.ToLower(b)
	}
	for r := unicode.SimpleFold(a); r != a; r = unicode.SimpleFold(r) {
		if r == b {
			return true
		}
	}
	return false
}
