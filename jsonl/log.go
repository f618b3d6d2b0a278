package jsonl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"pistore"
	"pistore/disk"
	"pistore/memstore"
)

// log is the writing side of an open file.
type log struct {
	opts Options
	path string // free of symbolic links
	info *atomic.Pointer[pistore.Info]

	// commit orders everything that writes, and makes Close wait for the one
	// that is at work. It guards what follows.
	commit sync.Mutex
	src    *source
	key    ownedFile
	enc    encoder
	extra  []member               // of the header
	extras map[pistore.Seq]string // of rows
	size   int64                  // where the next line starts
	torn   bool                   // something stands there that has to go first
	// synced says that all of the file is power-safe.
	synced bool
	// changed is closed, and gone, when followers have something to look at.
	changed chan struct{}
	// upgrade is set as long as the file has another format than the one that is
	// written.
	upgrade string // what the original is named after its name

	problem atomic.Pointer[string] // what a rewrite could not keep, nil: nothing
	fault   atomic.Pointer[error]  // why the store is poisoned, nil: it is not
}

// poison makes every later call fail, and returns what this one fails with.
func (g *log) poison(what string, cause error) error {
	err := fmt.Errorf("jsonl: %s: %w: %w", what, pistore.ErrFaulted, cause)
	g.fault.CompareAndSwap(nil, &err)
	g.wake()
	return err
}

// wake tells followers to look again. The caller holds commit.
func (g *log) wake() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

func (g *log) faulted() error {
	if err := g.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// prepare brings the file to where a line can be appended. The caller holds
// commit.
func (g *log) prepare(state *memstore.State, p *payloads) error {
	if g.upgrade != "" {
		if err := g.upgradeFile(state, p); err != nil {
			return g.poison("upgrade", err)
		}
	}
	if g.torn {
		if err := g.src.Truncate(g.size); err != nil {
			return g.poison("truncate", err)
		}
		g.torn, g.synced = false, false
	}
	// Two unsynced lines could lose the first and keep the second, which no later
	// opening could tell from damage. At most one is ever open.
	if g.opts.Durability == pistore.Power && !g.synced {
		if err := g.src.SyncData(); err != nil {
			return g.poison("sync", err)
		}
		g.synced = true
	}
	return nil
}

// append writes the line of a transaction. The caller holds commit.
func (g *log) append(t pistore.Transaction) error {
	g.enc.reset()
	g.enc.transaction(t)
	g.synced = false
	if _, err := g.src.Write(g.enc.buf); err != nil {
		return g.poison("commit", err)
	}
	if g.opts.Durability == pistore.Power {
		if err := g.src.SyncData(); err != nil {
			return g.poison("commit", err)
		}
		g.synced = true
	}
	return nil
}

// places returns where the payloads of the entries just written stand, and the
// writes without those payloads. It counts the line as written.
func (g *log) places(t pistore.Transaction, wanted bool) ([]place, []pistore.Write) {
	start := g.size
	g.size += int64(len(g.enc.buf))
	if !wanted {
		return nil, t.Writes
	}
	var places []place
	writes := make([]pistore.Write, len(t.Writes))
	for i, w := range t.Writes {
		if e, ok := w.(pistore.InsertEntry); ok && g.enc.at[i].length >= minSpot {
			at := g.enc.at[i]
			places = append(places, place{t.Seqs[i], span{start + at.offset, at.length}})
			e.Payload = ""
			w = e
		}
		writes[i] = w
	}
	return places, writes
}

// sync makes the file power-safe. The caller holds commit.
func (g *log) sync() error {
	if g.synced {
		return nil
	}
	if err := g.src.Sync(); err != nil {
		return g.poison("sync", err)
	}
	g.synced = true
	return nil
}

// upgradeFile rewrites a file of another format as format 4, and keeps the
// original. At no point is the name without a whole file. The caller holds
// commit.
func (g *log) upgradeFile(state *memstore.State, p *payloads) error {
	info := *g.info.Load()
	info.Format = string(V4)
	if info.Generation == "" {
		info.Generation = string(g.opts.ids.New())
	}
	t, err := g.rewritten(info, state, p)
	if err != nil {
		return err
	}
	if !g.opts.DropOriginal {
		if err := keepOriginal(g.opts, g.path, g.upgrade, g.src); err != nil {
			return t.abandon(err)
		}
	}
	if err := t.publish(g.path); err != nil {
		return errors.Join(err, t.release())
	}
	g.upgrade = ""
	g.info.Store(&info)
	return g.adopt(t, p)
}

// rewritten writes the state as a new file, ready to be published.
func (g *log) rewritten(info pistore.Info, state *memstore.State, p *payloads) (t *temp, err error) {
	if t, err = g.replacement(); err != nil {
		return nil, err
	}
	t.keep, t.enc.extras = p != nil, g.extras
	if err = t.snapshot(info, state, g.extra, p.export(noContext, state)); err != nil {
		return nil, t.abandon(err)
	}
	return t, nil
}

// replacement starts a file that is to take the place of the one that is open.
func (g *log) replacement() (*temp, error) {
	cleanTemps(g.opts, g.path)
	like, err := g.src.Stat()
	if err != nil {
		return nil, err
	}
	t, err := newTemp(g.opts, g.path)
	if err != nil {
		return nil, err
	}
	problem, err := t.imitate(like)
	if problem != "" {
		g.problem.Store(&problem)
	}
	if err != nil {
		return nil, t.abandon(err)
	}
	return t, nil
}

// adopt goes on in a file that has taken the place of the one that was open.
func (g *log) adopt(t *temp, p *payloads) error {
	old, oldKey := g.src, g.key
	old.end = g.size
	g.src, g.key, g.size, g.torn, g.synced = newSource(t.file), t.key, t.size, false, true
	if p != nil {
		p.set(g.src, t.places)
	}
	g.wake()
	oldKey.disown()
	return old.release()
}

// close gives the file up.
func (g *log) close() error {
	g.wake()
	g.key.disown()
	return g.src.release()
}

// originalSuffixes are what originals are named after their names: of formats 1
// to 3, and of format 4 without sums.
var originalSuffixes = []string{".v3", ".v4"}

// originalName is the n-th name of an original.
func originalName(path, suffix string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s%s.%d", path, suffix, n)
	}
	return path + suffix
}

