package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

// chainTransactions are the first n transactions of a chain as they are committed.
func chainTransactions(n int, at pistore.UnixMS) []pistore.Transaction {
	var all []pistore.Transaction
	seq := pistore.Seq(1)
	for i := range n {
		t := pistore.Transaction{FirstSeq: seq, Timestamp: at, Writes: chainTx(i).Writes}
		for range t.Writes {
			t.Seqs = append(t.Seqs, seq)
			seq++
		}
		all = append(all, t)
	}
	return all
}

func history(t *testing.T, st pistore.Storage, from pistore.Seq) []pistore.Transaction {
	t.Helper()
	h, ok := pistore.Find[pistore.Historian](st)
	if !ok {
		t.Fatal("no history")
	}
	var all []pistore.Transaction
	for tx, err := range h.History(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tx)
	}
	return all
}

// TestHistory tells every transaction as it was committed, to its writer and to
// readers, until a compaction takes them apart.
func TestHistory(t *testing.T) {
	for _, onDisk := range []int64{-1, 1} {
		b, st, path := openChain(t, 12, Options{Clock: fixedClock, DiskPayloadBytes: onDisk})
		want := chainTransactions(12, fixedClock())
		reader, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{DiskPayloadBytes: onDisk})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Commit(t.Context(), chainTx(12)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, history(t, reader, 0)); diff != "" {
			t.Errorf("reader: %s", diff)
		}
		want = chainTransactions(13, fixedClock())
		if diff := cmp.Diff(want, history(t, st, 0)); diff != "" {
			t.Errorf("writer: %s", diff)
		}
		// A transaction belongs to what follows its first seq, too.
		if diff := cmp.Diff(want[7:], history(t, st, want[7].Seqs[len(want[7].Seqs)-1])); diff != "" {
			t.Errorf("from the middle: %s", diff)
		}
		compact(t, st)
		var rows []pistore.Seq
		for _, tx := range history(t, st, 0) {
			rows = append(rows, tx.Seqs...)
			if len(tx.Writes) != 1 {
				t.Errorf("%d writes in one line after a compaction", len(tx.Writes))
			}
		}
		if live := exportedSeqs(t, st); !slices.Equal(rows, live) {
			t.Errorf("seqs %v, live %v", rows, live)
		}
		if diff := cmp.Diff(want[:12], history(t, reader, 0)); diff != "" {
			t.Errorf("reader, after a compaction: %s", diff)
		}
		if err := errors.Join(reader.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		for _, err := range reader.History(t.Context(), 0) {
			if !errors.Is(err, pistore.ErrClosed) {
				t.Errorf("after close: %v", err)
			}
		}
	}
}

func exportedSeqs(t *testing.T, st pistore.Storage) (seqs []pistore.Seq) {
	t.Helper()
	for row, err := range st.Export(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := row.(pistore.Header); !ok {
			seqs = append(seqs, seqOfRow(row))
		}
	}
	return seqs
}

