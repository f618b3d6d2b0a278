package logstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// TestOrderAtFlush checks the order of what stays real at Process level: a
// table's data and its folder are synced before the MANIFEST that names it, and
// a log is removed only behind a synced MANIFEST.
func TestOrderAtFlush(t *testing.T) {
	for _, level := range bothLevels {
		t.Run(level.String(), func(t *testing.T) {
			r := &orderCheck{level: level, tables: map[string]*tableOrder{}}
			s := openStoreT(t, t.TempDir(), Options{
				Durability: level, MemtableBytes: 1, fs: hookFS{FS: vfs.Default, hook: r.see},
			})
			// Compactions make tables beside the flushes, which one sequence
			// cannot tell apart.
			s.eng.gate.mu.Lock()
			s.eng.gate.open = false
			s.eng.gate.mu.Unlock()
			st := createT(t, s, "one")
			for i := range 700 {
				if _, err := st.Commit(ctx, chainTx(i, 2000)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, problem := range r.problems {
				t.Error(problem)
			}
			if r.flushed < 4 || r.removed < 2 || r.lazyLogs < 4 {
				t.Errorf("%d tables were flushed, %d logs removed, %d logs closed: too few to tell",
					r.flushed, r.removed, r.lazyLogs)
			}
		})
	}
}

// orderCheck watches the changes that reach the file system.
type orderCheck struct {
	level pistore.Durability

	mu       sync.Mutex // guards what follows
	tables   map[string]*tableOrder
	manifest bool            // written and not synced
	dirty    map[string]bool // logs that were written and not synced
	problems []string
	flushed  int
	removed  int
	lazyLogs int
}

type tableOrder struct{ synced, folder, named bool }

func (r *orderCheck) see(op fsOp) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch op.kind {
	case "log":
		r.seeLog(op)
	case "manifest":
		r.seeManifest(op)
	case "table":
		switch op.what {
		case "create":
			r.tables[op.name] = &tableOrder{}
		case "write":
			r.tables[op.name].synced = false
		case "sync":
			r.tables[op.name].synced = true
		}
	case "dir":
		for _, table := range r.tables {
			table.folder = table.folder || table.synced
		}
	}
	return nil
}

func (r *orderCheck) seeManifest(op fsOp) {
	r.manifest = op.what == "write"
	if op.what != "write" {
		return
	}
	for name, table := range r.tables {
		if table.named {
			continue
		}
		table.named = true
		r.flushed++
		if !table.synced || !table.folder {
			r.problems = append(r.problems, fmt.Sprintf("MANIFEST written with %s: %+v", name, *table))
		}
	}
}

func (r *orderCheck) seeLog(op fsOp) {
	if r.dirty == nil {
		r.dirty = map[string]bool{}
	}
	switch op.what {
	case "write":
		r.dirty[op.name] = true
	case "sync":
		r.dirty[op.name] = false
	case "close":
		r.lazyLogs++
		if r.dirty[op.name] {
			r.problems = append(r.problems, "closed unsynced "+op.name)
		}
	case "remove":
		r.removed++
		if r.manifest {
			r.problems = append(r.problems, "MANIFEST unsynced at the removal of "+op.name)
		}
	}
}

// TestProcessLevelLeavesLogSyncsOut: at Process level a log is synced once, when
// it closes; at Power level at least once for each commit of a lone committer.
func TestProcessLevelLeavesLogSyncsOut(t *testing.T) {
	for _, level := range bothLevels {
		var mu sync.Mutex
		var syncs, writes int
		s := openStoreT(t, t.TempDir(), Options{Durability: level, fs: hookFS{FS: vfs.Default, hook: func(op fsOp) error {
			mu.Lock()
			defer mu.Unlock()
			if op.kind == "log" && op.what == "sync" {
				syncs++
			}
			if op.kind == "log" && op.what == "write" {
				writes++
			}
			return nil
		}}})
		st := createT(t, s, "one")
		mu.Lock()
		syncs, writes = 0, 0
		mu.Unlock()
		for i := range 50 {
			if _, err := st.Commit(ctx, chainTx(i, 100)); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		if want := 50 * int(level); syncs < want || level == pistore.Process && syncs > 0 || writes < 50 {
			t.Errorf("%v: %d syncs and %d writes of the log for 50 commits", level, syncs, writes)
		}
		mu.Unlock()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if syncs == 0 {
			t.Errorf("%v: the log was closed unsynced", level)
		}
	}
}

// TestOrderAtMarker checks that one sync of the folder never has to keep two
// names of which the second is no use without the first: a file is there for good
// before the marker that names it is made, and that before the old one is removed.
func TestOrderAtMarker(t *testing.T) {
	dir := t.TempDir()
	unsynced := map[string]bool{} // names that were made since the folder was synced
	made, removed := 0, 0
	hook := func(op fsOp) error {
		marker := strings.HasPrefix(op.name, "marker.")
		switch {
		case op.kind == "dir" && op.what == "sync":
			clear(unsynced)
		case op.what == "create" && marker:
			made++
			if len(unsynced) > 0 {
				t.Errorf("%s is made, and not synced are %v", op.name, unsynced)
			}
		case op.what == "remove" && marker:
			removed++
			if len(unsynced) > 0 {
				t.Errorf("%s is removed, and not synced are %v", op.name, unsynced)
			}
		}
		if op.what == "create" && (marker || op.kind == "manifest") {
			unsynced[op.name] = true
		}
		return nil
	}
	for range 3 {
		s := openStoreT(t, dir, Options{fs: hookFS{FS: vfs.Default, hook: hook}})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if made < 3 || removed < 2 {
		t.Errorf("%d markers were made, %d removed: too few to tell", made, removed)
	}
}
