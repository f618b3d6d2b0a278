package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"pistore"
)

// pinAttempts bounds how often a reader tries to catch an instant of a writer.
const pinAttempts = 10

// pinnedFS is a folder as it was at one instant, beside a writer that goes on.
// Every file that the engine may read is open, so that it stays readable when
// the writer removes it, and has the length that it had then. It takes no lock,
// and nothing on disk changes.
type pinnedFS struct {
	readOnlyFS
	dir   string
	files map[string]*pinnedFile // by base name; a marker is a name without a file
}

type pinnedFile struct {
	file vfs.File // nil for a marker
	info vfs.FileInfo
	size int64
}

// pinFolder pins an instant. ErrBusy says that the writer was too quick.
func pinFolder(base vfs.FS, dir string) (*pinnedFS, error) {
	for range pinAttempts {
		p := &pinnedFS{readOnlyFS: readOnlyFS{FS: base}, dir: dir, files: map[string]*pinnedFile{}}
		still, err := p.pin()
		if err == nil && still {
			return p, nil
		}
		if err := errors.Join(err, p.close()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("logstore: open %s: %w: its writer flushes faster than a reader can look at it; "+
		"try again later, or read a backup", dir, pistore.ErrBusy)
}

// pin opens and measures the files, and reports whether that was an instant: the
// MANIFEST has not grown meanwhile, so no table that it names and no log that is
// not flushed was removed, and no log has come that could hold what follows a
// log that was measured.
func (p *pinnedFS) pin() (still bool, err error) {
	names, err := p.FS.List(p.dir)
	if err != nil {
		return false, err
	}
	manifest, err := p.manifestOf(names)
	if err != nil {
		return false, err
	}
	if manifest != "" {
		found, err := p.open(manifest)
		if err == nil && !found {
			err = p.moved(manifest)
		}
		if err != nil || !found {
			return false, err
		}
	}
	if names, err = p.FS.List(p.dir); err != nil {
		return false, err
	}
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, "marker."):
			p.files[name] = &pinnedFile{}
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"),
			strings.HasPrefix(name, "OPTIONS-"), strings.HasSuffix(name, ".log"):
			if _, err := p.open(name); err != nil {
				return false, err
			}
		}
	}
	for name, f := range p.files {
		if strings.HasSuffix(name, ".log") {
			if err := f.measure(); err != nil {
				return false, err
			}
		}
	}
	return p.unchanged(manifest, names)
}

// moved looks whether a MANIFEST is gone because the writer has moved its marker
// on to another one, as it does before it removes it.
func (p *pinnedFS) moved(manifest string) error {
	names, err := p.FS.List(p.dir)
	if err != nil {
		return err
	}
	now, err := p.manifestOf(names)
	if err == nil && now == manifest {
		err = missingManifest(p.FS.PathJoin(p.dir, manifest))
	}
	return err
}

// unchanged looks whether anything has happened since the MANIFEST was measured.
func (p *pinnedFS) unchanged(manifest string, names []string) (bool, error) {
	after, err := p.FS.List(p.dir)
	if err != nil {
		return false, err
	}
	now, err := p.manifestOf(after)
	if err != nil || now != manifest {
		return false, err
	}
	for _, name := range after {
		if strings.HasSuffix(name, ".log") && !slices.Contains(names, name) {
			return false, nil
		}
	}
	if manifest == "" {
		return true, nil
	}
	info, err := p.files[manifest].file.Stat()
	return err == nil && info.Size() == p.files[manifest].size, err
}

// manifestOf returns the MANIFEST that the newest marker of a listing names.
func (p *pinnedFS) manifestOf(names []string) (string, error) {
	marker, manifest, err := atomicfs.LocateMarkerInListing(p.FS, p.dir, "manifest", names)
	if err != nil {
		return "", err
	}
	return manifest, marker.Close()
}

