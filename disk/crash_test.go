package disk

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
)

const crashes = 400

func crashed(m *Memory, seed uint64) *Memory { return m.Crash(rand.New(rand.NewPCG(seed, 0))) }

func TestCrashKeepsWhatIsSynced(t *testing.T) {
	m := NewMemory()
	check(t, m.Mkdir("d"))
	f, err := m.Open("d/a", Create)
	check(t, err)
	put(t, f, "kept")
	check(t, f.Sync())
	check(t, m.SyncDir("d"))
	check(t, m.SyncDir("/"))
	for seed := range uint64(crashes) {
		left, err := crashed(m, seed).Open("d/a", Append)
		check(t, err)
		if got := text(t, left); got != "kept" {
			t.Fatalf("seed %d: content %q", seed, got)
		}
		check(t, left.Lock()) // nobody is left who had it
	}
}

// TestCrashForgets sees every outcome that a missing sync allows.
func TestCrashForgets(t *testing.T) {
	m := NewMemory()
	f, err := m.Open("a", Create)
	check(t, err)
	old := strings.Repeat("o", 2*sector+100)
	put(t, f, old)
	check(t, f.SyncData())
	check(t, m.SyncDir("/"))
	put(t, f, strings.Repeat("n", 3*sector))
	check(t, m.Rename("a", "b"))
	g, err := m.Open("c", Create) // its name is not synced, its content is
	check(t, err)
	put(t, g, "content")
	check(t, g.Sync())
	seen := map[string]int{}
	for seed := range uint64(crashes) {
		after := crashed(m, seed)
		_, errA := after.Stat("a")
		_, errB := after.Stat("b")
		name := "a"
		switch {
		case errA == nil && errB == nil, errA != nil && errB != nil:
			t.Fatalf("seed %d: a rename was done by half: %v, %v", seed, errA, errB)
		case errB == nil:
			name = "b"
		}
		seen["renamed "+name]++
		file, err := after.Open(name, Read)
		check(t, err)
		got := text(t, file)
		if !strings.HasPrefix(got, old) {
			t.Fatalf("seed %d: synced content is gone", seed)
		}
		tail := []byte(got[len(old):])
		switch {
		case len(tail) == 0:
			seen["dropped"]++
		case len(bytes.Trim(tail, "n")) == 0 && len(tail) == 3*sector:
			seen["kept"]++
		case bytes.IndexByte(tail, 0) >= 0 && tail[len(tail)-1] == 'n':
			seen["torn, end kept"]++
		case bytes.IndexByte(tail, 0) >= 0:
			seen["torn, end NUL"]++
		default:
			seen["cut short"]++
		}
		if c, err := after.Open("c", Read); err == nil {
			seen["name kept"]++
			if text(t, c) != "content" {
				t.Fatalf("seed %d: synced content is gone", seed)
			}
		} else {
			want(t, "opening", err, fs.ErrNotExist)
			seen["name dropped"]++
		}
	}
	for _, outcome := range []string{
		"renamed a", "renamed b", "dropped", "kept", "torn, end kept", "torn, end NUL", "cut short", "name kept", "name dropped",
	} {
		if seen[outcome] == 0 {
			t.Errorf("never seen in %d crashes: %s", crashes, outcome)
		}
	}
	if got := text(t, f); len(got) != len(old)+3*sector {
		t.Error("a crash changed the file system that it was taken of")
	}
}

func TestCrashReplays(t *testing.T) {
	m := NewMemory()
	f, err := m.Open("a", Create)
	check(t, err)
	put(t, f, strings.Repeat("x", 10*sector))
	check(t, m.SyncDir("/"))
	for seed := range uint64(20) {
		a, err := crashed(m, seed).Open("a", Read)
		check(t, err)
		b, err := crashed(m, seed).Open("a", Read)
		check(t, err)
		if text(t, a) != text(t, b) {
			t.Fatalf("seed %d gave two results", seed)
		}
	}
}

// TestDie keeps everything but the locks, and what a later power cut may take.
func TestDie(t *testing.T) {
	m := NewMemory()
	check(t, m.Mkdir("d"))
	f, err := m.Open("d/a", Create)
	check(t, err)
	check(t, f.Lock())
	put(t, f, "synced")
	check(t, f.Sync())
	put(t, f, ", not synced")
	check(t, m.Link("d/a", "b"))
	after := m.Die()
	put(t, f, ", too late")
	lost, gone := false, false
	for _, name := range []string{"d/a", "b"} {
		left, err := after.Open(name, Append)
		check(t, err)
		if got := text(t, left); got != "synced, not synced" {
			t.Errorf("%s: content %q", name, got)
		}
		check(t, left.Lock())
		check(t, left.Close())
	}
	for seed := range uint64(crashes) {
		left, err := crashed(after, seed).Open("b", Read)
		if gone = gone || err != nil; err == nil {
			lost = lost || text(t, left) == "synced"
		}
	}
	if !lost || !gone {
		t.Errorf("a power cut took the content %t, the name %t, and may take both", lost, gone)
	}
}
