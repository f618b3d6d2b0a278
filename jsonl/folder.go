package jsonl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"pistore"
	"pistore/disk"
	"pistore/memstore"
)

// Folder is a folder of session files, as a [pistore.Backend]. New sessions are
// named as a Pi installation names them, DIR/--WORKING-DIRECTORY--/TIME_ID.jsonl;
// sessions are found by their headers, whatever the name, in the folder and those
// directly below it. Sessions of all formats are listed and opened; other files
// are left alone.
type Folder struct {
	dir  string
	only string // the one file of a backend that has no other; else empty
	opts Options

	mu     sync.Mutex // guards the rest
	closed bool
	open   map[*folderFile]bool
	seen   map[string]seenFile // by path
}

// seenFile is what a file's header said, as long as the file is the same one.
type seenFile struct {
	id   disk.Identity
	size int64 // where there is no identity
	info pistore.Info
	err  error
}

// folderFile is a file that the folder closes when it is closed itself.
type folderFile struct {
	*File
	folder *Folder
}

// Close closes the file.
func (f *folderFile) Close() error {
	f.folder.mu.Lock()
	delete(f.folder.open, f)
	f.folder.mu.Unlock()
	return f.File.Close()
}

// Unwrap is part of [pistore.Decorator].
func (f *folderFile) Unwrap() pistore.Storage { return f.File }

var _ pistore.Backend = (*Folder)(nil)

// NewFolder returns the sessions in a folder, which has to exist.
func NewFolder(dir string, o Options) *Folder {
	return &Folder{dir: dir, opts: o.complete(), open: map[*folderFile]bool{}, seen: map[string]seenFile{}}
}

// NewSingle returns the one session file at path as a backend, which holds that
// session and takes no other. If nothing stands there, Create and Load make the
// file, in a folder that has to exist; what stands there is never overwritten.
func NewSingle(path string, o Options) *Folder {
	b := NewFolder(filepath.Dir(path), o)
	b.only = path
	return b
}

func (b *Folder) usable() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return pistore.ErrClosed
	}
	return nil
}

// handOut registers a file that was opened.
func (b *Folder) handOut(f *File) (pistore.Storage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.Join(pistore.ErrClosed, f.Close())
	}
	h := &folderFile{f, b}
	b.open[h] = true
	return h, nil
}

// Create makes an empty session and opens it for writing.
func (b *Folder) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	if err := cmp.Or(b.usable(), ctx.Err()); err != nil {
		return nil, fmt.Errorf("jsonl: create: %w", err)
	}
	ids := b.opts.ids
	minted := info.ID == ""
	if minted {
		info.ID = pistore.SessionID(ids.New())
	}
	if info.CreatedAt == 0 {
		info.CreatedAt = b.opts.Clock.Read()
	}
	info.Generation, info.StorageVersion, info.Format = string(ids.New()), pistore.StorageVersion, string(V4)
	if err := info.Check(); err != nil {
		return nil, fmt.Errorf("jsonl: create: %w", err)
	}
	t, path, err := b.newFile(info)
	if err != nil {
		return nil, fmt.Errorf("jsonl: create: %w", err)
	}
	state := memstore.NewState(info)
	err = t.snapshot(info, state, nil, state.Export(noContext))
	if err == nil {
		err = b.publish(t, path, info.ID)
	} else {
		err = t.abandon(err)
	}
	if err != nil {
		return nil, fmt.Errorf("jsonl: create: %w", err)
	}
	f := &File{state: state, report: Report{Format: V4, Version: 4, Summed: true, Bytes: t.size}}
	f.info.Store(&info)
	f.path, f.opts = path, b.opts
	f.log = &log{opts: b.opts, path: path, info: &f.info, src: newSource(t.file), key: t.key, size: t.size, synced: true}
	return b.handOut(f)
}

