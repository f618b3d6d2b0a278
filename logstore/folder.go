package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

const (
	// formatName is the file that makes a folder ours. It is the first that is
	// written into a new folder, and it is looked at before the engine is, which
	// would replay and upgrade whatever database it finds.
	formatName    = "FORMAT"
	formatTmpName = "FORMAT.tmp"
	formatMagic   = "pistore logstore "

	// layoutVersion is the version of key layout and records.
	layoutVersion = 1
)

// checkFolder tells whether a folder holds a database of this backend (true) or
// nothing (false). Anything else is ErrForeignFormat or ErrNewerVersion, and a
// folder that does not exist is fs.ErrNotExist. It changes nothing.
func checkFolder(base vfs.FS, dir string) (bool, error) {
	info, err := base.Stat(dir)
	if err != nil {
		return false, err
	}
	if !info.IsDir() { // listing a pipe would wait for its writer
		return false, fmt.Errorf("logstore: %s: %w: it is no folder", dir, pistore.ErrForeignFormat)
	}
	names, err := base.List(dir)
	if err != nil {
		return false, err
	}
	if err := checkRegular(base, dir, names); err != nil {
		return false, err
	}
	stranger := ""
	for _, name := range names {
		switch name {
		case formatName:
			if err := checkFormat(base, dir); err != nil {
				return false, err
			}
			if err := checkMarker(base, dir, names); err != nil {
				return false, err
			}
			return true, checkEngineFormat(dir, names)
		case lockName, ownerName, formatTmpName:
			// What a creation that was cut short leaves.
		default:
			stranger = name
		}
	}
	if stranger != "" {
		return false, fmt.Errorf("logstore: %s: %w: it holds %.128q and no file %s",
			dir, pistore.ErrForeignFormat, stranger, formatName)
	}
	return false, nil
}

// checkRegular refuses a folder in which one of the names that are used here is
// no regular file: opening a pipe would wait for its writer.
func checkRegular(base vfs.FS, dir string, names []string) error {
	for _, name := range names {
		if !usedName(name) {
			continue
		}
		info, err := base.Stat(base.PathJoin(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a live writer has removed it
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("logstore: %s: %w: %.128q is no regular file", dir, pistore.ErrForeignFormat, name)
		}
	}
	return nil
}

// usedName tells whether a file of that name is opened here or by the engine.
func usedName(name string) bool {
	switch name {
	case formatName, formatTmpName, lockName, ownerName:
		return true
	}
	for _, prefix := range []string{"MANIFEST-", "OPTIONS-", "marker.", "temporary."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch path.Ext(name) {
	case ".sst", ".blob", ".log":
		return true
	}
	return false
}

func checkFormat(base vfs.FS, dir string) error {
	file, err := base.Open(base.PathJoin(dir, formatName))
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 64))
	if err != nil {
		return err
	}
	number, ok := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), formatMagic)
	version, err := strconv.Atoi(number)
	if !ok || err != nil || version < 1 {
		return fmt.Errorf("logstore: %s: %w: file %s reads %.64q", dir, pistore.ErrForeignFormat, formatName, text)
	}
	if version > layoutVersion {
		return fmt.Errorf("logstore: %s: %w: layout %d, this program knows %d",
			dir, pistore.ErrNewerVersion, version, layoutVersion)
	}
	return nil
}

// checkMarker refuses tables and logs without the marker that names their MANIFEST: the
// engine would take the folder for a new one and remove them. A creation that
// was cut short has no tables yet.
func checkMarker(base vfs.FS, dir string, names []string) error {
	unmarked := func(names []string) bool {
		tables := false
		for _, name := range names {
			if strings.HasPrefix(name, "marker.manifest.") {
				return false
			}
			tables = tables || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log")
		}
		return tables
	}
	if !unmarked(names) {
		return nil
	}
	// A listing beside a writer that replaces the marker may miss both.
	if names, err := base.List(dir); err != nil || !unmarked(names) {
		return err
	}
	return &pistore.CorruptError{Backend: backendName, Place: dir,
		Problem: "it holds tables or logs, and the file marker.manifest.* that leads to them is missing; restore that file from a copy; nothing was changed"}
}

// checkEngineFormat refuses a database that a newer engine has upgraded.
func checkEngineFormat(dir string, names []string) error {
	for _, name := range names {
		value, ok := strings.CutPrefix(name, "marker.format-version.")
		if !ok {
			continue
		}
		_, value, _ = strings.Cut(value, ".")
		if v, err := strconv.ParseUint(value, 10, 63); err == nil && v > uint64(pebble.FormatNewest) {
			return fmt.Errorf("logstore: %s: %w: engine format %d, this program knows %d",
				dir, pistore.ErrNewerVersion, v, pebble.FormatNewest)
		}
	}
	return nil
}

// writeFormat makes a new folder ours, durably.
func writeFormat(base vfs.FS, dir string) error {
	tmp, name := base.PathJoin(dir, formatTmpName), base.PathJoin(dir, formatName)
	file, err := base.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s%d\n", formatMagic, layoutVersion)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := base.Rename(tmp, name); err != nil {
		return err
	}
	return syncDir(base, dir)
}

// makeFolder creates a folder and what is missing above it, durably.
func makeFolder(base vfs.FS, dir string) error {
	var missing []string
	for at := dir; ; at = base.PathDir(at) {
		if _, err := base.Stat(at); err == nil || !errors.Is(err, fs.ErrNotExist) || base.PathDir(at) == at {
			break
		}
		missing = append(missing, at)
	}
	if err := base.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, at := range missing {
		if err := syncDir(base, base.PathDir(at)); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(base vfs.FS, dir string) error {
	file, err := base.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
