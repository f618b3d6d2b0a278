package conformance

import (
	"math/rand/v2"
	"testing"
)

// maxFuzzCommits bounds a program that bytes drive, so that growing the input
// does not slow the fuzzer down.
const maxFuzzCommits = 100

// Fuzz lets the fuzzer write the programs of the model row: each byte of an input
// is one decision of their generator, and what the backend does is compared with
// the model after each commit. A fuzz target is one line:
//
//	func FuzzCommits(f *testing.F) { conformance.Fuzz(f, config()) }
//
// A failing program is shrunk and printed beside what the fuzzer says, which is
// the command that replays its input. Of cfg the fields that choose rows, seeds
// and numbers of transactions count for nothing.
func Fuzz(f *testing.F, cfg Config) {
	if cfg.Dir == "" {
		cfg.Dir = f.TempDir()
	}
	cfg = cfg.complete()
	for _, seed := range fuzzSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if result := checkProgram(cfg, data); result.Outcome == Fail {
			t.Fatalf("%s\n%s", result.Title, result.Why)
		}
	})
}

// fuzzSeeds are inputs of several lengths, random but the same each time.
func fuzzSeeds() [][]byte {
	seeds := [][]byte{nil}
	for n, length := range []int{20, 60, 200, 200, 600, 2000} {
		seed := make([]byte, length)
		r := newRand(uint64(n))
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// checkProgram runs the program that bytes drive, and shrinks it if it fails.
func checkProgram(cfg Config, data []byte) Result {
	return runRow(cfg, "model", row{
		id: "MOD-03", title: "a program driven by bytes does what the model does",
		advice: "the program above is minimal: every step of it is needed; run it by hand against the store",
		check: func(p *probe) {
			prog := decided(data)
			p.checks.Add(1)
			if found := p.replay(prog); found != nil {
				prog, found = p.shrink(prog, found)
				p.failf("input %q\nprogram:\n%sstep %d: %s: %s", data, prog, found.step+1, found.what, found.why)
			}
		},
	})
}

// decided generates the program whose decisions bytes are. It ends with them.
func decided(data []byte) program {
	source := &decisions{left: data}
	g := generator{Rand: rand.New(source), m: newModel()}
	var p program
	for commits := 0; len(source.left) > 0 && commits < maxFuzzCommits; commits++ {
		if g.one(12) {
			p.steps = append(p.steps, step{reopen: true, reads: g.Uint64()})
		}
		s := g.step()
		p.steps = append(p.steps, s)
		g.follow(s)
	}
	return p
}

// decisions is a source of random numbers that are bytes, so that a byte changed
// is a decision changed. What is decided behind the last byte, to finish a step,
// is the same each time.
type decisions struct {
	left []byte
	rest *rand.PCG
}

// Uint64 implements rand.Source. A byte stands in the high bits, from which
// most numbers are made, and in the low ones, for powers of two. The bit between
// keeps a number from being drawn again for the sake of evenness.
func (d *decisions) Uint64() uint64 {
	if len(d.left) == 0 {
		if d.rest == nil {
			d.rest = rand.NewPCG(0, 0)
		}
		return d.rest.Uint64()
	}
	b := uint64(d.left[0])
	d.left = d.left[1:]
	return b<<56 | 1<<55 | b
}
