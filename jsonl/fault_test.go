package jsonl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pistore"
	"pistore/disk"
)

// verdicts are the ways in which a call fails.
var verdicts = map[string]disk.Verdict{
	"EIO":                {Err: syscall.EIO},
	"ENOSPC, cut short":  {Err: syscall.ENOSPC, Written: 7},
	"EIO, done all same": {Err: syscall.EIO, Written: 1 << 30},
}

// TestUpgradeFaults fails every disk call of the first commit to a file of
// version 3: it is the original or the new one, and the original is kept.
func TestUpgradeFaults(t *testing.T) {
	t.Parallel()
	original, err := os.ReadFile(filepath.Join(fixtures, "v3", "branches.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	const path = storyDir + "/a.jsonl"
	put := func(t *testing.T) *disk.Memory {
		m := newMemory(t)
		writeOn(t, m, path, string(original))
		return m
	}
	commit := pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "app.x", Key: "k", Value: "1"}}}
	upgrade := func(t *testing.T, f disk.FS) error {
		file, err := OpenFile(t.Context(), path, pistore.ReadWrite, fixedOptions(f, pistore.Power))
		if err != nil {
			return err
		}
		_, err = file.Commit(t.Context(), commit)
		return errors.Join(err, file.Close())
	}
	view := func(t *testing.T, f disk.FS) (*File, string) {
		file, err := OpenFile(t.Context(), path, pistore.ReadOnly, fixedOptions(f, pistore.Power))
		if err != nil {
			t.Fatal(err)
		}
		return file, digest(t, file)
	}
	m := put(t)
	_, before := view(t, m)
	if err := upgrade(t, m); err != nil {
		t.Fatal(err)
	}
	upgraded, after := view(t, m)
	if upgraded.Info().Format != string(V4) || upgraded.Info().Generation == "" {
		t.Errorf("upgraded to %+v", upgraded.Info())
	}
	for name, v := range verdicts {
		for call, hit := 0, true; hit; call++ {
			hit = false // also where a pattern leaves the test out
			t.Run(fmt.Sprintf("%s %d", name, call), func(t *testing.T) {
				m := put(t)
				f := disk.NewFailing(m)
				f.Rule(func(c disk.Call) disk.Verdict {
					if c.N != call {
						return disk.Verdict{}
					}
					hit = true
					return v
				})
				err := upgrade(t, f)
				file, got := view(t, m)
				v4 := file.Info().Format == string(V4)
				switch {
				case got == after && v4:
				case got == before && err != nil:
				default:
					t.Errorf("error %v, and a state that was never there, in %s", err, file.Info().Format)
				}
				if !v4 && readOn(t, m, path) != string(original) {
					t.Error("the original was changed")
				}
				if v4 && readOn(t, m, path+".v3") != string(original) {
					t.Error("the original was not kept")
				}
				if err := upgrade(t, m); got == before && err != nil {
					t.Errorf("trying again: %v", err)
				}
			})
		}
	}
}

func writeOn(t testing.TB, f disk.FS, path, text string) {
	t.Helper()
	file, err := f.Open(path, disk.Create)
	if err == nil {
		_, err = file.Write([]byte(text))
	}
	if err == nil {
		err = errors.Join(file.Sync(), f.SyncDir(filepath.Dir(path)), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readOn(t testing.TB, f disk.FS, path string) string {
	t.Helper()
	file, err := f.Open(path, disk.Read)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, st.Size)
	if n, err := file.ReadAt(text, 0); n < len(text) {
		t.Fatal(err)
	}
	return string(text)
}

// TestFailedRenameKeepsNoOwner: a rename that is told as failed may have happened.
// Whoever comes after the poisoned handle finds the new file unowned, in the same
// process and on the same file system too.
func TestFailedRenameKeepsNoOwner(t *testing.T) {
	f := disk.NewFailing(newMemory(t))
	b := NewFolder(storyDir, fixedOptions(f, pistore.Process))
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
	if err != nil {
		t.Fatal(err)
	}
	f.Rule(disk.Nth(disk.OpRename, 0, disk.Verdict{Err: syscall.EIO, Written: 1}))
	c, _ := pistore.Find[pistore.Compacter](st)
	if _, err := c.Compact(t.Context()); !errors.Is(err, pistore.ErrFaulted) {
		t.Fatalf("the compaction: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = b.Open(t.Context(), storyID, pistore.ReadWrite); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Commit(t.Context(), chainTx(0)); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
