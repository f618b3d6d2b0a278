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
			cut := &powerCut{fs: fs, level: level}
			opts := Options{Durability: level, fs: hookFS{fs, cut.see}, boot: boot, MemtableBytes: 1, CompressAboveBytes: -1}
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
			fs, known = cut.underLoad(t, s, rng, known)
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

// powerCut takes what a power cut leaves, just before a log is synced, or written
// at Process level: that is when most is on its way.
type powerCut struct {
	fs    *vfs.MemFS
	level pistore.Durability
	acked []atomic.Int64
	total atomic.Int64
	goal  int64 // of acknowledged commits, before which the power stays on
	how   vfs.CrashCloneCfg
	armed atomic.Bool
	done  chan struct{}

	left  *vfs.MemFS
	heard []int // acknowledged before
}

func (c *powerCut) see(op fsOp) error {
	due := "write"
	if c.level == pistore.Power {
		due = "sync"
	}
	if op.kind != "log" || op.what != due || c.total.Load() < c.goal || !c.armed.CompareAndSwap(true, false) {
		return nil
	}
	for i := range c.acked {
		c.heard[i] = int(c.acked[i].Load())
	}
	c.left = c.fs.CrashClone(c.how)
	close(c.done)
	return nil
}

// underLoad commits in all sessions and cuts the power somewhere in between. It
// returns what is left and what was acknowledged before.
func (c *powerCut) underLoad(t *testing.T, s *Store, rng *rand.Rand, known []int) (*vfs.MemFS, []int) {
	t.Helper()
	c.acked, c.heard = make([]atomic.Int64, len(known)), make([]int, len(known))
	c.goal, c.done = int64(1+rng.IntN(150)), make(chan struct{})
	c.how = vfs.CrashCloneCfg{
		UnsyncedDataPercent: []int{0, 20, 50, 80, 95, 100}[rng.IntN(6)], RNG: rand.New(rand.NewPCG(rng.Uint64(), 0)),
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	size := 1 + rng.IntN(600)
	sessions := make([]pistore.Storage, len(known))
	for i, n := range known {
		st, err := openOrCreate(s, sessionName(i))
		if err != nil {
			t.Fatal(err)
		}
		c.acked[i].Store(int64(n))
		sessions[i] = st
	}
	c.armed.Store(true)
	for i, n := range known {
		wg.Go(func() {
			for ; !stop.Load(); n++ {
				if _, err := sessions[i].Commit(ctx, chainTx(n, size*(n%31))); err != nil {
					t.Error(err)
					return
				}
				c.acked[i].Store(int64(n + 1))
				c.total.Add(1)
			}
		})
	}
	<-c.done
	stop.Store(true)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return c.left, c.heard
}
