package logstore

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

var (
	flips    = flag.Int("flips", 40, "flipped bits of each flip test")
	flipSeed = flag.Uint64("flipseed", 0, "seed of the flip and power-cut tests; 0: any")
)

func flipRNG(t *testing.T) *rand.Rand {
	seed := *flipSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay: go test ./logstore -run '^%s$' -flips %d -powercuts %d -flipseed %d",
		strings.ReplaceAll(t.Name(), "/", "$/^"), *flips, *powerCuts, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// bootA and bootB are two starts of a machine.
const bootA, bootB = 0xa, 0xb

// memImage is what a process that dies now leaves in a file system in memory.
func memImage(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// chains commits chains in several sessions at once and returns how many
// commits each has.
func chains(t *testing.T, s *Store, sessions, each, size int) []int {
	var wg sync.WaitGroup
	counts := make([]int, sessions)
	for i := range sessions {
		st := createT(t, s, sessionName(i))
		counts[i] = each
		wg.Go(func() {
			for n := range each {
				if _, err := st.Commit(ctx, chainTx(n, size*(n%7))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return counts
}

// lostOf opens a database and returns how many commits are missing in all.
func lostOf(t *testing.T, opts Options, counts []int) (lost int, err error) {
	t.Helper()
	s, err := Open("db", opts)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for i, want := range counts {
		st, err := s.Open(ctx, sessionName(i), pistore.ReadOnly)
		if errors.Is(err, pistore.ErrNotFound) {
			lost += want
			continue
		}
		if err != nil {
			return 0, err
		}
		stats, err := st.Stats(ctx)
		if err != nil {
			return 0, err
		}
		if int64(want) > stats.Entries {
			checkChain(t, st)
		}
		lost += want - int(stats.Entries)
	}
	return lost, nil
}

// readMem and writeMem read and write a whole file.
func readMem(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	info, err := fs.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, info.Size())
	file, err := fs.Open(name)
	if err == nil && len(data) > 0 {
		_, err = file.ReadAt(data, 0)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

func writeMem(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = file.Write(bytes.Clone(data)) // under -race it scrambles what it is given
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// filesOf returns the files of a database whose names match.
func filesOf(t *testing.T, fs vfs.FS, pattern string) (names []string) {
	t.Helper()
	all, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if ok, _ := filepath.Match(pattern, name); ok {
			names = append(names, fs.PathJoin("db", name))
		}
	}
	slices.Sort(names)
	return names
}

// TestFlippedLogBits flips bits of the logs that a killed process left: the
// database is refused with the place, or has everything, the newest commit aside.
func TestFlippedLogBits(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		for _, sessions := range []int{1, 64} {
			for _, pattern := range []string{"*.log", "MANIFEST-*"} {
				t.Run(fmt.Sprintf("%s/%d/%s", level, sessions, strings.Trim(pattern, "*.-")), func(t *testing.T) {
					t.Parallel()
					testFlippedBits(t, level, sessions, pattern, bootA)
				})
			}
		}
	}
	// After a restart of the machine the marks alone tell what was synced.
	t.Run("power/1/log/restarted", func(t *testing.T) {
		t.Parallel()
		testFlippedBits(t, pistore.Power, 1, "*.log", bootB)
	})
}

func testFlippedBits(t *testing.T, level pistore.Durability, sessions int, pattern string, boot uint32) {
	rng := flipRNG(t)
	fs := vfs.NewCrashableMem()
	s := openStoreT(t, "db", Options{Durability: level, fs: fs, boot: bootA, MemtableBytes: 1})
	counts := chains(t, s, sessions, 320/sessions, 300)
	image := memImage(fs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opts := Options{Durability: level, fs: image, boot: boot, ReadOnly: true}
	if lost, err := lostOf(t, opts, counts); err != nil || lost != 0 {
		t.Fatalf("undamaged: %d commits lost, error %v", lost, err)
	}
	names := filesOf(t, image, pattern)
	refused, torn := 0, 0
	for range *flips {
		name := names[rng.IntN(len(names))]
		data := readMem(t, image, name)
		if len(data) == 0 {
			continue
		}
		at, bit := rng.IntN(len(data)), rng.IntN(8)
		data[at] ^= 1 << bit
		writeMem(t, image, name, data)
		lost, err := lostOf(t, opts, counts)
		var corrupt *pistore.CorruptError
		switch {
		case errors.As(err, &corrupt) && corrupt.Place != "":
			refused++
		case err != nil:
			t.Errorf("%s, bit %d of byte %d: %v, want a CorruptError with its place", name, bit, at, err)
		case lost > 1:
			t.Errorf("%s, bit %d of byte %d of %d: %d commits were lost silently", name, bit, at, len(data), lost)
		case lost == 1:
			torn++
		}
		data[at] ^= 1 << bit
		writeMem(t, image, name, data)
	}
	t.Logf("%d flips in %d files: %d refused, %d counted the newest commit as torn", *flips, len(names), refused, torn)
}
