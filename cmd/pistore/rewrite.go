package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"pistore"
	"pistore/session"
)

var rewriteCommand = command{
	name: "rewrite", args: "STORE[#SESSION] [flags]",
	short: "erase content, or drop abandoned branches, for good",
	long: `Removes content from a session, in one step that a crash cannot split. An erased
entry keeps its place and says [erased]; copies of its content, in what
compactions retain, in the input of a summary, in registers, are erased with it,
and so are its label and the original that an upgrade has kept. Summaries that
were made of it in their own words are listed, and are erased by naming them. An
abandoned branch is one that no lane, no open operation and no label leads to.
Ids, seqs, times and the ledger stay. It asks first.`,
	examples: []string{"pistore rewrite session.jsonl --erase 0195c8d1-0000-7000-8000-000000000006 --yes", "pistore rewrite ./store --drop-abandoned --dry-run"},
	run:      runRewrite,
}

// rewriteReport is the JSON of rewrite.
type rewriteReport struct {
	Session    pistore.SessionID `json:"session"`
	DryRun     bool              `json:"dryRun"`
	Erased     int64             `json:"erased"`  // entries
	Copies     int64             `json:"copies"`  // of their content, elsewhere
	Labels     int64             `json:"labels"`  // that went
	Dropped    int64             `json:"dropped"` // entries of abandoned branches
	Rows       int64             `json:"rows"`    // that are left
	Summaries  []pistore.ID      `json:"summaries"`
	Generation string            `json:"generation,omitempty"` // the new one
	Digest     string            `json:"digest"`
}

func reportOfRewrite(r session.Rewritten, dry bool) rewriteReport {
	v := rewriteReport{
		Session: r.Info.ID, DryRun: dry, Erased: r.Erased, Copies: r.Copies, Labels: r.Labels, Dropped: r.Dropped,
		Rows: r.Rows, Summaries: r.Summaries, Generation: r.Info.Generation, Digest: r.Digest,
	}
	if v.Summaries == nil {
		v.Summaries = []pistore.ID{}
	}
	if dry {
		v.Generation = ""
	}
	return v
}

func runRewrite(ctx context.Context, in *invocation) error {
	var erase words
	in.flags.Var(&erase, "erase", "an entry `ID` whose content goes; may be repeated")
	drop := in.flags.Bool("drop-abandoned", false, "remove abandoned branches")
	dry := in.flags.Bool("dry-run", false, "tell what would go, and change nothing")
	yes := in.flags.Bool("yes", false, "do not ask")
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	if len(erase) == 0 && !*drop {
		return usageError("rewrite needs --erase ID or --drop-abandoned; see \"pistore help rewrite\"")
	}
	o := session.RewriteOptions{DropAbandoned: *drop}
	plan, place, err := planRewrite(ctx, in, arg, erase, &o)
	if err != nil {
		return err
	}
	if *dry {
		return printRewrite(in, plan, true)
	}
	question := fmt.Sprintf("Erase %s and drop %s of %s for good?",
		count(plan.Erased, "entry", "entries"), count(plan.Dropped, "abandoned entry", "abandoned entries"), place)
	if err := in.confirm(*yes, question); err != nil {
		return err
	}
	done, err := rewrite(ctx, in, arg, o)
	if err != nil {
		return err
	}
	return printRewrite(in, done, false)
}

// planRewrite finds the entries and what would go, without opening for writing.
func planRewrite(ctx context.Context, in *invocation, arg string, erase []string, o *session.RewriteOptions) (plan session.Rewritten, place string, err error) {
	src, err := openSession(ctx, arg)
	if err != nil {
		return plan, "", err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	for _, text := range erase {
		id, err := src.entryID(ctx, text)
		if err != nil {
			return plan, "", err
		}
		o.Erase = append(o.Erase, id)
	}
	stop := in.progress("looking")
	plan, err = session.PlanRewrite(ctx, src.session, *o)
	stop()
	return plan, src.place, refusedRewrite(src.place, err)
}

// refusedRewrite says in one sentence why a session is not rewritten.
func refusedRewrite(place string, err error) error {
	var used *session.InUseError
	switch {
	case errors.As(err, &used):
		return &exitError{exitFindings, fmt.Errorf("%s: %w; end or abort it first", place, used)}
	case errors.Is(err, pistore.ErrCorrupt):
		return &exitError{exitFindings, fmt.Errorf("%s has faults and is not rewritten; \"pistore verify\" lists them", place)}
	case errors.Is(err, pistore.ErrInvalid):
		return &exitError{exitFindings, fmt.Errorf("%s: %w", place, err)}
	default:
		return err
	}
}

func rewrite(ctx context.Context, in *invocation, arg string, o session.RewriteOptions) (done session.Rewritten, err error) {
	own, err := openOwned(ctx, arg)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, own.backend.Close()) }()
	var rows atomic.Int64
	stop := in.progressOf(func() string { return "rewriting, " + count(rows.Load(), "row", "rows") })
	defer stop()
	o.Progress = rows.Store
	if done, err = session.Rewrite(ctx, own.backend, own.info.ID, o); err != nil {
		return done, own.refuse(ctx, refusedRewrite(own.place, err))
	}
	return done, own.giveBack(ctx, "rewritten")
}

func printRewrite(in *invocation, r session.Rewritten, dry bool) error {
	if in.json {
		return in.out.object(reportOfRewrite(r, dry))
	}
	p, word := in.out, green("rewritten")
	if dry {
		word = yellow("would be rewritten; nothing was changed")
	}
	p.line(bold("session "), plain(string(r.Info.ID)), plain("  "), word)
	for _, n := range []struct {
		label     string
		n         int64
		one, many string
	}{
		{"  erased   ", r.Erased, "entry", "entries"}, {"  copies   ", r.Copies, "copy of that content elsewhere", "copies of that content elsewhere"},
		{"  labels   ", r.Labels, "label of it", "labels of it"}, {"  dropped  ", r.Dropped, "entry of abandoned branches", "entries of abandoned branches"},
		{"  left     ", r.Rows, "row", "rows"},
	} {
		if n.n > 0 {
			p.line(dim(n.label), plain(count(n.n, n.one, n.many)))
		}
	}
	for _, id := range r.Summaries {
		p.line(yellow("  summary  "), plain(string(id)), plain(" was made of it"))
	}
	return nil
}
