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

// TestFaults fails every disk call of a story in turn. The error has its cause; a
// store that says it is faulted stays so; and what is found afterwards is what
// was acknowledged, with at most the commit that was under way.
func TestFaults(t *testing.T) {
	t.Parallel()
	digests := chainDigests(t, storyCommits)
	for _, level := range bothLevels {
		for name, v := range verdicts {
			t.Run(level.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				calls, faulted := 0, 0
				for call := 0; ; call++ {
					m := newMemory(t)
					f := disk.NewFailing(m)
					s := &story{options: fixedOptions(f, level)}
					hit := disk.Call{N: -1}
					f.Rule(func(c disk.Call) disk.Verdict {
						if c.N != call {
							return disk.Verdict{}
						}
						hit = c
						return v
					})
					err := s.run(t.Context())
					if hit.N < 0 {
						calls = call
						break
					}
					t.Run(fmt.Sprintf("%d %s %s", call, hit.Kind, filepath.Base(hit.Name)), func(t *testing.T) {
						if s.checkFault(t, v, hit, err) {
							faulted++
						}
						s.checkAfter(t, m, digests, false)
						if names := leftovers(t, m, storyDir); len(names) > 1 {
							t.Errorf("left over: %v", names)
						}
					})
				}
				t.Logf("%d calls failed in turn, %d of them poisoned the store", calls, faulted)
				if faulted == 0 {
					t.Error("no fault poisoned the store")
				}
			})
		}
	}
}

// checkFault checks the error of the call that failed and what the handle does
// after it, and abandons the handle.
func (s *story) checkFault(t *testing.T, v disk.Verdict, hit disk.Call, err error) (faulted bool) {
	if err == nil {
		// What is only tidying up may fail in silence, and a header that cannot be
		// read is left to the opening, which reads it again.
		switch hit.Kind {
		case disk.OpRead, disk.OpOpen, disk.OpRemove, disk.OpClose, disk.OpStat, disk.OpList, disk.OpLock, disk.OpLink:
		default:
			t.Errorf("a failing %s went unnoticed", hit.Kind)
		}
		return false
	}
	if !errors.Is(err, v.Err) {
		t.Errorf("%v does not wrap %v", err, v.Err)
	}
	if s.open == nil {
		return false
	}
	faulted = errors.Is(err, pistore.ErrFaulted)
	_, again := s.open.Commit(t.Context(), chainTx(s.acked))
	switch {
	case faulted && !errors.Is(again, pistore.ErrFaulted):
		t.Errorf("a commit to a faulted store: %v", again)
	case faulted:
		if _, err := s.open.Stats(t.Context()); !errors.Is(err, pistore.ErrFaulted) {
			t.Errorf("a read of a faulted store: %v", err)
		}
	case again != nil:
		t.Errorf("the store is not faulted, and a commit fails: %v", again)
	default:
		s.acked, s.begun = s.acked+1, s.acked+1
	}
	// Its owner is gone; closing is how a test can say so.
	if err := s.open.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return faulted
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
			t.Run(fmt.Sprintf("%s %d", name, call), func(t *testing.T) {
				m := put(t)
				f := disk.NewFailing(m)
				hit = false
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
