package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"pistore": main}) }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: must[string](t)(filepath.Abs("testdata/script")), // commands change the working directory
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mkstore": scriptStore, "mkfile": scriptFile, "mkfifo": scriptFIFO, "exits": scriptExits, "narrow": scriptNarrow, "harmless": scriptHarmless, "flip": scriptFlip, "hold": scriptHold,
			"torn": scriptTorn, "everywhere": scriptEverywhere, "brief": scriptBrief, "unchanged": scriptUnchanged, "private": scriptPrivate, "scramble": scriptScramble,
			"cut": scriptCut, "gone": scriptGone, "full": scriptFull, "upgrade": scriptUpgrade,
		},
	})
}

// scriptStore makes a logstore: mkstore FOLDER [SESSION=FIXTURE…].
func scriptStore(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(makeStore(ts.MkAbs(args[0]), args[1:]))
}

// scriptFile makes a session file of format 4: mkfile FILE FIXTURE.
func scriptFile(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(makeFile(ts.MkAbs(args[0]), args[1]))
}

func scriptFIFO(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

// scriptHold keeps a store or a file open for writing until the script ends.
func scriptHold(ts *testscript.TestScript, _ bool, args []string) {
	if strings.HasSuffix(args[0], ".jsonl") {
		f, err := jsonl.OpenFile(context.Background(), ts.MkAbs(args[0]), pistore.ReadWrite, jsonl.Options{})
		ts.Check(err)
		ts.Defer(func() { _ = f.Close() })
		return
	}
	db, err := logstore.Open(ts.MkAbs(args[0]), logstore.Options{})
	ts.Check(err)
	ts.Defer(func() { _ = db.Close() })
}

// scriptUpgrade makes the first commit to a file of another format: upgrade FILE.
func scriptUpgrade(ts *testscript.TestScript, _ bool, args []string) {
	f, err := jsonl.OpenFile(context.Background(), ts.MkAbs(args[0]), pistore.ReadWrite, jsonl.Options{})
	ts.Check(err)
	_, err = f.Commit(context.Background(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "app.x", Key: "k", Value: "1"}}})
	ts.Check(errors.Join(err, f.Close()))
}

// scriptFlip changes one bit in a file, at a third of it unless another place is
// given in percent: flip FILE [PERCENT].
func scriptFlip(ts *testscript.TestScript, _ bool, args []string) {
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(names) != 1 {
		ts.Fatalf("%d files", len(names))
	}
	text, err := os.ReadFile(names[0])
	ts.Check(err)
	percent := 33
	if len(args) > 1 {
		percent, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	text[len(text)*percent/100] ^= 1
	ts.Check(os.WriteFile(names[0], text, 0o600))
}

// scriptCut takes the last byte off a file: cut FILE.
func scriptCut(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text[:len(text)-1]), 0o600))
}

// scriptGone checks that no file of a folder has a text: gone TEXT FOLDER.
func scriptGone(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(filepath.WalkDir(ts.MkAbs(args[1]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".script" {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), args[0]) {
			return fmt.Errorf("%s has %q", path, args[0])
		}
		return err
	}))
}

// scriptExits runs a command that ends with a code: exits CODE pistore ….
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	if code := scriptRun(ts, args[2:]); fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// working guards the working directory of this process.
var working sync.Mutex

