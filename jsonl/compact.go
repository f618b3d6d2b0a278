package jsonl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"pistore"
	"pistore/memstore"
	"pistore/registers"
)

// noContext is that of work which cannot be ended half-way.
var noContext = context.Background()

// Compact rewrites the file as what is live of it: the header with nextSeq, then
// every row by its own seq. Commits wait meanwhile and go on in the new file. A
// failure up to the moment when the new file takes the name leaves everything as
// it was, and the store usable; one after that is ErrFaulted.
func (f *File) Compact(ctx context.Context) (pistore.CompactResult, error) {
	if f.log == nil {
		return pistore.CompactResult{}, fmt.Errorf("jsonl: compact: %w", f.refusal())
	}
	g := f.log
	g.commit.Lock()
	defer g.commit.Unlock()
	if err := f.usable(); err != nil {
		return pistore.CompactResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return pistore.CompactResult{}, err
	}
	return f.compact()
}

// compact is [File.Compact]. The caller holds commit.
func (f *File) compact() (result pistore.CompactResult, err error) {
	g := f.log
	st, err := g.src.Stat()
	if err != nil {
		return result, fmt.Errorf("jsonl: compact: %w", err)
	}
	result.BytesBefore = st.Size
	if g.upgrade != "" {
		if err := g.upgradeFile(f.state, f.payloads); err != nil {
			return result, g.poison("upgrade", err)
		}
		result.BytesAfter = g.size
		return result, nil
	}
	t, err := g.rewritten(*g.info.Load(), f.state, f.payloads)
	if err != nil {
		return result, fmt.Errorf("jsonl: compact: %w", err)
	}
	if err := t.publish(g.path); err != nil {
		return result, g.poison("compact", errors.Join(err, t.release()))
	}
	result.BytesAfter = t.size
	if err := g.adopt(t, f.payloads); err != nil {
		return result, g.poison("compact", err)
	}
	return result, nil
}

// endsOperation reports whether a transaction is the last one of an operation.
func endsOperation(writes []pistore.Write) bool {
	for _, w := range writes {
		if d, ok := w.(pistore.DeleteRegister); ok && d.Namespace == registers.OpStateNS {
			return true
		}
	}
	return false
}

// lineOverhead is what a line has beside the object of its row: sum and newline.
const lineOverhead = int64(sumBytes)

// registerOverhead is what the line of a register has beside its texts.
const registerOverhead = 90

// liveBytes estimates the size of a file after compaction, from what its lines
// of entries and usage rows take.
func liveBytes(state *memstore.State, rowBytes int64) int64 {
	size := rowBytes + 512
	for row, err := range state.Export(noContext) {
		if err != nil {
			break // there is no I/O in it
		}
		size += lineOverhead
		if r, ok := row.(pistore.Register); ok {
			size += int64(len(r.Namespace)+len(r.Key)+len(r.Value)) + registerOverhead
		}
	}
	return size
}

func syncDirOf(o Options, path string) error { return o.FS.SyncDir(filepath.Dir(path)) }
