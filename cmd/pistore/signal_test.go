//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pistore"
	"pistore/jsonl"
)

// started is a process of the program.
type started struct {
	*exec.Cmd
	out    io.ReadCloser
	errors *strings.Builder
}

// start starts the program with an own place for temporary files, and waits for
// its first line.
func start(t *testing.T, tmp string, args ...string) started {
	t.Helper()
	p := begin(t, tmp, args...)
	if _, err := bufio.NewReaderSize(p.out, 16).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return p
}

func begin(t *testing.T, tmp string, args ...string) started {
	t.Helper()
	c := exec.Command("pistore", args...)
	c.Env = append(os.Environ(), "TMPDIR="+tmp)
	p := started{Cmd: c, errors: new(strings.Builder)}
	c.Stderr = p.errors
	out, err := c.StdoutPipe()
	if err = errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	p.out = out
	t.Cleanup(func() { _ = c.Process.Kill() })
	return p
}

// ended waits for the process, and checks that nothing is left of it.
func (p started) ended(t *testing.T, tmp string) {
	t.Helper()
	_, _ = io.Copy(io.Discard, p.out)
	if err := p.Wait(); p.ProcessState.ExitCode() != exitFindings {
		t.Errorf("ended with %v", err)
	}
	if left := must[[]os.DirEntry](t)(os.ReadDir(tmp)); len(left) > 0 {
		t.Errorf("%s is left", left[0].Name())
	}
}

// Following shows what is there and what comes, from another process and through
// a compaction, until it is interrupted.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s1.jsonl")
	if err := makeFile(path, "bare"); err != nil {
		t.Fatal(err)
	}
	f := must[*jsonl.File](t)(jsonl.OpenFile(t.Context(), path, pistore.ReadWrite, jsonl.Options{}))
	defer f.Close()
	set := func(value pistore.JSON) {
		t.Helper()
		if _, err := f.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "app.x", Key: "k", Value: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	c := exec.Command("pistore", "log", path, "--follow", "--json")
	out := must[io.ReadCloser](t)(c.StdoutPipe())
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	lines := bufio.NewScanner(out)
	for i, value := range []pistore.JSON{"1", "2", "3"} {
		if i == 2 {
			if _, err := f.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i > 0 {
			set(value)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), `"value":`+string(value)) {
			t.Fatalf("line %d: %s, %v", i, lines.Text(), lines.Err())
		}
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("a line more: %s", lines.Text())
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// Following ends in one sentence where what was shown is gone from the file, or the
// file from its name.
func TestFollowEnds(t *testing.T) {
	for want, change := range map[string]func(path string) error{
		`x.jsonl", byte 0: the file became shorter than it was when it was opened; open it again`: func(path string) error { return os.WriteFile(path, nil, 0) },
		`x.jsonl: the session is gone: its file was removed`:                                      os.Remove,
		`x.jsonl: the session is gone: its file was removed, or another one has its name now`: func(path string) error {
			other := filepath.Join(filepath.Dir(path), "other.jsonl")
			return errors.Join(makeFile(other, "bare"), os.Rename(other, path))
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.jsonl")
		if err := makeFile(path, "steps"); err != nil {
			t.Fatal(err)
		}
		p := start(t, dir, "log", path, "--follow", "--json")
		go func() { _, _ = io.Copy(io.Discard, p.out) }()
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); p.ProcessState.ExitCode() != exitOpen {
			t.Errorf("ended with %v", err)
		}
		if text := p.errors.String(); !strings.Contains(text, want) || strings.Contains(text, ": jsonl: ") || strings.Count(text, "\n") != 1 {
			t.Errorf("want %q, got %q", want, text)
		}
	}
}

// A demo that is told to stop says so, and one whose reader has left does not;
// both clear away what they made.
func TestInterruptedDemo(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		tmp := t.TempDir()
		p := start(t, tmp, "demo")
		if err := p.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		p.ended(t, tmp)
		if p.errors.String() != "pistore demo: interrupted\n" {
			t.Errorf("%v: %q", s, p.errors)
		}
	}
	tmp := t.TempDir()
	p := start(t, tmp, "demo")
	if err := p.out.Close(); err != nil {
		t.Fatal(err)
	}
	p.ended(t, tmp)
	if p.errors.String() != "" {
		t.Errorf("without a reader: %q", p.errors)
	}
}

// A long run of a kit that is told to stop reports what it did till then.
func TestInterruptedKits(t *testing.T) {
	for _, kit := range []struct {
		want string
		args []string
	}{
		{"on memstore in ", []string{"sim", "--duration", "10m"}},
		{" rows passed, 0 failed, ", []string{"conformance", "--exec", "pistore storage-server"}},
	} {
		tmp := t.TempDir()
		p := begin(t, tmp, kit.args...)
		time.AfterFunc(3*time.Second, func() { _ = p.Process.Signal(syscall.SIGINT) })
		said, err := io.ReadAll(p.out)
		if err != nil {
			t.Fatal(err)
		}
		p.ended(t, tmp)
		if !strings.Contains(string(said), kit.want) || p.errors.String() != "pistore "+kit.args[0]+": interrupted\n" {
			t.Errorf("%v: %s%q", kit.args, said, p.errors)
		}
	}
}
