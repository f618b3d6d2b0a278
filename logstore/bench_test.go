package logstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pistore"
)

// turn is a transaction like one turn of an agent: about 3.5 KB in a response, a
// tool result, a usage row and the registers that move.
type turn struct {
	ids  *pistore.IDs
	leaf pistore.ID
	n    int
	text pistore.JSON
}

func newTurn(seed uint64) *turn {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := make([]byte, 0, 2048)
	for len(words) < 1400 {
		words = fmt.Appendf(words, "w%x ", rng.Uint32()&0xfffff)
	}
	return &turn{
		ids:  pistore.NewIDs(pistore.SystemClock, newChaCha(seed)),
		text: pistore.JSON(`{"message":{"role":"assistant","content":"` + string(words) + `"}}`),
	}
}

func newChaCha(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return rand.NewChaCha8(key)
}

func (t *turn) next() pistore.Tx {
	response, usage := t.ids.New(), t.ids.New()
	at, _ := response.Time()
	result := t.ids.At(at)
	tx := pistore.Tx{Writes: []pistore.Write{
		pistore.InsertEntry{ID: response, ParentID: t.leaf, Type: pistore.TypeMessage, Payload: t.text},
		pistore.InsertEntry{ID: result, ParentID: response, Type: pistore.TypeMessage, Payload: t.text},
		usageRow(usage, response),
		pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.QuoteJSON(string(result))},
		pistore.SetRegister{Namespace: "op.state", Key: "operation", Value: `{"kind":"run","resumes":0,"control":{"status":"running"},"phase":{"kind":"checkpoint"}}`},
	}}
	t.leaf = result
	t.n++
	return tx
}

func BenchmarkCommit(b *testing.B) {
	for _, level := range []pistore.Durability{pistore.Process, pistore.Power} {
		for _, sessions := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", level, sessions), func(b *testing.B) { benchCommit(b, level, sessions) })
		}
	}
}

func benchCommit(b *testing.B, level pistore.Durability, sessions int) {
	s := openStoreT(b, b.TempDir(), Options{Durability: level})
	var left atomic.Int64
	left.Store(int64(b.N))
	var open []*session
	for i := range sessions {
		open = append(open, createT(b, s, pistore.SessionID(fmt.Sprintf("s%03d", i))))
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, st := range open {
		wg.Go(func() {
			t := newTurn(uint64(i))
			for left.Add(-1) >= 0 {
				if _, err := st.Commit(ctx, t.next()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkStructure walks the structure of a branch of 100,000 entries.
func BenchmarkStructure(b *testing.B) {
	s := openStoreT(b, b.TempDir(), Options{})
	st := createT(b, s, "s")
	t := newTurn(1)
	t.text = `{"message":{"role":"user"}}`
	const entries = 100_000
	for n := 0; n < entries; {
		var tx pistore.Tx
		for range 100 {
			tx.Writes = append(tx.Writes, t.next().Writes...)
			n += 2
		}
		if _, err := st.Commit(ctx, tx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range st.Branch(ctx, pistore.BranchQuery{Start: t.leaf, StructureOnly: true}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != entries {
			b.Fatalf("%d entries, expected %d", n, entries)
		}
	}
}
