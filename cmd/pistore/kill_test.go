//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pistore"
	"pistore/backup"
	"pistore/session"
	"pistore/verify"
)

var kills = flag.Int("kills", 1, "how often each command that writes is killed; from 5 on over a large session")

// killed is a command that is killed at a random instant, and what may be left.
type killed struct {
	name string
	// prepare makes what the command works on in a folder, and returns its
	// arguments and the store that is judged.
	prepare func(t *testing.T, dir string) (args []string, store string)
	// absent: the store, or the session in it, may not be there.
	absent bool
	// again is the exit code of a command that is run again where the first has
	// done its work.
	again int
}

// TestKilledCommands kills commands that write. What they write is there as it
// was, or whole; and the command can be run again.
func TestKilledCommands(t *testing.T) {
	source := filepath.Join(sessionsDir, "v3", "agent-session-tree.jsonl")
	if *kills >= 5 {
		source = filepath.Join(sessionsDir, "v3", "large-5000.jsonl")
	}
	logstoreOf := func(t *testing.T, dir string) string {
		store := filepath.Join(dir, "store")
		mustRun(t, "convert", source, store)
		return store
	}
	fileOf := func(t *testing.T, dir string) string {
		store := filepath.Join(dir, "s.jsonl")
		mustRun(t, "convert", source, store)
		return store
	}
	backupOf := func(t *testing.T, dir string) string {
		file := filepath.Join(dir, "b")
		mustRun(t, "backup", source, file)
		return file
	}
	into := func(command string, from func(*testing.T, string) string, name string) func(*testing.T, string) ([]string, string) {
		return func(t *testing.T, dir string) ([]string, string) {
			store := filepath.Join(dir, name)
			return []string{command, from(t, dir), store}, store
		}
	}
	on := func(store func(*testing.T, string) string, args ...string) func(*testing.T, string) ([]string, string) {
		return func(t *testing.T, dir string) ([]string, string) {
			place := store(t, dir)
			return append([]string{args[0], place}, args[1:]...), place
		}
	}
	plain := func(*testing.T, string) string { return source }
	for _, c := range []killed{
		{"convert to a file", into("convert", plain, "new.jsonl"), true, exitUsage},
		{"convert to a logstore", into("convert", plain, "new"), true, exitUsage},
		{"restore to a file", into("restore", backupOf, "new.jsonl"), true, exitUsage},
		{"restore to a logstore", into("restore", backupOf, "new"), true, exitUsage},
		{"rewrite a file", on(fileOf, "rewrite", "--drop-abandoned", "--yes"), false, exitFine},
		{"rewrite a logstore", on(logstoreOf, "rewrite", "--drop-abandoned", "--yes"), false, exitFine},
		{"rewrite a file of format 3", on(func(t *testing.T, dir string) string {
			place := filepath.Join(dir, "old.jsonl")
			if err := os.WriteFile(place, must[[]byte](t)(os.ReadFile(source)), 0o600); err != nil {
				t.Fatal(err)
			}
			return place
		}, "rewrite", "--drop-abandoned", "--yes"), false, exitFine},
		{"delete a file", on(fileOf, "delete", "--yes"), true, exitOpen},
		{"delete from a logstore", on(logstoreOf, "delete", "--yes"), true, exitOpen},
		{"backup", into("backup", plain, "new.backup"), true, exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

func (c killed) run(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	hit := 0
	var took time.Duration
	for range *kills + 1 {
		dir := t.TempDir()
		args, store := c.prepare(t, dir)
		old := stateOf(t, store)
		p := exec.Command("pistore", args...)
		var said bytes.Buffer
		p.Stderr = &said
		begun := time.Now()
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if took > 0 { // the first runs to its end, to know how long that takes
			time.Sleep(time.Duration(random.Int64N(int64(took))))
			_ = p.Process.Kill()
		}
		err := p.Wait()
		if took == 0 {
			if err != nil {
				t.Fatalf("%v: %v %s", args, err, said.Bytes())
			}
			took = time.Since(begun)
		} else if p.ProcessState.ExitCode() < 0 {
			hit++
		}
		left := stateOf(t, store)
		c.judge(t, args, store, old, left)
	}
	t.Logf("%d of %d kills hit the command at work", hit, *kills)
}

// judge looks at what is left and runs the command again.
func (c killed) judge(t *testing.T, args []string, store, old, left string) {
	t.Helper()
	want := exitFine
	switch {
	case left == old:
	case left == "nothing" && c.absent, old == "nothing", !c.absent:
		want = c.again // it was done
	default:
		t.Errorf("left %s where %s was", left, old)
	}
	out, err := exec.Command("pistore", args...).CombinedOutput()
	var exit *exec.ExitError
	code := exitFine
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if code != want && !(left == old && code == c.again) {
		t.Errorf("again: exit code %d instead of %d: %s", code, want, out)
	}
	if now := stateOf(t, store); now != left && left != old {
		t.Errorf("again: %s where %s was left", now, left)
	}
}

// stateOf is the digest of the session in a store that verify finds clean, or
// that there is nothing.
func stateOf(t *testing.T, store string) string {
	t.Helper()
	ctx := context.Background()
	info, err := os.Stat(store)
	if err != nil {
		return "nothing"
	}
	if f, err := os.Open(store); err == nil && filepath.Ext(store) == ".backup" {
		defer f.Close()
		all, err := backup.Check(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(all[0].Digest)
	}
	o, err := openStore(ctx, store)
	if err != nil && info.IsDir() && errorIsUnfinished(err) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.close() }()
	if o.session == nil {
		return "nothing"
	}
	r, err := verify.Check(ctx, o.session, verify.Options{})
	if err != nil || !r.OK() {
		t.Fatalf("%s: %v %v", store, r.Faults, err)
	}
	if err := session.Undamaged(ctx, o.session); err != nil {
		t.Fatal(err)
	}
	return must[string](t)(pistore.Digest(ctx, o.session))
}

// errorIsUnfinished: the store is the beginning of one.
func errorIsUnfinished(err error) bool {
	return strings.Contains(err.Error(), "cut short") || strings.Contains(err.Error(), "an empty folder")
}