// open opens and measures a file. One that is gone is none of this instant.
func (p *pinnedFS) open(name string) (found bool, err error) {
	file, err := p.FS.Open(p.FS.PathJoin(p.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f := &pinnedFile{file: file}
	p.files[name] = f
	return true, f.measure()
}

func (f *pinnedFile) measure() (err error) {
	if f.info, err = f.file.Stat(); err == nil {
		f.size = f.info.Size()
	}
	return err
}

func (p *pinnedFS) close() (err error) {
	for _, f := range p.files {
		if f.file != nil {
			err = errors.Join(err, f.file.Close())
		}
	}
	p.files = nil
	return err
}

// hide takes a file out of the instant.
func (p *pinnedFS) hide(name string) error {
	f := p.files[name]
	delete(p.files, name)
	if f == nil || f.file == nil {
		return nil
	}
	return f.file.Close()
}

// replaceMarkers puts names in the place of markers that were lost, for a repair:
// a marker is a name only. What it said must be beyond doubt.
func (p *pinnedFS) replaceMarkers(over func(damage *pistore.CorruptError) error) error {
	names, err := p.FS.List(p.dir)
	if err != nil {
		return err
	}
	var manifests []string
	lost := map[string]bool{"manifest": true, "format-version": true}
	for _, name := range names {
		if what, ok := strings.CutPrefix(name, "marker."); ok {
			what, _, _ = strings.Cut(what, ".")
			delete(lost, what)
		}
		if strings.HasPrefix(name, "MANIFEST-") {
			manifests = append(manifests, name)
		}
	}
	value := map[string]string{"format-version": fmt.Sprintf("%03d", pebble.FormatNewest)}
	if len(manifests) == 1 {
		value["manifest"] = manifests[0]
	}
	for what := range lost {
		path := p.FS.PathJoin(p.dir, "marker."+what+".*")
		if value[what] == "" {
			return placedDamage(path, 0, fmt.Sprintf("the marker is missing, and there are %d files that it may have named", len(manifests)))
		}
		if err := over(placedDamage(path, 0, "the marker is missing; it can only have said "+value[what])); err != nil {
			return err
		}
		p.files["marker."+what+".000001."+value[what]] = &pinnedFile{}
		if what == "manifest" {
			if _, err := p.open(value[what]); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns a pinned file, or fs.ErrNotExist.
func (p *pinnedFS) find(op, name string) (*pinnedFile, error) {
	if p.PathDir(name) == p.dir {
		if f, ok := p.files[p.PathBase(name)]; ok && f.file != nil {
			return f, nil
		}
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Open implements vfs.FS.
func (p *pinnedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.find("open", name)
	if err != nil {
		return nil, err
	}
	end := f.size
	if cut, ok := p.ends[name]; ok {
		end = min(end, cut)
	}
	file := &pinnedHandle{endedFile{File: f.file, end: end}}
	for _, opt := range opts {
		opt.Apply(file)
	}
	return file, nil
}

// List implements vfs.FS.
func (p *pinnedFS) List(dir string) (names []string, err error) {
	if dir != p.dir {
		return p.FS.List(dir)
	}
	for name := range p.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements vfs.FS.
func (p *pinnedFS) Stat(name string) (vfs.FileInfo, error) {
	if name == p.dir {
		return p.FS.Stat(name)
	}
	f, err := p.find("stat", name)
	if err != nil {
		return nil, err
	}
	return endedInfo{f.info, f.size}, nil
}

// Unwrap implements vfs.FS.
func (p *pinnedFS) Unwrap() vfs.FS { return p.FS }

// pinnedHandle is one opening of a pinned file, with a place of its own.
type pinnedHandle struct{ endedFile }

// Read implements vfs.File.
func (h *pinnedHandle) Read(b []byte) (int, error) {
	n, err := h.ReadAt(b, h.at)
	h.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Close implements vfs.File. The file stays open for others.
func (h *pinnedHandle) Close() error { return nil }
