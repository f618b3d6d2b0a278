package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// readAll reads a session in every way and returns the first error.
func readAll(st pistore.Storage) error {
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	for _, err := range st.Export(ctx) {
		note(err)
	}
	for _, err := range st.ScanEntries(ctx, pistore.ScanQuery{Order: pistore.Reversed}) {
		note(err)
	}
	for _, err := range st.ScanUsage(ctx, pistore.ScanQuery{}) {
		note(err)
	}
	for _, structure := range []bool{false, true} {
		for _, err := range st.Branch(ctx, pistore.BranchQuery{Start: "entry-00000009", StructureOnly: structure}) {
			note(err)
		}
	}
	for _, err := range st.RegistersByPrefix(ctx, "app", "") {
		note(err)
	}
	_, err := st.Registers(ctx, []pistore.Address{{Namespace: "app", Key: "n"}})
	note(err)
	_, err = st.Entries(ctx, []pistore.ID{"entry-00000004"})
	note(err)
	_, err = st.Stats(ctx)
	note(err)
	return failed
}

// TestDamagedValues damages each value of a database and reads everything: the
// damage is found and named by its key, and nothing panics.
func TestDamagedValues(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	st := createT(t, s, "one")
	commitChain(t, st, 10)
	lower, upper := sessionRange(st.view.ord)
	type cell struct{ key, value []byte }
	var cells []cell
	err := s.view().scan(lower, upper, false, func(key, value []byte) (bool, error) {
		cells = append(cells, cell{append([]byte(nil), key...), append([]byte(nil), value...)})
		return true, nil
	})
	if err != nil || len(cells) != 10*5+2 {
		t.Fatalf("%d cells, error %v", len(cells), err)
	}
	for i, c := range cells {
		table := c.key[2+int(c.key[1])]
		// Those of the id index that readAll looks up.
		if table == tableID && i%3 != 0 {
			continue
		}
		for name, bad := range map[string][]byte{
			"empty": {}, "cut": c.value[:len(c.value)-1], "half": c.value[:len(c.value)/2],
			"kind": {c.value[0], 1, 99, 0}, "noise": []byte("\xc1\xc1\xc1\xc1"),
		} {
			setRaw(t, s, c.key, bad)
			err := readAll(st)
			var corrupt *pistore.CorruptError
			if errors.As(err, &corrupt) {
				if corrupt.Backend != backendName || corrupt.Session != "one" || corrupt.Place != describeKey(c.key) {
					t.Errorf("%s, %s: reported as %+v", describeKey(c.key), name, corrupt)
				}
			} else if err != nil || table != tableID {
				t.Errorf("%s, %s: error %v, want a CorruptError", describeKey(c.key), name, err)
			}
		}
		if err := s.eng.db.Delete(c.key, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		_ = readAll(st) // must not panic
		setRaw(t, s, c.key, c.value)
	}
	if err := readAll(st); err != nil {
		t.Fatalf("after repair: %v", err)
	}
}

// TestMissingParent: a parent that is gone, or another entry in its place, is a
// broken invariant 6.
func TestMissingParent(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	st := createT(t, s, "one")
	commitChain(t, st, 10)
	for _, structure := range []bool{false, true} {
		for _, how := range []string{"gone", "another"} {
			key := seqKey(st.view.ord, entryTable(structure), 13)
			value, closer, err := s.eng.db.Get(key)
			if err != nil {
				t.Fatal(err)
			}
			value = append([]byte(nil), value...)
			_ = closer.Close()
			if how == "gone" {
				err = s.eng.db.Delete(key, pebble.Sync)
			} else {
				var other []byte
				other, closer, err = s.eng.db.Get(seqKey(st.view.ord, entryTable(structure), 10))
				if err == nil {
					setRaw(t, s, key, other)
					err = closer.Close()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			err = nil
			n := 0
			for _, e := range st.Branch(ctx, pistore.BranchQuery{Start: "entry-00000009", StructureOnly: structure}) {
				if err = e; err == nil {
					n++
				}
			}
			var corrupt *pistore.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Invariant != 6 || n != 5 {
				t.Errorf("structure %v, %s: %d entries, then %v", structure, how, n, err)
			}
			setRaw(t, s, key, value)
		}
	}
}

// TestDamagedTable flips bytes of a table file, which the engine's checksums
// find. What does not touch the damage stays readable.
func TestDamagedTable(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	commitChain(t, createT(t, s, "one"), 200)
	if err := s.eng.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	found := 0
	for _, table := range tables {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for i := 100; i < len(data); i += max(1, len(data)/40) {
			bad := append([]byte(nil), data...)
			bad[i] ^= 0x10
			if err := os.WriteFile(table, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := readDatabase(dir); err != nil {
				found++
				if !errors.Is(err, pistore.ErrCorrupt) || strings.Contains(err.Error(), "\n") {
					t.Errorf("byte %d of %s: %v, want ErrCorrupt in one sentence", i, filepath.Base(table), err)
				}
			}
		}
		if err := os.WriteFile(table, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("%d flips were found in %d tables", found, len(tables))
	}
}

func readDatabase(dir string) error {
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Open(ctx, "one", pistore.ReadOnly)
	if err != nil {
		return err
	}
	if err := readAll(st); err != nil {
		return err
	}
	n := 0
	for range st.ScanEntries(ctx, pistore.ScanQuery{}) {
		n++
	}
	if n != 200 {
		return fmt.Errorf("%d entries and no error", n)
	}
	return nil
}
