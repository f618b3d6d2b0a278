package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"pistore"
	"pistore/session"
	"pistore/verify"
)

var convertCommand = command{
	name: "convert", args: "SRC DST [flags]",
	short: "copy a session into another store, and compare",
	long: `Copies a session of any store into DST: a new session file if that ends in
.jsonl, else a logstore folder, which is made if it is not there. Ids, seqs and
times are kept, and every row of the copy is read back and compared. SRC is not
changed. A SRC in which "pistore verify" finds an error is refused, and so is a
session that DST has already; a conversion that fails leaves nothing behind.`,
	examples: []string{"pistore convert session.jsonl ./store", "pistore convert ./store new.jsonl", "pistore convert './old#0195c8d1-52a1-7c3e-8f00-1234567890ab' ./store --json"},
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
	src, err := openSession(ctx, rest[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if src.sameStore(rest[1]) {
		return usageError("SRC and DST are the same store")
	}
	stop := in.progress("checking")
	checked, err := src.check(ctx, verify.Options{})
	stop()
	switch {
	case err != nil:
		return refused(src.place, err)
	case !checked.OK:
		return &exitError{exitFindings, fmt.Errorf("%s has faults and is not converted; \"pistore verify\" lists them%s", src.place, firstError(checked.Faults))}
	}
	made, err := convertInto(ctx, in, src, rest[1])
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
	printConverted(in.out, r, rest[1])
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

// convertInto copies a session.
func convertInto(ctx context.Context, in *invocation, src *opened, arg string) (made session.Copied, err error) {
	d, err := openDestination(arg)
	if err != nil {
		return made, err
	}
	defer func() { err = d.close(ctx, err) }()
	var rows atomic.Int64
	stop := in.progressOf(func() string { return "copying, " + count(rows.Load(), "row", "rows") })
	defer stop()
	return session.Convert(ctx, src.session, d.backend, session.ConvertOptions{Progress: rows.Store})
}

// sameStore reports whether an argument names the store that is open.
func (o *opened) sameStore(arg string) bool {
	place, _, err := splitStore(arg)
	if err != nil {
		return false
	}
	a, err1 := os.Stat(o.place)
	b, err2 := os.Stat(place)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}
