package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWritingCommandsOnEveryFile gives every fixture to the commands that write.
// None of them was written here, so that it has no history and is not compacted;
// what can be read of it can be repaired, into a file without faults.
func TestWritingCommandsOnEveryFile(t *testing.T) {
	unreadable := map[string]bool{}
	for _, row := range verdictRows(t) {
		unreadable[row.file] = !row.readable
	}
	files := must[[]string](t)(filepath.Glob(filepath.Join(sessionsDir, "*", "*.jsonl")))
	if len(files) < 170 {
		t.Fatalf("%d files", len(files))
	}
	for _, from := range files {
		t.Run(filepath.Base(filepath.Dir(from))+"/"+filepath.Base(from), func(t *testing.T) {
			dir := t.TempDir()
			path, out := filepath.Join(dir, "session.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
			if err := os.WriteFile(path, must[[]byte](t)(os.ReadFile(from)), 0o600); err != nil {
				t.Fatal(err)
			}
			before := listing(t, dir)
			repaired := exitFine
			if unreadable[filepath.Base(from)] {
				repaired = exitOpen
			}
			runsTo(t, exitOpen, "log", path)
			runsTo(t, exitOpen, "compact", path)
			runsTo(t, repaired, "repair", path, "--out", out)
			if after := listing(t, dir); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			if repaired == exitOpen {
				if _, err := os.Lstat(out); err == nil {
					t.Error("something was written")
				}
				return
			}
			if checked := jsonOf[verifyReport](t, "verify", out, "--json"); len(checked.Faults) > 0 {
				t.Errorf("repaired it has faults: %v", checked.Faults)
			}
		})
	}
}

// runsTo runs a command that is to end with a code, with one sentence if it
// fails.
func runsTo(t *testing.T, want int, args ...string) {
	t.Helper()
	code, stdout, stderr := ran(t, args...)
	sentences := strings.Count(stderr, "\n")
	if code != want || sentences > 1 || (code == exitOpen) != (sentences == 1) || code == exitOpen && stdout != "" {
		t.Errorf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
	}
	for line := range strings.Lines(stdout + stderr) {
		if !clean(strings.TrimSuffix(line, "\n")) {
			t.Errorf("%v: %q", args, line)
		}
	}
	if strings.HasPrefix(stderr, fmt.Sprintf("pistore %s: jsonl:", args[0])) {
		t.Errorf("%v: %s", args, stderr)
	}
}
