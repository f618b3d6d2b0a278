package coding

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pistore"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// bench is the tools over a root folder, with a folder beside it that they must
// not reach.
type bench struct {
	*testing.T
	tools   *Tools
	set     *tool.Set
	root    string
	outside string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{T: t, root: filepath.Join(dir, "allowed"), outside: filepath.Join(dir, "outside")}
	for _, d := range []string{b.root, b.outside} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if b.tools, err = Open(b.root, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.tools.Close(); err != nil {
			t.Error(err)
		}
	})
	if b.set, err = tool.NewSet(b.tools.All()...); err != nil {
		t.Fatal(err)
	}
	return b
}

// call validates and executes, as a harness does.
func (b *bench) call(ctx context.Context, name string, args any, progress func(string)) (tool.Result, error) {
	arguments := details(args)
	if err := b.set.Validate(name, arguments); err != nil {
		return tool.Result{}, err
	}
	found, _ := b.set.Lookup(name)
	if progress == nil {
		progress = func(string) {}
	}
	return found.Execute(ctx, tool.Call{ID: "c", Arguments: arguments, IdempotencyKey: "k", Progress: progress})
}

type m = map[string]any

// text calls and returns the text, or "error: " and the error.
func (b *bench) text(name string, args m) string {
	b.Helper()
	r, err := b.call(b.Context(), name, args, nil)
	if err != nil {
		if strings.ContainsAny(err.Error(), "\n") {
			b.Errorf("an error of more than one line: %q", err)
		}
		return "error: " + err.Error()
	}
	return session.JoinText(r.Content)
}

func (b *bench) want(got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("got  %q\nwant %q", got, want)
	}
}

func (b *bench) put(path, content string) {
	b.Helper()
	path = filepath.Join(b.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) content(path string) string {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.root, path))
	if err != nil {
		b.Error(err)
	}
	return string(data)
}

func (b *bench) link(target, path string) {
	b.Helper()
	if err := os.Symlink(target, filepath.Join(b.root, path)); err != nil {
		b.Fatal(err)
	}
}

// clean checks that no temporary file is left and nothing came to the outside.
func (b *bench) clean() {
	b.Helper()
	for _, dir := range []string{b.root, b.outside} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if dir == b.outside && d != nil && !d.IsDir() && d.Name() != "secret" || strings.HasSuffix(path, ".tmp") {
				b.Errorf("%s was left", path)
			}
			return err
		})
		if err != nil {
			b.Error(err)
		}
	}
}

func TestReplayDeclarations(t *testing.T) {
	b := newBench(t)
	want := map[string]registers.Replay{"read": registers.ReplaySafe, "write": registers.ReplaySafe, "edit": registers.ReplayNever, "bash": registers.ReplayNever}
	for _, name := range b.set.Names() {
		if found, _ := b.set.Lookup(name); found.Replay != want[name] || found.Description == "" {
			t.Errorf("%s: %q", name, found.Replay)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestConfinement(t *testing.T) {
	b := newBench(t)
	secret := filepath.Join(b.outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.put("in/file", "inside")
	b.link(secret, "absolute")
	b.link("../outside/secret", "relative")
	b.link("../outside", "dir")
	b.link("../outside/new", "dangling")
	b.link("in/../../outside/secret", "winding")
	b.link("dir/secret", "twice")
	for _, path := range []string{
		"../outside/secret", "in/../../outside/secret", secret, "/etc/hostname", "absolute", "relative", "dir/secret",
		"dir/new", "dangling", "winding", "twice", "dir/../outside/secret", "..", "../allowed/in/file/../../../outside/secret",
	} {
		for name, args := range map[string]m{
			"read":  {"path": path},
			"write": {"path": path, "content": "overwritten"},
			"edit":  {"path": path, "oldText": "secret", "newText": "x"},
		} {
			got := b.text(name, args)
			if !strings.HasPrefix(got, "error: ") || !strings.Contains(got, path) || !strings.Contains(got, "outside") && !strings.Contains(got, "not a directory") {
				t.Errorf("%s %s: %q", name, path, got)
			}
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("%q, %v", data, err)
	}
	b.clean()
}

func TestPathsWithinTheRoot(t *testing.T) {
	b := newBench(t)
	b.put("a/b/file", "inside")
	b.link("a/b", "dir")
	b.link("../a/b/file", "a/link")
	b.link("a/link", "second")
	physical, err := filepath.EvalSymlinks(b.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a/b/file", "./a/b/file", "a/../a/b/file", "dir/file", "dir/../b/file", "a/link", "second",
		filepath.Join(b.root, "a/b/file"), filepath.Join(physical, "dir/file")} {
		b.want(b.text("read", m{"path": path}), "inside")
	}
	for _, path := range []string{"second", "dir/../b/file", "dir/file"} {
		b.want(b.text("write", m{"path": path, "content": path}), fmt.Sprintf("Wrote %d bytes to %s.", len(path), path))
		b.want(b.content("a/b/file"), path)
	}
	if info, err := os.Lstat(filepath.Join(b.root, "second")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	b.clean()
}

// TestSymlinkSwap swaps a link between a folder and the outside while the tools
// work through it. They may fail; they must not get out.
func TestSymlinkSwap(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.outside, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.put("good/secret", "public")
	b.link("good", "d")
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for targets := []string{"../outside", "good"}; ; targets[0], targets[1] = targets[1], targets[0] {
			select {
			case <-stop:
				return
			default:
			}
			next := filepath.Join(b.root, "next")
			if err := errors.Join(os.Symlink(targets[0], next), os.Rename(next, filepath.Join(b.root, "d"))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	through, refused := 0, 0
	for i := range 200 {
		for _, got := range []string{
			b.text("read", m{"path": "d/secret"}),
			b.text("write", m{"path": fmt.Sprintf("d/new%d/file", i%5), "content": "x"}),
			b.text("write", m{"path": "d/secret", "content": "public"}),
			b.text("edit", m{"path": "d/secret", "oldText": "secret", "newText": "got out"}),
		} {
			switch {
			case got == "secret":
				t.Error("read got out")
			case strings.Contains(got, "outside"):
				refused++
			default:
				through++
			}
		}
	}
	close(stop)
	swapper.Wait()
	if data, err := os.ReadFile(filepath.Join(b.outside, "secret")); err != nil || string(data) != "secret" {
		t.Errorf("%q, %v", data, err)
	}
	b.clean()
	t.Logf("%d calls went through, %d met the outside", through, refused)
}

func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Options{}); err == nil {
		t.Error("a folder that is not there")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil {
		t.Error("a file")
	}
	tools, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := tools.Close(); err != nil {
		t.Error(err)
	}
	if _, err := tools.Read().Execute(t.Context(), tool.Call{Arguments: `{"path":"x"}`}); err == nil {
		t.Error("after Close")
	}
}

func TestCount(t *testing.T) {
	for text, want := range map[pistore.JSON]count{`5`: 5, `5.0`: 5, `5e2`: 500, `0`: 0, `-1`: -1, `5.5`: -1, `1e300`: -1, `"5"`: -1} {
		var got struct{ N count }
		err := decode(`{"n":`+text+`}`, &got)
		if want < 0 && err == nil || want >= 0 && (err != nil || got.N != want) {
			t.Errorf("%s: %d, %v", text, got.N, err)
		}
	}
}
