//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWritingJSON holds the shapes of what the commands that write report.
func TestWritingJSON(t *testing.T) {
	dir := t.TempDir()
	store, file, packed := filepath.Join(dir, "store"), filepath.Join(dir, "s.jsonl"), filepath.Join(dir, "b")
	if err := makeStore(store, []string{"a=tools", "b=tree"}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "backup", store+"#b", packed)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"convert-logstore.json", []string{"convert", store + "#b", file}},
		{"fork.json", []string{"fork", store + "#b", filepath.Join(dir, "f.jsonl"), "--tree", "--id", "forked"}},
		{"rewrite.json", []string{"rewrite", file, "--drop-abandoned", "--erase", string(uid(6)), "--dry-run"}},
		{"restore.json", []string{"restore", packed, filepath.Join(dir, "again")}},
		{"delete.json", []string{"delete", file, "--yes"}},
	} {
		code, stdout, stderr := ran(t, append(c.args, "--json")...)
		if code != exitFine || stderr != "" || !json.Valid([]byte(stdout)) {
			t.Errorf("%v: %d %s", c.args, code, stderr)
		}
		golden(t, c.name, stdout)
	}
}

// TestInterruptedConversion tells conversions to stop while they write.
func TestInterruptedConversion(t *testing.T) {
	source := filepath.Join(sessionsDir, "v3", "large-5000.jsonl")
	for i, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for _, name := range []string{"new/deep.jsonl", "new/store"} {
			dir := t.TempDir()
			dst := filepath.Join(dir, name)
			p := exec.Command("pistore", "convert", source, dst)
			var said strings.Builder
			p.Stderr = &said
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			// It is at work when it has made the folder that DST is to stand in.
			for at := time.Now(); ; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
					break
				}
				if time.Since(at) > time.Minute {
					t.Fatal("the conversion makes nothing")
				}
			}
			if err := p.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			_ = p.Wait() // the exit code tells
			if p.ProcessState.ExitCode() == exitFine {
				continue // it was faster
			}
			if want := fmt.Sprintf("pistore convert: interrupted; %s is as it was\n", dst); p.ProcessState.ExitCode() != exitFindings || said.String() != want {
				t.Errorf("%d, %v: exit code %d, %q", i, s, p.ProcessState.ExitCode(), said.String())
			}
			if left := must[[]os.DirEntry](t)(os.ReadDir(dir)); len(left) > 0 {
				t.Errorf("%v: %s is left", s, left[0].Name())
			}
		}
	}
}
