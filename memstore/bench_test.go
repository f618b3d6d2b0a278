package memstore_test

import (
	"fmt"
	"strings"
	"testing"

	"pistore"
)

// BenchmarkCommitTurn commits what the settlement of a turn commits: the
// response, the leaf, its usage and the next state, on the condition that the
// state is still the one it was planned from.
func BenchmarkCommitTurn(b *testing.B) {
	b.ReportAllocs()
	s := newSession(b, newBackend(b), "s")
	payload := pistore.JSON(`{"message":{"role":"assistant","content":[{"type":"text","text":"` + strings.Repeat("word ", 200) + `"}]}}`)
	state := pistore.JSON(`{"kind":"assistant","status":"effect_pending","context":{"text":"` + strings.Repeat("x", 400) + `"}}`)
	usage := pistore.JSON(`{"input":1834,"output":512,"cacheRead":20480,"cacheWrite":1024,"totalTokens":23850,` +
		`"cost":{"input":0.005502,"output":0.00768,"cacheRead":0.006144,"cacheWrite":0.00384,"total":0.023166}}`)
	details := pistore.JSON(`{"lane":"main","operationId":"o","purpose":"assistant","provider":"p","modelId":"m"}`)
	var last pistore.Seq
	var leaf pistore.ID
	for i := 0; b.Loop(); i++ {
		id := pistore.ID(fmt.Sprintf("0195c8d1-0000-7000-8000-%012x", 2*i))
		usageID := pistore.ID(fmt.Sprintf("0195c8d1-0000-7000-8000-%012x", 2*i+1))
		r, err := s.Commit(b.Context(), pistore.Tx{
			Writes: []pistore.Write{
				pistore.InsertEntry{ID: id, ParentID: leaf, Type: pistore.TypeMessage, Payload: payload},
				pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.JSON(`"` + id + `"`)},
				pistore.InsertUsage{ID: usageID, Usage: usage, EntryID: id, Details: details},
				pistore.SetRegister{Namespace: "op.state", Key: "o", Value: state},
			},
			Expect: []pistore.Precondition{{Namespace: "op.state", Key: "o", Seq: last}},
		})
		if err != nil {
			b.Fatal(err)
		}
		last, leaf = r.Seqs[3], id
	}
}

func BenchmarkBranch100k(b *testing.B) {
	s := newSession(b, newBackend(b), "s")
	const n = 100_000
	var leaf pistore.ID
	for i := range n {
		id := pistore.ID(fmt.Sprintf("0195c8d1-0000-7000-8000-%012x", i))
		commit(b, s, message(id, leaf))
		leaf = id
	}
	for name, order := range map[string]pistore.Order{"newest-first": pistore.Natural, "oldest-first": pistore.Reversed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				count := 0
				for _, err := range s.Branch(b.Context(), pistore.BranchQuery{Start: leaf, Order: order}) {
					if err != nil {
						b.Fatal(err)
					}
					count++
				}
				if count != n {
					b.Fatal(count)
				}
			}
		})
	}
	b.Run("last-20", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range s.Branch(b.Context(), pistore.BranchQuery{Start: leaf, Limit: 20}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
