package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"pistore"
	"pistore/disk"
)

// OpenFile opens a session file of any format.
//
// Read-only it changes nothing and takes no lock. A damaged file opens as far as
// it can be read, and [File.Report] says what is wrong with it; one of which
// nothing can be shown is an [*UnreadableError], which matches ErrCorrupt.
//
// For writing it takes ownership, and a damaged file is ErrCorrupt. One of
// formats 1 to 3 stays as it is until the first commit, which gives it format 4.
// A format 4 with values and lists, which other programs write, is
// ErrForeignFormat: it can be converted.
//
// What is no session file is ErrForeignFormat, ErrNewerVersion or ErrNotFound.
func OpenFile(ctx context.Context, path string, mode pistore.Mode, o Options) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch mode {
	case pistore.ReadOnly:
		return openReading(ctx, path, o.complete(), false)
	case pistore.ReadWrite:
		return openWriting(ctx, path, o.complete())
	default:
		return nil, fmt.Errorf("jsonl: %q: %w: mode %d", path, pistore.ErrInvalid, mode)
	}
}

// maxAttempts bounds how often an opening starts again because the file was
// replaced under it.
const maxAttempts = 100

// openReading opens a file to look at it. Strictly, a damaged one is ErrCorrupt.
func openReading(ctx context.Context, path string, o Options, strict bool) (*File, error) {
	for attempt := 1; ; attempt++ {
		src, st, err := openAs(o.FS, path, disk.Read)
		if err != nil {
			return nil, err
		}
		f, report, err := readSource(ctx, path, src, st.Size, o, strict)
		if f == nil || f.src == nil {
			err = errors.Join(err, src.Close())
		}
		if errors.Is(err, errShrunk) && attempt < maxAttempts {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("jsonl: %q: %w", path, err)
		}
		if f != nil && report.Errors == 0 {
			return f, nil
		}
		// What a writer does meanwhile may look like damage: it cuts a torn tail
		// off and writes over it.
		now, err := o.FS.Stat(path)
		if changed := err == nil && (now.Identity != st.Identity || now.Size != st.Size); changed && attempt < maxAttempts {
			if f != nil {
				_ = f.Close() // read only: nothing can be lost
			}
			continue
		}
		switch {
		case f == nil:
			return nil, unreadable(path, report)
		case strict:
			_ = f.Close() // read only: nothing can be lost
			return nil, damaged(path, f.Info().ID, report)
		}
		return f, nil
	}
}

// readSource reads an open file, and leaves payloads in it where it is large.
func readSource(ctx context.Context, path string, src disk.File, size int64, o Options, strict bool) (*File, Report, error) {
	h, err := readHead(ctx, src, size)
	if err != nil {
		return nil, Report{}, err
	}
	if h.what != fileV4 {
		f, report, err := readPi(ctx, h, src, size, resolveParent(o.FS, path))
		if f != nil {
			f.path, f.opts = path, o
		}
		return f, report, err
	}
	r := newReplay(ctx, src, size, o)
	r.keepGoing = !strict
	if err := r.run(); err != nil {
		return nil, Report{}, err
	}
	f, report := r.file()
	if f == nil {
		return nil, report, nil
	}
	f.path, f.opts, f.src = path, o, newSource(src)
	if r.places != nil {
		f.payloads = &payloads{session: f.Info().ID, path: path}
		f.payloads.set(f.src, *r.places)
	}
	return f, report, nil
}

func newReplay(ctx context.Context, src disk.File, size int64, o Options) *replay {
	r := &replay{ctx: ctx, src: src, size: size}
	if o.onDisk(size) {
		r.places = new([]place)
	}
	return r
}

// damaged returns the first error of a report.
func damaged(path string, session pistore.SessionID, r Report) error {
	i := slices.IndexFunc(r.Faults, func(f Fault) bool { return f.Severity == Error })
	f := &r.Faults[i]
	err := error(corrupt(session, fmt.Sprintf("%q, %s", path, f.Place()), f))
	if f.cause != nil {
		err = fmt.Errorf("%w: %w", err, f.cause)
	}
	return err
}

// openWriting opens a file as its owner.
func openWriting(ctx context.Context, path string, o Options) (*File, error) {
	for range maxAttempts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		real, err := o.FS.Resolve(path)
		if err != nil {
			return nil, wrapOpen(path, err)
		}
		src, st, err := openAs(o.FS, real, disk.Append)
		if err != nil {
			return nil, err
		}
		key, err := own(o.FS, real, src, o.Clock.Read())
		if err != nil {
			return nil, fmt.Errorf("jsonl: open: %w", errors.Join(err, src.Close()))
		}
		give := func(err error) (*File, error) {
			key.disown()
			return nil, errors.Join(err, src.Close())
		}
		// Whoever had the lock before may have put another file in its place.
		named, err := o.FS.Stat(real)
		if errors.Is(err, fs.ErrNotExist) || err == nil && named.Identity != st.Identity {
			if _, err := give(nil); err != nil {
				return nil, wrapOpen(path, err)
			}
			continue
		}
		if err == nil {
			st, err = src.Stat() // the size at which it is ours
		}
		if err != nil {
			return give(wrapOpen(path, err))
		}
		f, err := readOwned(ctx, real, src, st.Size, o, key)
		if err != nil {
			return give(err)
		}
		err = f.compactOnOpen()
		if err == nil && o.Durability == pistore.Power && f.log.upgrade == "" {
			// The last line may be one whose owner died before it was synced. Whoever
			// sees it may rely on it.
			err = f.log.sync()
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	return nil, fmt.Errorf("jsonl: %q: %w: the file was replaced %d times while it was opened", path, pistore.ErrBusy, maxAttempts)
}

// readOwned reads a file that may be written.
func readOwned(ctx context.Context, path string, src disk.File, size int64, o Options, key ownedFile) (*File, error) {
	f, report, err := readSource(ctx, path, src, size, o, true)
	switch {
	case err != nil:
		return nil, fmt.Errorf("jsonl: %q: %w", path, err)
	case f == nil:
		return nil, unreadable(path, report)
	case report.Errors > 0:
		return nil, damaged(path, f.Info().ID, report)
	case report.Format == V4Values:
		return nil, fmt.Errorf("jsonl: %q: %w: a session file of format 4 that another program writes, with values and lists; convert it", path, pistore.ErrForeignFormat)
	}
	cleanTemps(o, path)
	f.log = &log{
		opts: o, path: path, info: &f.info, src: f.src, key: key,
		size: size - report.TornBytes, torn: report.TornBytes > 0, extra: f.extra, extras: f.rowExtras,
	}
	if f.src = nil; f.log.src == nil {
		f.log.src = newSource(src)
	}
	switch {
	case report.Format != V4:
		f.log.upgrade = ".v3"
	case f.unsummed:
		f.log.upgrade = ".v4"
	}
	return f, nil
}

// compactOnOpen gives space back where most of a file is dead. A rewrite that
// fails before it takes the name is no reason not to open.
func (f *File) compactOnOpen() error {
	g := f.log
	if g.opts.NoCompactOnOpen || g.upgrade != "" || g.size <= compactOnOpenBytes || f.report.DeadBytes <= g.size/2 {
		return nil
	}
	g.commit.Lock()
	defer g.commit.Unlock()
	_, _ = f.compact()
	return g.faulted()
}