// scriptRun runs the program in this process, which is much cheaper than a
// process of its own, and returns its exit code.
func scriptRun(ts *testscript.TestScript, args []string) int {
	working.Lock()
	defer working.Unlock()
	back, err := os.Getwd()
	ts.Check(err)
	out, err := os.CreateTemp("", "pistore-out")
	ts.Check(err)
	errs, err := os.CreateTemp("", "pistore-err")
	ts.Check(err)
	defer func() {
		ts.Check(errors.Join(os.Chdir(back), out.Close(), errs.Close(), os.Remove(out.Name()), os.Remove(errs.Name())))
	}()
	ts.Check(os.Chdir(ts.MkAbs(".")))
	cache, had := os.LookupEnv("XDG_CACHE_HOME")
	ts.Check(os.Setenv("XDG_CACHE_HOME", ts.MkAbs("cache"))) // never the user's
	defer func() {
		if ts.Check(os.Unsetenv("XDG_CACHE_HOME")); had {
			ts.Check(os.Setenv("XDG_CACHE_HOME", cache))
		}
	}()
	code := run(context.Background(), args, out, errs)
	for w, f := range map[io.Writer]*os.File{ts.Stdout(): out, ts.Stderr(): errs} {
		text, err := os.ReadFile(f.Name())
		ts.Check(err)
		_, err = w.Write(text)
		ts.Check(err)
	}
	return code
}

// scriptFull runs a command that may write 512 bytes to a file and needs more:
// full pistore ….
func scriptFull(ts *testscript.TestScript, _ bool, args []string) {
	c := exec.Command("sh", append([]string{"-c", `ulimit -f 1; exec "$@"`, "sh"}, args...)...)
	c.Dir = ts.MkAbs(".")
	var said strings.Builder
	c.Stderr = &said
	_ = c.Run() // the exit code tells
	if code := c.ProcessState.ExitCode(); code != exitFindings {
		ts.Fatalf("exit code %d: %s", code, said.String())
	}
	_, err := io.WriteString(ts.Stderr(), said.String())
	ts.Check(err)
}

// scriptNarrow checks that what was printed last fits 80 columns.
func scriptNarrow(ts *testscript.TestScript, _ bool, args []string) {
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if w := width(strings.TrimSuffix(line, "\n")); w > columns {
			ts.Fatalf("%d columns: %s", w, line)
		}
	}
}

// scriptHarmless checks that no output acts on a terminal.
func scriptHarmless(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := ts.ReadFile(name)
		if name != "stderr" && text == "" {
			ts.Fatalf("%s is empty", name)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); !clean(line) {
				ts.Fatalf("%s: %q", name, line)
			}
		}
	}
}

// scriptTorn appends text without a newline: torn FILE TEXT.
func scriptTorn(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(ts.ReadFile(args[0])+args[1]), 0o600))
}

// scriptEverywhere makes a session file with a text wherever a file can have text,
// malformed lines included: everywhere FILE hostile|sprawling.
func scriptEverywhere(ts *testscript.TestScript, _ bool, args []string) {
	text := map[string]string{"hostile": hostileText, "sprawling": sprawlingText}[args[1]]
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(fileEverywhere(text)), 0o600))
}

// scriptBrief checks that what was printed last has few lines, none of them long:
// brief FILE LINES.
func scriptBrief(ts *testscript.TestScript, _ bool, args []string) {
	scriptNarrow(ts, false, args[:1])
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	if n := strings.Count(ts.ReadFile(args[0]), "\n"); n > most {
		ts.Fatalf("%d lines", n)
	}
}

// scriptUnchanged runs a command that changes nothing: unchanged CODE pistore ….
func scriptUnchanged(ts *testscript.TestScript, _ bool, args []string) {
	before := scriptListing(ts)
	scriptExits(ts, false, args)
	if after := scriptListing(ts); after != before {
		ts.Fatalf("before:\n%s\nafter:\n%s", before, after)
	}
}

// scriptPrivate checks that nobody but its owner may read a file.
func scriptPrivate(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if info.Mode() != 0o600 {
		ts.Fatalf("%s has mode %v", args[0], info.Mode())
	}
}

// scriptScramble writes over all of a database but its header.
func scriptScramble(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	for i := 100; i < len(text); i++ {
		text[i] = 0xa5
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

// scriptListing lists what there is in the folder of the script.
func scriptListing(ts *testscript.TestScript) string {
	var b strings.Builder
	ts.Check(filepath.WalkDir(ts.MkAbs("."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.Size(), info.Mode(), info.ModTime())
		return nil
	}))
	return b.String()
}
