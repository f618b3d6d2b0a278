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
)

var (
	kills    = flag.Int("kills", 20, "rounds of each kill test")
	killSeed = flag.Uint64("killseed", 0, "seed of the kill tests; 0: any")
)

const (
	childEnv      = "PISTORE_LOGSTORE_CHILD"
	killSessions  = 4
	begun         = "b"
	acknowledged  = "a"
	killMemtables = minMemtableBytes
)

// TestMain turns the test binary into the child of a test that kills it or
// needs a second process.
func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(strings.Fields(what)); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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

// killed is what a child told before it died.
type killed struct {
	acked map[int]int // by session: commits acknowledged, of all rounds
	open  int         // commits that were begun and not acknowledged
}

// killChild runs a child and kills it at a random instant, counted from its first
// word, or from its start when opening may be hit too.
func killChild(t *testing.T, rng *rand.Rand, opening bool, longest time.Duration, args ...string) killed {
	t.Helper()
	cmd, lines := startChild(t, args...)
	k := killed{acked: map[int]int{}}
	opened := map[int]int{}
	kill := func() {
		time.AfterFunc(time.Duration(rng.Int64N(int64(longest))), func() { _ = cmd.Process.Kill() })
	}
	if opening {
		kill()
	}
	for first := !opening; lines.Scan(); first = false {
		if first {
			kill()
		}
		what, session, n, err := parseReport(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		if what == begun {
			opened[session] = n + 1
		} else {
			k.acked[session] = n + 1
		}
	}
	_ = cmd.Wait()
	if cmd.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", cmd.ProcessState)
	}
	for session, n := range opened {
		if n > k.acked[session] {
			k.open++
		}
	}
	return k
}

func killRNG(t *testing.T) *rand.Rand {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay: go test ./logstore -run '^%s$' -kills %d -killseed %d", strings.ReplaceAll(t.Name(), "/", "$/^"), *kills, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestKill kills a process that commits at full speed, again and again over one
// database, and checks that what was acknowledged is there, whole and in order,
// with at most one more commit for each session.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			testKill(t, level)
		})
	}
}

func testKill(t *testing.T, level pistore.Durability) {
	rng := killRNG(t)
	var dir string
	var known [killSessions]int // commits that the last round has found
	total, openKills := 0, 0
	for round := range *kills {
		if round%5 == 0 { // so that rounds stay short
			dir, known = t.TempDir(), [killSessions]int{}
		}
		k := killChild(t, rng, round%5 > 0 && rng.IntN(3) == 0, 150*time.Millisecond, level.String(), dir)
		if k.open > 0 {
			openKills++
		}
		// A read-only open leaves the recovery to the next child.
		readOnly := rng.IntN(3) == 0
		mode := pistore.ReadWrite
		if readOnly {
			mode = pistore.ReadOnly
		}
		s, err := Open(dir, Options{Durability: level, ReadOnly: readOnly, MemtableBytes: killMemtables})
		if err != nil {
			t.Fatalf("round %d: open: %v", round, err)
		}
		for i := range killSessions {
			st, err := s.Open(ctx, sessionName(i), mode)
			acked := max(known[i], k.acked[i])
			if errors.Is(err, pistore.ErrNotFound) && acked == 0 {
				continue
			}
			if err != nil {
				t.Fatalf("round %d: session %d: %v", round, i, err)
			}
			n := checkChain(t, st)
			if n < acked || n > acked+1 {
				t.Fatalf("round %d: session %d has %d commits, %d were acknowledged", round, i, n, acked)
			}
			total += acked - known[i]
			known[i] = n
		}
		if err := s.Close(); err != nil {
			t.Fatalf("round %d: close: %v", round, err)
		}
	}
	t.Logf("%d kills, %d of them during an open commit; %d acknowledged commits, none lost", *kills, openKills, total)
	if openKills == 0 {
		t.Error("no kill hit an open commit")
	}
}

// TestKillSeesALoss proves that a test like the one above can see a loss: plain
// Pebble with NoSync, which hands the commit to a buffer of its own process,
// loses acknowledged commits.
func TestKillSeesALoss(t *testing.T) {
	t.Parallel()
	rng := killRNG(t)
	for n := 1; n <= 200; n++ {
		dir := t.TempDir()
		acked := killChild(t, rng, false, 100*time.Millisecond, "nosync", dir).acked[0]
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
