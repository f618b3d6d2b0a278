package jsonl

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"pistore"
	"pistore/verify"
)

var (
	fileMiB = flag.Int("file-mib", 0, "size in MiB of the file of TestLargeFile; 0: 128, or 24 with the race detector")
	turn    = flag.Int("turn", 64<<10, "bytes of a turn in TestLargeFile")
)

// memoryMiB is what a process may take to open and verify a file of some MiB.
func memoryMiB(file int) int64 { return max(96, int64(file)/2) }

// TestLargeFile opens and verifies a large file in a process of its own, whose
// memory is bounded.
func TestLargeFile(t *testing.T) {
	mib := *fileMiB
	switch {
	case mib > 0:
	case raced:
		mib = 24
	default:
		mib = 128
	}
	b := NewFolder(t.TempDir(), Options{NoCompactOnOpen: true})
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for size := int64(0); size < int64(mib)<<20; n++ {
		if _, err := st.Commit(t.Context(), turnTx(n, *turn)); err != nil {
			t.Fatal(err)
		}
		size += int64(*turn) + 700 // of all that is not the text
	}
	path, err := b.find(storyID)
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=verify "+path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var peak int64
	if _, err := fmt.Sscan(out.String(), &peak); err != nil {
		t.Fatalf("%v: %q", err, out.String())
	}
	t.Logf("%d MiB, %d turns, in %v: %s", file.Size()>>20, n, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), out.Bytes())
	if limit := memoryMiB(mib); peak > limit {
		t.Errorf("%d MiB of memory, more than %d", peak, limit)
	}
}

// verifyFile is the child of TestLargeFile.
func verifyFile(path string) error {
	debug.SetGCPercent(50) // as the command does
	ctx := context.Background()
	f, err := OpenFile(ctx, path, pistore.ReadOnly, Options{})
	if err != nil {
		return err
	}
	r, err := verify.Check(ctx, f, verify.Options{})
	if err == nil && (r.Incomplete || r.Checked.Entries == 0) {
		err = fmt.Errorf("%+v", r)
	}
	// What the program got from the system, which it never gives back for good.
	// The resident set is for people: a race detector multiplies it.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("%d MiB from the system, %s, %d entries, %d transactions", m.Sys>>20, residentPeak(), r.Checked.Entries, r.Checked.Transactions)
	return err
}

// residentPeak is the largest resident set of this process, where the platform
// tells it apart from that of its parent.
func residentPeak() string {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return "resident " + strings.TrimSpace(peak)
		}
	}
	return "resident unknown"
}
