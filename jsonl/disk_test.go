package jsonl

import (
	"errors"
	"io/fs"
	"path/filepath"

	"pistore/disk"
)

// mkdirAll makes a directory and those above it durable.
func mkdirAll(f disk.FS, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	if err := mkdirAll(f, parent); err != nil {
		return err
	}
	if err := f.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.SyncDir(parent)
}
