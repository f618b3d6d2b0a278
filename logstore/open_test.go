package logstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"pistore"
)

// folderState describes every file of a folder by name, time and content.
func folderState(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range list(t, dir) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s %x\n", name, info.ModTime().Format("15:04:05.000000000"), sha256.Sum256(data))
	}
	return out.String()
}

// wantRefused checks that opening gives the error, both ways, and changes nothing.
func wantRefused(t *testing.T, dir string, opts Options, target error) {
	t.Helper()
	before := folderState(t, dir)
	for _, readOnly := range []bool{false, true} {
		opts.ReadOnly = readOnly
		s, err := Open(dir, opts)
		if err == nil {
			_ = s.Close()
		}
		wantErr(t, fmt.Sprintf("open, read-only %v", readOnly), err, target)
		if diff := cmp.Diff(before, folderState(t, dir)); diff != "" {
			t.Errorf("a refused open, read-only %v, changed the folder:\n%s", readOnly, diff)
		}
	}
}

func TestForeignFolders(t *testing.T) {
	t.Run("other files", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "notes.txt", "mine")
		wantRefused(t, dir, Options{}, pistore.ErrForeignFormat)
	})
	t.Run("another program's database", func(t *testing.T) {
		dir := t.TempDir()
		db, err := pebble.Open(dir, &pebble.Options{Logger: engineLogger{to: quiet, fault: newFault(time.Minute)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, dir, Options{}, pistore.ErrForeignFormat)
	})
	t.Run("another FORMAT", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, formatName, "something else\n")
		wantRefused(t, dir, Options{}, pistore.ErrForeignFormat)
	})
	t.Run("a file", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "file", "mine")
		for _, readOnly := range []bool{false, true} {
			_, err := Open(filepath.Join(dir, "file"), Options{ReadOnly: readOnly})
			wantErr(t, "open of a file", err, pistore.ErrForeignFormat)
		}
	})
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCreationCutShort: what a creation leaves that died before it made the
// folder ours is no foreign content.
func TestCreationCutShort(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{lockName, ownerName, formatTmpName} {
		writeFile(t, dir, name, "")
	}
	createT(t, openStoreT(t, dir, Options{}), "one")
}

func TestReadOnlyOfNothing(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "absent"), Options{ReadOnly: true})
	wantErr(t, "absent", err, pistore.ErrNotFound)
	dir := t.TempDir()
	_, err = Open(dir, Options{ReadOnly: true})
	wantErr(t, "empty", err, pistore.ErrNotFound)
	if left := list(t, dir); len(left) != 0 {
		t.Errorf("files %v", left)
	}
}

func TestReadOnlyDatabase(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	commitChain(t, createT(t, s, "one"), 20)
	image := crashImage(t, dir) // with a log to replay
	for _, dir := range []string{dir, image} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		before := folderState(t, dir)
		r := openStoreT(t, dir, Options{ReadOnly: true})
		if n := checkChain(t, openT(t, r, "one", pistore.ReadOnly)); n != 20 {
			t.Errorf("%d commits, want 20", n)
		}
		_, err := r.Open(ctx, "one", pistore.ReadWrite)
		wantErr(t, "open for writing", err, pistore.ErrReadOnly)
		_, err = r.Create(ctx, pistore.Info{})
		wantErr(t, "create", err, pistore.ErrReadOnly)
		wantErr(t, "delete", r.Delete(ctx, "one"), pistore.ErrReadOnly)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, folderState(t, dir)); diff != "" {
			t.Errorf("reading changed the folder:\n%s", diff)
		}
	}
}

