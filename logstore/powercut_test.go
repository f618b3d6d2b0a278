package logstore

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

var powerCuts = flag.Int("powercuts", 10, "rounds of each power-cut test")

// TestPowerCut lets a file system forget what was not synced, at a random
// instant under load: file data block by block, names one by one. At Power level
// the database opens with everything acknowledged; at Process level it opens to
// a prefix of whole commits or refuses with ErrCorrupt.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		for _, sessions := range []int{1, 64} {
			t.Run(fmt.Sprintf("%s/%d", level, sessions), func(t *testing.T) {
				t.Parallel()
				testPowerCut(t, level, sessions)
			})
		}
	}
}

func testPowerCut(t *testing.T, level pistore.Durability, sessions int) {
	rng := flipRNG(t)
	refused, whole, unacked := 0, 0, 0
	for round := range *powerCuts {
		fs := vfs.NewCrashableMem()
		known := make([]int, sessions)
		boot := uint32(1)
		for range 1 + rng.IntN(3) { // cuts of one database
			opts := Options{Durability: level, fs: fs, boot: boot, MemtableBytes: 1, CompressAboveBytes: -1}
			s, err := Open("db", opts)
			if err == nil {
				var found []int
				found, err = countChains(t, s, sessions)
				for i, n := range found {
					if level == pistore.Power && n < known[i] {
						t.Fatalf("round %d: session %d has %d commits, %d were acknowledged", round, i, n, known[i])
					}
					unacked += max(0, n-known[i])
				}
				known = found
			}
			if err != nil {
				if level == pistore.Power || !errors.Is(err, pistore.ErrCorrupt) {
					t.Fatalf("round %d: open after a power cut: %v", round, err)
				}
				refused++
				break
			}
			whole++
			fs, known = cutUnderLoad(t, s, fs, rng, known)
			boot++
		}
	}
	t.Logf("%d opens, %d refused; %d commits were found that nobody had heard of", whole, refused, unacked)
}

func countChains(t *testing.T, s *Store, sessions int) ([]int, error) {
	counts := make([]int, sessions)
	for i := range counts {
		st, err := s.Open(ctx, sessionName(i), pistore.ReadOnly)
		if errors.Is(err, pistore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		counts[i] = checkChain(t, st)
		_ = st.Close()
	}
	return counts, nil
}

// cutUnderLoad commits in all sessions and cuts the power somewhere in between.
// It returns what is left and what was acknowledged before.
func cutUnderLoad(t *testing.T, s *Store, fs *vfs.MemFS, rng *rand.Rand, known []int) (*vfs.MemFS, []int) {
	t.Helper()
	acked := make([]atomic.Int64, len(known))
	var total atomic.Int64
	var stop atomic.Bool
	goal := int64(1 + rng.IntN(150))
	reached := make(chan struct{})
	var wg sync.WaitGroup
	size := 1 + rng.IntN(600)
	for i, n := range known {
		st, err := openOrCreate(s, sessionName(i))
		if err != nil {
			t.Fatal(err)
		}
		acked[i].Store(int64(n))
		wg.Go(func() {
			for ; !stop.Load(); n++ {
				if _, err := st.Commit(ctx, chainTx(n, size*(n%31))); err != nil {
					t.Error(err)
					return
				}
				acked[i].Store(int64(n + 1))
				if total.Add(1) == goal {
					close(reached)
				}
			}
		})
	}
	<-reached
	heard := make([]int, len(known))
	for i := range acked {
		heard[i] = int(acked[i].Load())
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: []int{0, 20, 50, 80, 95, 100}[rng.IntN(6)], RNG: rand.New(rand.NewPCG(rng.Uint64(), 0)),
	})
	stop.Store(true)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return left, heard
}
