package jsonl

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pistore"
	"pistore/verify"
)

// turnTx is a commit of an agent's turn: an answer of some size, its usage, the
// leaf and the state of the operation.
func turnTx(n, size int) pistore.Tx {
	id := pistore.ID(fmt.Sprintf("0195c8d1-0000-7000-8000-%012d", n))
	parent := pistore.ID("")
	if n > 0 {
		parent = pistore.ID(fmt.Sprintf("0195c8d1-0000-7000-8000-%012d", n-1))
	}
	payload := fmt.Sprintf(`{"message":{"role":"assistant","content":[{"type":"text","text":%q}],"stopReason":"stop"}}`, strings.Repeat("four words of text. ", size/20))
	return pistore.Tx{Writes: []pistore.Write{
		pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: pistore.JSON(payload)},
		pistore.InsertUsage{ID: "u" + id, EntryID: id, Usage: `{"input":1200,"output":340,"cacheRead":9000,"cacheWrite":0,"totalTokens":10540,"cost":{"input":0.0036,"output":0.0051,"total":0.0087}}`},
		pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.QuoteJSON(string(id))},
		pistore.SetRegister{Namespace: "op.state", Key: "0195c8d1-0000-7000-8000-00000000000f", Value: `{"control":{"status":"running"},"at":"checkpoint","continuation":{"kind":"need_assistant"}}`},
	}}
}

func BenchmarkCommit(b *testing.B) {
	for _, level := range bothLevels {
		b.Run(level.String(), func(b *testing.B) {
			st, err := NewFolder(b.TempDir(), Options{Durability: level}).Create(b.Context(), pistore.Info{})
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if _, err := st.Commit(b.Context(), turnTx(n, 1000)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// BenchmarkEncode is the line of a commit, without the disk.
func BenchmarkEncode(b *testing.B) {
	tx := turnTx(1, 1000)
	t := pistore.Transaction{FirstSeq: 1, Seqs: []pistore.Seq{1, 2, 3, 4}, Timestamp: 5, Writes: tx.Writes}
	var e encoder
	e.transaction(t)
	b.SetBytes(int64(len(e.buf)))
	b.ReportAllocs()
	for b.Loop() {
		e.reset()
		e.transaction(t)
	}
}

// turnsFile makes a session of turns and returns its file.
func turnsFile(b *testing.B, turns, size int) (path string, bytes int64) {
	b.Helper()
	folder := NewFolder(b.TempDir(), Options{NoCompactOnOpen: true})
	st, err := folder.Create(b.Context(), pistore.Info{ID: storyID})
	if err != nil {
		b.Fatal(err)
	}
	for n := range turns {
		if _, err := st.Commit(b.Context(), turnTx(n, size)); err != nil {
			b.Fatal(err)
		}
	}
	if path, err = folder.find(storyID); err == nil {
		err = folder.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return path, sizeOf(b, path)
}

func sizeOf(b *testing.B, path string) int64 {
	b.Helper()
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return st.Size()
}

// BenchmarkReplay opens sessions of turns: one of each number with the defaults,
// and others with payloads in memory and on disk.
func BenchmarkReplay(b *testing.B) {
	for _, c := range []struct {
		name        string
		turns, size int
		onDisk      int64
	}{
		{"1k turns", 1_000, 1000, 0},
		{"10k turns", 10_000, 1000, 0},
		{"100k turns", 100_000, 1000, 0},
		{"10k turns in memory", 10_000, 1000, -1},
		{"10k turns on disk", 10_000, 1000, 1},
		{"2k long turns in memory", 2_000, 20_000, -1},
		{"2k long turns on disk", 2_000, 20_000, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			path, size := turnsFile(b, c.turns, c.size)
			before := heap()
			b.SetBytes(size)
			var f *File
			for b.Loop() {
				if f != nil {
					f.Close()
				}
				var err error
				if f, err = OpenFile(b.Context(), path, pistore.ReadOnly, Options{DiskPayloadBytes: c.onDisk}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(heap()-before)/float64(c.turns), "heap-B/turn")
			b.ReportMetric(float64(size)/float64(c.turns), "file-B/turn")
			f.Close()
		})
	}
}

// BenchmarkVerify4 opens and verifies a session of turns.
func BenchmarkVerify4(b *testing.B) {
	path, size := turnsFile(b, 10_000, 1000)
	b.SetBytes(size)
	for b.Loop() {
		f, err := OpenFile(b.Context(), path, pistore.ReadOnly, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if r, err := verify.Check(b.Context(), f, verify.Options{}); err != nil || r.Incomplete {
			b.Fatal(r, err)
		}
		f.Close()
	}
}

// BenchmarkCompact tells what a compaction leaves of the bytes of a turn.
func BenchmarkCompact(b *testing.B) {
	const turns = 10_000
	path, size := turnsFile(b, turns, 1000)
	f, err := OpenFile(b.Context(), path, pistore.ReadWrite, Options{NoCompactOnOpen: true})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.SetBytes(size)
	for b.Loop() {
		if _, err := f.Compact(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/turns, "before-B/turn")
	b.ReportMetric(float64(sizeOf(b, path))/turns, "after-B/turn")
}
