package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"pistore"
	"pistore/logstore"
	"pistore/session"
	"pistore/verify"
)

var convertCommand = command{
	name: "convert", args: "SRC DST [flags]",
	short: "copy a session into a logstore, and compare",
	long: `Copies a session file, or a session of a logstore, into the logstore folder
DST, which is made if it is not there. Ids, seqs and times are kept, and every
row of the copy is read back and compared. SRC is not changed. A SRC in which
"pistore verify" finds an error is refused, and so is a session that DST has
already; a conversion that fails leaves nothing behind.`,
	examples: []string{"pistore convert session.jsonl ./store", "pistore convert './old#0195c8d1-52a1-7c3e-8f00-1234567890ab' ./store --json"},
	run:      runConvert,
}

// convertReport is the JSON of convert.
type convertReport struct {
	Session      pistore.SessionID `json:"session"`
	SourceFormat string            `json:"sourceFormat"`
	Format       string            `json:"format"` // of the copy
	Copied       checkedCount      `json:"copied"`
	Digest       string            `json:"digest"` // of SRC and of the copy
	Faults       []faultView       `json:"faults"` // of SRC; warnings only
	Omitted      int64             `json:"omitted"`
}

func runConvert(ctx context.Context, in *invocation) (err error) {
	rest, err := in.parse()
	if err != nil {
		return err
	}
	if len(rest) != 2 || rest[0] == "" || rest[1] == "" {
		return usageError(fmt.Sprintf("convert takes SRC and DST, not %s; see \"pistore help convert\"", count(int64(len(rest)), "argument", "arguments")))
	}
	place, id, err := splitStore(rest[1])
	if err != nil {
		return err
	}
	if id != "" {
		return usageError("DST is a folder without #SESSION: the session keeps its id")
	}
	src, err := openSession(ctx, rest[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	stop := in.progress("checking")
	checked, err := src.check(ctx, verify.Options{})
	stop()
	switch {
	case err != nil:
		return refused(src.place, err)
	case !checked.OK:
		return &exitError{exitFindings, fmt.Errorf("%s has faults and is not converted; \"pistore verify\" lists them%s", src.place, firstError(checked.Faults))}
	}
	made, err := convertInto(ctx, in, src, place)
	if err != nil {
		return err
	}
	r := convertReport{
		Session: made.Info.ID, SourceFormat: src.session.Info().Format, Format: made.Info.Format,
		Copied: checked.Checked, Digest: made.Digest, Faults: checked.Faults, Omitted: checked.Omitted,
	}
	if in.json {
		return in.out.object(r)
	}
	printConverted(in.out, r, place)
	return nil
}

// firstError names the first fault of severity error.
func firstError(faults []faultView) string {
	for _, f := range faults {
		if f.Severity == string(verify.Error) {
			return fmt.Sprintf(" (the first: %s: %s)", f.Place, f.Message)
		}
	}
	return ""
}

func printConverted(p *paper, r convertReport, place string) {
	p.line(bold("session "), plain(string(r.Session)), plain("  "), green("converted"))
	p.line(dim("  from     "), plain(r.SourceFormat))
	p.line(dim("  into     "), plain(brief(place, columns-11)))
	p.line(dim("  copied   "), plain(r.Copied.String()))
	p.line(dim("  digest   "), plain(r.Digest))
	if len(r.Faults) > 0 {
		p.blank()
		printFaults(p, r.Faults, r.Omitted)
	}
}

// convertInto copies a session into a logstore folder. What it makes of the
// folder goes again if it fails.
func convertInto(ctx context.Context, in *invocation, src *opened, place string) (made session.Copied, err error) {
	undo, err := prepare(src, place)
	if err != nil {
		return made, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	db, err := logstore.Open(place, logstore.Options{Durability: pistore.Power})
	if err != nil {
		return made, refused(place, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var rows atomic.Int64
	stop := in.progressOf(func() string { return "copying, " + count(rows.Load(), "row", "rows") })
	defer stop()
	made, err = session.Convert(ctx, src.session, db, session.ConvertOptions{Progress: rows.Store})
	if errors.Is(err, pistore.ErrDuplicateID) {
		err = &exitError{exitFindings, fmt.Errorf("%s holds a session %s already; nothing was changed in it", place, src.session.Info().ID)}
	}
	return made, err
}

// prepare looks whether a place may become or be the logstore that a conversion
// goes into, and returns what takes away again what the conversion makes there.
func prepare(src *opened, place string) (undo func() error, err error) {
	none := func() error { return nil }
	info, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return removeNew(place)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", place, cause(err))
	case !info.IsDir():
		return nil, fmt.Errorf("%s is no folder; convert writes into a logstore folder", place)
	}
	if of, err := os.Stat(src.place); err == nil && os.SameFile(of, info) {
		return nil, usageError("SRC and DST are the same store")
	}
	names, err := os.ReadDir(place)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, cause(err))
	}
	if len(names) > 0 { // the backend judges it before it writes
		return none, nil
	}
	return func() error { return empty(place) }, nil
}

// removeNew takes away a folder that does not exist yet, and those above it
// that do not either.
func removeNew(place string) (undo func() error, err error) {
	place, err = filepath.Abs(place)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(place); err == nil {
		return nil, fmt.Errorf("%s is a symbolic link to nothing", place)
	}
	top := place
	for {
		above := filepath.Dir(top)
		if _, err := os.Lstat(above); err == nil || above == top {
			break
		}
		top = above
	}
	return func() error {
		if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
			// Folders above it may have been made all the same.
			for at := filepath.Dir(place); len(at) >= len(top); at = filepath.Dir(at) {
				if os.Remove(at) != nil && at == top {
					break
				}
			}
			return nil
		}
		return os.RemoveAll(top)
	}, nil
}

// empty takes everything out of a folder that was empty before.
func empty(dir string) error {
	names, err := os.ReadDir(dir)
	for _, n := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, n.Name())))
	}
	return err
}
