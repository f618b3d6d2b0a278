package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/session"
)

// tinyFiles reads files that say "session CWD NAME" and nothing else.
type tinyFiles struct{ headers, names *int }

var errTiny = errors.New("half a header")

func (f tinyFiles) ReadHeader(_ context.Context, path string) (pistore.Info, error) {
	*f.headers++
	text, err := os.ReadFile(path)
	words := strings.Fields(string(text))
	switch {
	case err != nil:
		return pistore.Info{}, err
	case len(words) == 0 || words[0] != "session":
		return pistore.Info{}, pistore.ErrForeignFormat
	case len(words) == 1:
		return pistore.Info{}, errTiny
	}
	return pistore.Info{ID: pistore.SessionID(filepath.Base(path)), CWD: words[1]}, nil
}

func (f tinyFiles) ReadName(_ context.Context, path string) (string, error) {
	*f.names++
	text, err := os.ReadFile(path)
	if words := strings.Fields(string(text)); len(words) > 2 {
		return words[2], err
	}
	return "", err
}

func (tinyFiles) OriginalOf(string) (string, bool) { return "", false }

func newTiny() tinyFiles { return tinyFiles{new(int), new(int)} }

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// listed runs a listing: the sessions, and what was skipped, below dir.
func listed(t *testing.T, repo session.Repo, dir string, q session.ListQuery) (sessions, skipped []string) {
	t.Helper()
	l, err := repo.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Sessions {
		where := string(s.Info.ID)
		if s.Path != "" {
			where, _ = filepath.Rel(dir, s.Path)
		}
		sessions = append(sessions, strings.TrimSpace(where+" "+s.Name))
	}
	for _, s := range l.Skipped {
		where, _ := filepath.Rel(dir, s.Path)
		skipped = append(skipped, where+": "+s.Err.Error())
	}
	return sessions, skipped
}

