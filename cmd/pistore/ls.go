package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pistore"
	"pistore/logstore"
	"pistore/session"
)

var lsCommand = command{
	name: "ls", args: "DIR [flags]",
	short: "the sessions in a folder or a logstore",
	long: `Lists the session files in DIR and in all folders below it, known by content,
or the sessions of a logstore. It reads headers only.`,
	examples: []string{"pistore ls ~/.pi/agent/sessions", "pistore ls ~/.pi/agent/sessions --cwd . --names", "pistore ls ./store --sort name --json"},
	run:      runLs,
}

// listReport is the JSON of ls.
type listReport struct {
	Sessions []listedView  `json:"sessions"`
	Skipped  []skippedView `json:"skipped"`
	Omitted  int64         `json:"omitted"` // skipped, and not listed
}

type listedView struct {
	ID         pistore.SessionID `json:"id,omitempty"`
	CreatedAt  pistore.UnixMS    `json:"createdAt,omitempty"`
	ModifiedAt pistore.UnixMS    `json:"modifiedAt"`
	CWD        string            `json:"cwd,omitempty"`
	Name       string            `json:"name,omitempty"`
	Format     string            `json:"format"`
	Path       string            `json:"path,omitempty"`
	SizeBytes  int64             `json:"sizeBytes,omitempty"`
}

// skippedView is something that could not be read.
type skippedView struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
}

var listOrders = map[string]session.ListOrder{"recent": session.ByRecency, "cwd": session.ByCWD, "name": session.ByName}

func runLs(ctx context.Context, in *invocation) (err error) {
	sort := in.flags.String("sort", "recent", "`recent|cwd|name`: newest first, or by working directory, or by name")
	cwd := in.flags.String("cwd", "", "only sessions of the working directory `DIR` and those below it")
	names := in.flags.Bool("names", false, "names too; a file without a name is read to its beginning")
	rest, err := in.parseThese("DIR")
	if err != nil {
		return err
	}
	order, ok := listOrders[*sort]
	if !ok {
		return usageError(fmt.Sprintf("--sort takes recent, cwd or name, not %q", *sort))
	}
	q := session.ListQuery{Order: order, Names: *names || order == session.ByName}
	if in.set("cwd") {
		if q.CWD, err = filepath.Abs(*cwd); err != nil || *cwd == "" {
			return usageError("--cwd takes a path")
		}
	}
	repo, done, err := openRepo(rest[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	stop := in.progress("reading")
	l, err := repo.List(ctx, q)
	stop()
	if err != nil {
		return refused(rest[0], err)
	}
	if in.json {
		return in.out.object(listReportOf(l))
	}
	printListing(in.out, rest[0], *sort, l)
	return nil
}

// openRepo opens a place with many sessions: a logstore, or a folder of files.
func openRepo(place string) (repo session.Repo, done func() error, err error) {
	info, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("there is nothing at %s", place)
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", place, cause(err))
	case !info.IsDir():
		return nil, nil, fmt.Errorf("%s is no folder (\"pistore inspect\" shows a file)", place)
	}
	is, err := isLogstore(place)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", place, cause(err))
	}
	if !is {
		return session.FolderRepo(place, sessionFiles{}), func() error { return nil }, nil
	}
	db, err := logstore.Open(place, logstore.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, refused(place, err)
	}
	return session.BackendRepo(db), db.Close, nil
}

func listReportOf(l session.Listing) listReport {
	r := listReport{Sessions: make([]listedView, 0, len(l.Sessions)), Skipped: skippedViews(l.Skipped), Omitted: l.Omitted}
	for _, s := range l.Sessions {
		r.Sessions = append(r.Sessions, listedView{
			ID: s.Info.ID, CreatedAt: s.Info.CreatedAt, ModifiedAt: s.ModifiedAt, CWD: s.Info.CWD, Name: s.Name,
			Format: s.Info.Format, Path: s.Path, SizeBytes: s.SizeBytes,
		})
	}
	return r
}

func skippedViews(skipped []session.Skipped) []skippedView {
	views := make([]skippedView, 0, len(skipped))
	for _, s := range skipped {
		views = append(views, skippedView{s.Path, problemOf(s.Path, s.Err)})
	}
	return views
}

func printListing(p *paper, place, sort string, l session.Listing) {
	words := map[string]string{"recent": "newest first", "cwd": "by working directory", "name": "by name"}[sort]
	p.line(bold(count(int64(len(l.Sessions)), "session", "sessions")), plain(", "+words))
	group := ""
	for _, s := range l.Sessions {
		in := s.Info.CWD
		if sort == "cwd" && in != group {
			group = in
			p.line(cyan(brief(in, columns)))
		}
		size := ""
		if s.Path != "" {
			size = bytesOf(s.SizeBytes)
		}
		what := s.Name
		if what == "" && sort != "cwd" {
			what = in
		}
		if what == "" {
			what = string(s.Info.ID)
		}
		at := minute(s.ModifiedAt)
		room := columns - 6 - width(at) - 9
		title := brief(flat(what), room)
		if size != "" {
			title = pad(title, room)
			size = padLeft(size, 11)
		}
		p.line(plain("  "), cyan(at), plain("  "+title), dim(size))
		if s.Name != "" && sort != "cwd" && in != "" {
			p.line(dim("    in " + brief(in, columns-7)))
		}
		p.line(dim("    " + brief(whereOf(place, s), columns-4)))
	}
	printProblems(p, "skipped:", skippedViews(l.Skipped), l.Omitted)
}

// whereOf is what names a session in its place.
func whereOf(place string, s session.Listed) string {
	if s.Path == "" {
		return "#" + string(s.Info.ID)
	}
	if short, err := filepath.Rel(place, s.Path); err == nil {
		return short
	}
	return s.Path
}

func printProblems(p *paper, what string, found []skippedView, omitted int64) {
	if len(found) == 0 {
		return
	}
	p.blank()
	p.line(yellow(fmt.Sprintf("%d %s", int64(len(found))+omitted, what)))
	for _, s := range found {
		p.labelled("  ", plain, s.Path)
		p.labelled("    ", dim, s.Problem)
	}
	if omitted > 0 {
		p.line(dim(fmt.Sprintf("  and %d more", omitted)))
	}
}
