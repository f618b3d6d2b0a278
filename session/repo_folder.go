package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"pistore"
)

// FileReader reads session files for a listing. It tells them by content.
type FileReader interface {
	// ReadHeader reads the header of a session file. A file that is no session
	// is ErrForeignFormat and is passed over; any other error is listed.
	ReadHeader(ctx context.Context, path string) (pistore.Info, error)
	// ReadName reads the name of the session in a file, empty if it has none.
	ReadName(ctx context.Context, path string) (string, error)
	// OriginalOf returns the file that took the place of the one at path, if that
	// one is named as an original that is kept.
	OriginalOf(path string) (successor string, ok bool)
}

// FolderRepo returns the session files in a folder, and in all folders below it,
// as a repository. A Pi installation keeps them as
// sessions/--WORKING-DIRECTORY--/TIMESTAMP_ID.jsonl; any other layout does as
// well, since headers say what names could.
//
// Symbolic links are followed. One that leads back to a folder above it is
// listed as skipped; one to what stands in the folder anyway is passed over. So is
// an original that is kept beside the file of the same session that took its place.
func FolderRepo(dir string, files FileReader) Repo { return folderRepo{dir, files} }

type folderRepo struct {
	dir   string
	files FileReader
}

func (r folderRepo) List(ctx context.Context, q ListQuery) (Listing, error) {
	root, err := filepath.EvalSymlinks(r.dir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return Listing{}, wrap("list", err)
	}
	w := &walk{ctx: ctx, query: q, files: r.files, root: root, seen: map[string]bool{}}
	if err := w.run(folder{r.dir, root}); err != nil {
		return Listing{}, wrap("list", err)
	}
	w.passOriginals()
	w.listing.sort(q.Order)
	return w.listing, nil
}

// folder is a folder by the path that leads to it and by its real one, which
// has no symbolic link in it.
type folder struct{ path, real string }

// walk looks through folders, without recursion.
type walk struct {
	ctx     context.Context
	query   ListQuery
	files   FileReader
	root    string          // real
	seen    map[string]bool // real paths of folders
	todo    []folder
	listing Listing
}

var errLoop = errors.New("a symbolic link back to a folder above it")

func (w *walk) run(first folder) error {
	for w.todo = []folder{first}; len(w.todo) > 0; {
		at := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if w.seen[at.real] {
			continue
		}
		w.seen[at.real] = true
		// What was read before an error counts.
		entries, err := os.ReadDir(at.path)
		if err != nil && at == first && len(entries) == 0 {
			return err
		}
		if err != nil {
			w.listing.skip(at.path, cause(err))
		}
		for _, e := range entries {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			path := filepath.Join(at.path, e.Name())
			switch mode := e.Type(); {
			case mode.IsDir():
				w.todo = append(w.todo, folder{path, filepath.Join(at.real, e.Name())})
			case mode.IsRegular():
				w.file(path)
			case mode&fs.ModeSymlink != 0:
				w.link(at, path)
			}
		}
	}
	return w.ctx.Err()
}

// passOriginals takes out what is the past of another session in the listing.
func (w *walk) passOriginals() {
	at := make(map[string]pistore.SessionID, len(w.listing.Sessions))
	for _, l := range w.listing.Sessions {
		at[l.Path] = l.Info.ID
	}
	w.listing.Sessions = slices.DeleteFunc(w.listing.Sessions, func(l Listed) bool {
		successor, ok := w.files.OriginalOf(l.Path)
		id, there := at[successor]
		return ok && there && id == l.Info.ID
	})
}

// link follows a symbolic link.
func (w *walk) link(at folder, path string) {
	info, err := os.Stat(path)
	target := ""
	if err == nil {
		target, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		target, err = filepath.Abs(target)
	}
	switch {
	case err != nil:
		w.listing.skip(path, fmt.Errorf("a symbolic link: %w", cause(err)))
	case info.IsDir() && (within(at.real, target) || within(target, w.root) && !within(at.real, w.root)):
		w.listing.skip(path, errLoop)
	case within(target, w.root): // it is there anyway
	case info.IsDir():
		w.todo = append(w.todo, folder{path, target})
	case info.Mode().IsRegular():
		w.file(path)
	}
}

// file lists a file if it is a session.
func (w *walk) file(path string) {
	info, err := w.files.ReadHeader(w.ctx, path)
	if err == nil && !w.query.keeps(info) {
		return
	}
	l := Listed{Info: info, Path: path}
	if err == nil && w.query.Names {
		l.Name, err = w.files.ReadName(w.ctx, path)
	}
	var st os.FileInfo
	if err == nil {
		st, err = os.Stat(path)
	}
	switch {
	case err == nil:
		l.ModifiedAt = pistore.UnixMS(min(max(st.ModTime().UnixMilli(), 0), pistore.MaxSeq))
		l.SizeBytes = st.Size()
		w.listing.Sessions = append(w.listing.Sessions, l)
	case w.ctx.Err() != nil: // run says so
	case errors.Is(err, pistore.ErrForeignFormat):
	case errors.Is(err, pistore.ErrNotFound), errors.Is(err, fs.ErrNotExist): // removed meanwhile
	default:
		w.listing.skip(path, cause(err))
	}
}

// cause takes the operation and the path, which stand beside it, off an error of
// the system.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
