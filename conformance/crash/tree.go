package crash

import (
	"crypto/sha256"
	"fmt"
	"path"

	"github.com/google/go-cmp/cmp"

	"pistore/disk"
)

// file is what can be seen of a file or a directory.
type file struct {
	disk.Info
	Sum [sha256.Size]byte
}

// tree looks at everything in a directory, by path.
func tree(fs disk.FS, dir string) (map[string]file, error) {
	all := map[string]file{}
	err := walk(fs, dir, func(name string, info disk.Info) error {
		f := file{Info: info}
		if info.Mode.IsRegular() {
			content, err := readFile(fs, name)
			if err != nil {
				return err
			}
			f.Sum = sha256.Sum256(content)
		}
		all[name] = f
		return nil
	})
	return all, err
}

// walk visits a directory and everything in it.
func walk(fs disk.FS, dir string, visit func(name string, info disk.Info) error) error {
	info, err := fs.Stat(dir)
	if err != nil {
		return err
	}
	if err := visit(dir, info); err != nil || !info.Mode.IsDir() {
		return err
	}
	entries, err := fs.List(dir)
	for _, e := range entries {
		if err == nil {
			err = walk(fs, path.Join(dir, e.Name), visit)
		}
	}
	return err
}

func readFile(fs disk.FS, name string) (content []byte, err error) {
	f, err := fs.Open(name, disk.Read)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing can be lost
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	content = make([]byte, info.Size)
	if n, err := f.ReadAt(content, 0); n < len(content) {
		return nil, fmt.Errorf("%s: %d bytes of %d: %w", name, n, len(content), err)
	}
	return content, nil
}

// replace gives a file other content.
func replace(fs disk.FS, name string, content []byte) error {
	f, err := fs.Open(name, disk.Append)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil && len(content) > 0 {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// unchanged compares two looks.
func unchanged(before, after map[string]file) error {
	if diff := cmp.Diff(before, after); diff != "" {
		return fmt.Errorf("looking changed what is on disk (-before +after):\n%.2000s", diff)
	}
	return nil
}
