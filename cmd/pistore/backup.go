package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"pistore"
	"pistore/backup"
	"pistore/jsonl"
	"pistore/session"
)

var backupCommand = command{
	name: "backup", args: "STORE[#SESSION] FILE [flags]",
	short: "write sessions into one packed file",
	long: `Writes a session, or all sessions of a logstore, into FILE, which must not exist:
a zstd stream of lines of text ("zstd -d" unpacks it) with a sum for each line and
a digest for each session. Each session is as of one moment; a writer may go on
meanwhile. A session in which it finds damage is refused, and a backup that fails
leaves no FILE.`,
	examples: []string{"pistore backup ./store store.backup", "pistore backup session.jsonl session.backup --json"},
	run:      runBackup,
}

// backupReport is the JSON of backup and of restore.
type backupReport struct {
	Sessions  []backedUp `json:"sessions"`
	SizeBytes int64      `json:"sizeBytes,omitempty"` // of FILE
}

type backedUp struct {
	Session pistore.SessionID `json:"session"`
	Format  string            `json:"format"` // of the store
	Rows    int64             `json:"rows"`
	Digest  string            `json:"digest"`
}

func backupReportOf(all []session.Copied) backupReport {
	r := backupReport{Sessions: make([]backedUp, 0, len(all))}
	for _, c := range all {
		r.Sessions = append(r.Sessions, backedUp{c.Info.ID, c.Info.Format, c.Rows, c.Digest})
	}
	return r
}

func runBackup(ctx context.Context, in *invocation) (err error) {
	rest, err := in.parse()
	if err != nil {
		return err
	}
	if len(rest) != 2 || rest[0] == "" || rest[1] == "" {
		return usageError(fmt.Sprintf("backup takes STORE and FILE, not %s; see \"pistore help backup\"", count(int64(len(rest)), "argument", "arguments")))
	}
	src, err := openStore(ctx, rest[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	var ids []pistore.SessionID
	from := src.backend
	if src.session != nil {
		ids = []pistore.SessionID{src.session.Info().ID}
	} else if len(src.sessions) == 0 {
		return fmt.Errorf("%s holds no session", src.place)
	}
	if from == nil {
		from = jsonl.NewSingle(src.place, jsonl.Options{})
	}
	file := rest[1]
	var rows atomic.Int64
	stop := in.progressOf(func() string { return "writing, " + count(rows.Load(), "row", "rows") })
	var all []session.Copied
	size, err := writeWhole(file, func(f *os.File) (err error) {
		all, err = backup.Write(ctx, f, from, ids, rows.Store)
		return err
	})
	stop()
	switch {
	case errors.Is(err, pistore.ErrCorrupt):
		return &exitError{exitFindings, fmt.Errorf("%s has faults and is not backed up; \"pistore verify\" lists them", src.place)}
	case err != nil:
		return err
	}
	r := backupReportOf(all)
	r.SizeBytes = size
	if in.json {
		return in.out.object(r)
	}
	in.out.line(bold(count(int64(len(all)), "session", "sessions")), plain("  "), green("backed up"))
	printBackedUp(in.out, r)
	return nil
}

func printBackedUp(p *paper, r backupReport) {
	for _, s := range r.Sessions {
		p.line(plain("  "), plain(string(s.Session)), dim("  "+count(s.Rows, "row", "rows")))
	}
}

// writeWhole makes a new file that is there whole and durably, or not at all.
func writeWhole(path string, write func(*os.File) error) (size int64, err error) {
	if err := isFree(path); err != nil {
		return 0, err
	}
	dir, name := filepath.Split(path)
	temp := filepath.Join(dir, "."+name+".pistore-tmp")
	// What a crash has left of an earlier one has the same name, and goes.
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, leftAsItWas(path, err)
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if info, statErr := f.Stat(); err == nil {
		err = statErr
		size = info.Size()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Link(temp, path) // unlike a rename it replaces nothing
	}
	if removeErr := os.Remove(temp); err == nil {
		err = removeErr
	}
	if err != nil {
		return 0, leftAsItWas(path, err)
	}
	return size, syncFolder(filepath.Join(dir, "."))
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
