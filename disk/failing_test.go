package disk

import (
	"errors"
	"testing"
)

var errTest = errors.New("no luck")

func TestFailingWrite(t *testing.T) {
	f := NewFailing(NewMemory())
	file, err := f.Open("a", Create)
	check(t, err)
	f.Rule(Nth(OpWrite, 1, Verdict{Err: errTest, Written: 3}))
	put(t, file, "one ")
	n, err := file.Write([]byte("second"))
	if n != 3 {
		t.Errorf("a short write reports %d bytes", n)
	}
	want(t, "the second write", err, errTest)
	put(t, file, " third")
	if got := text(t, file); got != "one sec third" {
		t.Errorf("content %q", got)
	}
}

// TestFailingEach fails every call of a small program in turn: each run fails
// once, with the given error, and the one past the last call succeeds.
func TestFailingEach(t *testing.T) {
	program := func(s FS) error {
		file, err := s.Open("a", Create)
		if err != nil {
			return err
		}
		_, err = file.Write([]byte("x"))
		steps := []func() error{
			file.Lock, file.Sync, file.SyncData,
			func() error { _, err := file.Stat(); return err },
			func() error { _, err := file.ReadAt(make([]byte, 1), 0); return err },
			func() error { return file.SetMode(0o600) },
			func() error { return file.SetOwner(0, 0) },
			func() error { return file.Truncate(0) },
			func() error { return s.Mkdir("d") },
			func() error { return s.Link("a", "b") },
			func() error { return s.Rename("a", "c") },
			func() error { return s.Remove("b") },
			func() error { _, err := s.Stat("c"); return err },
			func() error { _, err := s.List("/"); return err },
			func() error { _, err := s.Resolve("c"); return err },
			func() error { return s.SyncDir("/") },
			func() error {
				lock, err := s.LockDir("/")
				if err == nil {
					err = lock.Close()
				}
				return err
			},
		}
		for _, step := range steps {
			if err == nil {
				err = step()
			}
		}
		return errors.Join(err, file.Close())
	}
	kinds := map[Kind]bool{}
	for n := 0; ; n++ {
		f := NewFailing(NewMemory())
		failed := false
		f.Rule(func(c Call) Verdict {
			kinds[c.Kind] = true
			if c.N != n {
				return Verdict{}
			}
			failed = true
			return Verdict{Err: errTest}
		})
		err := program(f)
		if !failed {
			check(t, err)
			if len(kinds) != 19 { // opening what is there aside
				t.Errorf("%d kinds of calls were failed", len(kinds))
			}
			return
		}
		want(t, "a call that fails", err, errTest)
	}
}

func TestFailingWithEffect(t *testing.T) {
	m := NewMemory()
	f := NewFailing(m)
	file, err := f.Open("a", Create)
	check(t, err)
	check(t, file.Close())
	f.Rule(Nth("", 0, Verdict{Err: errTest, Written: 1}))
	want(t, "the rename", f.Rename("a", "b"), errTest)
	_, err = m.Stat("b")
	check(t, err)
	if f.Calls() != 1 {
		t.Errorf("%d calls", f.Calls())
	}
}

// TestFailedSyncIsNotMadeUpFor syncs again after a failure: it is told that all is
// well, and it is not.
func TestFailedSyncIsNotMadeUpFor(t *testing.T) {
	m := NewMemory()
	f := NewFailing(m)
	file, err := f.Open("a", Create)
	check(t, err)
	check(t, m.SyncDir("/"))
	put(t, file, "text")
	f.Rule(Nth(OpSyncData, 0, Verdict{Err: errTest}))
	want(t, "the sync", file.SyncData(), errTest)
	check(t, file.SyncData())
	check(t, file.Sync())
	lost := false
	for seed := range uint64(crashes) {
		left, err := crashed(m, seed).Open("a", Read)
		check(t, err)
		lost = lost || text(t, left) != "text"
	}
	if !lost {
		t.Error("a sync that was tried again kept what the first had given up")
	}
}
