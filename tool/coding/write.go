package coding

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pistore/registers"
	"pistore/tool"
)

// Write returns the tool that writes a whole file. It is safe to replay: the
// file ends up with the same content however often the call runs. (What somebody
// else wrote between a crash and the second run is lost, as it would be if the
// first had come later.)
func (t *Tools) Write() tool.Tool {
	return tool.Tool{
		Name:        "write",
		Description: "Write a whole file: it is created, with the folders above it, or its content is replaced. Use edit to change a part of a file.",
		Parameters: `{"type":"object","properties":{` +
			`"path":{"type":"string","minLength":1,"description":"The file, relative to the root folder."},` +
			`"content":{"type":"string","description":"The complete content."}},` +
			`"required":["path","content"],"additionalProperties":false}`,
		Replay:  registers.ReplaySafe,
		Execute: t.write,
	}
}

func (t *Tools) write(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct{ Path, Content string }
	if err := decode(call.Arguments, &args); err != nil {
		return tool.Result{}, err
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return tool.Result{}, fmt.Errorf("%s was not written: %w", args.Path, err)
	}
	if err := t.replace(args.Path, []byte(args.Content)); err != nil {
		return tool.Result{}, err
	}
	return tool.Text(fmt.Sprintf("Wrote %d bytes to %s.", len(args.Content), args.Path)), nil
}

// replace gives a file a content, atomically: whoever opens it sees the old one
// or the new one. A link is followed, the permissions of an existing file are
// kept, other hard links to it are not. The caller holds t.writing.
func (t *Tools) replace(path string, content []byte) (err error) {
	name, err := t.locate(path)
	if err != nil {
		return err
	}
	name, exists, err := t.follow(path, name)
	if err != nil {
		return err
	}
	dir, base := split(name)
	if base == "" || base == "." || base == ".." {
		return fmt.Errorf("%s is not the name of a file", path)
	}
	if !exists {
		if err := t.root.MkdirAll(dir, 0o777); err != nil {
			return plain(path, err)
		}
	}
	// From here on the folder is held open, so that all steps are in the same
	// one, whatever becomes of its name.
	folder, err := t.root.OpenRoot(dir)
	if err != nil {
		return plain(path, err)
	}
	defer folder.Close()
	info, err := folder.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return plain(path, err)
	default:
		if err := regular(path, info); err != nil {
			return err
		}
		if err := writable(folder, base); err != nil {
			return plain(path, err)
		}
	}
	temporary := ".pistore-" + rand.Text() + ".tmp"
	if err := fill(folder, temporary, content, info); err != nil {
		return plain(path, err)
	}
	if err := folder.Rename(temporary, base); err != nil {
		return plain(path, errors.Join(err, folder.Remove(temporary)))
	}
	return nil
}

// writable returns an error unless the file may be written as it is: replacing
// it must not get around its permissions.
func writable(folder *os.Root, base string) error {
	f, err := folder.OpenFile(base, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// fill creates a file with a content and the permissions of old, if there is
// one. On an error it removes it.
func fill(folder *os.Root, base string, content []byte, old os.FileInfo) (err error) {
	f, err := folder.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, folder.Remove(base))
		}
	}()
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync() // so that no crash leaves the new name with no content
}

// follow goes along the links at the end of name and returns the place behind
// them, and whether anything is there.
func (t *Tools) follow(path, name string) (place string, exists bool, err error) {
	const most = 40 // as Linux has it
	for range most {
		info, err := t.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, false, nil
		case err != nil:
			return "", false, plain(path, err)
		case info.Mode()&fs.ModeSymlink == 0:
			return name, true, nil
		}
		target, err := t.root.Readlink(name)
		if err != nil {
			return "", false, plain(path, err)
		}
		if filepath.IsAbs(target) {
			return "", false, fmt.Errorf("%s leads outside of the root folder", path)
		}
		dir, _ := split(name)
		name = dir + string(os.PathSeparator) + target
	}
	return "", false, fmt.Errorf("%s is a link that leads to itself", path)
}

// split divides a path at its last separator. It leaves ".." alone, which means
// something else behind a link than by spelling.
func split(name string) (dir, base string) {
	for i := len(name) - 1; i >= 0; i-- {
		if os.IsPathSeparator(name[i]) {
			return name[:i], name[i+1:]
		}
	}
	return ".", name
}
