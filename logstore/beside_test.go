//go:build unix

package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

// besideCommits is how many commits a writer makes at least, so that it has
// flushed several times.
const besideCommits = 400

// TestReadOnlyBesideProcess opens a database read-only again and again while
// another process creates it, commits to it at full speed and flushes: what is
// seen is whole and no older than what was acknowledged before. Now and then the
// writer is stopped in the middle of whatever it does, so that it can be seen
// that reading changes no byte, no time and no name in the folder.
func TestReadOnlyBesideProcess(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			w := startWriter(t, level)
			early, busy := 0, 0
			opens := 0
			for opens < *pinOpens || w.acknowledged() < besideCommits {
				stopped := opens%5 == 4
				before := ""
				if stopped {
					w.stop(t)
					before = folderState(t, w.dir)
				}
				err := w.read(t)
				if stopped {
					if diff := cmp.Diff(before, folderState(t, w.dir)); diff != "" {
						t.Errorf("reading changed the folder:\n%s", diff)
					}
					w.resume(t)
				}
				switch {
				case err == nil:
					opens++
				case errors.Is(err, pistore.ErrBusy) && !stopped:
					busy++
				case errors.Is(err, pistore.ErrNotFound) && w.acknowledged() == 0:
					early++
				default:
					t.Fatal(err)
				}
			}
			t.Logf("%d opens beside %d commits, %d more were busy, %d came before the database",
				opens, w.acknowledged(), busy, early)
			tables, err := filepath.Glob(filepath.Join(w.dir, "*.sst"))
			if err != nil || len(tables) == 0 || busy > opens {
				t.Errorf("%d tables, %v: too few to tell; %d opens were busy", len(tables), err, busy)
			}
		})
	}
}

// writer is another process that commits chains.
type writer struct {
	process *os.Process
	dir     string
	level   pistore.Durability
	acked   [killSessions]atomic.Int64
}

func startWriter(t *testing.T, level pistore.Durability) *writer {
	w := &writer{dir: t.TempDir(), level: level}
	cmd, lines := startChild(t, level.String(), w.dir)
	w.process = cmd.Process
	var heard sync.WaitGroup
	heard.Go(func() {
		for lines.Scan() {
			what, session, n, err := parseReport(lines.Text())
			if err != nil {
				t.Error(err)
				return
			}
			if what == acknowledged {
				w.acked[session].Store(int64(n + 1))
			}
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		heard.Wait()
	})
	return w
}

func (w *writer) acknowledged() (total int64) {
	for i := range w.acked {
		total += w.acked[i].Load()
	}
	return total
}

// stop returns when no thread of the writer runs any more.
func (w *writer) stop(t *testing.T) {
	t.Helper()
	if err := w.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(w.process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the writer did not stop: %v, %v", status, err)
	}
}

func (w *writer) resume(t *testing.T) {
	t.Helper()
	if err := w.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// read opens the database read-only and checks the ends of its sessions. It
// returns the error of the open.
func (w *writer) read(t *testing.T) error {
	t.Helper()
	var before [killSessions]int64
	for i := range w.acked {
		before[i] = w.acked[i].Load()
	}
	s, err := Open(w.dir, Options{ReadOnly: true, Durability: w.level})
	if err != nil {
		return err
	}
	for i, acked := range before {
		st, err := s.Open(ctx, sessionName(i), pistore.ReadOnly)
		if errors.Is(err, pistore.ErrNotFound) && acked == 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := checkChainEnd(t, st); n < acked {
			t.Errorf("session %d: %d commits are seen, %d were acknowledged before", i, n, acked)
		}
	}
	return s.Close()
}

// checkChainEnd checks that the newest transaction of a chain is whole, and
// returns how many there are.
func checkChainEnd(t *testing.T, st pistore.Storage) int64 {
	t.Helper()
	stats, err := st.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n := stats.Entries
	newest := pistore.ScanQuery{Order: pistore.Reversed, Limit: 1}
	entries := drain(t, st.ScanEntries(ctx, newest))
	usage := drain(t, st.ScanUsage(ctx, newest))
	at, err := st.Registers(ctx, []pistore.Address{{Namespace: "app", Key: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		if len(entries)+len(usage)+len(at) > 0 || stats.Usage.Rows != 0 {
			t.Errorf("an empty session has %v, %v, %v", entries, usage, at)
		}
		return 0
	}
	want := chainTx(int(n-1), 0)
	first := pistore.Seq(3*n - 2)
	if stats.Usage.Rows != n || len(entries) != 1 || len(usage) != 1 || len(at) != 1 ||
		entries[0].ID != want.Writes[0].(pistore.InsertEntry).ID || entries[0].Seq != first ||
		usage[0].EntryID != entries[0].ID || usage[0].Seq != first+1 ||
		at[0].Value != want.Writes[2].(pistore.SetRegister).Value || at[0].Seq != first+2 {
		t.Errorf("of %d commits the newest is not whole: %v, %v, %v", n, entries, usage, at)
	}
	return n
}
