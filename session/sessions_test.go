package session_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/session"
)

// TestSessions makes, lists, forks and deletes in each engine that holds many.
func TestSessions(t *testing.T) {
	for _, name := range []string{"memory", "jsonl", "logstore"} {
		t.Run(name, func(t *testing.T) {
			repo := session.BackendRepo(engines[name](t))
			for i, cwd := range []string{"/b", "/a", "/b/c"} {
				s, err := repo.Create(t.Context(), pistore.Info{ID: pistore.SessionID(fmt.Sprint("s", i)), CWD: cwd, CreatedAt: pistore.UnixMS(i + 1)})
				if err == nil {
					err = errors.Join(s.SetName(t.Context(), fmt.Sprint("name ", 9-i)), s.Storage().Close())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := repo.Fork(t.Context(), "s1", session.ForkOptions{ID: "fork", CreatedAt: 9}); err != nil {
				t.Fatal(err)
			}
			if err := repo.Delete(t.Context(), "s0"); err != nil {
				t.Fatal(err)
			}
			l, err := repo.List(t.Context(), session.ListQuery{Order: session.ByName, Names: true})
			var got []string
			for _, s := range l.Sessions {
				got = append(got, string(s.Info.ID)+" "+s.Name)
			}
			if want := "[s2 name 7 fork name 8 s1 name 8]"; err != nil && fmt.Sprint(got) != want || len(l.Skipped) > 0 || len(got) != 3 {
				t.Errorf("%v, skipped %v, %v", got, l.Skipped, err)
			}
			if l, err := repo.List(t.Context(), session.ListQuery{CWD: "/b"}); err != nil || len(l.Sessions) != 1 || l.Sessions[0].Info.ID != "s2" {
				t.Errorf("%+v, %v", l, err)
			}
			if _, err := repo.Open(t.Context(), "s0", pistore.ReadOnly); !errors.Is(err, pistore.ErrNotFound) {
				t.Errorf("a deleted session: %v", err)
			}
			s, err := repo.Open(t.Context(), "fork", pistore.ReadWrite)
			if err != nil || s.Storage().Info().ParentSessionID != "s1" {
				t.Fatalf("the fork: %v", err)
			}
			if err := s.Storage().Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnreadableFile lists what can be read beside a file that cannot.
func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	b := jsonl.NewFolder(dir, jsonl.Options{})
	t.Cleanup(func() { _ = b.Close() })
	repo := session.BackendRepo(b)
	s, err := repo.Create(t.Context(), pistore.Info{ID: "s"})
	if err == nil {
		err = s.Storage().Close()
	}
	bad := filepath.Join(dir, "bad.jsonl")
	if err = errors.Join(err, os.WriteFile(bad, []byte(`{"v":4,"kind":"header","id":7}`+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := repo.List(t.Context(), session.ListQuery{Names: true})
	if err != nil || len(l.Sessions) != 1 || l.Sessions[0].Info.ID != "s" || len(l.Skipped) != 1 || l.Skipped[0].Path != bad {
		t.Errorf("%+v, %v", l, err)
	}
}

var many = flag.Int("sessions", 200, "how many sessions are listed; with 10000 or more the time and memory are worth reading")

// TestManySessions lists many sessions in both engines.
func TestManySessions(t *testing.T) {
	dir := t.TempDir()
	db, err := logstore.Open(filepath.Join(dir, "db"), logstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "files")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]pistore.Backend{"logstore": db, "jsonl": jsonl.NewFolder(folder, jsonl.Options{})} {
		place := filepath.Join(folder, "--w--")
		if err := os.MkdirAll(place, 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range *many {
			h := pistore.Header{Info: pistore.Info{ID: pistore.SessionID(fmt.Sprintf("s%06d", i)), CWD: "/w", Generation: "g", StorageVersion: 1, CreatedAt: pistore.UnixMS(i)}}
			r := pistore.Register{Namespace: "fact.name", Value: `"n"`, Seq: 1}
			if name == "jsonl" { // a folder looks at all that it has for each new session
				line := jsonl.AppendRow(jsonl.AppendRow(nil, h), r)
				err = os.WriteFile(filepath.Join(place, string(h.Info.ID)+".jsonl"), line, 0o600)
			} else {
				_, err = b.Load(t.Context(), func(yield func(pistore.Row, error) bool) { _ = yield(h, nil) && yield(r, nil) })
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		l, err := session.BackendRepo(b).List(t.Context(), session.ListQuery{Names: true})
		took := time.Since(begun)
		runtime.ReadMemStats(&after)
		if err != nil || len(l.Sessions) != *many || l.Sessions[0].Name != "n" {
			t.Errorf("%s: %d sessions, %v", name, len(l.Sessions), err)
		}
		t.Logf("%s: %d sessions with names in %v, %d KiB allocated", name, *many, took, (after.TotalAlloc-before.TotalAlloc)>>10)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
