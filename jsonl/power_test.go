package jsonl

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pistore"
	"pistore/disk"
)

var powerSeeds = flag.Int("power-seeds", 12, "power cuts at each disk call")

var bothLevels = []pistore.Durability{pistore.Process, pistore.Power}

// TestPowerCut cuts the power before each call to the disk, and forgets what was
// not synced in several ways. At Power everything acknowledged is there; at
// Process a prefix is, or damage with its place.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	digests := chainDigests(t, storyCommits)
	for _, level := range bothLevels {
		for name, onDisk := range map[string]int64{"": -1, " with payloads on disk": 1} {
			t.Run(level.String()+name, func(t *testing.T) {
				t.Parallel()
				lost, refused, open := 0, 0, 0
				for call, done := 0, false; !done; call++ {
					var crashes []*disk.Memory
					m := newMemory(t)
					f := disk.NewFailing(m)
					s := &story{options: fixedOptions(f, level)}
					s.options.DiskPayloadBytes = onDisk
					var at story
					f.Rule(func(c disk.Call) disk.Verdict {
						if c.N == call {
							at = *s
							for seed := range uint64(*powerSeeds) {
								crashes = append(crashes, m.Crash(rand.New(rand.NewPCG(seed, uint64(call)))))
							}
						}
						return disk.Verdict{}
					})
					if err := s.run(t.Context()); err != nil {
						t.Fatal(err)
					}
					if done = len(crashes) == 0; done {
						at = *s
						crashes = append(crashes, m.Crash(rand.New(rand.NewPCG(0, 0))))
					}
					if at.begun > at.acked {
						open++
					}
					for seed, left := range crashes {
						t.Run(fmt.Sprintf("call %d seed %d", call, seed), func(t *testing.T) {
							n, corrupt := at.checkAfter(t, left, digests, level == pistore.Process)
							if corrupt {
								refused++
							} else if n < at.acked {
								lost++
							}
						})
					}
				}
				t.Logf("%d calls during an open commit; %d cuts lost commits, %d were refused as corrupt", open, lost, refused)
				if level == pistore.Process && lost == 0 || open == 0 {
					t.Error("no cut lost anything: this test sees no losses")
				}
			})
		}
	}
}

// TestPowerCutUpgrade cuts the power before each call of the first commit to a
// file of version 3, at both levels: it is the original or the new one, and the
// original is never lost.
func TestPowerCutUpgrade(t *testing.T) {
	t.Parallel()
	original, err := os.ReadFile(filepath.Join(fixtures, "v3", "labels.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	const path = storyDir + "/a.jsonl"
	for _, level := range bothLevels {
		for call, hit := 0, true; hit; call++ {
			hit = false
			m := newMemory(t)
			writeOn(t, m, path, string(original))
			var crashes []*disk.Memory
			f := disk.NewFailing(m)
			file, err := OpenFile(t.Context(), path, pistore.ReadWrite, fixedOptions(f, level))
			if err != nil {
				t.Fatal(err)
			}
			before, acked := digest(t, file), ""
			f.Rule(func(c disk.Call) disk.Verdict {
				if c.N == call {
					hit = true
					for seed := range uint64(*powerSeeds) {
						crashes = append(crashes, m.Crash(rand.New(rand.NewPCG(seed, uint64(call)))))
					}
				}
				return disk.Verdict{}
			})
			if _, err := file.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "x", Value: "1"}}}); err != nil {
				t.Fatal(err)
			}
			if !hit {
				acked = digest(t, file)
				crashes = append(crashes, m.Crash(rand.New(rand.NewPCG(0, 0))))
			}
			after := digest(t, file)
			for _, left := range crashes {
				again, err := OpenFile(t.Context(), path, pistore.ReadWrite, fixedOptions(left, level))
				if err != nil {
					t.Fatalf("%v, call %d: %v", level, call, err)
				}
				got := digest(t, again)
				if got != before && got != after || acked != "" && level == pistore.Power && got != acked {
					t.Errorf("%v, call %d: a state that was never there", level, call)
				}
				if again.Info().Format == string(V4) && readOn(t, left, path+".v3") != string(original) {
					t.Errorf("%v, call %d: the original is lost", level, call)
				}
				if again.Info().Format != string(V4) && readOn(t, left, path) != string(original) {
					t.Errorf("%v, call %d: the original was changed", level, call)
				}
			}
		}
	}
}

// TestPowerCutLoad cuts the power before each call of a load: the session is
// whole or absent, and there when the load has returned.
func TestPowerCutLoad(t *testing.T) {
	t.Parallel()
	text, digests := chainFile(t, 5)
	from := newMemory(t)
	writeOn(t, from, storyDir+"/from.jsonl", text)
	source, err := OpenFile(t.Context(), storyDir+"/from.jsonl", pistore.ReadOnly, fixedOptions(from, pistore.Process))
	if err != nil {
		t.Fatal(err)
	}
	absent, whole := 0, 0
	for call, hit := 0, true; hit; call++ {
		hit = false
		m := newMemory(t)
		f := disk.NewFailing(m)
		var crashes []*disk.Memory
		f.Rule(func(c disk.Call) disk.Verdict {
			if c.N == call {
				hit = true
				for seed := range uint64(*powerSeeds) {
					crashes = append(crashes, m.Crash(rand.New(rand.NewPCG(seed, uint64(call)))))
				}
			}
			return disk.Verdict{}
		})
		if _, err := NewFolder(storyDir, fixedOptions(f, pistore.Process)).Load(t.Context(), source.Export(t.Context())); err != nil {
			t.Fatal(err)
		}
		if !hit {
			crashes = append(crashes, m.Crash(rand.New(rand.NewPCG(0, 0))))
		}
		for _, left := range crashes {
			b := NewFolder(storyDir, fixedOptions(left, pistore.Process))
			st, err := b.Open(t.Context(), storyID, pistore.ReadWrite)
			switch {
			case errors.Is(err, pistore.ErrNotFound) && hit:
				absent++
				// What is left over is in nobody's way.
				if _, err := b.Load(t.Context(), source.Export(t.Context())); err != nil {
					t.Errorf("call %d: loading again: %v", call, err)
				}
			case err != nil:
				t.Errorf("call %d: %v", call, err)
			case digest(t, st) != digests[5]:
				t.Errorf("call %d: a part of the session", call)
			default:
				whole++
			}
		}
	}
	t.Logf("absent %d times, whole %d times", absent, whole)
	if absent == 0 || whole == 0 {
		t.Error("this test does not see both")
	}
}
