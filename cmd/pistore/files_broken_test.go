package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pistore/session"
)

// textHash is the hash that the manifest describes.
func textHash(t *testing.T, message json.RawMessage) string {
	t.Helper()
	var raw struct{ Role, Command, Summary string }
	if err := json.Unmarshal(message, &raw); err != nil {
		t.Fatal(err)
	}
	text := raw.Command + raw.Summary // only one of them is there
	if raw.Role == string(session.RoleUser) || text == "" {
		text = contentText(t, message)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func contentText(t *testing.T, message json.RawMessage) string {
	t.Helper()
	var m struct{ Content json.RawMessage }
	if err := json.Unmarshal(message, &m); err != nil {
		t.Fatal(err)
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var blocks []struct{ Type, Text string }
	if err := json.Unmarshal(m.Content, &blocks); err != nil {
		return ""
	}
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// verdictRow is a row of the table of verdicts over broken files.
type verdictRow struct {
	file, verdict string
	faults        []string // kind@line
	readable      bool     // something of it can be shown
}

func verdictRows(t *testing.T) []verdictRow {
	t.Helper()
	var rows []verdictRow
	table := string(must[[]byte](t)(os.ReadFile(filepath.Join(sessionsDir, "..", "verdicts.txt"))))
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, verdictRow{cells[0] + ".jsonl", cells[1], strings.Fields(cells[2]), cells[3] != "-"})
	}
	if len(rows) != 103 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

// TestBrokenFiles runs every command over every broken file: exit codes follow
// the table, each fault is named with its line, and the rest is shown.
func TestBrokenFiles(t *testing.T) {
	for _, row := range verdictRows(t) {
		t.Run(row.file, func(t *testing.T) {
			path := filepath.Join(sessionsDir, "broken", row.file)
			dst := filepath.Join(t.TempDir(), "store")
			want := map[string]int{"inspect": exitFine, "show": exitFine, "verify": exitFine, "convert": exitFine, "usage": exitFine}
			switch {
			case !row.readable:
				want = map[string]int{"inspect": exitOpen, "show": exitOpen, "verify": exitOpen, "convert": exitOpen, "usage": exitOpen}
			case row.verdict == "error":
				want["verify"], want["convert"] = exitFindings, exitFindings
			}
			for command, code := range want {
				args := []string{command, path}
				if command == "convert" {
					args = append(args, dst)
				}
				got, stdout, stderr := ran(t, args...)
				if got != code {
					t.Errorf("%s: exit code %d instead of %d: %s", command, got, code, stderr)
				}
				if row.readable && command != "convert" && stdout == "" {
					t.Errorf("%s shows nothing", command)
				}
				if n := strings.Count(stderr, "\n"); n > 1 || n == 0 && !row.readable {
					t.Errorf("%s: %q", command, stderr)
				}
				for line := range strings.Lines(stdout + stderr) {
					if !clean(strings.TrimSuffix(line, "\n")) {
						t.Errorf("%s: %q", command, line)
					}
				}
			}
			if _, err := os.Stat(dst); (err == nil) != (want["convert"] == exitFine) {
				t.Errorf("after convert: %v", err)
			}
			checkFaults(t, path, row)
		})
	}
}

// checkFaults compares the faults that verify and inspect name.
func checkFaults(t *testing.T, path string, row verdictRow) {
	t.Helper()
	if !row.readable {
		_, _, stderr := ran(t, "verify", path)
		says := ", line 1, byte "
		switch {
		case row.verdict == "newer":
			says = "written by a newer version"
		case strings.HasSuffix(row.file, "empty.jsonl"):
			says = "an empty file"
		}
		if !strings.Contains(stderr, says) {
			t.Errorf("%s", stderr)
		}
		return
	}
	for _, command := range []string{"verify", "inspect"} {
		_, stdout, _ := ran(t, command, "--json", path)
		var v inspection
		if err := json.Unmarshal([]byte(stdout), &v); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range v.Faults {
			got = append(got, fmt.Sprintf("%s@%d", f.Kind, f.Line))
			if f.Offset == nil {
				t.Errorf("%s: %s without offset", command, f.Kind)
			}
		}
		if strings.Join(got, " ") != strings.Join(row.faults, " ") {
			t.Errorf("%s: faults %v instead of %v", command, got, row.faults)
		}
	}
	if row.verdict == "error" {
		_, stdout, _ := ran(t, "show", path)
		if !strings.Contains(stdout, "the file is damaged: ") {
			t.Errorf("show does not say so:\n%s", stdout)
		}
	}
}

// TestWhatDoesNotOpen gives every command what is no session file that this
// build opens: each says so in one sentence, makes nothing and touches nothing.
func TestWhatDoesNotOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	long := strings.Repeat("2026-01-01 INFO started\n", 100_000)
	for name, text := range map[string]string{
		"v5.jsonl":  `{"v":5,"kind":"header","id":"x"}` + "\n",
		"log.jsonl": long, "json.jsonl": `{"level":"info","msg":"started"}` + "\n", "nul.jsonl": strings.Repeat("\x00", 5000),
		"db.jsonl": "SQLite format 3\x00\x10\x00", "empty.jsonl": "", "folder/a.jsonl": `{"type":"session","id":"a"}`, "plain/readme": "hello",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo("pipe.jsonl", 0o600); err != nil {
		t.Fatal(err)
	}
	for place, says := range map[string]string{
		"v5.jsonl":  "v5.jsonl is a session file written by a newer version; use a newer pistore",
		"log.jsonl": "log.jsonl is a file of no format that pistore knows", "json.jsonl": "json.jsonl is a file of no format that pistore knows",
		"nul.jsonl":   "nul.jsonl, line 1, byte 0: the file holds NUL bytes only: its content never reached the disk; nothing of it can be shown: take it from a backup",
		"db.jsonl":    "db.jsonl is an SQLite database, which this build does not open",
		"empty.jsonl": "empty.jsonl is an empty file, not a store",
		"folder":      `folder is a folder of session files; name one of them ("pistore ls" lists them)`,
		"plain":       "plain is an ordinary folder, not a store",
		"pipe.jsonl":  "pipe.jsonl is a named pipe, not a store",
		"/dev/null":   "/dev/null is a device, not a store",
		"none.jsonl":  "there is nothing at none.jsonl",
	} {
		before := listing(t, ".")
		for _, args := range [][]string{
			{"inspect", place},
			{"inspect", "--json", place},
			{"inspect", "--context", "main", place},
			{"show", place},
			{"verify", place},
			{"verify", "--json", place},
			{"convert", place, "out"},
			{"usage", place},
		} {
			if args[0] == "usage" && isFolder(place) {
				continue
			}
			code, stdout, stderr := ran(t, args...)
			if want := "pistore " + args[0] + ": " + says + "\n"; code != exitOpen || stdout != "" || stderr != want {
				t.Errorf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
			}
		}
		if after := listing(t, "."); after != before {
			t.Errorf("%s: before:\n%s\nafter:\n%s", place, before, after)
		}
	}
}
