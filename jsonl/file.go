package jsonl

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync/atomic"

	"pistore"
	"pistore/memstore"
)

// File is a session file that is open for reading. It is a [pistore.Storage]
// that takes no commits, and shows exactly what converting the file gives. It
// holds the whole session in memory and keeps no file open.
type File struct {
	state  *memstore.State
	report Report
	legacy []string // the legacy id of entry n, whose seq is n+1
	closed atomic.Bool
}

var (
	_ pistore.Storage  = (*File)(nil)
	_ pistore.Verifier = (*File)(nil)
)

// Open opens a session file. Formats 1 to 3 open read-only; to open them for
// writing is ErrUnsupported. A damaged file opens as far as it can be read, and
// [File.Report] says what is wrong with it; one of which nothing can be shown is
// an [*UnreadableError], which matches ErrCorrupt. What is no such file is
// ErrForeignFormat, ErrNewerVersion or ErrNotFound. The file is not changed.
func Open(ctx context.Context, path string, mode pistore.Mode) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if mode == pistore.ReadWrite {
		// Formats 1 to 3 become writable with format 4, which writes them.
		format, err := Detect(ctx, path)
		if err == nil {
			err = fmt.Errorf("jsonl: %q: %w: a file of format %s is not written; open it read-only or convert it", path, pistore.ErrUnsupported, format)
		}
		return nil, err
	}
	if mode != pistore.ReadOnly {
		return nil, fmt.Errorf("jsonl: %q: %w: mode %d", path, pistore.ErrInvalid, mode)
	}
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing can be lost
	file, report, err := read(ctx, f, size, resolveParent(path))
	switch {
	case err != nil:
		return nil, fmt.Errorf("jsonl: %q: %w", path, err)
	case file == nil:
		return nil, unreadable(path, report)
	}
	return file, nil
}

// read reads a file; it returns no File if there is nothing to show.
func read(ctx context.Context, src io.ReaderAt, size int64, parentID func(path string) pistore.SessionID) (*File, Report, error) {
	h, err := readHead(src, size)
	if err != nil {
		return nil, Report{}, err
	}
	if err := h.refusal(); err == errNothing {
		r := Report{Bytes: size, Faults: []Fault{h.nothing()}, Errors: 1}
		return nil, r, nil
	} else if err != nil {
		return nil, Report{}, err
	}
	im := newImporter(ctx, src, size)
	if err := im.scan(); err != nil {
		return nil, Report{}, err
	}
	im.counted()
	if !im.hasHeader && len(im.records) == 0 {
		if im.faults.nErrors == 0 {
			im.failAt(kindNoHeader, 0, line{number: 1}, -1, "there is no header that can be read")
		}
		r := Report{Format: Pi3, Version: 3, Bytes: size, TornBytes: im.torn}
		im.faults.into(&r)
		return nil, r, nil
	}
	if im.header.id == "" {
		if im.header.id, err = substituteID(src, size); err != nil {
			return nil, Report{}, err
		}
	}
	return im.finish(parentID)
}

// finish makes the session of what was read.
func (im *importer) finish(parentID func(path string) pistore.SessionID) (*File, Report, error) {
	if im.version == 0 {
		im.decideVersion(false)
	}
	im.resolve()
	im.shape()
	if im.sum.Totals().Unusable > 0 {
		im.checkUsages()
	}
	r := Report{
		Format: formatOf(im.version), Version: im.version, Bytes: im.size, TornBytes: im.torn,
		RecordsByType: im.types, ParentSession: im.header.parent,
	}
	im.settings(&r)
	im.leaf(&r)
	info := pistore.Info{
		ID: im.header.id, CreatedAt: im.createdAt(), CWD: im.header.cwd,
		StorageVersion: pistore.StorageVersion, Format: string(r.Format),
	}
	if im.header.parent != "" {
		if info.ParentSessionID = parentID(im.header.parent); info.ParentSessionID == "" {
			info.LegacyParentPath = im.header.parent
		}
	}
	file := &File{state: memstore.NewState(info)}
	legacy, err := im.build(file.state)
	if err != nil {
		return nil, Report{}, err
	}
	file.legacy = legacy
	im.faults.name(im)
	im.faults.into(&r)
	file.report = r
	return file, r, nil
}

