package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"pistore"
	"pistore/disk"
)

// RepairOptions say what a repair keeps.
type RepairOptions struct {
	// KeepGoing keeps every line that still fits; else a repair keeps the longest
	// prefix of the file that is consistent. Files of formats 1 to 3 are always
	// read to their end.
	KeepGoing bool
}

// RepairReport is the result of a repair.
type RepairReport struct {
	// Report is what was found in the damaged file: each error is something that
	// was left out, or placed elsewhere.
	Report Report
	// Info describes the new session. It has the id of the old one and another
	// generation.
	Info  pistore.Info
	Stats pistore.Stats
	// OmittedBytes were not read any more: what stands behind a prefix.
	OmittedBytes int64
}

// Repair salvages a damaged file into a new one of format 4, which nothing may
// stand at yet, and leaves the damaged one alone. A file of which nothing can be
// read is an [*UnreadableError].
func Repair(ctx context.Context, from, to string, o Options, r RepairOptions) (RepairReport, error) {
	report, err := repair(ctx, from, to, o.complete(), r)
	if err != nil {
		return RepairReport{}, fmt.Errorf("jsonl: repair: %w", err)
	}
	return report, nil
}

func repair(ctx context.Context, from, to string, o Options, ro RepairOptions) (rep RepairReport, err error) {
	if err := ctx.Err(); err != nil {
		return rep, err
	}
	if _, err := o.FS.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return rep, errors.Join(err, fmt.Errorf("%w: %q is there already", pistore.ErrInvalid, to))
	}
	src, st, err := openAs(o.FS, from, disk.Read)
	if err != nil {
		return rep, err
	}
	defer src.Close() // read only: nothing can be lost
	f, err := salvage(ctx, from, src, st.Size, o, ro, &rep)
	if err != nil {
		return rep, err
	}
	rep.Info = f.Info()
	rep.Info.Format, rep.Info.Generation = string(V4), string(o.ids.New())
	if rep.Stats, err = f.Stats(ctx); err != nil {
		return rep, err
	}
	t, err := newTemp(o, to)
	if err != nil {
		return rep, err
	}
	t.enc.extras = f.rowExtras
	if err = t.snapshot(rep.Info, f.state, f.extra, f.Export(ctx)); err != nil {
		return rep, t.abandon(err)
	}
	if err := t.publish(to); err != nil {
		return rep, t.abandon(errors.Join(err, t.fs.Remove(to)))
	}
	return rep, t.release()
}

// salvage reads what is to be kept.
func salvage(ctx context.Context, path string, src disk.File, size int64, o Options, ro RepairOptions, rep *RepairReport) (*File, error) {
	h, err := readHead(ctx, src, size)
	if err != nil {
		return nil, err
	}
	var f *File
	if h.what != fileV4 {
		f, rep.Report, err = readPi(ctx, h, src, size, resolveParent(o.FS, path))
	} else {
		r := newReplay(ctx, src, size, o)
		r.keepGoing, r.prefix = true, !ro.KeepGoing
		if err = r.run(); err == nil {
			f, rep.Report = r.file()
			rep.OmittedBytes = r.omitted
		}
		if f != nil && r.places != nil {
			f.payloads = &payloads{session: f.Info().ID, path: path}
			f.payloads.set(newSource(src), *r.places)
		}
	}
	if err == nil && f == nil {
		err = unreadable(path, rep.Report)
	}
	return f, err
}
