//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// started is a process of the program that has printed its first line.
type started struct {
	*exec.Cmd
	out    io.ReadCloser
	errors *strings.Builder
}

// start starts the program with an own place for temporary files.
func start(t *testing.T, tmp string, args ...string) started {
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
	if _, err := bufio.NewReaderSize(out, 16).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
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
