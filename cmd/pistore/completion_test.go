package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed is what a shell offers for a command line, whose last word is being
// written.
type completed struct {
	line string
	want []string // offered, in any order
	all  bool     // and nothing else
}

var completions = []completed{
	{"pistore ver", []string{"verify", "version"}, true},
	{"pistore usage --by ", []string{"model", "tool", "lane", "day"}, true},
	{"pistore ls --sort n", []string{"name"}, true},
	{"pistore completion ", []string{"bash", "fish", "zsh"}, true},
	{"pistore inspect --", []string{"--tree", "--entry", "--json", "--quiet"}, false},
	{"pistore repair a.jsonl --keep", []string{"--keep-going"}, true},
	{"pistore show a", []string{"a b.jsonl"}, true},
	{"pistore help comp", []string{"compact", "completion"}, true},
}

// scriptOf writes what completion prints for a shell, and a file to complete,
// into a new folder.
func scriptOf(t *testing.T, shell string) (dir string) {
	t.Helper()
	program, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("there is no %s here", shell)
	}
	code, stdout, stderr := ran(t, "completion", shell)
	if code != exitFine || stderr != "" {
		t.Fatal(stderr)
	}
	dir = t.TempDir()
	script := filepath.Join(dir, "script")
	for name, text := range map[string]string{script: stdout, filepath.Join(dir, "a b.jsonl"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(program, "-n", script).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func checkCompleted(t *testing.T, c completed, out []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v: %s", c.line, err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t") // fish explains behind a tab
		got = append(got, word)
	}
	for _, word := range c.want {
		if !slices.Contains(got, word) {
			t.Errorf("%q offers %q and not %s", c.line, got, word)
		}
	}
	if c.all && len(got) != len(c.want) {
		t.Errorf("%q offers %q", c.line, got)
	}
}

func TestBashCompletes(t *testing.T) {
	dir := scriptOf(t, "bash")
	for _, c := range completions {
		words := strings.Split(c.line, " ")
		run := exec.Command("bash", append([]string{"--norc", "-c",
			`source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _pistore; printf '%s\n' "${COMPREPLY[@]}"`, "bash"}, words...)...)
		run.Dir = dir
		out, err := run.CombinedOutput()
		checkCompleted(t, c, out, err)
	}
}

func TestFishCompletes(t *testing.T) {
	dir := scriptOf(t, "fish")
	for _, c := range completions {
		run := exec.Command("fish", "--no-config", "-c", `source ./script; complete -C "$argv[1]"`, c.line)
		run.Dir = dir
		run.Env = append(os.Environ(), "HOME="+dir)
		out, err := run.Output()
		if strings.HasSuffix(c.line, " a") {
			out = []byte(strings.ReplaceAll(string(out), `\ `, " "))
		}
		checkCompleted(t, c, out, err)
	}
}

// zsh completes at a prompt only, so that its script is checked and not run.
func TestZshReads(t *testing.T) {
	dir := scriptOf(t, "zsh")
	text := string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, "script"))))
	for _, want := range []string{"'--by[what to break it down by; days are those of UTC]:value:(model tool lane day)'", "'verify:check every invariant, by number'", "'--out[the new FILE or folder, which must not be there yet]:FILE:_files'"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
