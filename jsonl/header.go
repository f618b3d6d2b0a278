package jsonl

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"pistore"
	"pistore/disk"
	"pistore/registers"
)

// header is the first record of a file of formats 1 to 3.
type header struct {
	id        pistore.SessionID
	idProblem string // why the id cannot be used
	version   string // as written; empty: absent
	time      int64  // Unix ms; -1: unusable
	cwd       string
	parent    string
	warnings  []string
}

func readHeaderRecord(p parsed) header {
	h := header{time: p.time}
	version, _ := p.text.Member("version")
	h.version = strings.Clone(string(version))
	id, _ := p.text.Member("id")
	if s, ok := id.Text(); !ok {
		h.idProblem = "the header has no usable id: it is " + kindOf(string(id)) + " instead of a string"
	} else if err := pistore.SessionID(s).Check(); err != nil {
		h.idProblem = "the header has no usable id: " + err.Error()
	} else {
		h.id = pistore.SessionID(strings.Clone(s))
	}
	if h.time < 0 {
		h.warnings = append(h.warnings, "the header has no timestamp that can be read")
	}
	cwd, _ := p.text.Member("cwd")
	if s, ok := cwd.Text(); !ok {
		h.warnings = append(h.warnings, "the header has no working directory")
	} else if err := (pistore.Info{CWD: s}).Check(); err != nil {
		h.warnings = append(h.warnings, "the working directory cannot be used: "+err.Error())
	} else {
		h.cwd = strings.Clone(s)
	}
	parent, _ := p.text.Member("parentSession")
	if parent == "" || parent == "null" {
		return h
	}
	if s, ok := parent.Text(); !ok {
		h.warnings = append(h.warnings, "parentSession is "+kindOf(string(parent))+" instead of a path")
	} else if err := (pistore.Info{LegacyParentPath: s}).Check(); err != nil {
		h.warnings = append(h.warnings, "parentSession cannot be used: "+err.Error())
	} else {
		h.parent = strings.Clone(s)
	}
	return h
}

// substituteID stands in for the id of a header that has none: a hash of the
// start of the file, which appending does not change.
func substituteID(src io.ReaderAt, size int64) (pistore.SessionID, error) {
	start := make([]byte, min(size, 4<<10))
	if err := readFull(src, start, 0); err != nil {
		return "", err
	}
	hash := sha256.Sum256(start)
	return pistore.SessionID(hex.EncodeToString(hash[:])), nil
}

// ReadInfo reads the header of a file of any format: of what follows leading
// white space and NULs at most one MiB, and all of the header. The id is empty
// where a header has none. A file without a header is ErrCorrupt, one that is no
// session ErrForeignFormat.
func ReadInfo(ctx context.Context, path string) (pistore.Info, error) {
	if err := ctx.Err(); err != nil {
		return pistore.Info{}, err
	}
	return readInfo(ctx, disk.OS, path)
}

func readInfo(ctx context.Context, fs disk.FS, path string) (info pistore.Info, err error) {
	err = lookInto(fs, path, func(src io.ReaderAt, size int64) (err error) {
		info, err = infoOf(ctx, src, size)
		return err
	})
	return info, err
}

func infoOf(ctx context.Context, src io.ReaderAt, size int64) (pistore.Info, error) {
	h, err := readHead(ctx, src, size)
	if err == nil && h.what == fileV4 {
		four, err := firstLine4(src, h.start, size)
		if err != nil {
			return pistore.Info{}, err
		}
		return four.info, nil
	}
	if err == nil {
		err = h.refusal()
	}
	if err != nil {
		return pistore.Info{}, err
	}
	text, err := pistore.CompactJSON(string(h.header))
	if err != nil || h.what != filePi {
		return pistore.Info{}, fmt.Errorf("%w: the session has no header that can be read", pistore.ErrCorrupt)
	}
	r := readHeaderRecord(parseRecord(text))
	return pistore.Info{
		ID: r.id, CreatedAt: pistore.UnixMS(max(r.time, 0)), CWD: r.cwd, LegacyParentPath: r.parent,
		StorageVersion: pistore.StorageVersion, Format: string(formatOf(h.version())),
	}, nil
}

// firstLine4 reads the first line of a file of format 4 that is not blank.
// Whether values and lists follow it does not say.
func firstLine4(src io.ReaderAt, start, size int64) (header4, error) {
	size = min(size-start, maxLineBytes)
	l, _, err := newLineReader(io.NewSectionReader(src, start, size), size).next()
	if err != nil {
		return header4{}, err
	}
	h, err := readHeader4(bytes.TrimSuffix(l.text, []byte("\r")))
	if err == nil && !l.ended {
		err = fmt.Errorf("%w: the header was torn off in front of its newline", pistore.ErrCorrupt)
	}
	return h, err
}

