package jsonl

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

var (
	allBytes  = flag.Bool("all-bytes", false, "cut 200 transactions at every byte, and flip every bit of a file of 4 KB")
	flipSeed  = flag.Uint64("flip-seed", 0, "seed of the bits to flip; 0: any")
	flipShare = flag.Int("flip-share", 12, "one bit of so many is flipped")
)

// chainFile returns the file of a chain of n transactions, and its digests.
func chainFile(t testing.TB, n int) (text string, digests []string) {
	t.Helper()
	return fileOfTx(t, n, chainTx)
}

// briefTx is the n-th transaction of a chain of short lines, of each kind of
// write alone and together.
func briefTx(n int) pistore.Tx {
	entry := func(i int) pistore.ID { return pistore.ID(fmt.Sprintf("e%d", i)) }
	e := pistore.InsertEntry{ID: entry(n), Type: pistore.TypeCustom, CustomType: "c", Payload: pistore.JSON(fmt.Sprintf(`{"data":%d}`, n))}
	if n >= 4 {
		e.ParentID = entry(n - 4)
	}
	set := pistore.SetRegister{Namespace: "n", Key: fmt.Sprint(n % 7), Value: pistore.JSON(fmt.Sprint(n))}
	switch n % 4 {
	case 0:
		return pistore.Tx{Writes: []pistore.Write{e}}
	case 1:
		return pistore.Tx{Writes: []pistore.Write{set}}
	case 2:
		return pistore.Tx{Writes: []pistore.Write{pistore.DeleteRegister{Namespace: "n", Key: fmt.Sprint(n % 7)}}}
	default:
		e.ParentID = entry(n - 3)
		return pistore.Tx{Writes: []pistore.Write{e, pistore.InsertUsage{ID: entry(-n), Usage: `{"input":1}`}, set}}
	}
}

// fileOfTx returns the file of n transactions, and its digests after each.
func fileOfTx(t testing.TB, n int, tx func(n int) pistore.Tx) (text string, digests []string) {
	t.Helper()
	m := newMemory(t)
	b := NewFolder(storyDir, fixedOptions(m, pistore.Process))
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID, CWD: "/work", ParentSessionID: "p", CreatedAt: 5})
	if err != nil {
		t.Fatal(err)
	}
	digests = append(digests, digest(t, st))
	for i := range n {
		if _, err := st.Commit(t.Context(), tx(i)); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest(t, st))
	}
	path, err := b.find(storyID)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return readOn(t, m, path), digests
}