func TestNewerVersions(t *testing.T) {
	made := func(t *testing.T) string {
		dir := t.TempDir()
		s := openStoreT(t, dir, Options{})
		commitChain(t, createT(t, s, "one"), 3)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Run("layout", func(t *testing.T) {
		dir := made(t)
		writeFile(t, dir, formatName, formatMagic+"2\n")
		wantRefused(t, dir, Options{}, pistore.ErrNewerVersion)
	})
	t.Run("engine", func(t *testing.T) {
		dir := made(t)
		writeFile(t, dir, "marker.format-version.000999.999", "")
		wantRefused(t, dir, Options{}, pistore.ErrNewerVersion)
	})
	t.Run("session", func(t *testing.T) {
		dir := made(t)
		s := openStoreT(t, dir, Options{version: 7, migrations: passing(1, 7)})
		openT(t, s, "one", pistore.ReadWrite)
		createT(t, s, "two")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStoreT(t, dir, Options{})
		for _, mode := range []pistore.Mode{pistore.ReadWrite, pistore.ReadOnly} {
			for _, id := range []pistore.SessionID{"one", "two"} {
				_, err := s.Open(ctx, id, mode)
				wantErr(t, "open of session "+string(id), err, pistore.ErrNewerVersion)
			}
		}
		if all := drain(t, s.List(ctx)); len(all) != 2 || all[0].StorageVersion != 7 {
			t.Errorf("listed %v", all)
		}
	})
	t.Run("record", func(t *testing.T) {
		dir := made(t)
		s := openStoreT(t, dir, Options{})
		st := openT(t, s, "one", pistore.ReadWrite)
		setRaw(t, s, seqKey(st.view.ord, tableEntry, 1), []byte{0x9b, recordVersion + 1, 1, 0})
		_, err := st.Entries(ctx, []pistore.ID{"entry-00000000"})
		wantErr(t, "read", err, pistore.ErrNewerVersion)
		if errors.Is(err, pistore.ErrCorrupt) {
			t.Errorf("%v is no damage", err)
		}
	})
}

func setRaw(t *testing.T, s *Store, key, value []byte) {
	t.Helper()
	if err := s.eng.db.Set(key, value, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

// passing returns steps from one version to another that do nothing.
func passing(from, to int) (steps []migration) {
	for v := from; v < to; v++ {
		steps = append(steps, migration{from: v, apply: func(view, *pebble.Batch) error { return nil }})
	}
	return steps
}

// TestMigration: steps run in order, each in a transaction of its own, and only
// in memory for a reader.
func TestMigration(t *testing.T) {
	dir := t.TempDir()
	s := openStoreT(t, dir, Options{})
	st := createT(t, s, "one")
	commitT(t, st, pistore.SetRegister{Namespace: "app", Key: "x", Value: `[]`})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var fail error
	step := func(from int) migration {
		return migration{from: from, apply: func(v view, b *pebble.Batch) error {
			if from == 2 && fail != nil {
				return fail
			}
			key := registerKey(v.ord, "app", "x")
			var old pistore.JSON
			var seq pistore.Seq
			_, err := v.get(key, func(value []byte) (err error) {
				seq, old, err = v.codec.register(value, true)
				return err
			})
			if err != nil {
				return err
			}
			value := pistore.JSON(fmt.Sprintf("[%d,%s]", from, old))
			return b.Set(key, newRecordWriter(v.codec).register(seq, value), nil)
		}}
	}
	opts := Options{version: 3, migrations: []migration{step(1), step(2)}}
	value := func(mode pistore.Mode) (pistore.JSON, int) {
		t.Helper()
		st := openT(t, s, "one", mode)
		defer st.Close()
		got, err := st.Registers(ctx, []pistore.Address{{Namespace: "app", Key: "x"}})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0].Value, st.Info().StorageVersion
	}
	stored := func() int { return drain(t, s.List(ctx))[0].StorageVersion }

	s = openStoreT(t, dir, opts)
	if v, version := value(pistore.ReadOnly); v != `[2,[1,[]]]` || version != 3 || stored() != 1 {
		t.Errorf("a reader sees %s at version %d, stored %d", v, version, stored())
	}
	fail = errors.New("boom")
	_, err := s.Open(ctx, "one", pistore.ReadWrite)
	wantErr(t, "second step", err, fail)
	if stored() != 2 {
		t.Errorf("version %d after the first step", stored())
	}
	fail = nil
	if v, version := value(pistore.ReadWrite); v != `[2,[1,[]]]` || version != 3 || stored() != 3 {
		t.Errorf("migrated to %s at version %d, stored %d", v, version, stored())
	}
	if v, _ := value(pistore.ReadWrite); v != `[2,[1,[]]]` {
		t.Errorf("migrated twice: %s", v)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStoreT(t, dir, Options{version: 9, migrations: passing(4, 9)})
	_, err = s.Open(ctx, "one", pistore.ReadWrite)
	wantErr(t, "a step that is missing", err, pistore.ErrUnsupported)
}