// ReadName returns the name of the session in a file, empty if it has none. It
// reads backwards to the newest record that says, and looks at the text of few
// lines beside that one, so that its memory is that of one line. It does not
// judge the file.
func ReadName(ctx context.Context, path string) (string, error) { return nameAt(ctx, disk.OS, path) }

func nameAt(ctx context.Context, fs disk.FS, path string) (name string, err error) {
	err = lookInto(fs, path, func(src io.ReaderAt, size int64) error {
		h, err := readHead(ctx, src, size)
		if err == nil && h.what == fileV4 {
			name, err = searchName(ctx, src, size, nameMark4, nameIn4)
		} else if err == nil {
			name, err = readName(ctx, src, size)
		}
		return err
	})
	return name, err
}

// nameMark stands in every line that names a session. In texts its quotes are
// escaped, so that hardly any other line has it.
var nameMark = []byte(`"session_info"`)

// nameMark4 stands in every line of format 4 that sets or removes the name.
var nameMark4 = []byte(`.name","key":""`)

func readName(ctx context.Context, src io.ReaderAt, size int64) (string, error) {
	return searchName(ctx, src, size, nameMark, nameIn)
}

// searchName looks backwards for the newest line with a mark of which in tells a
// name.
func searchName(ctx context.Context, src io.ReaderAt, size int64, mark []byte, in func(line []byte) (string, bool)) (string, error) {
	buf := make([]byte, min(readChunk, size)+int64(len(mark)))
	var hits []int64
	// Lines from skipped on are looked at already.
	for end, skipped := size, size; end > 0; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		start := max(end-readChunk, 0)
		// The mark may stand across the border.
		part := buf[:min(end+int64(len(mark))-1, size)-start]
		if err := readFull(src, part, start); err != nil {
			return "", err
		}
		hits = appendHits(hits[:0], part, mark, start)
		for _, at := range slices.Backward(hits) {
			if at >= skipped {
				continue
			}
			text, first, err := lineAround(src, at, size)
			if err != nil {
				return "", err
			}
			if name, ok := in(text); ok {
				return name, nil
			}
			skipped = first
		}
		end = start
	}
	return "", nil
}

// appendHits appends where marks stand in a part of a file.
func appendHits(hits []int64, part, mark []byte, start int64) []int64 {
	for at := 0; ; at += len(mark) {
		n := bytes.Index(part[at:], mark)
		if n < 0 {
			return hits
		}
		at += n
		hits = append(hits, start+int64(at))
	}
}

// nameIn reads the name from a line; ok is false if the line does not say.
func nameIn(line []byte) (name string, ok bool) {
	text, _, err := readObject(bytes.TrimRight(line, "\x00"))
	if err != nil || !text.IsObject() {
		return "", false
	}
	if p := parseRecord(text); p.typ != typeSessionInfo {
		return "", false
	}
	value, ok := nameValue(text, "name")
	if !ok {
		return "", false
	}
	name, _ = value.Text()
	return name, true
}

// nameIn4 is nameIn for a line of format 4.
func nameIn4(line []byte) (name string, ok bool) {
	text, _, err := readObject(line)
	if err != nil {
		return "", false // torn, as a rule
	}
	err = scanLine([]byte(text), new(write4), func(w *write4) error {
		if ns := string(w.namespace); ns != `"`+registers.FactNameNS+`"` && ns != `"pi.session.name"` || string(w.key) != `""` {
			return nil
		}
		ok = true
		name, _ = pistore.JSON(w.value).Text() // a delete has no value
		return nil
	})
	return name, ok && err == nil
}

// lineAround returns the line that a byte stands in and where it starts; a line
// too long to be held comes back empty.
func lineAround(src io.ReaderAt, at, size int64) (text []byte, first int64, err error) {
	if first, err = lineStart(src, at); err != nil {
		return nil, 0, err
	}
	l, _, err := newLineReader(io.NewSectionReader(src, first, size-first), size-first).next()
	return l.text, first, err
}

// lineStart returns where the line that a byte stands in starts.
func lineStart(src io.ReaderAt, at int64) (int64, error) {
	buf := make([]byte, 4<<10)
	for at > 0 {
		start := max(at-int64(len(buf)), 0)
		part := buf[:at-start]
		if err := readFull(src, part, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		at = start
	}
	return 0, nil
}

// resolveParent returns the session id in the header of a parent's file, of any
// format, and empty where that file cannot be read. A relative path is taken
// from the folder of the file that names it.
func resolveParent(fs disk.FS, child string) func(path string) pistore.SessionID {
	return func(path string) (id pistore.SessionID) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(child), path)
		}
		_ = lookInto(fs, path, func(src io.ReaderAt, size int64) error {
			h, err := readHead(noContext, src, size)
			if err != nil || h.what != filePi && h.what != fileV4 {
				return err
			}
			if text, err := pistore.CompactJSON(string(h.header)); err == nil {
				id = readHeaderRecord(parseRecord(text)).id
			}
			return nil
		})
		return id
	}
}
