package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExamples runs every example of every command's help, in a folder that has
// what they name.
func TestExamples(t *testing.T) {
	for _, c := range commands {
		if len(c.examples) == 0 {
			t.Errorf("%s has no example", c.name)
		}
		for _, line := range c.examples {
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				runExample(t, line)
			})
		}
	}
}

// exampleSession is the session that examples name.
const exampleSession = "0195c8d1-52a1-7c3e-8f00-1234567890ab"

// made reports whether an example makes the store that it names.
func made(line string) bool {
	return strings.Contains(line, "restore") || strings.Contains(line, "convert") && !strings.Contains(line, "convert ./store")
}

func runExample(t *testing.T, line string) {
	dir := t.TempDir()
	deep := filepath.Join(dir, ".pi", "agent", "sessions", "--w--")
	err := os.MkdirAll(deep, 0o700)
	for _, path := range []string{filepath.Join(dir, "session.jsonl"), filepath.Join(dir, "other.jsonl"), filepath.Join(deep, "a.jsonl")} {
		if err == nil && strings.Contains(line, strings.TrimSuffix(filepath.Base(path), ".jsonl")) {
			err = makeFile(path, "tree")
		}
	}
	for _, name := range []string{"store", "old"} {
		if err == nil && strings.Contains(line, "./"+name) && !(name == "store" && made(line)) {
			err = makeStore(filepath.Join(dir, name), []string{exampleSession + "=tree"})
		}
	}
	if err == nil && strings.Contains(line, "restore store.backup") {
		from := filepath.Join(dir, "from")
		if err = makeStore(from, []string{exampleSession + "=tree"}); err == nil {
			mustRun(t, "backup", from, filepath.Join(dir, "store.backup"))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(line, "--follow") { // it would never end
		line = "timeout --signal=INT 1 " + line + "; test $? = 124"
	}
	c := exec.Command("bash", "-c", line)
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// mustRun runs the program in a process of its own.
func mustRun(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("pistore", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// TestFlagsSayWhatTheyMean: help and completion know a flag by what is said of
// it.
func TestFlagsSayWhatTheyMean(t *testing.T) {
	silent := map[string]bool{"demo agent": true, "demo stall": true} // not for people
	for _, c := range commands {
		in := newInvocation(c, []string{"--help"}, os.Stdout, os.Stderr)
		if err := c.run(t.Context(), in); !errors.Is(err, errHelp) {
			t.Errorf("%s does not parse its flags first: %v", c.name, err)
		}
		in.flags.VisitAll(func(f *flag.Flag) {
			if silent[c.name+" "+f.Name] {
				return
			}
			if f.Usage == "" {
				t.Errorf("%s --%s says nothing", c.name, f.Name)
			}
			switch value, _ := flag.UnquoteUsage(f); value {
			case "string", "int", "uint", "float", "duration", "value":
				t.Errorf("%s --%s %s: name what it takes", c.name, f.Name, value)
			}
		})
		help := printed(t, func(p *paper) { printCommandHelp(p, c) })
		for line := range strings.Lines(help) {
			line = strings.TrimSuffix(line, "\n")
			if strings.Contains(line, "…") || width(line) > columns && !slices.Contains(c.examples, strings.TrimSpace(line)) {
				t.Errorf("%s: %s", c.name, line)
			}
		}
	}
}