// newFile starts the file of a new session, and makes its folder durable.
func (b *Folder) newFile(info pistore.Info) (t *temp, path string, err error) {
	root, err := b.opts.FS.Resolve(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%w: the folder %q; make it first", pistore.ErrNotFound, b.dir)
	}
	if err != nil {
		return nil, "", err
	}
	dir, path := root, filepath.Join(root, filepath.Base(b.only))
	if b.only == "" {
		dir = filepath.Join(root, folderName(info.CWD))
		path = filepath.Join(dir, fileName(info))
		if err := b.opts.FS.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", err
		}
		// Also where it exists: whoever made it may not have come to this.
		if err := b.opts.FS.SyncDir(root); err != nil {
			return nil, "", err
		}
	}
	// Under the lock nobody cleans away what is created and not locked yet.
	lock, err := b.opts.FS.LockDir(b.dir)
	if err != nil {
		return nil, "", err
	}
	defer lock.Close() // it holds nothing
	b.cleanStale(dir)
	t, err = newTemp(b.opts, path)
	return t, path, err
}

// cleanStale removes what a crash left of sessions that were never published.
// What was left of one that exists is removed by its next owner. The caller holds
// the lock of the folder.
func (b *Folder) cleanStale(dir string) {
	entries, err := b.opts.FS.List(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, isTemp := strings.CutSuffix(e.Name, ".0"+tempSuffix)
		if !isTemp || len(name) < 2 || len(name) > maxTempBase {
			continue
		}
		path := filepath.Join(dir, name[1:])
		if _, err := b.opts.FS.Stat(path); errors.Is(err, fs.ErrNotExist) {
			cleanTemps(b.opts, path)
		}
	}
}

// publish gives a new session its name, unless its id is in use. The lock of the
// folder keeps two programs from publishing one id at once.
func (b *Folder) publish(t *temp, path string, id pistore.SessionID) error {
	lock, err := b.opts.FS.LockDir(b.dir)
	if err != nil {
		return t.abandon(err)
	}
	defer lock.Close() // it holds nothing
	switch _, err := b.find(id); {
	case err == nil && b.only == "":
		return t.abandon(fmt.Errorf("%w: session %s", pistore.ErrDuplicateID, id))
	case err != nil && !errors.Is(err, pistore.ErrNotFound):
		return t.abandon(err)
	}
	switch _, err := b.opts.FS.Stat(path); {
	case err == nil:
		return t.abandon(fmt.Errorf("%w: the file %q exists", pistore.ErrDuplicateID, path))
	case !errors.Is(err, fs.ErrNotExist):
		return t.abandon(err)
	}
	if err := t.publish(path); err != nil {
		// The session must not be there when this fails.
		err = errors.Join(err, t.fs.Remove(path))
		return t.abandon(err)
	}
	return nil
}

// Open opens a session. A damaged one is ErrCorrupt, read-only too; [OpenFile]
// shows what is left of it.
func (b *Folder) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	return b.openFor(ctx, id, mode, b.opts)
}

