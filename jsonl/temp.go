package jsonl

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"

	"pistore"
	"pistore/disk"
	"pistore/memstore"
)

// temp is a file that is being written to take the place of another, or a new
// one. Nobody finds it under its own name.
type temp struct {
	fs   disk.FS
	name string
	file disk.File
	key  ownedFile

	enc    encoder
	size   int64 // of what reached the file
	places []place
	keep   bool // places are wanted
}

const (
	tempSuffix = ".pistore-tmp"
	maxTemps   = 16
	// maxTempBase bounds what a temporary name has of the name that it is for.
	maxTempBase = 200
	flushBytes  = 256 << 10
)

// tempName returns the n-th name of what is written for a file.
func tempName(path string, n int) string {
	dir, base := filepath.Split(path)
	return fmt.Sprintf("%s.%s.%d%s", dir, base[:min(len(base), maxTempBase)], n, tempSuffix)
}

// newTemp creates a file that will become path. It is owned from the start, so
// that whoever opens it under its new name finds it locked.
func newTemp(o Options, path string) (*temp, error) {
	for n := range maxTemps {
		name := tempName(path, n)
		f, err := o.FS.Open(name, disk.Create)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t := &temp{fs: o.FS, name: name, file: f}
		if t.key, err = own(o.FS, name, f, o.Clock.Read()); err != nil {
			return nil, errors.Join(err, f.Close(), o.FS.Remove(name))
		}
		return t, nil
	}
	return nil, fmt.Errorf("%q: %d temporary files stand in the way: %w", path, maxTemps, fs.ErrExist)
}

// cleanTemps removes what a crash left of files written for path, unless a live
// process has them.
func cleanTemps(o Options, path string) {
	for n := range maxTemps {
		name := tempName(path, n)
		f, err := o.FS.Open(name, disk.Append)
		if err != nil {
			return
		}
		key, err := own(o.FS, name, f, 0)
		if err == nil {
			_ = o.FS.Remove(name) // it is in nobody's way
			key.disown()
		}
		_ = f.Close() // nothing was written
	}
}

// snapshot writes the rows of a state behind a header and makes all of it
// durable under its own name. rows are those of the state, payloads included.
func (t *temp) snapshot(info pistore.Info, state *memstore.State, extra []member, rows iter.Seq2[pistore.Row, error]) error {
	n := int64(0)
	for row, err := range state.Export(noContext) {
		if err != nil {
			return err
		}
		if _, header := row.(pistore.Header); !header {
			n++
		}
	}
	t.enc.header(info, state.NextSeq(), n, extra)
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := t.row(row); err != nil {
			return err
		}
	}
	return t.sync()
}

// row writes one row; headers are passed over.
func (t *temp) row(row pistore.Row) error {
	if _, ok := row.(pistore.Header); ok {
		return nil
	}
	t.enc.row(row)
	if e, ok := row.(pistore.Entry); ok && t.keep {
		if at := t.enc.at[len(t.enc.at)-1]; at.length >= 0 {
			t.places = append(t.places, place{e.Seq, span{t.size + at.offset, at.length}})
		}
	}
	t.enc.at = t.enc.at[:0]
	if len(t.enc.buf) >= flushBytes {
		return t.flush()
	}
	return nil
}

func (t *temp) flush() error {
	n, err := t.file.Write(t.enc.buf)
	t.size += int64(n)
	t.enc.reset()
	return err
}

func (t *temp) sync() error {
	if err := t.flush(); err != nil {
		return err
	}
	return t.file.Sync()
}

// abandon removes the file. It returns err, and what came on top of it.
func (t *temp) abandon(err error) error {
	return errors.Join(err, t.release(), t.fs.Remove(t.name))
}

// release gives the file up, whatever its name is by now.
func (t *temp) release() error {
	t.key.disown()
	return t.file.Close()
}

// imitate gives the file mode and owner of the one that it replaces. The owner
// cannot always be kept, which is returned in words.
func (t *temp) imitate(like disk.Info) (problem string, err error) {
	st, err := t.file.Stat()
	if err != nil {
		return "", err
	}
	if like.UID != st.UID || like.GID != st.GID {
		if err := t.file.SetOwner(like.UID, like.GID); err != nil {
			problem = fmt.Sprintf("the owner of the file could not be kept: %v", err)
			// Who may not have been allowed to read it before must not be now.
			like.Mode &= 0o700
		}
	}
	if like.Mode.Perm() != st.Mode.Perm() {
		err = t.file.SetMode(like.Mode.Perm())
	}
	return problem, err
}

// publish gives the file its name. Until it begins, nothing has happened; what a
// failure leaves is known only to a new opening.
func (t *temp) publish(path string) error {
	if err := t.fs.Rename(t.name, path); err != nil {
		return err
	}
	t.key = t.key.renamed(path)
	return t.fs.SyncDir(filepath.Dir(path))
}