// TestNoHistory is told of files that hold none of this form, and of damaged
// ones what is left.
func TestNoHistory(t *testing.T) {
	for _, path := range []string{"v3/error-stops.jsonl", "v4"} {
		if path == "v4" {
			files, err := filepath.Glob(filepath.Join(fixtures, "v4", "*.jsonl"))
			if err != nil || len(files) == 0 {
				t.Fatal(err)
			}
			path = "v4/" + filepath.Base(files[0])
		}
		f := openFixture(t, path)
		n := 0
		for _, err := range f.History(t.Context(), 0) {
			if n++; !errors.Is(err, pistore.ErrUnsupported) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d answers", path, n)
		}
	}
	_, _, path := openChain(t, 6, Options{Clock: fixedClock})
	text := string(must(os.ReadFile(path)))
	lines := strings.SplitAfter(text, "\n")
	lines[3] = strings.Replace(lines[3], "entry-2", "entry-X", 1)
	damaged := filepath.Join(t.TempDir(), "x.jsonl")
	write(t, damaged, strings.Join(lines, ""))
	f, err := OpenFile(t.Context(), damaged, pistore.ReadOnly, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := chainTransactions(6, fixedClock())
	if diff := cmp.Diff(slices.Delete(want, 2, 3), history(t, f, 0)); diff != "" {
		t.Error(diff)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestLocate finds the lines of rows in every format.
func TestLocate(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(fixtures, "v[1234]", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, path := openChain(t, 5, Options{})
	for _, path := range append(files, path) {
		f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := string(must(os.ReadFile(path)))
		var ids []pistore.ID
		for e, err := range f.ScanEntries(t.Context(), pistore.ScanQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, e.ID)
		}
		places, err := f.Locate(t.Context(), append(ids, "nowhere"))
		if err != nil || len(places) != len(ids) {
			t.Errorf("%s: %d places of %d entries, %v", path, len(places), len(ids), err)
		}
		for id, at := range places {
			name, ok := f.LegacyID(id)
			if !ok {
				name = string(id)
			}
			line, _, _ := strings.Cut(text[at.Offset:], "\n")
			if at.Offset > 0 && text[at.Offset-1] != '\n' || int64(strings.Count(text[:at.Offset], "\n")) != at.Line-1 ||
				!strings.Contains(line, `"`+name+`"`) && name[0] != '#' {
				t.Errorf("%s: %s is said to be in %s", path, name, at)
			}
		}
	}
}

// watcher is a follower that is moved by hand.
type watcher struct {
	follower
	seen []pistore.Transaction
}

// watch follows a file that another handle writes.
func watch(t *testing.T, path string, after pistore.Seq) *watcher {
	t.Helper()
	f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	w.follower = follower{file: f, ctx: t.Context(), last: after, yield: func(tx pistore.Transaction, err error) bool {
		w.seen = append(w.seen, tx)
		return true
	}}
	t.Cleanup(func() { w.leave(); _ = f.Close() })
	return w
}

// look returns what came since the last look.
func (w *watcher) look(t *testing.T) []pistore.Transaction {
	t.Helper()
	w.seen = nil
	for range 2 { // a file that took the place of another is read at the second look
		if _, err := w.lookAtPath(); err != nil {
			t.Fatal(err)
		}
	}
	return w.seen
}

// TestFollowAnotherProcess tells what another handle writes: whole lines only,
// each once, and across rewrites.
func TestFollowAnotherProcess(t *testing.T) {
	b, st, path := openChain(t, 3, Options{Clock: fixedClock})
	want := chainTransactions(20, fixedClock())
	w := watch(t, path, want[0].Seqs[0])
	commit := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := st.Commit(t.Context(), chainTx(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(what string, want, got []pistore.Transaction) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	expect("what is there", want[:3], w.look(t)) // the first one has seqs above 1
	expect("nothing new", nil, w.look(t))
	commit(3, 5)
	expect("new ones", want[3:5], w.look(t))
	commit(5, 7)
	compact(t, st)
	expect("in front of a compaction", want[5:7], w.look(t))
	commit(7, 8)
	expect("behind it", want[7:8], w.look(t))

	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// A torn tail waits, goes, and is written over by a line of the same length.
	var enc encoder
	enc.transaction(want[8])
	add(t, path, string(enc.buf[:len(enc.buf)-1]))
	expect("a torn tail", nil, w.look(t))
	if st, err := b2(t, b).Open(t.Context(), storyID, pistore.ReadWrite); err != nil {
		t.Fatal(err)
	} else if _, err := st.Commit(t.Context(), chainTx(8)); err != nil {
		t.Fatal(err)
	} else if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	expect("in place of it", want[8:9], w.look(t))

	// Damage waits as long as it may still be torn off.
	enc.reset()
	enc.transaction(want[9])
	enc.buf[20] ^= 1
	add(t, path, string(enc.buf))
	expect("a damaged last line", nil, w.look(t))
	enc.reset()
	enc.transaction(want[10])
	add(t, path, string(enc.buf))
	_, err := w.lookAtPath()
	var corrupt *pistore.CorruptError
	if !errors.As(err, &corrupt) || !strings.Contains(corrupt.Place, fmt.Sprintf("line %d,", strings.Count(string(must(os.ReadFile(path))), "\n")-1)) {
		t.Errorf("damage: %v", err)
	}
}

// b2 is another handle of a folder that was closed.
func b2(t *testing.T, b *Folder) *Folder {
	again := NewFolder(b.dir, Options{Clock: fixedClock})
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = io.WriteString(f, text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollowWhatTakesThePlace follows an upgrade, and ends where the session is
// gone.
func TestFollowWhatTakesThePlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.jsonl")
	write(t, path, v3(`{'type':'custom','id':'a','parentId':null,@,'customType':'c'}`))
	w := watch(t, path, 0)
	if got := w.look(t); got != nil {
		t.Errorf("before the upgrade: %v", got)
	}
	f, err := OpenFile(t.Context(), path, pistore.ReadWrite, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.InsertEntry{ID: "new", Type: pistore.TypeCustom, CustomType: "c"}}}); err != nil {
		t.Fatal(err)
	}
	if got := w.look(t); len(got) != 4 || got[3].Writes[0].(pistore.InsertEntry).ID != "new" {
		t.Errorf("after the upgrade: %v", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "y.jsonl")
	var enc encoder
	enc.header(pistore.Info{ID: "other", StorageVersion: 1}, 1, 0, nil)
	write(t, other, string(enc.buf))
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if _, err := w.lookAtPath(); !errors.Is(err, pistore.ErrNotFound) {
		t.Errorf("another session: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := w.lookAtPath(); !errors.Is(err, pistore.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
}

// TestFollowInProcess tells a follower every acknowledged commit, whole, beside
// compactions, until the file is closed.
func TestFollowInProcess(t *testing.T) {
	b, st, _ := openChain(t, 2, Options{Clock: fixedClock})
	const n = 200
	seen := make(chan pistore.Transaction)
	ended := make(chan error, 1)
	follow, _ := pistore.Find[pistore.Follower](st)
	go func() {
		for tx, err := range follow.Follow(t.Context(), 0) {
			if err != nil {
				ended <- err
				return
			}
			seen <- tx
		}
	}()
	for i, want := range chainTransactions(n, fixedClock()) {
		if i >= 2 {
			if _, err := st.Commit(t.Context(), chainTx(i)); err != nil {
				t.Fatal(err)
			}
			if i%20 == 0 {
				compact(t, st) // before the follower can have looked
			}
		}
		if diff := cmp.Diff(want, <-seen); diff != "" {
			t.Fatalf("transaction %d: %s", i, diff)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, pistore.ErrClosed) {
		t.Errorf("ended by %v", err)
	}
}

// TestFollowEnds by the context, also where nothing comes, and by its reader.
func TestFollowEnds(t *testing.T) {
	_, st, path := openChain(t, 2, Options{})
	reader, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []pistore.Storage{st, reader} {
		follow, _ := pistore.Find[pistore.Follower](s)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		n := 0
		for _, err := range follow.Follow(ctx, 0) {
			if n++; n == 2 {
				cancel()
			} else if n > 2 && !errors.Is(err, context.Canceled) {
				t.Errorf("%d: %v", n, err)
			}
		}
		if n != 3 {
			t.Errorf("%d answers", n)
		}
		for range follow.Follow(t.Context(), 0) {
			break
		}
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// TestFollowBusyWriter follows a process that commits and compacts at full
// speed: every entry comes once and in order.
func TestFollowBusyWriter(t *testing.T) {
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
	st, err := NewFolder(dir, Options{}).Open(t.Context(), storyID, pistore.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	follow, _ := pistore.Find[pistore.Follower](st)
	n, last := 0, pistore.Seq(0)
	for tx, err := range follow.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range tx.Writes {
			if tx.Seqs[i] <= last {
				t.Fatalf("seq %d after %d", tx.Seqs[i], last)
			}
			last = tx.Seqs[i]
			if e, ok := w.(pistore.InsertEntry); ok {
				if want := chainTx(n).Writes[0].(pistore.InsertEntry); e.ID != want.ID || e.Payload != want.Payload {
					t.Fatalf("entry %d is %+v", n, e)
				}
				n++
			}
		}
		if n >= 1000 {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