func (b *Folder) openFor(ctx context.Context, id pistore.SessionID, mode pistore.Mode, o Options) (pistore.Storage, error) {
	if mode != pistore.ReadOnly && mode != pistore.ReadWrite {
		return nil, fmt.Errorf("jsonl: open: %w: mode %d", pistore.ErrInvalid, mode)
	}
	for range maxAttempts {
		if err := cmp.Or(b.usable(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("jsonl: open: %w", err)
		}
		path, err := b.find(id)
		if err != nil {
			return nil, fmt.Errorf("jsonl: open: %w", err)
		}
		var f *File
		if mode == pistore.ReadOnly {
			f, err = openReading(ctx, path, o, true)
		} else {
			f, err = openWriting(ctx, path, o)
		}
		switch {
		case errors.Is(err, pistore.ErrNotFound):
			continue // deleted, or renamed
		case err != nil:
			return nil, err
		case f.Info().ID != id:
			_ = f.Close() // another file took the name, and nothing was written
			continue
		}
		return b.handOut(f)
	}
	return nil, fmt.Errorf("jsonl: open: %w: session %s", pistore.ErrBusy, id)
}

// Delete removes a session, and the original that an upgrade has kept of it.
// Handles that have it open for reading keep what they show.
func (b *Folder) Delete(ctx context.Context, id pistore.SessionID) error {
	for range maxAttempts {
		if err := cmp.Or(b.usable(), ctx.Err()); err != nil {
			return fmt.Errorf("jsonl: delete: %w", err)
		}
		path, err := b.find(id)
		if err == nil {
			path, err = b.opts.FS.Resolve(path)
		}
		if err != nil {
			return fmt.Errorf("jsonl: delete: %w", err)
		}
		switch done, err := b.remove(path, id); {
		case err != nil:
			return fmt.Errorf("jsonl: delete: %w", err)
		case done:
			cleanTemps(b.opts, path) // they hold what it held
			return nil
		}
	}
	return fmt.Errorf("jsonl: delete: %w: session %s", pistore.ErrBusy, id)
}

// remove removes a file that nobody owns. It returns false if another file took
// the name meanwhile.
func (b *Folder) remove(path string, id pistore.SessionID) (done bool, err error) {
	f, st, err := openAs(b.opts.FS, path, disk.Append)
	if errors.Is(err, pistore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	key, err := own(b.opts.FS, path, f, b.opts.Clock.Read())
	if err != nil {
		return false, errors.Join(err, f.Close())
	}
	defer func() {
		key.disown()
		err = errors.Join(err, f.Close())
	}()
	named, err := b.opts.FS.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && named.Identity != st.Identity:
		return false, nil
	case err != nil:
		return false, err
	}
	if err := removeOriginals(b.opts, path, id); err != nil {
		return false, err
	}
	if err := b.opts.FS.Remove(path); err != nil {
		return false, err
	}
	return true, syncDirOf(b.opts, path)
}

// removeOriginals removes what upgrades of a session's file have kept beside it.
// Other files of those names are somebody's own.
func removeOriginals(o Options, path string, id pistore.SessionID) error {
	for _, suffix := range originalSuffixes {
		for n := 1; ; n++ {
			name := originalName(path, suffix, n)
			h, err := readInfo(noContext, o.FS, name)
			if errors.Is(err, pistore.ErrNotFound) {
				break
			}
			if err != nil || h.ID != id {
				continue
			}
			if err := o.FS.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// List yields every session by id. Files whose header cannot be read are named
// by an error behind all others; the one file of a backend that has no other also
// if it is no session file (ErrForeignFormat).
func (b *Folder) List(ctx context.Context) iter.Seq2[pistore.Info, error] {
	return func(yield func(pistore.Info, error) bool) {
		if err := cmp.Or(b.usable(), ctx.Err()); err != nil {
			yield(pistore.Info{}, fmt.Errorf("jsonl: list: %w", err))
			return
		}
		files, err := b.look(ctx)
		if err != nil {
			yield(pistore.Info{}, fmt.Errorf("jsonl: list: %w", err))
			return
		}
		infos := map[pistore.SessionID]pistore.Info{}
		var bad []error
		for _, path := range slices.Sorted(maps.Keys(files)) {
			info, err := files[path].info, files[path].err
			switch _, twice := infos[info.ID]; {
			case b.only == "" && errors.Is(err, pistore.ErrForeignFormat):
			case err != nil:
				bad = append(bad, err)
			case twice:
				bad = append(bad, fmt.Errorf("%w: %q holds the session %s of another file", pistore.ErrDuplicateID, path, info.ID))
			case info.ID != "":
				infos[info.ID] = info
			}
		}
		for _, id := range slices.Sorted(maps.Keys(infos)) {
			if err := ctx.Err(); err != nil {
				yield(pistore.Info{}, err)
				return
			}
			if !yield(infos[id], nil) {
				return
			}
		}
		if len(bad) > 0 {
			yield(pistore.Info{}, fmt.Errorf("jsonl: list: %w", errors.Join(bad...)))
		}
	}
}

// Close closes the sessions that are still open.
func (b *Folder) Close() error {
	b.mu.Lock()
	b.closed = true
	open := slices.Collect(maps.Keys(b.open))
	b.mu.Unlock()
	// Not under the lock: a file that closes reports back.
	var err error
	for _, f := range open {
		err = errors.Join(err, f.Close())
	}
	return err
}
