// Package coding has the tools of a coding agent: read, write and edit files
// under a root folder, and run commands with bash. It imports tool and what tool
// imports.
//
// read, write and edit are confined to the root: ".." and symbolic links are
// followed by the system's own rules, and whatever would lead outside is
// refused, also while someone swaps links under the tool's feet ([os.Root]). An
// absolute path is taken if it lies under the root by its spelling. bash starts
// in the root and is not confined at all. Nothing here asks for permission: that
// is the business of the harness's before_tool hook.
package coding

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"pistore"
	"pistore/tool"
)

// Options say what the tools may do. The zero value is fine.
type Options struct {
	// Shell is the shell that bash runs commands with, as Shell -c COMMAND. Empty:
	// bash, looked up in PATH.
	Shell string
	// BashTimeoutSeconds ends a command that names no timeout. 0: 120.
	BashTimeoutSeconds int64
}

// Tools are the tools over one root folder.
type Tools struct {
	options Options
	dir     string   // the root, absolute, as it was given
	real    string   // the same without symbolic links
	root    *os.Root // the same, held open
	// writing keeps write and edit apart, which read a file and replace it, and
	// which may run beside each other.
	writing sync.Mutex
	after   func(time.Duration) <-chan time.Time // time.After
}

// Open opens the root folder, which must exist. Close it when no call runs any
// more.
func Open(root string, o Options) (*Tools, error) {
	if o.Shell == "" {
		o.Shell = "bash"
	}
	if o.BashTimeoutSeconds == 0 {
		o.BashTimeoutSeconds = 120
	}
	dir, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("coding: %w", err)
	}
	physical, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("coding: %w", err)
	}
	r, err := os.OpenRoot(physical)
	if err != nil {
		return nil, fmt.Errorf("coding: %w", err)
	}
	return &Tools{options: o, dir: dir, real: physical, root: r, after: time.After}, nil
}

// Close releases the root folder. Calls after it fail.
func (t *Tools) Close() error { return t.root.Close() }

// All returns the tools: read, write, edit, bash.
func (t *Tools) All() []tool.Tool { return []tool.Tool{t.Read(), t.Write(), t.Edit(), t.Bash()} }

// locate returns the path that a model named, relative to the root.
func (t *Tools) locate(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("the path %.200q has a NUL character", path)
	}
	if !filepath.IsAbs(path) {
		return path, nil
	}
	for _, root := range []string{t.dir, t.real} {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", fmt.Errorf("%s is outside of the root folder %s", path, t.dir)
}

// plain turns an error of the file system into one sentence that names the path
// as the model did.
func plain(path string, err error) error {
	var problem *fs.PathError
	var link *os.LinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be accessed: permission denied", path)
	case errors.As(err, &problem):
		err = problem.Err
	case errors.As(err, &link):
		err = link.Err
	}
	if strings.Contains(err.Error(), "path escapes") { // os.Root has no sentinel for it
		return fmt.Errorf("%s leads outside of the root folder", path)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// decode parses arguments that the schema has passed.
func decode(args pistore.JSON, into any) error {
	if err := json.Unmarshal([]byte(args), into); err != nil {
		return fmt.Errorf("the arguments do not fit the schema: %w", err)
	}
	return nil
}

// count is a whole number in the arguments. JSON schema calls 5.0 and 5e0
// integers too.
type count int64

// UnmarshalJSON takes any spelling of a whole number.
func (c *count) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != float64(int64(f)) || f < 0 || f > pistore.MaxSeq {
		return fmt.Errorf("%.40q is not a whole number", text)
	}
	*c = count(f)
	return nil
}

// details encodes details for people and programs.
func details(v any) pistore.JSON {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("coding: details: " + err.Error()) // structs of strings and numbers
	}
	return pistore.JSON(strings.TrimSuffix(b.String(), "\n"))
}