func TestFolderRepo(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, "--w-a--", "1.jsonl"), "session /w/a zeta")
	put(t, filepath.Join(dir, "--w-a--", "2.jsonl"), "session /w/a")
	put(t, filepath.Join(dir, "--w--", "deep", "er", "3"), "session /w alpha")
	put(t, filepath.Join(dir, "half.jsonl"), "session")
	put(t, filepath.Join(dir, "other.txt"), "text")
	put(t, filepath.Join(outside, "x", "4.jsonl"), "session /wide beta")
	put(t, filepath.Join(outside, "5.jsonl"), "session /wide gamma")
	link(t, outside, filepath.Join(dir, "elsewhere"))
	link(t, dir, filepath.Join(outside, "x", "back"))
	link(t, outside, filepath.Join(outside, "x", "up"))
	link(t, "--w-a--", filepath.Join(dir, "again"))
	link(t, filepath.Join("--w-a--", "1.jsonl"), filepath.Join(dir, "1-again.jsonl"))
	link(t, "..", filepath.Join(dir, "--w--", "above"))
	link(t, "self", filepath.Join(dir, "self"))
	link(t, "nothing", filepath.Join(dir, "nowhere"))
	files := newTiny()
	repo := session.FolderRepo(dir, files)

	skipped := []string{
		"half.jsonl: half a header",
		"nowhere: a symbolic link: no such file or directory",
		"self: a symbolic link: too many levels of symbolic links",
		"elsewhere/x/back: a symbolic link back to a folder above it",
		"elsewhere/x/up: a symbolic link back to a folder above it",
		"--w--/above: a symbolic link back to a folder above it",
	}
	// Files of one instant go by path.
	want := []string{"--w--/deep/er/3", "--w-a--/1.jsonl", "--w-a--/2.jsonl", "elsewhere/5.jsonl", "elsewhere/x/4.jsonl"}
	sameTimes(t, dir, outside)
	got, gotSkipped := listed(t, repo, dir, session.ListQuery{Order: session.ByCWD})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sessions: %s", diff)
	}
	if diff := cmp.Diff(skipped, gotSkipped); diff != "" {
		t.Errorf("skipped: %s", diff)
	}
	if *files.names != 0 {
		t.Errorf("%d names were read", *files.names)
	}
	for _, test := range []struct {
		q    session.ListQuery
		want []string
	}{
		{session.ListQuery{Order: session.ByName, Names: true}, []string{
			"--w--/deep/er/3 alpha", "elsewhere/x/4.jsonl beta", "elsewhere/5.jsonl gamma", "--w-a--/1.jsonl zeta", "--w-a--/2.jsonl",
		}},
		{session.ListQuery{CWD: "/w/"}, []string{"--w--/deep/er/3", "--w-a--/1.jsonl", "--w-a--/2.jsonl"}},
		{session.ListQuery{CWD: "/w/a"}, []string{"--w-a--/1.jsonl", "--w-a--/2.jsonl"}},
		{session.ListQuery{CWD: "/"}, []string{"--w--/deep/er/3", "--w-a--/1.jsonl", "--w-a--/2.jsonl", "elsewhere/5.jsonl", "elsewhere/x/4.jsonl"}},
		{session.ListQuery{CWD: "/none"}, nil},
	} {
		if got, _ := listed(t, repo, dir, test.q); cmp.Diff(test.want, got) != "" {
			t.Errorf("%+v: %s", test.q, cmp.Diff(test.want, got))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := repo.List(ctx, session.ListQuery{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := session.FolderRepo(filepath.Join(dir, "none"), files).List(t.Context(), session.ListQuery{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// sameTimes gives every file one time of change.
func sameTimes(t *testing.T, dirs ...string) {
	t.Helper()
	at := pistore.UnixMS(1700000000000).Time()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				err = os.Chtimes(path, at, at)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnreadableFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "closed", "1.jsonl"), "session /w")
	put(t, filepath.Join(dir, "2.jsonl"), "session /w")
	put(t, filepath.Join(dir, "3.jsonl"), "session /w")
	for _, name := range []string{"closed", "3.jsonl"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(filepath.Join(dir, "closed"), 0o700)
	if _, err := os.ReadDir(filepath.Join(dir, "closed")); err == nil {
		t.Skip("nothing is closed to this user")
	}
	got, skipped := listed(t, session.FolderRepo(dir, newTiny()), dir, session.ListQuery{})
	if diff := cmp.Diff([]string{"2.jsonl"}, got); diff != "" {
		t.Errorf("%s", diff)
	}
	if diff := cmp.Diff([]string{"3.jsonl: permission denied", "closed: permission denied"}, skipped); diff != "" {
		t.Errorf("%s", diff)
	}
}

// Ten thousand sessions cost what their headers cost, and little memory.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	const n = 10_000
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("--w-%d--", i%100), fmt.Sprintf("%d.jsonl", i))
		if i < 100 {
			put(t, path, "session /w")
		} else if err := os.WriteFile(path, []byte("session /w"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := newTiny()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l, err := session.FolderRepo(dir, files).List(t.Context(), session.ListQuery{})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || len(l.Sessions) != n || *files.headers != n || *files.names != 0 {
		t.Errorf("%d sessions, %d headers, %d names, %v", len(l.Sessions), *files.headers, *files.names, err)
	}
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > n*1000 {
		t.Errorf("%d bytes are held", held)
	}
	runtime.KeepAlive(l)
}

func TestBackendRepo(t *testing.T) {
	b := newBackend(t)
	for i, name := range []string{"zeta", "", "alpha"} {
		s := spent(t, b, pistore.SessionID(fmt.Sprint("s", i)), i)
		if name != "" {
			if err := session.New(s).SetName(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	repo := session.BackendRepo(b)
	for _, test := range []struct {
		q    session.ListQuery
		want []string
	}{
		{session.ListQuery{Order: session.ByName, Names: true}, []string{"s2 alpha", "s0 zeta", "s1"}},
		{session.ListQuery{Order: session.ByName, Names: true, CWD: "/elsewhere"}, nil},
	} {
		if got, _ := listed(t, repo, "", test.q); cmp.Diff(test.want, got) != "" {
			t.Errorf("%+v: %s", test.q, cmp.Diff(test.want, got))
		}
	}
	l, err := repo.List(t.Context(), session.ListQuery{})
	if err != nil || len(l.Sessions) != 3 || l.Sessions[0].Name != "" || l.Sessions[0].ModifiedAt < l.Sessions[2].ModifiedAt {
		t.Errorf("%+v, %v", l.Sessions, err)
	}
}