// OriginalOf returns the file that an upgrade kept the file at path beside, if that
// is what its name says. Only a session of the same id makes it so.
func OriginalOf(path string) (successor string, ok bool) {
	for _, suffix := range originalSuffixes {
		i := strings.LastIndex(path, suffix)
		if i < 0 {
			continue
		}
		n := 1
		if number, ok := strings.CutPrefix(path[i+len(suffix):], "."); ok {
			n, _ = strconv.Atoi(number)
		}
		if originalName(path[:i], suffix, n) == path {
			return path[:i], true
		}
	}
	return "", false
}

// keepOriginal gives a file that is about to be replaced a second name. One that
// has it already, from an attempt that a crash ended, is left as it is.
func keepOriginal(o Options, path, suffix string, src *source) error {
	st, err := src.Stat()
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		name := originalName(path, suffix, n)
		there, err := o.FS.Stat(name)
		if err == nil && there.Identity != (disk.Identity{}) && there.Identity == st.Identity {
			return syncDirOf(o, path)
		}
		if err == nil {
			continue // some other original
		}
		if err := o.FS.Link(path, name); err != nil {
			// Not every file system knows second names.
			if err := copyFile(o, src, st, name); err != nil {
				return err
			}
		}
		return syncDirOf(o, path)
	}
}

// copyFile copies a file, through a temporary name, so that what has its name is
// whole.
func copyFile(o Options, src *source, st disk.Info, to string) error {
	t, err := newTemp(o, to)
	if err != nil {
		return err
	}
	if _, err = t.imitate(st); err == nil {
		buf := make([]byte, min(st.Size, flushBytes))
		for at := int64(0); at < st.Size && err == nil; {
			part := buf[:min(int64(len(buf)), st.Size-at)]
			if err = readFull(src, part, at); err == nil {
				_, err = t.file.Write(part)
			}
			at += int64(len(part))
		}
	}
	if err == nil {
		err = t.file.Sync()
	}
	if err == nil {
		err = o.FS.Rename(t.name, to)
	}
	if err != nil {
		return t.abandon(err)
	}
	t.key.disown()
	return t.file.Close()
}
