package jsonl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"pistore"
	"pistore/disk"
)

// find returns the file of a session. A backend of one file says what stands
// there if that is none.
func (b *Folder) find(id pistore.SessionID) (string, error) {
	files, err := b.look(noContext)
	if err != nil {
		return "", err
	}
	name := "_" + escapeID(id) + extension
	best := ""
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		switch named := b.only != "" || strings.HasSuffix(path, name); {
		case f.err == nil && f.info.ID == id && best == "":
			best = path
		case b.only != "" && errors.Is(f.err, pistore.ErrForeignFormat):
			return "", f.err
		case f.err != nil && named && !errors.Is(f.err, pistore.ErrForeignFormat) && best == "":
			// It claims to be the one, and opening it says what is wrong with it.
			best = path
		}
	}
	if best == "" {
		return "", fmt.Errorf("%w: session %.140q", pistore.ErrNotFound, string(id))
	}
	return best, nil
}

const extension = ".jsonl"

// paths returns what may be session files.
func (b *Folder) paths() ([]string, error) {
	if b.only != "" {
		return []string{b.only}, nil
	}
	var paths []string
	entries, err := b.opts.FS.List(b.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(b.dir, e.Name)
		if strings.HasSuffix(e.Name, extension) && !e.Mode.IsDir() {
			paths = append(paths, path)
			continue
		}
		below, err := b.below(path, e)
		if err != nil {
			return nil, err
		}
		for _, e := range below {
			if strings.HasSuffix(e.Name, extension) && !e.Mode.IsDir() {
				paths = append(paths, filepath.Join(path, e.Name))
			}
		}
	}
	return paths, nil
}

// look reads the headers of all files, those that it has not read yet.
func (b *Folder) look(ctx context.Context) (map[string]seenFile, error) {
	paths, err := b.paths()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[string]seenFile, len(paths))
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st, err := b.opts.FS.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		old, known := b.seen[path]
		if known && err == nil && old.err == nil && old.id == st.Identity && (old.id != disk.Identity{} || old.size == st.Size) {
			seen[path] = old
			continue
		}
		f := seenFile{id: st.Identity, size: st.Size}
		f.info, f.err = readInfo(ctx, b.opts.FS, path)
		if errors.Is(f.err, pistore.ErrNotFound) {
			continue
		}
		seen[path] = f
	}
	b.seen = seen
	return maps.Clone(seen), nil
}

// folderName is the name that a Pi installation gives to the folder of a working
// directory. Different directories may share one: headers tell them apart.
func folderName(cwd string) string {
	const most = 200
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '-'
		}
		return r
	}, strings.TrimLeft(cwd, `/\`))
	if len(name) > most {
		sum := sha256.Sum256([]byte(cwd))
		name = strings.ToValidUTF8(name[:most], "") + "-" + hex.EncodeToString(sum[:8])
	}
	return "--" + name + "--"
}

// fileName is the name of a new session's file.
func fileName(info pistore.Info) string {
	at := info.CreatedAt.Time().UTC().Format("2006-01-02T15-04-05.000Z")
	return strings.Replace(at, ".", "-", 1) + "_" + escapeID(info.ID) + extension
}

// escapeID makes a part of a file name of a session id. Names that differ only
// in case are one name to some file systems, and a name has a longest length.
func escapeID(id pistore.SessionID) string {
	const most = 120
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	if b.Len() <= most {
		return b.String()
	}
	sum := sha256.Sum256([]byte(id))
	return b.String()[:most/2] + "%" + hex.EncodeToString(sum[:16])
}

// below lists a folder below this one. A folder that may not be read is
// somebody else's.
func (b *Folder) below(path string, e disk.Entry) ([]disk.Entry, error) {
	switch {
	case e.Mode.IsDir():
	case e.Mode&fs.ModeSymlink != 0:
		if st, err := b.opts.FS.Stat(path); err != nil || !st.Mode.IsDir() {
			return nil, nil // it leads to no folder
		}
	default:
		return nil, nil
	}
	entries, err := b.opts.FS.List(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return entries, err
}
