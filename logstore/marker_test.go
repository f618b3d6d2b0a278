package logstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

// A store whose marker was lost is refused: the engine would begin a new
// database in the folder and remove the tables of the old one.
func TestOpenWithoutMarker(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 { // the second opening writes what the first left into a table
		store := openStoreT(t, dir, Options{})
		if i == 0 {
			s, err := store.Create(context.Background(), pistore.Info{ID: "s"})
			if err != nil {
				t.Fatal(err)
			}
			tx := pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "app.a", Key: "k", Value: "1"}}}
			if _, err := s.Commit(context.Background(), tx); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tables, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	markers, _ := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	if len(tables) == 0 || len(markers) != 1 {
		t.Fatalf("%d tables, %d markers", len(tables), len(markers))
	}
	if err := os.Remove(markers[0]); err != nil {
		t.Fatal(err)
	}
	before := folderState(t, dir)
	for _, readOnly := range []bool{false, true} {
		if _, err := Open(dir, Options{ReadOnly: readOnly}); !errors.Is(err, pistore.ErrCorrupt) {
			t.Errorf("read-only %v: %v, want ErrCorrupt", readOnly, err)
		}
	}
	if diff := cmp.Diff(before, folderState(t, dir)); diff != "" {
		t.Errorf("the folder was changed:\n%s", diff)
	}
}
