package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"pistore"
	"pistore/backup"
	"pistore/session"
)

var restoreCommand = command{
	name: "restore", args: "FILE DST [flags]",
	short: "make the sessions of a backup again",
	long: `Makes the sessions of a backup in DST: a new session file if that ends in .jsonl,
else a logstore folder, which is made if it is not there. A file holds one
session. Ids, seqs and times are kept; the generation is a new one. The whole
backup is checked first: nothing is made of one that is cut short or damaged.`,
	examples: []string{"pistore restore store.backup ./store", "pistore restore store.backup one.jsonl --session 0195c8d1-52a1-7c3e-8f00-1234567890ab"},
	run:      runRestore,
}

func runRestore(ctx context.Context, in *invocation) (err error) {
	var wanted words
	in.flags.Var(&wanted, "session", "only the session `ID`; may be repeated")
	rest, err := in.parse()
	if err != nil {
		return err
	}
	if len(rest) != 2 || rest[0] == "" || rest[1] == "" {
		return usageError(fmt.Sprintf("restore takes FILE and DST, not %s; see \"pistore help restore\"", count(int64(len(rest)), "argument", "arguments")))
	}
	f, err := openBackup(rest[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stop := in.progress("checking")
	there, err := backup.Check(ctx, f)
	stop()
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		return refusedBackup(ctx, rest[0], err)
	}
	ids, err := chooseSessions(there, wanted, rest)
	if err != nil {
		return err
	}
	made, err := restoreInto(ctx, in, f, rest, ids)
	if err != nil {
		return err
	}
	r := backupReportOf(made)
	if in.json {
		return in.out.object(r)
	}
	in.out.line(bold(count(int64(len(made)), "session", "sessions")), plain("  "), green("restored"))
	printBackedUp(in.out, r)
	return nil
}

// openBackup opens a backup without waiting for one that is a pipe.
func openBackup(place string) (*os.File, error) {
	info, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is nothing at %s", place)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", place, cause(err))
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder, not a backup", place)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is %s, not a backup", place, kindOfFile(info.Mode()))
	}
	f, err := os.Open(place)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, cause(err))
	}
	return f, nil
}

// refusedBackup says in one sentence what is wrong with a backup.
func refusedBackup(ctx context.Context, place string, err error) error {
	var damage *pistore.CorruptError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &damage):
		return fmt.Errorf("%s, %s of what it unpacks to: %s; nothing was restored", place, damage.Place, damage.Problem)
	case errors.Is(err, pistore.ErrForeignFormat):
		return fmt.Errorf("%s is no backup", place)
	case errors.Is(err, pistore.ErrNewerVersion):
		return fmt.Errorf("%s is a backup written by a newer version; use a newer pistore", place)
	default:
		return fmt.Errorf("%s: %w", place, cause(err))
	}
}

// chooseSessions returns the sessions to restore, and refuses several for a file.
func chooseSessions(there []session.Copied, wanted, rest []string) (ids []pistore.SessionID, err error) {
	for _, text := range wanted {
		ids = append(ids, pistore.SessionID(text))
	}
	for _, c := range there {
		if len(wanted) == 0 {
			ids = append(ids, c.Info.ID)
		}
	}
	switch {
	case len(ids) == 0:
		return nil, fmt.Errorf("%s holds no session", rest[0])
	case len(ids) > 1 && strings.HasSuffix(rest[1], ".jsonl") && !isFolder(rest[1]):
		return nil, usageError(fmt.Sprintf("%s holds %d sessions and a file takes one; name it with --session ID", rest[0], len(ids)))
	}
	return ids, nil
}

func restoreInto(ctx context.Context, in *invocation, f *os.File, rest []string, ids []pistore.SessionID) (made []session.Copied, err error) {
	d, err := openDestination(rest[1])
	if err != nil {
		return nil, err
	}
	defer func() { err = d.close(ctx, err) }()
	var rows atomic.Int64
	stop := in.progressOf(func() string { return "restoring, " + count(rows.Load(), "row", "rows") })
	defer stop()
	made, err = backup.Restore(ctx, f, d.backend, ids, rows.Store)
	if errors.Is(err, pistore.ErrNotFound) {
		err = usageError(fmt.Sprintf("%s holds no session of that id", rest[0]))
	}
	return made, err
}
