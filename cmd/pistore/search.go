package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pistore"
	"pistore/search"
	"pistore/session"
)

var searchCommand = command{
	name: "search", args: "DIR TEXT [flags]",
	short: "find text in the entries of all sessions of a folder or a logstore",
	long: `Finds entries in which every word of TEXT stands, anywhere, in any case; what
stands in quotes is found as it is written, spaces included. The newest come
first. The index lies in the user's cache folder and is brought up to date
first; it may be deleted at any time.`,
	examples: []string{"pistore search ~/.pi/agent/sessions 'parse error'", `pistore search ./store '"the carry is lost" money.go' --in user,assistant --json`},
	run:      runSearch,
}

var searchKinds = []string{
	string(session.RoleUser), string(session.RoleAssistant), string(session.RoleToolResult), string(session.RoleBashExecution),
	string(session.RoleSystem), string(session.RoleCustom), string(pistore.TypeMessage), string(pistore.TypeCompaction), string(pistore.TypeBranchSummary),
}

// searchReport is the JSON of search.
type searchReport struct {
	Hits []hitView `json:"hits"`
	More bool      `json:"more"` // there are hits behind the last
	// Index is where the index lies; Rebuilt says why it was begun anew.
	Index    string        `json:"index"`
	Rebuilt  string        `json:"rebuilt,omitempty"`
	Sessions int           `json:"sessions"` // of the place
	Skipped  []skippedView `json:"skipped"`  // what is not searched, or not wholly
	Omitted  int64         `json:"omitted"`
}

type hitView struct {
	Session   pistore.SessionID `json:"session,omitempty"`
	Path      string            `json:"path,omitempty"` // of a file
	Name      string            `json:"name,omitempty"` // of the session
	EntryID   pistore.ID        `json:"entryId"`
	LegacyID  string            `json:"legacyId,omitempty"`
	Seq       pistore.Seq       `json:"seq"`
	Timestamp pistore.UnixMS    `json:"timestamp"`
	Type      pistore.EntryType `json:"type"`
	Role      string            `json:"role,omitempty"`
	Snippet   []partView        `json:"snippet"`
}

type partView struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty"`
}

// searchFlags are what a search was asked for.
type searchFlags struct {
	place, index string
	rebuild      bool
	cached       bool // the index lies where we put it, under a name of ours
	query        search.Query
}

func runSearch(ctx context.Context, in *invocation) (err error) {
	f, err := searchFlagsOf(in)
	if err != nil {
		return err
	}
	place, err := openPlace(ctx, f.place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.close()) }()
	r := searchReport{Hits: []hitView{}, Index: f.index, Sessions: len(place.sessions), Skipped: place.skipped, Omitted: place.omitted}
	stop := in.progress("reading what is new")
	hits, err := searched(ctx, f, place.sessions, &r)
	stop()
	if err != nil {
		return err
	}
	for _, h := range hits {
		r.Hits = append(r.Hits, hitOf(place, h))
	}
	if in.json {
		return in.out.object(r)
	}
	printHits(in.out, f, r)
	return nil
}

func searchFlagsOf(in *invocation) (f searchFlags, err error) {
	kinds := in.flags.String("in", "", "only entries of these roles or types, `KINDS` separated by commas: user, assistant, toolResult, bashExecution, system, custom, compaction, branch_summary, message")
	sort := in.flags.String("sort", "recent", "`recent|rank`: newest first, or best first")
	in.flags.IntVar(&f.query.Limit, "limit", 20, "at most `N` hits, 20 if not given")
	in.flags.BoolVar(&f.rebuild, "rebuild", false, "begin the index anew")
	in.flags.StringVar(&f.index, "index", "", "the `FILE` of the index, if not in the cache folder")
	rest, err := in.parse()
	if err != nil {
		return f, err
	}
	switch {
	case len(rest) < 2 || rest[0] == "":
		return f, usageError("search takes a DIR and a TEXT; see \"pistore help search\"")
	case f.query.Limit < 1:
		return f, usageError("--limit takes a number above 0")
	case *sort != "recent" && *sort != "rank":
		return f, usageError(fmt.Sprintf("--sort takes recent or rank, not %q", *sort))
	case in.set("index") && f.index == "", in.set("in") && *kinds == "":
		return f, usageError("--index and --in take something; see \"pistore help search\"")
	}
	f.query.Rank = *sort == "rank"
	if *kinds != "" {
		f.query.In = strings.Split(*kinds, ",")
	}
	for _, k := range f.query.In {
		if !slices.Contains(searchKinds, k) {
			return f, usageError(fmt.Sprintf("--in takes %s, not %q", strings.Join(searchKinds, ", "), k))
		}
	}
	if f.query.Terms, err = search.ParseTerms(strings.Join(rest[1:], " ")); err != nil {
		return f, usageError(err.Error())
	}
	f.place = rest[0]
	f.cached = f.index == ""
	f.index, err = indexFile(f.place, f.index)
	return f, err
}

