package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
)

var compactCommand = command{
	name: "compact", args: "STORE [flags]",
	short: "give back the space of what later writes replaced",
	long: `Rewrites a session file of format 4 as what is live of it, or has a logstore
merge its tables: of one session if it is named, else of all. What the store
holds stays the same, and so does the file's mode. A crash leaves the file as
it was or as it is to be. It refuses while another process writes, and never
touches a file of formats 1 to 3 or one that another program writes.`,
	examples: []string{"pistore compact session.jsonl", "pistore compact ./store --json"},
	run:      runCompact,
}

// compactReport is the JSON of compact.
type compactReport struct {
	BytesBefore int64 `json:"bytesBefore"`
	BytesAfter  int64 `json:"bytesAfter"`
}

func runCompact(ctx context.Context, in *invocation) error {
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	place, id, err := splitStore(arg)
	if err != nil {
		return err
	}
	isFile, err := detect(place)
	if err != nil {
		return err
	}
	compact := compactStore
	if isFile {
		compact = compactFile
	}
	stop := in.progress("compacting")
	result, err := compact(ctx, place, id)
	stop()
	if err != nil {
		return err
	}
	r := compactReport{result.BytesBefore, result.BytesAfter}
	if in.json {
		return in.out.object(r)
	}
	in.out.line(plain(brief(place, columns-12)+"  "), green("compacted"))
	in.out.line(dim("  before  "), plain(bytesOf(r.BytesBefore)))
	in.out.line(dim("  after   "), plain(bytesOf(r.BytesAfter)+savedWords(r)))
	return nil
}

// savedWords says what part of the space was given back.
func savedWords(r compactReport) string {
	saved := r.BytesBefore - r.BytesAfter
	if saved <= 0 || r.BytesBefore == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %% less", saved*100/r.BytesBefore)
}

func compactFile(ctx context.Context, place string, id pistore.SessionID) (result pistore.CompactResult, err error) {
	// Opening compacts as well, and what there was before is to be told.
	f, err := jsonl.OpenFile(ctx, place, pistore.ReadWrite, jsonl.Options{Durability: pistore.Power, NoCompactOnOpen: true})
	if err != nil {
		return result, refusedWriting(ctx, place, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	switch r := f.Report(); {
	case id != "" && id != f.Info().ID:
		return result, usageError(fmt.Sprintf("%s holds the session %s and not %s", place, f.Info().ID, id))
	case !r.Summed:
		return result, notOurs(place, string(r.Format))
	}
	result, err = f.Compact(ctx)
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, pistore.ErrFaulted): // it may have taken the name already
		return result, cannotWrite(place, err)
	default:
		return result, leftAsItWas(place, err)
	}
}

// refusedWriting says in one sentence why a file does not open for writing.
func refusedWriting(ctx context.Context, place string, err error) error {
	switch {
	case errors.Is(err, pistore.ErrForeignFormat):
		if info, infoErr := jsonl.ReadInfo(ctx, place); infoErr == nil {
			return notOurs(place, info.Format)
		}
	case errors.Is(err, pistore.ErrCorrupt):
		return fmt.Errorf("%w; \"pistore repair\" salvages a damaged file", damageAt(ctx, place, err))
	case errors.Is(err, pistore.ErrLocked), errors.Is(err, pistore.ErrBusy):
		return refused(place, err)
	}
	return cannotWrite(place, refusedFile(ctx, place, err))
}

// damageAt says in one sentence what is wrong with a damaged file.
func damageAt(ctx context.Context, place string, err error) error {
	if o, openErr := openFile(ctx, place, ""); openErr == nil {
		err = fmt.Errorf("%s: %s", place, o.damageOf())
		_ = o.close() // read only: nothing can be lost
		return err
	}
	return refusedFile(ctx, place, err)
}

// notOurs says that a file is of a format that this program only reads.
func notOurs(place, format string) error {
	what := "of format " + strings.TrimPrefix(format, "jsonl-")
	if strings.HasPrefix(format, string(jsonl.V4)) {
		what = "of format 4 that another program wrote"
	}
	return fmt.Errorf("%s is a session file %s, which is left as it is; \"pistore convert\" copies it", place, what)
}

func compactStore(ctx context.Context, place string, id pistore.SessionID) (result pistore.CompactResult, err error) {
	db, err := logstore.Open(place, logstore.Options{Durability: pistore.Power})
	if err != nil {
		return result, cannotWrite(place, refused(place, err))
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var all pistore.Compacter = db
	if id != "" {
		s, err := db.Open(ctx, id, pistore.ReadWrite)
		if errors.Is(err, pistore.ErrNotFound) {
			return result, noSession(place, id)
		}
		if err != nil {
			return result, refused(place, err)
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		one, ok := pistore.Find[pistore.Compacter](s)
		if !ok {
			return result, fmt.Errorf("%s: %w: to compact one session", place, pistore.ErrUnsupported)
		}
		all = one
	}
	result, err = all.Compact(ctx)
	if err != nil {
		return result, cannotWrite(place, refused(place, err))
	}
	return result, nil
}
