package jsonl

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pistore"
)

var compactSeed = flag.Uint64("compact-seed", 0, "seed of TestCompactionKeepsDigests; 0: any")

// TestCompactionKeepsDigests compacts sessions of random rows at random moments:
// what they hold is the same before, after, and when it is read again, and so is
// the seq that comes next.
func TestCompactionKeepsDigests(t *testing.T) {
	seed := *compactSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay: go test ./jsonl -run '^TestCompactionKeepsDigests$' -compact-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		m := newMemory(t)
		o := fixedOptions(m, pistore.Durability(rng.IntN(2)))
		o.DiskPayloadBytes = int64(rng.IntN(2)) - 1
		b := NewFolder(storyDir, o)
		st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			if _, err := st.Commit(t.Context(), randomTx(rng, n)); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(8) > 0 {
				continue
			}
			want, next := digest(t, st), nextSeq(t, st)
			compact(t, st)
			if digest(t, st) != want || nextSeq(t, st) != next {
				t.Fatalf("commit %d: a compaction changed something", n)
			}
			ro, err := b.Open(t.Context(), storyID, pistore.ReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			if digest(t, ro) != want || nextSeq(t, ro) != next {
				t.Fatalf("commit %d: what was compacted reads otherwise", n)
			}
			if err := ro.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// randomTx is a transaction of a few writes of every kind, among few addresses.
func randomTx(rng *rand.Rand, n int) pistore.Tx {
	var tx pistore.Tx
	for i := range 1 + rng.IntN(6) {
		id := pistore.ID(fmt.Sprintf("%d-%d", n, i))
		key := fmt.Sprint(rng.IntN(5))
		switch rng.IntN(4) {
		case 0:
			tx.Writes = append(tx.Writes, pistore.InsertEntry{
				ID: id, Type: pistore.TypeCustom, CustomType: "c", Payload: pistore.JSON(fmt.Sprintf(`{"data":"%*d"}`, rng.IntN(200), n)),
			})
		case 1:
			tx.Writes = append(tx.Writes, pistore.InsertUsage{ID: id, Usage: `{"input":1e0}`, Adjustment: i%2 == 0, Details: `[-0]`})
		case 2:
			tx.Writes = append(tx.Writes, pistore.SetRegister{Namespace: "n", Key: key, Value: pistore.JSON(fmt.Sprint(n))})
		default:
			tx.Writes = append(tx.Writes, pistore.DeleteRegister{Namespace: "n", Key: key})
		}
	}
	return tx
}

func nextSeq(t *testing.T, st pistore.Storage) pistore.Seq {
	t.Helper()
	for row, err := range st.Export(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		return row.(pistore.Header).NextSeq
	}
	t.Fatal("an export without a header")
	return 0
}

// TestCompactionUnderLoad compacts twenty times while eight committers and two
// readers are at work: nothing that was acknowledged is lost, then or after
// reopening.
func TestCompactionUnderLoad(t *testing.T) {
	t.Parallel()
	const committers, rounds = 8, 20
	b := NewFolder(t.TempDir(), Options{DiskPayloadBytes: 1})
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	var acked [committers]int
	for c := range committers {
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := st.Commit(t.Context(), loadTx(c, n)); err != nil {
					t.Error(err)
					return
				}
				acked[c] = n + 1
			}
		})
	}
	for range 2 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, err := range st.ScanEntries(t.Context(), pistore.ScanQuery{Order: pistore.Reversed, Limit: 50}) {
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range rounds {
		compact(t, st)
	}
	close(stop)
	work.Wait()
	total := 0
	check := func(st pistore.Storage) {
		t.Helper()
		var ids []pistore.ID
		total = 0
		for c, n := range acked {
			total += n
			for i := range n {
				ids = append(ids, loadTx(c, i).Writes[0].(pistore.InsertEntry).ID)
			}
			found, err := st.Registers(t.Context(), []pistore.Address{{Namespace: "n", Key: fmt.Sprint(c)}})
			if err != nil || n > 0 && (len(found) != 1 || found[0].Value != pistore.JSON(fmt.Sprint(n-1))) {
				t.Errorf("committer %d, %d commits: %v, %v", c, n, found, err)
			}
		}
		if found, err := st.Entries(t.Context(), ids); err != nil || len(found) != total {
			t.Errorf("%d entries of %d, %v", len(found), total, err)
		}
		if stats, err := st.Stats(t.Context()); err != nil || stats.Entries != int64(total) {
			t.Errorf("%d entries of %d, %v", stats.Entries, total, err)
		}
	}
	check(st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = b.Open(t.Context(), storyID, pistore.ReadWrite); err != nil {
		t.Fatal(err)
	}
	check(st)
	t.Logf("%d commits beside %d compactions", total, rounds)
	if total == 0 {
		t.Error("nothing was committed")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func loadTx(committer, n int) pistore.Tx {
	return pistore.Tx{Writes: []pistore.Write{
		pistore.InsertEntry{ID: pistore.ID(fmt.Sprintf("%d-%d", committer, n)), Type: pistore.TypeCustom, CustomType: "c",
			Payload: `{"data":"as long as it takes to be left on disk, which is some sixty bytes and more"}`},
		pistore.SetRegister{Namespace: "n", Key: fmt.Sprint(committer), Value: pistore.JSON(fmt.Sprint(n))},
	}}
}
