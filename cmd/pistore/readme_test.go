package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands of the README work, in their order, in an empty folder.
func TestReadmeCommands(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "pistore"), ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	place := t.TempDir()
	commands := 0
	for line := range strings.Lines(string(blocks[0][1])) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] != "pistore" {
			t.Fatalf("the README has a command that is not tested: %s", line)
		}
		c := exec.Command(filepath.Join(bin, "pistore"), words[1:]...)
		c.Dir = place
		c.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(bin, "cache"))
		if out, err := c.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		commands++
	}
	if commands < 5 {
		t.Errorf("only %d commands", commands)
	}
}