// indexFile is where the index of a place lies: in the cache folder, under a name
// made of the resolved place, and never in the place itself.
func indexFile(place, given string) (string, error) {
	real, err := realPath(place)
	if err != nil {
		return "", fmt.Errorf("%s: %w", place, cause(err))
	}
	if given == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("there is no cache folder (%w); name the index with --index", err)
		}
		sum := sha256.Sum256([]byte(real))
		return filepath.Join(cache, "pistore", "search", hex.EncodeToString(sum[:12])+".db"), nil
	}
	target, err := realPath(given)
	if err != nil {
		return "", usageError(fmt.Sprintf("--index: %s: %v", given, cause(err)))
	}
	if inside, err := filepath.Rel(real, target); err == nil && filepath.IsLocal(inside) {
		return "", usageError(fmt.Sprintf("--index: %s lies in %s; name a file elsewhere", given, place))
	}
	return target, nil
}

// searched brings the index up to date and asks it. An index that turns out to
// be damaged is begun anew, once.
func searched(ctx context.Context, f searchFlags, sessions []search.Session, r *searchReport) (hits []search.Hit, err error) {
	x, err := search.Open(ctx, f.index)
	damaged := false
	if errors.Is(err, search.ErrNotIndex) {
		if !f.cached {
			return nil, usageError(fmt.Sprintf("%s is there and is no index of pistore; it was not touched; name another file", f.index))
		}
		damaged = true // past recognition
		if err = os.Remove(f.index); err == nil {
			x, err = search.Open(ctx, f.index)
		}
	}
	if err != nil {
		return nil, &exitError{exitFindings, err}
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if damaged {
		x.Rebuilt = "it was damaged"
	}
	if f.rebuild {
		if err := x.Rebuild(ctx, "it was asked for"); err != nil {
			return nil, &exitError{exitFindings, err}
		}
	}
	fed, hits, err := feedAndFind(ctx, x, f, sessions, r)
	if search.IsDamage(err) {
		if err := x.Rebuild(ctx, "it was damaged"); err != nil {
			return nil, &exitError{exitFindings, err}
		}
		fed, hits, err = feedAndFind(ctx, x, f, sessions, r)
	}
	r.Rebuilt = x.Rebuilt
	for _, s := range fed.Skipped {
		path := s.Key
		if at := filepath.Join(f.place, s.Key); isFile(at) {
			path = at // of a file, as where the folder was listed
		}
		r.Skipped = append(r.Skipped, skippedView{path, problemOf(path, s.Err)})
	}
	r.Omitted += fed.Omitted
	if err != nil {
		return nil, &exitError{exitFindings, err}
	}
	return hits, nil
}

func feedAndFind(ctx context.Context, x *search.Index, f searchFlags, sessions []search.Session, r *searchReport) (search.Fed, []search.Hit, error) {
	fed, err := x.Feed(ctx, sessions)
	if err != nil {
		return fed, nil, err
	}
	hits, more, err := x.Find(ctx, f.query)
	r.More = more
	return fed, hits, err
}

func hitOf(p *searchPlace, h search.Hit) hitView {
	v := hitView{
		Session: h.Session, Name: h.Name, EntryID: h.Entry, LegacyID: h.LegacyID, Seq: h.Seq, Timestamp: h.Time, Type: h.Type, Role: h.Role,
		Snippet: []partView{},
	}
	if p.files {
		v.Path = filepath.Join(p.dir, h.Key)
	}
	for _, part := range h.Snippet {
		v.Snippet = append(v.Snippet, partView{part.Text, part.Match})
	}
	return v
}

func printHits(p *paper, f searchFlags, r searchReport) {
	if r.Rebuilt != "" {
		p.line(dim("the index was begun anew: " + r.Rebuilt))
	}
	found := count(int64(len(r.Hits)), "hit", "hits")
	if r.More {
		found = "the first " + found
	}
	p.line(bold(found), plain(" in "+count(int64(r.Sessions), "session", "sessions")))
	last := ""
	for _, h := range r.Hits {
		where := "#" + string(h.Session)
		if h.Path != "" {
			where = h.Path
			if short, err := filepath.Rel(f.place, h.Path); err == nil {
				where = short
			}
		}
		if where != last {
			last = where
			p.blank()
			p.line(cyan(brief(where, columns)))
			if h.Name != "" {
				p.line(dim("  " + brief(firstLine(h.Name), columns-2)))
			}
		}
		kind := h.Role
		if kind == "" {
			kind = string(h.Type)
		}
		id := h.LegacyID
		if id == "" {
			id = shortID(h.EntryID)
		}
		p.line(plain("  "), dim(minute(h.Timestamp)), plain("  "+pad(brief(kind, 14), 14)+"  "), dim(brief(id, 24)))
		printSnippet(p, h.Snippet)
	}
	if r.More {
		p.blank()
		p.line(dim("There are more: --limit shows them."))
	}
	printProblems(p, "not searched, or not wholly:", r.Skipped, r.Omitted)
}

// printSnippet prints a snippet on one line, what was sought in colour.
func printSnippet(p *paper, parts []partView) {
	room := columns - 4
	spans := []span{plain("    ")}
	for _, part := range parts {
		text := brief(part.Text, room)
		if room -= width(text); text == "" {
			break
		}
		if part.Match {
			spans = append(spans, yellow(text))
		} else {
			spans = append(spans, plain(text))
		}
		if room <= 0 {
			break
		}
	}
	p.line(spans...)
}
