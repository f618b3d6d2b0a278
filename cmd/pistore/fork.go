package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"pistore"
	"pistore/session"
)

var forkCommand = command{
	name: "fork", args: "STORE DST [flags]",
	short: "copy a path or the tree into a new session",
	long: `Makes a new session of a part of another one, in DST: a new session file if that
ends in .jsonl, else a logstore folder, which may be STORE itself. By default it
gets the path that the lane main stands on. Facts, documents that are to be
copied, and registers of applications come along; what is open or queued does
not, and the ledger starts at zero. STORE is not changed.`,
	examples: []string{"pistore fork session.jsonl ./store", "pistore fork ./store new.jsonl --before 0195c8d1-0000-7000-8000-000000000006"},
	run:      runFork,
}

// forkReport is the JSON of fork.
type forkReport struct {
	Session         pistore.SessionID `json:"session"`
	ParentSessionID pistore.SessionID `json:"parentSessionId"`
	Format          string            `json:"format"`
	Rows            int64             `json:"rows"`
	Digest          string            `json:"digest"`
}

func runFork(ctx context.Context, in *invocation) (err error) {
	at := in.flags.String("at", "", "the path that ends with the entry `ID`")
	before := in.flags.String("before", "", "the path that ends in front of the entry `ID`")
	tree := in.flags.Bool("tree", false, "all branches, with all lanes")
	id := in.flags.String("id", "", "the `NEW` id of the fork; else one is made")
	rest, err := in.parse()
	if err != nil {
		return err
	}
	given := 0
	for _, name := range []string{"at", "before", "tree"} {
		if in.set(name) {
			given++
		}
	}
	switch {
	case len(rest) != 2 || rest[0] == "" || rest[1] == "":
		return usageError(fmt.Sprintf("fork takes STORE and DST, not %s; see \"pistore help fork\"", count(int64(len(rest)), "argument", "arguments")))
	case given > 1:
		return usageError("fork takes one of --at, --before and --tree")
	}
	o := session.ForkOptions{ID: pistore.SessionID(*id), CreatedAt: pistore.SystemClock(), Tree: *tree}
	if !in.set("id") {
		o.ID = pistore.SessionID(pistore.NewIDs(pistore.SystemClock, rand.Reader).New())
	}
	if err := o.ID.Check(); err != nil {
		return badID("--id", o.ID, err)
	}
	src, err := openSession(ctx, rest[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if in.set("at") {
		o.At, err = src.entryID(ctx, *at)
	} else if in.set("before") {
		o.Before, err = src.entryID(ctx, *before)
	}
	if err != nil {
		return err
	}
	made, err := forkInto(ctx, in, src, rest[1], o)
	if err != nil {
		return err
	}
	if in.json {
		return in.out.object(forkReport{made.Info.ID, made.Info.ParentSessionID, made.Info.Format, made.Rows, made.Digest})
	}
	in.out.line(bold("session "), plain(string(made.Info.ID)), plain("  "), green("forked"))
	in.out.line(dim("  from     "), plain(string(made.Info.ParentSessionID)))
	in.out.line(dim("  into     "), plain(brief(rest[1], columns-11)))
	in.out.line(dim("  rows     "), plain(fmt.Sprint(made.Rows)))
	return nil
}

// entryID finds an entry by its id, by that of the file, or by the end of it.
func (o *opened) entryID(ctx context.Context, text string) (pistore.ID, error) {
	v, err := takeSurvey(ctx, o.session, false)
	if err != nil {
		return "", refused(o.place, err)
	}
	v.legacy = o.legacyID
	i, err := v.find(text)
	if err != nil {
		return "", err
	}
	return v.nodes[i].entry.ID, nil
}

func forkInto(ctx context.Context, in *invocation, src *opened, arg string, o session.ForkOptions) (made session.Copied, err error) {
	d, err := openDestination(arg)
	if err != nil {
		return made, err
	}
	defer func() { err = d.close(ctx, err) }()
	var rows atomic.Int64
	stop := in.progressOf(func() string { return "copying, " + count(rows.Load(), "row", "rows") })
	defer stop()
	o.Progress = rows.Store
	made, err = session.Fork(ctx, src.session, d.backend, o)
	if errors.Is(err, pistore.ErrCorrupt) {
		err = &exitError{exitFindings, fmt.Errorf("%s has faults and is not forked; \"pistore verify\" lists them", src.place)}
	}
	return made, err
}
