package jsonl

import (
	"context"
	"errors"
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

// chainDigests are the digests of a chain after 0, 1, … n transactions, as any
// backend has them.
func chainDigests(t testing.TB, n int) []string {
	t.Helper()
	_, digests := chainFile(t, n)
	return digests
}

func newMemory(t testing.TB) *disk.Memory {
	t.Helper()
	m := disk.NewMemory()
	if err := mkdirAll(m, storyDir); err != nil {
		t.Fatal(err)
	}
	return m
}

// story is a sequence of calls over one file system. It stops at the first
// failure and knows what was acknowledged until then.
type story struct {
	options Options
	created bool
	acked   int
	begun   int // commits that were tried
	// open is what the failing call was made on.
	open pistore.Storage
}

const storyCommits = 11

// run creates a session, commits, compacts, goes on, reopens, and syncs.
func (s *story) run(ctx context.Context) error {
	b := NewFolder(storyDir, s.options)
	st, err := b.Create(ctx, pistore.Info{ID: storyID, CWD: "/work"})
	if err != nil {
		return err
	}
	s.created, s.open = true, st
	if err := s.commit(ctx, 5); err != nil {
		return err
	}
	if err := s.compact(ctx); err != nil {
		return err
	}
	if err := s.commit(ctx, 3); err != nil {
		return err
	}
	err = st.Close()
	s.open = nil
	if err != nil {
		return err
	}
	if st, err = b.Open(ctx, storyID, pistore.ReadWrite); err != nil {
		return err
	}
	s.open = st
	if err := s.commit(ctx, storyCommits-8); err != nil {
		return err
	}
	syncer, _ := pistore.Find[pistore.Syncer](st)
	if err := syncer.Sync(ctx); err != nil {
		return err
	}
	s.open = nil
	return b.Close()
}

func (s *story) commit(ctx context.Context, n int) error {
	for range n {
		s.begun = s.acked + 1
		if _, err := s.open.Commit(ctx, chainTx(s.acked)); err != nil {
			return err
		}
		s.acked++
	}
	return nil
}

func (s *story) compact(ctx context.Context) error {
	compacter, _ := pistore.Find[pistore.Compacter](s.open)
	_, err := compacter.Compact(ctx)
	return err
}

// checkAfter opens the session on what is left and checks that it has what was
// acknowledged, whole, and at most the commit that was under way. It goes on with
// it, to see that the store can be used.
func (s *story) checkAfter(t *testing.T, f disk.FS, digests []string, mayBeCorrupt bool) (n int, corrupt bool) {
	t.Helper()
	o := s.options
	o.FS = f
	b := NewFolder(storyDir, o)
	defer b.Close()
	st, err := b.Open(t.Context(), storyID, pistore.ReadWrite)
	switch {
	case errors.Is(err, pistore.ErrNotFound) && !s.created:
		return 0, false
	case errors.Is(err, pistore.ErrCorrupt) && mayBeCorrupt:
		return 0, true
	case err != nil:
		t.Errorf("open: %v; %d commits were acknowledged", err, s.acked)
		return 0, false
	}
	got, n := digest(t, st), -1
	for i := range min(s.begun, len(digests)-1) + 1 {
		if digests[i] == got {
			n = i
		}
	}
	if n < s.acked && !mayBeCorrupt || n < 0 {
		t.Errorf("the state is that of %d commits; %d were acknowledged, %d begun", n, s.acked, s.begun)
		return n, false
	}
	if n < storyCommits {
		if _, err := st.Commit(t.Context(), chainTx(n)); err != nil || digest(t, st) != digests[n+1] {
			t.Errorf("going on: %v", err)
		}
	}
	return n, false
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
