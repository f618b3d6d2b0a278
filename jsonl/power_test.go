package jsonl

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pistore"
	"pistore/disk"
)

var powerSeeds = flag.Int("power-seeds", 12, "power cuts at each disk call of an upgrade")

var bothLevels = []pistore.Durability{pistore.Process, pistore.Power}

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
