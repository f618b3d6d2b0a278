//go:build unix

package coding

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/session"
)

func TestBash(t *testing.T) {
	b := newBench(t)
	b.put("hello", "")
	for _, c := range []struct {
		command, want string
		details       pistore.JSON
		isError       bool
	}{
		{"ls", "hello\n", `{"exitCode":0}`, false},
		{"echo out; echo err >&2", "out\nerr\n", `{"exitCode":0}`, false},
		{"true", "[The command gave no output.]", `{"exitCode":0}`, false},
		{"printf x; exit 3", "x\n[The command ended with exit code 3.]", `{"exitCode":3}`, true},
		{"exit 1", "[The command ended with exit code 1.]", `{"exitCode":1}`, true},
		{"kill -9 $$", "[The command was ended by a signal: signal: killed.]", `{"signal":"signal: killed"}`, true},
		{"cat", "[The command gave no output.]", `{"exitCode":0}`, false},
		{`printf 'caf\351 \344\270\226 \344\270'`, "caf\uFFFD 世 \uFFFD", `{"exitCode":0}`, false},
	} {
		r, err := b.call(t.Context(), "bash", m{"command": c.command}, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		b.want(session.JoinText(r.Content), c.want)
		if r.Details != c.details || r.IsError != c.isError {
			t.Errorf("%s: %s, error %t", c.command, r.Details, r.IsError)
		}
	}
	b.want(b.text("bash", m{"command": "a\x00b"}), "error: the command has a NUL character")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.call(ctx, "bash", m{"command": "touch started"}, nil); err == nil {
		t.Error("a cancelled command was started")
	}
}

func TestBashWithoutShell(t *testing.T) {
	b := newBench(t)
	b.tools.options.Shell = "/no/such/shell"
	if got := b.text("bash", m{"command": "true"}); !strings.HasPrefix(got, "error: /no/such/shell could not be started") {
		t.Errorf("got %q", got)
	}
}

func TestBashBoundsOutput(t *testing.T) {
	b := newBench(t)
	var reported strings.Builder
	r, err := b.call(t.Context(), "bash", m{"command": "yes 世界世界世界世界世界世界 | head -n 50000"}, func(text string) {
		if !utf8.ValidString(text) {
			t.Errorf("progress is cut in a character")
		}
		reported.WriteString(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	text := session.JoinText(r.Content)
	if len(text) > headBytes+tailBytes+100 || !utf8.ValidString(text) {
		t.Errorf("%d bytes", len(text))
	}
	all := strings.Repeat("世界世界世界世界世界世界\n", 50000)
	if reported.String() != all {
		t.Errorf("%d bytes were reported, want %d", reported.Len(), len(all))
	}
	dropped, _ := r.Details.Member("droppedBytes")
	n, err := strconv.Atoi(string(dropped))
	if err != nil || n < len(all)-headBytes-tailBytes || !strings.Contains(text, "[… "+string(dropped)+" bytes left out …]") {
		t.Errorf("dropped %s", dropped)
	}
}

// fifo makes a pipe in the root and returns what waits until a process opened it
// for writing, and then until every process that did is gone.
func (b *bench) fifo() (opened, gone chan struct{}) {
	path := filepath.Join(b.root, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		b.Fatal(err)
	}
	opened, gone = make(chan struct{}), make(chan struct{})
	go func() {
		f, err := os.Open(path)
		if err != nil {
			b.Error(err)
			return
		}
		defer f.Close()
		close(opened)
		if _, err := io.Copy(io.Discard, f); err != nil {
			b.Error(err)
		}
		close(gone)
	}()
	return opened, gone
}

// grandchild starts a process below a process below the shell that would live
// for long, holding the pipe. Whoever sees the pipe opened knows that the line
// before it is written.
const grandchild = `echo ready; (sleep 1000 > fifo & wait) & `

func (b *bench) await(what string, c chan struct{}) {
	b.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute): // a hang guard
		b.Fatal(what)
	}
}

func TestBashCancelKillsTheGroup(t *testing.T) {
	b := newBench(t)
	opened, gone := b.fifo()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-opened
		cancel()
	}()
	r, err := b.call(ctx, "bash", m{"command": grandchild + "wait"}, nil)
	if err != nil || !r.IsError {
		t.Errorf("%+v, %v", r, err)
	}
	b.want(session.JoinText(r.Content), "ready\n[The command was cancelled and killed.]")
	b.want(string(r.Details), `{"cancelled":true}`)
	b.await("the grandchild lives", gone)
}

func TestBashTimeoutKillsTheGroup(t *testing.T) {
	b := newBench(t)
	opened, gone := b.fifo()
	var asked time.Duration
	b.tools.after = func(d time.Duration) <-chan time.Time {
		asked = d
		passed := make(chan time.Time)
		go func() {
			<-opened
			close(passed)
		}()
		return passed
	}
	r, err := b.call(t.Context(), "bash", m{"command": grandchild + "wait", "timeout": 7}, nil)
	if err != nil || !r.IsError || asked != 7*time.Second {
		t.Errorf("%+v, %v, %v", r, err, asked)
	}
	b.want(session.JoinText(r.Content), "ready\n[The command was killed after its timeout of 7 seconds.]")
	b.want(string(r.Details), `{"timedOut":true}`)
	b.await("the grandchild lives", gone)
	if _, err := b.call(t.Context(), "bash", m{"command": "true"}, nil); err != nil || asked != 120*time.Second {
		t.Errorf("the default timeout is %v, %v", asked, err)
	}
}

func TestBashLeavesNothingInTheBackground(t *testing.T) {
	b := newBench(t)
	_, gone := b.fifo()
	r, err := b.call(t.Context(), "bash", m{"command": `sleep 1000 > fifo & until [ -e ready ]; do [ -p fifo ] && touch ready; done; echo done`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.want(session.JoinText(r.Content), "done\n")
	// The background process may have been killed before it opened the pipe;
	// then nobody will, so that opening it here ends the wait.
	f, err := os.OpenFile(filepath.Join(b.root, "fifo"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	b.await("the background process lives", gone)
}

// TestBashEscapedProcess has a process leave the group with the output in its
// hands: the call ends all the same.
func TestBashEscapedProcess(t *testing.T) {
	b := newBench(t)
	r, err := b.call(t.Context(), "bash", m{"command": `command -v setsid >/dev/null || exit 77
setsid bash -c 'echo $$ > pid; exec sleep 1000' &
until [ -s pid ]; do :; done; echo done`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Details == `{"exitCode":77}` {
		t.Skip("no setsid here")
	}
	b.want(session.JoinText(r.Content), "done\n")
	pid, err := strconv.Atoi(strings.TrimSpace(b.content("pid")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process that escaped is gone: %v", err)
	}
}

func TestToolsRefuseWhatIsNoFile(t *testing.T) {
	b := newBench(t)
	if err := syscall.Mkfifo(filepath.Join(b.root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]m{
		"read":  {"path": "pipe"},
		"write": {"path": "pipe", "content": "x"},
		"edit":  {"path": "pipe", "oldText": "x", "newText": "y"},
	} {
		if diff := cmp.Diff("error: pipe is not a regular file", b.text(name, args)); diff != "" {
			t.Error(name, diff)
		}
	}
}
