package logstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
	"pistore/conformance/crash"
)

const (
	childEnv      = "PISTORE_LOGSTORE_CHILD"
	killSessions  = 4
	begun         = "b"
	acknowledged  = "a"
	killMemtables = minMemtableBytes
)

// TestMain turns the test binary into the child of the crash kit, or of a test
// that kills it or needs a second process.
func TestMain(m *testing.M) {
	crash.Child(openPlace)
	if what := os.Getenv(childEnv); what != "" {
		if err := child(strings.Fields(what)); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	kit.Flags(flag.CommandLine)
	os.Exit(m.Run())
}

func child(args []string) error {
	level := pistore.Process
	if args[0] == "power" {
		level = pistore.Power
	}
	switch args[0] {
	case "process", "power":
		return commitForever(args[1], level)
	case "nosync":
		return setForever(args[1])
	case "hold":
		return holdFolder(args[1])
	default:
		return fmt.Errorf("unknown child %q", args)
	}
}

// commitForever commits chains in several sessions at full speed and tells of
// each commit that it begins and of each that is acknowledged.
func commitForever(dir string, level pistore.Durability) error {
	s, err := Open(dir, Options{Durability: level, MemtableBytes: killMemtables})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for i := range killSessions {
		st, err := openOrCreate(s, sessionName(i))
		if err != nil {
			return err
		}
		go func() {
			stats, err := st.Stats(ctx)
			for n := int(stats.Entries); err == nil; n++ {
				report(begun, i, n)
				if _, err = st.Commit(ctx, chainTx(n, 100*(n%40))); err == nil {
					report(acknowledged, i, n)
				}
			}
			failed <- err
		}()
	}
	return <-failed
}

func sessionName(i int) pistore.SessionID { return pistore.SessionID(fmt.Sprint("session-", i)) }

func openOrCreate(s *Store, id pistore.SessionID) (pistore.Storage, error) {
	st, err := s.Open(ctx, id, pistore.ReadWrite)
	if errors.Is(err, pistore.ErrNotFound) {
		return s.Create(ctx, pistore.Info{ID: id})
	}
	return st, err
}

// report writes one line with one write(2), so that a kill cannot tear it.
func report(what string, session, n int) { fmt.Fprintf(os.Stdout, "%s %d %d\n", what, session, n) }

func parseReport(line string) (what string, session, n int, err error) {
	if _, err := fmt.Sscan(line, &what, &session, &n); err != nil {
		return "", 0, 0, fmt.Errorf("child said %q", line)
	}
	return what, session, n, nil
}

// startChild starts a child whose lines can be read. It ends with the test, and
// so does one that waits for its input.
func startChild(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, bufio.NewScanner(out)
}

// TestKillSeesALoss proves that killing a process can show a loss: plain
// Pebble with NoSync, which hands the commit to a buffer of its own process,
// loses acknowledged commits.
func TestKillSeesALoss(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 200; n++ {
		dir := t.TempDir()
		acked := killUnsynced(t, dir)
		db, err := pebble.Open(dir, &pebble.Options{Logger: engineLogger{to: quiet, fault: newFault(time.Minute)}})
		if err != nil {
			t.Fatal(err)
		}
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], uint64(acked-1))
		_, closer, err := db.Get(key[:])
		lost := errors.Is(err, pebble.ErrNotFound)
		if err == nil {
			err = closer.Close()
		}
		if cerr := db.Close(); err != nil && !lost || cerr != nil {
			t.Fatal(err, cerr)
		}
		if lost {
			t.Logf("kill %d lost an acknowledged commit of %d", n, acked)
			return
		}
	}
	t.Error("200 kills lost nothing: this kind of test sees no losses")
}

// killUnsynced kills a child at a random instant, and returns how many commits it
// had acknowledged.
func killUnsynced(t *testing.T, dir string) (acked int) {
	t.Helper()
	cmd, lines := startChild(t, "nosync", dir)
	for first := true; lines.Scan(); first = false {
		if first {
			time.AfterFunc(rand.N(100*time.Millisecond), func() { _ = cmd.Process.Kill() })
		}
		_, _, n, err := parseReport(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		acked = n + 1
	}
	_ = cmd.Wait() // of a killed process
	return acked
}

func setForever(dir string) error {
	db, err := pebble.Open(dir, &pebble.Options{Logger: engineLogger{to: quiet, fault: newFault(time.Minute)}})
	if err != nil {
		return err
	}
	value := make([]byte, 100)
	for n := 0; ; n++ {
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], uint64(n))
		if err := db.Set(key[:], value, pebble.NoSync); err != nil {
			return err
		}
		report(acknowledged, 0, n)
	}
}

// holdFolder opens a database and keeps it until its parent goes away.
func holdFolder(dir string) error {
	if _, err := Open(dir, Options{}); err != nil {
		return err
	}
	report(begun, 0, os.Getpid())
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
