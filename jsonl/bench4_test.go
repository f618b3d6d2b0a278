package jsonl

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pistore"
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

// BenchmarkReplay opens sessions of turns, with payloads in memory and on disk.
func BenchmarkReplay(b *testing.B) {
	for _, c := range []struct{ turns, size int }{{10_000, 1000}, {2_000, 20_000}} {
		dir := b.TempDir()
		folder := NewFolder(dir, Options{NoCompactOnOpen: true})
		st, err := folder.Create(b.Context(), pistore.Info{ID: storyID})
		if err != nil {
			b.Fatal(err)
		}
		for n := range c.turns {
			if _, err := st.Commit(b.Context(), turnTx(n, c.size)); err != nil {
				b.Fatal(err)
			}
		}
		path, err := folder.find(storyID)
		if err == nil {
			err = folder.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
		file, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		for name, onDisk := range map[string]int64{"memory": -1, "disk": 1} {
			b.Run(fmt.Sprintf("%d turns of %d bytes/%s", c.turns, c.size, name), func(b *testing.B) {
				b.SetBytes(file.Size())
				b.ReportAllocs()
				for b.Loop() {
					f, err := OpenFile(b.Context(), path, pistore.ReadOnly, Options{DiskPayloadBytes: onDisk})
					if err != nil {
						b.Fatal(err)
					}
					f.Close()
				}
			})
		}
	}
}
