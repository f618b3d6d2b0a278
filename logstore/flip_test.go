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
	flips    = flag.Int("logflips", 25, "flipped bits of each of these tests")
	flipSeed = flag.Uint64("flipseed", 0, "seed of the tests that flip bits of logs and names; 0: any")
)

func flipRNG(t *testing.T) *rand.Rand {
	seed := *flipSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay: go test ./logstore -run '^%s$' -logflips %d -flipseed %d",
		strings.ReplaceAll(t.Name(), "/", "$/^"), *flips, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// bootA and bootB are two starts of a machine.
const bootA, bootB = 0xa, 0xb

// memImage is what a process that dies now leaves in a file system in memory.
func memImage(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// chains commits chains in several sessions at once, flushing in between, and
// returns the digests of each session without its newest commit and with it.
func chains(t *testing.T, s *Store, sessions, each, size int) (digests [][2]string) {
	t.Helper()
	var wg sync.WaitGroup
	digests = make([][2]string, sessions)
	for i := range sessions {
		st := createT(t, s, sessionName(i))
		wg.Go(func() {
			for n := range each {
				if n == each-1 {
					digests[i][0] = digestT(t, st)
				}
				if _, err := st.Commit(ctx, chainTx(n, size*(n%7))); err != nil {
					t.Error(err)
					return
				}
			}
			digests[i][1] = digestT(t, st)
		})
	}
	wg.Wait()
	return digests
}

// lostOf opens a database, reads all of it, and returns how many sessions lack
// their newest commit. One that has neither state is a failure of the test.
func lostOf(t *testing.T, opts Options, digests [][2]string) (lost int, err error) {
	t.Helper()
	s, err := Open("db", opts)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for i, want := range digests {
		st, err := s.Open(ctx, sessionName(i), pistore.ReadOnly)
		if err != nil {
			return 0, err
		}
		got, err := pistore.Digest(ctx, st)
		switch {
		case err != nil:
			return 0, err
		case got == want[0]:
			lost++
		case got != want[1]:
			t.Errorf("session %d has a state that it never had", i)
		}
	}
	return lost, nil
}

// readMem and writeMem read and write a whole file.
func readMem(t testing.TB, fs vfs.FS, name string) []byte {
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

func writeMem(t testing.TB, fs vfs.FS, name string, data []byte) {
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

// TestFlippedBits flips bits of the logs that a killed process left, of more
// sessions than the crash kit has, which the engine loses more of: the database
// is refused with the place, or it has everything, the newest commit aside.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	for _, level := range bothLevels {
		t.Run(level.String()+"/64/log", func(t *testing.T) {
			t.Parallel()
			testFlippedBits(t, level, 64, bootA)
		})
	}
	// After a restart of the machine the marks alone tell what was synced.
	t.Run("power/1/log/restarted", func(t *testing.T) {
		t.Parallel()
		testFlippedBits(t, pistore.Power, 1, bootB)
	})
}

func testFlippedBits(t *testing.T, level pistore.Durability, sessions int, boot uint32) {
	rng := flipRNG(t)
	fs := vfs.NewCrashableMem()
	s := openStoreT(t, "db", Options{Durability: level, fs: fs, boot: bootA, MemtableBytes: 1})
	digests := chains(t, s, sessions, 320/sessions, 300)
	image := memImage(fs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opts := Options{Durability: level, fs: image, boot: boot, ReadOnly: true}
	if lost, err := lostOf(t, opts, digests); err != nil || lost != 0 {
		t.Fatalf("undamaged: %d commits lost, error %v", lost, err)
	}
	names := filesOf(t, image, "*.log")
	if len(names) == 0 {
		t.Fatal("there is no such file")
	}
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
		lost, err := lostOf(t, opts, digests)
		what := fmt.Sprintf("%s, bit %d of byte %d of %d", name, bit, at, len(data))
		var corrupt *pistore.CorruptError
		switch {
		case errors.As(err, &corrupt) && corrupt.Place != "":
			refused++
		case err != nil:
			t.Errorf("%s: %v, want a CorruptError with its place", what, err)
		case lost > 1:
			t.Errorf("%s: %d commits were lost silently", what, lost)
		case lost == 1:
			torn++
		}
		data[at] ^= 1 << bit
		writeMem(t, image, name, data)
	}
	t.Logf("%d flips in %d files: %d refused, %d counted the newest commit as torn", *flips, len(names), refused, torn)
}

// TestFlippedNames flips bits of the names of the markers, which are all that
// they say: the database is refused or shows everything.
func TestFlippedNames(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := openStoreT(t, "db", Options{fs: fs, boot: bootA, MemtableBytes: 1})
	digests := chains(t, s, 1, 320, 300)
	made := memImage(fs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rng := flipRNG(t)
	refused := 0
	for range *flips {
		image := memImage(made)
		names := filesOf(t, image, "marker.*")
		path := names[rng.IntN(len(names))]
		name := []byte(image.PathBase(path))
		name[rng.IntN(len(name))] ^= 1 << rng.IntN(8)
		if bytes.ContainsAny(name, "/\x00") {
			continue
		}
		if err := image.Rename(path, image.PathJoin("db", string(name))); err != nil {
			t.Fatal(err)
		}
		lost, err := lostOf(t, Options{fs: image, boot: bootA, ReadOnly: true}, digests)
		if err != nil {
			refused++
			if !errors.Is(err, pistore.ErrCorrupt) && !errors.Is(err, pistore.ErrNewerVersion) {
				t.Errorf("%q: %v, want ErrCorrupt", name, err)
			}
		} else if lost > 0 {
			t.Errorf("%q: a commit was lost silently", name)
		}
	}
	t.Logf("%d flips: %d refused", *flips, refused)
}
