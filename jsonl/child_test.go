package jsonl

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pistore"
	"pistore/conformance/crash"
)

const (
	childEnv     = "PISTORE_JSONL_CHILD"
	begun        = "b"
	acknowledged = "a"
)

// TestMain turns the test binary into the child of the crash kit, or of a test
// that needs a second process.
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
	switch args[0] {
	case "commit":
		return commitForever(NewFolder(args[1], Options{}))
	case "verify":
		return verifyFile(args[1])
	case "hold":
		_, err := OpenFile(context.Background(), args[1], pistore.ReadWrite, Options{})
		if err == nil {
			report(begun, os.Getpid())
			_, err = io.Copy(io.Discard, os.Stdin)
		}
		return err
	default:
		return fmt.Errorf("unknown child %q", args)
	}
}

// commitForever commits a chain at full speed, compacts now and then, and tells
// of each commit that it begins and that it is acknowledged.
func commitForever(b *Folder) error {
	ctx := context.Background()
	st, err := b.Open(ctx, storyID, pistore.ReadWrite)
	if errors.Is(err, pistore.ErrNotFound) {
		st, err = b.Create(ctx, pistore.Info{ID: storyID})
	}
	if err != nil {
		return err
	}
	stats, err := st.Stats(ctx)
	for n := int(stats.Entries); err == nil; n++ {
		report(begun, n)
		if _, err = st.Commit(ctx, chainTx(n)); err != nil {
			return err
		}
		report(acknowledged, n)
		if n%97 == 96 {
			c, _ := pistore.Find[pistore.Compacter](st)
			_, err = c.Compact(ctx)
		}
	}
	return err
}

// report writes one line with one write(2), so that a kill cannot tear it.
func report(what string, n int) { fmt.Fprintf(os.Stdout, "%s %d\n", what, n) }

// startChild starts a child and returns its words.
func startChild(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// checkChain checks that a session holds a chain, and returns its length.
func checkChain(t *testing.T, st pistore.Storage) int {
	t.Helper()
	n := 0
	for e, err := range st.ScanEntries(t.Context(), pistore.ScanQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		want := chainTx(n).Writes[0].(pistore.InsertEntry)
		if e.ID != want.ID || e.ParentID != want.ParentID || e.Payload != want.Payload {
			t.Fatalf("entry %d is %+v", n, e)
		}
		n++
	}
	rows, last := 0, -1
	for i := range n {
		if len(chainTx(i).Writes) > 1 {
			rows, last = rows+1, i
		}
	}
	stats, err := st.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := st.Registers(t.Context(), []pistore.Address{{Namespace: "n", Key: "last"}})
	if err != nil || int(stats.Usage.Rows) != rows || last >= 0 && (len(found) != 1 || found[0].Value != pistore.JSON(fmt.Sprint(last))) {
		t.Fatalf("%d entries, %d usage rows, last %v: a commit is there in part; %v", n, stats.Usage.Rows, found, err)
	}
	return n
}

// TestSecondProcess is refused by a living owner, whom it names, and not by a
// dead one. A reader beside the owner sees whole transactions.
func TestSecondProcess(t *testing.T) {
	b := NewFolder(t.TempDir(), Options{})
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
	if err == nil {
		_, err = st.Commit(t.Context(), chainTx(0))
	}
	if err != nil {
		t.Fatal(err)
	}
	path, err := b.find(storyID)
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd, words := startChild(t, "hold", path)
	if !words.Scan() {
		t.Fatal("the child did not open the file")
	}
	_, err = b.Open(t.Context(), storyID, pistore.ReadWrite)
	var locked *pistore.LockedError
	if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid && locked.PID != 0 {
		t.Errorf("%v, and the owner is process %d", err, cmd.Process.Pid)
	}
	t.Logf("%v", err)
	if err := b.Delete(t.Context(), storyID); !errors.Is(err, pistore.ErrLocked) {
		t.Errorf("delete: %v", err)
	}
	ro, err := b.Open(t.Context(), storyID, pistore.ReadOnly)
	if err != nil || checkChain(t, ro) != 1 {
		t.Errorf("read-only: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, err = b.Open(t.Context(), storyID, pistore.ReadWrite); err != nil {
		t.Errorf("after the owner died: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadBesideWriter opens a file again and again while another process commits
// to it and compacts it: each opening shows whole transactions, and never fewer
// than the one before.
func TestReadBesideWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, words := startChild(t, "commit", dir)
	if !words.Scan() {
		t.Fatal("the child did not begin")
	}
	go func() {
		for words.Scan() { // so that it is not held up
		}
	}()
	b := NewFolder(dir, Options{DiskPayloadBytes: 1})
	seen := 0
	for range 60 {
		st, err := b.Open(t.Context(), storyID, pistore.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		n := checkChain(t, st)
		if n < seen {
			t.Errorf("%d commits after %d", n, seen)
		}
		seen = n
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if seen > 2000 { // the writer may be much faster
			break
		}
	}
	t.Logf("%d commits seen", seen)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if seen == 0 {
		t.Error("the writer did nothing")
	}
}
