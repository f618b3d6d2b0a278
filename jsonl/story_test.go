package jsonl

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"pistore"
	"pistore/disk"
)

// storyID is the session of the stories, and storyDir its folder.
const (
	storyID  = "story"
	storyDir = "/sessions"
)

func fixedClock() pistore.UnixMS { return 1_700_000_000_000 }

// fixedOptions make everything that is written reproducible.
func fixedOptions(f disk.FS, level pistore.Durability) Options {
	return Options{FS: f, Durability: level, Clock: fixedClock, Rand: rand.NewChaCha8([32]byte{1})}
}

// chainTx is the n-th transaction of a chain: an entry on the one before, a usage
// row, and registers that are set, replaced and deleted. Some are large, some a
// single write.
func chainTx(n int) pistore.Tx {
	id := func(i int) pistore.ID { return pistore.ID(fmt.Sprintf("entry-%d", i)) }
	e := pistore.InsertEntry{ID: id(n), Type: pistore.TypeMessage, Payload: pistore.JSON(fmt.Sprintf(
		`{"message":{"role":"user","content":"%d %s"}}`, n, strings.Repeat("x", n%5*150)))}
	if n > 0 {
		e.ParentID = id(n - 1)
	}
	if n%4 == 3 {
		return pistore.Tx{Writes: []pistore.Write{e}}
	}
	return pistore.Tx{Writes: []pistore.Write{
		e, pistore.InsertUsage{ID: pistore.ID(fmt.Sprintf("usage-%d", n)), EntryID: e.ID, Usage: `{"input":1,"cost":{"total":0.1}}`},
		pistore.SetRegister{Namespace: "n", Key: "last", Value: pistore.JSON(fmt.Sprint(n))},
		pistore.SetRegister{Namespace: "n", Key: fmt.Sprint(n), Value: `"\u2028 \ud800"`},
		pistore.DeleteRegister{Namespace: "n", Key: fmt.Sprint(n - 2)},
	}}
}

func newMemory(t testing.TB) *disk.Memory {
	t.Helper()
	m := disk.NewMemory()
	if err := mkdirAll(m, storyDir); err != nil {
		t.Fatal(err)
	}
	return m
}

// leftovers returns the temporary files in a folder and those below it.
func leftovers(t *testing.T, f disk.FS, dir string) (names []string) {
	t.Helper()
	entries, err := f.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch path := filepath.Join(dir, e.Name); {
		case e.Mode.IsDir():
			names = append(names, leftovers(t, f, path)...)
		case strings.HasSuffix(e.Name, tempSuffix):
			names = append(names, path)
		}
	}
	return names
}
