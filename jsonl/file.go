package jsonl

import (
	"context"
	"io"
	"slices"
	"sync/atomic"

	"pistore"
	"pistore/memstore"
)

// File is a session file that is open. Opened read-only it shows the session as
// it was then and takes no commits; of formats 1 to 3 it shows exactly what the
// first write persists. It holds the session in memory, the payloads of large
// ones aside.
type File struct {
	state    *memstore.State
	info     atomic.Pointer[pistore.Info]
	report   Report
	origins  []origin // of entry n, whose seq is n+1, in a file of formats 1 to 3
	log      *log     // nil: read-only
	src      *source  // of a file of format 4 that is open read-only
	path     string   // as it was opened
	opts     Options
	payloads *payloads // nil: they are in memory
	extra    []member  // of a header of format 4
	// rowExtras are what its ledger rows and registers hold beside what a row is.
	rowExtras map[pistore.Seq]string
	unsummed  bool        // of format 4, without sums
	closed    atomic.Bool // of a writable file set under log.commit
}

var (
	_ pistore.Storage   = (*File)(nil)
	_ pistore.Verifier  = (*File)(nil)
	_ pistore.Compacter = (*File)(nil)
	_ pistore.Syncer    = (*File)(nil)
	_ pistore.Historian = (*File)(nil)
	_ pistore.Follower  = (*File)(nil)
)

// read reads a file of any format as far as it can be read. It returns no File
// if there is nothing to show.
func read(ctx context.Context, src io.ReaderAt, size int64, parentID func(path string) pistore.SessionID) (*File, Report, error) {
	h, err := readHead(ctx, src, size)
	if err != nil {
		return nil, Report{}, err
	}
	if h.what == fileV4 {
		r := &replay{ctx: ctx, src: src, size: size, keepGoing: true}
		if err := r.run(); err != nil {
			return nil, Report{}, err
		}
		f, report := r.file()
		return f, report, nil
	}
	return readPi(ctx, h, src, size, parentID)
}

// readPi reads a file of formats 1 to 3.
func readPi(ctx context.Context, h head, src io.ReaderAt, size int64, parentID func(path string) pistore.SessionID) (*File, Report, error) {
	err := h.refusal()
	if err == errNothing {
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
	file.info.Store(&info)
	var err error
	if file.origins, err = im.build(file.state); err != nil {
		return nil, Report{}, err
	}
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

// Report returns what reading the file found beside its rows, and what a rewrite
// since then could not keep.
func (f *File) Report() Report {
	r := f.report
	if f.log == nil {
		return r
	}
	if problem := f.log.problem.Load(); problem != nil {
		r.Warnings++
		r.Faults = append(slices.Clone(r.Faults), Fault{Severity: Warning, Kind: kindNotOwned, Line: 1, record: -1, Message: *problem})
	}
	return r
}

// origin is the record that an entry was made of.
type origin struct {
	legacy string // its id
	place  Place
}

// LegacyID returns the id that an entry has in a file of formats 1 to 3; ok is
// false if there is no such entry.
func (f *File) LegacyID(id pistore.ID) (legacy string, ok bool) {
	o, ok := f.origin(id)
	return o.legacy, ok
}

// Locate returns where in the file that was opened the lines of entries stand,
// and in format 4 those of usage rows, as far as there are such. It reads a file
// of format 4 again.
func (f *File) Locate(ctx context.Context, ids []pistore.ID) (map[pistore.ID]Place, error) {
	places := map[pistore.ID]Place{}
	if f.report.Format != V4 && f.report.Format != V4Values {
		for _, id := range ids {
			if o, ok := f.origin(id); ok {
				places[id] = o.place
			}
		}
		return places, nil
	}
	wanted := make(map[pistore.ID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	src, size, summed := f.snapshot()
	if src == nil {
		return places, nil
	}
	for r, err := range f.linesOf(ctx, src, newTxReader(src, 0, size, summed), size, summed) {
		if err != nil {
			return nil, err
		}
		for _, w := range r.dec.writes {
			id := insertedID(w)
			if _, known := places[id]; wanted[id] && !known {
				places[id] = r.place
			}
		}
	}
	return places, nil
}

// insertedID returns the id of an entry or a usage row, empty for other writes.
func insertedID(w pistore.Write) pistore.ID {
	switch w := w.(type) {
	case pistore.InsertEntry:
		return w.ID
	case pistore.InsertUsage:
		return w.ID
	default:
		return ""
	}
}

func (f *File) origin(id pistore.ID) (origin, bool) {
	found, err := f.state.Entries(noContext, []pistore.ID{id})
	if err != nil || len(found) == 0 || int(found[0].Seq) > len(f.origins) {
		return origin{}, false
	}
	return f.origins[found[0].Seq-1], true
}

// EntryID returns the entry that has an id in the file; ok is false if there is
// none. It looks through all of them.
func (f *File) EntryID(legacy string) (id pistore.ID, ok bool) {
	seq := pistore.Seq(slices.IndexFunc(f.origins, func(o origin) bool { return o.legacy == legacy }) + 1)
	if seq == 0 {
		return "", false
	}
	for e, err := range f.state.ScanEntries(noContext, pistore.ScanQuery{FromSeq: seq, ToSeq: seq}) {
		return e.ID, err == nil
	}
	return "", false
}
