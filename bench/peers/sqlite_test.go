package peers

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"pistore"
	"pistore/bench"
)

// What SQLite was given is in its file afterwards, and the file has the journal
// that the level asks for.
func TestSQLiteHolds(t *testing.T) {
	for _, level := range []pistore.Durability{pistore.Process, pistore.Power} {
		content, err := bench.NewContent(bench.Turn, 1)
		if err != nil {
			t.Fatal(err)
		}
		dir, stream := t.TempDir(), content.Stream(0)
		store, err := SQLite(level).Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Create(t.Context(), pistore.Info{ID: "one"})
		if err != nil {
			t.Fatal(err)
		}
		var entry pistore.InsertEntry
		for range 20 {
			tx := stream.Next()
			if _, err := s.Commit(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			entry = tx.Writes[0].(pistore.InsertEntry)
		}
		refuses(t, s, entry)
		// All that the page says, and SQLite's own defaults beside it.
		for pragma, want := range map[string]string{
			"synchronous":  map[pistore.Durability]string{pistore.Process: "1", pistore.Power: "2"}[level],
			"journal_mode": "wal", "foreign_keys": "1", "wal_autocheckpoint": "1000", "page_size": "4096", "cache_size": "-2000", "locking_mode": "normal",
			"mmap_size": "0", "fullfsync": "0",
		} {
			var got string
			if err := s.(*sqliteSession).conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil {
				t.Fatal(pragma, err)
			}
			if got != want {
				t.Errorf("%v: %s is %s instead of %s", level, pragma, got, want)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		counts(t, filepath.Join(dir, "one.sqlite"), entry)
	}
}

// refuses checks that nothing is stored of what the table of entries holds already
// or has no parent for.
func refuses(t *testing.T, s pistore.Storage, entry pistore.InsertEntry) {
	t.Helper()
	set := pistore.SetRegister{Namespace: "x", Key: "half of a transaction", Value: "1"}
	if _, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{set, entry}}); !errors.Is(err, pistore.ErrDuplicateID) {
		t.Errorf("a duplicate id: %v", err)
	}
	entry.ID, entry.ParentID = "01920000-0000-7000-8000-000000000001", "01920000-0000-7000-8000-000000000002"
	if _, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{set, entry}}); !errors.Is(err, pistore.ErrMissingParent) {
		t.Errorf("a missing parent: %v", err)
	}
	if _, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "x", Key: "y", Value: "{"}}}); !errors.Is(err, pistore.ErrInvalid) {
		t.Errorf("half a JSON value: %v", err)
	}
}

// counts reads a closed file.
func counts(t *testing.T, path string, newest pistore.InsertEntry) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mode, payload string
	var entries, usage, registers int
	err = errors.Join(
		db.QueryRow("PRAGMA journal_mode").Scan(&mode),
		db.QueryRow("SELECT count(*) FROM entries").Scan(&entries),
		db.QueryRow("SELECT count(*) FROM usage").Scan(&usage),
		db.QueryRow("SELECT count(*) FROM registers").Scan(&registers),
		db.QueryRow("SELECT payload FROM entries ORDER BY seq DESC LIMIT 1").Scan(&payload),
	)
	if err != nil {
		t.Fatal(err)
	}
	if mode != "wal" || entries != 20 || usage != 20 || registers != 3 || payload != string(newest.Payload) {
		t.Errorf("journal %s, %d entries, %d usage rows, %d registers, newest payload %.100q", mode, entries, usage, registers, payload)
	}
}

// The workloads of commits run over it, with sessions side by side.
func TestSQLiteWorkloads(t *testing.T) {
	for _, workload := range []string{bench.Turn, bench.Small, bench.Bulk} {
		r, err := bench.Run(t.Context(), SQLite(pistore.Process), bench.Config{Workload: workload, Sessions: 3, Ops: 30, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if r.Ops != 30 || r.Metrics[bench.DiskBytes] == 0 {
			t.Errorf("%s: %d ops, %v", r.Name(), r.Ops, r.Metrics)
		}
	}
}
