package jsonl

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pistore"
)

var largeMiB = flag.Int("large", 32, "size in MiB of the file of TestLargeSession")

// TestLargeSession opens a large file, whose payloads stay on disk: the memory it
// takes is that of its structure. Reads, commits and a compaction go on over it.
func TestLargeSession(t *testing.T) {
	const size = 100_000
	dir := t.TempDir()
	b := NewFolder(dir, Options{DiskPayloadBytes: 1, NoCompactOnOpen: true})
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
	if err != nil {
		t.Fatal(err)
	}
	n := *largeMiB << 20 / size
	for i := range n {
		if _, err := st.Commit(t.Context(), turnTx(i, size)); err != nil {
			t.Fatal(err)
		}
	}
	want := digest(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	before := heap()
	if st, err = b.Open(t.Context(), storyID, pistore.ReadWrite); err != nil {
		t.Fatal(err)
	}
	took := heap() - before
	t.Logf("%d MiB open in %d KiB", *largeMiB, took>>10)
	if took > int64(*largeMiB)<<20/8 {
		t.Errorf("%d MiB take %d bytes of memory", *largeMiB, took)
	}
	if digest(t, st) != want {
		t.Error("reopened it differs")
	}
	if _, err := st.Commit(t.Context(), turnTx(n, size)); err != nil {
		t.Fatal(err)
	}
	want = digest(t, st)
	// A reader that began before the compaction ends after it.
	seen := 0
	for e, err := range st.ScanEntries(t.Context(), pistore.ScanQuery{}) {
		if err != nil || e.Payload != turnTx(int(e.Seq-1)/4, size).Writes[0].(pistore.InsertEntry).Payload {
			t.Fatalf("entry %s: %v", e.ID, err)
		}
		if seen++; seen == 2 {
			c, _ := pistore.Find[pistore.Compacter](st)
			if r, err := c.Compact(t.Context()); err != nil || r.BytesAfter >= r.BytesBefore {
				t.Errorf("compaction: %+v, %v", r, err)
			}
		}
	}
	if seen != n+1 || digest(t, st) != want {
		t.Errorf("%d entries after the compaction", seen)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestShortRecordsInMemory holds what docs/format-jsonl.md says a record takes beside
// its text, where there are many short ones.
func TestShortRecordsInMemory(t *testing.T) {
	const n = 20_000
	var text strings.Builder
	text.WriteString(header3 + "\n")
	parent := "null"
	for i := range n {
		fmt.Fprintf(&text, `{"type":"message","id":"%08x","parentId":%s,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"hi"}}`+"\n", i, parent)
		parent = fmt.Sprintf(`"%08x"`, i)
	}
	before := heap()
	f, _ := importText(t, text.String())
	took := (heap() - before - int64(text.Len())) / n
	if stats, err := f.Stats(t.Context()); err != nil || stats.Entries != n {
		t.Fatalf("%+v, %v", stats, err)
	}
	t.Logf("%d bytes a record", took)
	if took > 300 {
		t.Errorf("%d bytes a record beside its text", took)
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