// createdAt returns the header's time, else that of the first record.
func (im *importer) createdAt() pistore.UnixMS {
	if im.header.time >= 0 || len(im.records) == 0 {
		return pistore.UnixMS(max(im.header.time, 0))
	}
	return pistore.UnixMS(im.records[0].time)
}

// name fills in the ids of the records at fault.
func (c *collector) name(im *importer) {
	for _, faults := range [][]Fault{c.errors, c.warnings} {
		for i := range faults {
			f := &faults[i]
			if f.record < 0 || int(f.record) >= len(im.records) {
				continue
			}
			f.LegacyID, f.ID = im.records[f.record].legacy, im.ids[f.record]
		}
	}
}

// Report returns what reading the file found beside its rows.
func (f *File) Report() Report { return f.report }

// LegacyID returns the id that an entry has in the file; ok is false if there
// is no such entry.
func (f *File) LegacyID(id pistore.ID) (legacy string, ok bool) {
	found, err := f.state.Entries(context.Background(), []pistore.ID{id})
	if err != nil || len(found) == 0 {
		return "", false
	}
	return f.legacy[found[0].Seq-1], true
}

// EntryID returns the entry that has an id in the file; ok is false if there is
// none. It looks through all of them.
func (f *File) EntryID(legacy string) (id pistore.ID, ok bool) {
	seq := pistore.Seq(slices.Index(f.legacy, legacy) + 1)
	if seq == 0 {
		return "", false
	}
	for e, err := range f.state.ScanEntries(context.Background(), pistore.ScanQuery{FromSeq: seq, ToSeq: seq}) {
		return e.ID, err == nil
	}
	return "", false
}

// Info describes the session.
func (f *File) Info() pistore.Info { return f.state.Info() }

// Commit is ErrReadOnly.
func (f *File) Commit(context.Context, pistore.Tx) (pistore.Receipt, error) {
	err := pistore.ErrReadOnly
	if f.closed.Load() {
		err = pistore.ErrClosed
	}
	return pistore.Receipt{}, fmt.Errorf("jsonl: commit: %w", err)
}

// Entries returns those of the entries that exist.
func (f *File) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	return f.state.Entries(ctx, ids)
}

// Registers returns those of the registers that exist.
func (f *File) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	return f.state.Registers(ctx, at)
}

// RegistersByPrefix yields registers by bytewise key order.
func (f *File) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	return whileOpen(f, f.state.RegistersByPrefix(ctx, namespace, prefix))
}

// Branch yields the path that the query describes.
func (f *File) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return whileOpen(f, f.state.Branch(ctx, q))
}

// ScanEntries yields entries by seq.
func (f *File) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	return whileOpen(f, f.state.ScanEntries(ctx, q))
}

// ScanUsage yields ledger rows by seq.
func (f *File) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return whileOpen(f, f.state.ScanUsage(ctx, q))
}

// Stats returns the statistics.
func (f *File) Stats(ctx context.Context) (pistore.Stats, error) {
	if err := f.usable(); err != nil {
		return pistore.Stats{}, err
	}
	return f.state.Stats(ctx)
}

// Export yields a header and every row by rising seq.
func (f *File) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return whileOpen(f, f.state.Export(ctx))
}

// VerifyStorage yields the errors that reading the file found. Warnings are in
// the report only.
func (f *File) VerifyStorage(ctx context.Context, _ bool) iter.Seq2[*pistore.CorruptError, error] {
	return whileOpen(f, func(yield func(*pistore.CorruptError, error) bool) {
		for i := range f.report.Faults {
			fault := &f.report.Faults[i]
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if fault.Severity != Error {
				continue
			}
			if !yield(&pistore.CorruptError{
				Backend: backend, Session: f.Info().ID, Place: fault.Place(), Invariant: fault.Invariant, Problem: fault.Message,
			}, nil) {
				return
			}
		}
	})
}

// Close lets go of the session. Reads that have begun go on.
func (f *File) Close() error {
	f.closed.Store(true)
	return nil
}

func (f *File) usable() error {
	if f.closed.Load() {
		return fmt.Errorf("jsonl: %w", pistore.ErrClosed)
	}
	return nil
}

// whileOpen starts a read only while the file is open.
func whileOpen[T any](f *File, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := f.usable(); err != nil {
			var none T
			yield(none, err)
			return
		}
		rows(yield)
	}
}