// TestGolden holds the bytes of a file: header, lines, sums.
func TestGolden(t *testing.T) {
	got, _ := chainFile(t, 8)
	const golden = "testdata/format4.jsonl"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// openBytes opens a text as the session of a folder, for writing or not.
func openBytes(t *testing.T, text string, mode pistore.Mode) (digest4 string, err error) {
	t.Helper()
	m := newMemory(t)
	if err := m.Mkdir(storyDir + "/d"); err != nil {
		t.Fatal(err)
	}
	writeOn(t, m, storyDir+"/d/x_"+storyID+extension, text)
	o := fixedOptions(m, pistore.Process)
	o.DiskPayloadBytes = int64(len(text) % 2) // 0: the default, hence in memory
	b := NewFolder(storyDir, o)
	st, err := b.Open(t.Context(), storyID, mode)
	if err != nil {
		return "", err
	}
	return digest(t, st), b.Close()
}

// TestTruncation cuts a file at every byte.
func TestTruncation(t *testing.T) {
	t.Parallel()
	text, digests := chainFile(t, 12)
	if *allBytes {
		text, digests = fileOfTx(t, 200, briefTx)
	}
	header := strings.IndexByte(text, '\n') + 1
	for cut := range len(text) + 1 {
		got, err := openBytes(t, text[:cut], pistore.Mode(cut%2))
		if cut < header {
			if !errors.Is(err, pistore.ErrCorrupt) && !errors.Is(err, pistore.ErrNotFound) {
				t.Fatalf("cut in the header at %d: %v", cut, err)
			}
			continue
		}
		whole := strings.Count(text[:cut], "\n") - 1
		if err != nil || got != digests[whole] {
			t.Fatalf("cut at %d: not the state of %d transactions: %v", cut, whole, err)
		}
	}
	t.Logf("%d cuts", len(text)+1)
}

// TestTruncatedSnapshot cuts a compacted file at every byte. A part of a snapshot
// is no state that ever was: it is corrupt, at the place where the file ends.
func TestTruncatedSnapshot(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	b := NewFolder(storyDir, fixedOptions(m, pistore.Process))
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
	for n := 0; n < 9 && err == nil; n++ {
		_, err = st.Commit(t.Context(), briefTx(n))
	}
	if err != nil {
		t.Fatal(err)
	}
	compact(t, st)
	path, ferr := b.find(storyID)
	if err := errors.Join(ferr, b.Close()); err != nil {
		t.Fatal(err)
	}
	text := readOn(t, m, path)
	header := strings.IndexByte(text, '\n') + 1
	for cut := header; cut < len(text); cut++ {
		_, err := openBytes(t, text[:cut], pistore.ReadWrite)
		var corrupt *pistore.CorruptError
		if !errors.As(err, &corrupt) || !strings.Contains(corrupt.Place, "line ") {
			t.Fatalf("cut at %d of %d: %v, want a CorruptError with its line", cut, len(text), err)
		}
	}
	if _, err := openBytes(t, text, pistore.ReadWrite); err != nil {
		t.Errorf("whole: %v", err)
	}
}

// TestFlips flips bits. What opens is the right state; the newest transaction may
// be torn by it. What does not is corrupt, at the line with the flipped bit.
func TestFlips(t *testing.T) {
	t.Parallel()
	text, digests := chainFile(t, 10)
	for n := 11; len(text) < 4000; n++ {
		text, digests = chainFile(t, n)
	}
	seed := *flipSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay: go test ./jsonl -run '^TestFlips$' -flip-seed %d -flip-share %d", seed, *flipShare)
	rng := rand.New(rand.NewPCG(seed, 0))
	lines := strings.Count(text, "\n")
	outcome := map[string]int{}
	for i := range len(text) {
		for bit := range 8 {
			if !*allBytes && rng.IntN(*flipShare) > 0 {
				continue
			}
			flipped := []byte(text)
			flipped[i] ^= 1 << bit
			line := strings.Count(text[:i], "\n") + 1
			got, err := openBytes(t, string(flipped), pistore.Mode((i+bit)%2))
			var located *pistore.CorruptError
			var unread *UnreadableError
			switch {
			case err == nil && got == digests[lines-1]:
				outcome["right state"]++
			case err == nil && got == digests[lines-2] && line == lines:
				outcome["newest torn"]++
			case err == nil:
				t.Errorf("byte %d bit %d: a wrong state", i, bit)
			case errors.As(err, &unread) && line == 1, line == 1 && errors.Is(err, pistore.ErrCorrupt):
				outcome["header"]++
			case errors.As(err, &located) && strings.Contains(located.Place, fmt.Sprintf("line %d,", line)):
				outcome["located"]++
			default:
				t.Errorf("byte %d bit %d in line %d: %v", i, bit, line, err)
			}
		}
	}
	t.Logf("%d bytes, %v", len(text), outcome)
	if outcome["located"] == 0 || outcome["right state"] > 0 {
		t.Errorf("outcomes %v", outcome)
	}
}

// TestTornTails opens what a crash may leave behind the last newline, commits,
// and finds nothing of it.
func TestTornTails(t *testing.T) {
	text, digests := chainFile(t, 4)
	longer, _ := chainFile(t, 5)
	next := longer[len(text):]
	nuls := func(n int) string { return strings.Repeat("\x00", n) }
	for name, tt := range map[string]struct {
		tail string
		torn bool // else corrupt
	}{
		"half a line":              {next[:len(next)/2], true},
		"a whole line":             {next[:len(next)-1], true},
		"NULs":                     {nuls(700), true},
		"half a line and NULs":     {next[:len(next)/2] + nuls(700), true},
		"a whole line and NULs":    {next[:len(next)-1] + nuls(3), true},
		"a line without a sector":  {sectorLost(text, next, 0), true},
		"a line without its start": {sectorLost(text, next, -1), true},
		"a whole line and a byte":  {next[:len(next)-1] + "x", false},
		"a line with another sum":  {strings.Replace(next, "entry", "Entry", 1), false},
		"a line of NULs":           {nuls(20) + "\n" + next, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t)
			const path = storyDir + "/a.jsonl"
			writeOn(t, m, path, text+tt.tail)
			o := fixedOptions(m, pistore.Power)
			ro, err := OpenFile(t.Context(), path, pistore.ReadOnly, o)
			if err != nil {
				t.Fatal(err)
			}
			report := ro.Report()
			if torn := report.TornBytes > 0 && report.Errors == 0; torn != tt.torn {
				t.Errorf("read-only: %d bytes torn, faults %v", report.TornBytes, report.Faults)
			}
			f, err := OpenFile(t.Context(), path, pistore.ReadWrite, o)
			if !tt.torn {
				if !errors.Is(err, pistore.ErrCorrupt) {
					t.Errorf("for writing: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if digest(t, f) != digests[4] || readOn(t, m, path) != text+tt.tail {
				t.Error("opening changed something")
			}
			if _, err := f.Commit(t.Context(), chainTx(4)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil || readOn(t, m, path) != longer {
				t.Errorf("after the commit: %v", err)
			}
		})
	}
}

// sectorLost returns a line of which one sector was never written, counted from
// 0, or -1 for the part of the one that it starts in.
func sectorLost(before, line string, n int) string {
	lost := []byte(line)
	start := (n + 1) * sectorBytes
	start -= len(before) % sectorBytes
	clear(lost[max(start, 0):min(max(start, 0)+sectorBytes, len(lost)-1)])
	if n < 0 {
		lost = append(make([]byte, min(sectorBytes-len(before)%sectorBytes, len(line)-1)), line[min(sectorBytes-len(before)%sectorBytes, len(line)-1):]...)
	}
	return string(lost)
}

func typed(err error) bool {
	for _, known := range []error{pistore.ErrCorrupt, pistore.ErrForeignFormat, pistore.ErrNewerVersion, pistore.ErrTooLarge} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
