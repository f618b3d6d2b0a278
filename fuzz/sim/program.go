package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"pistore/registers"
)

// program is what a seed decides before anything happens. How the provider
// answers, which tools are called and what they do is decided when it is asked,
// by the seed and by what is asked alone (see [dice]), so that it is the same
// whatever crashed in between.
type program struct {
	seed    uint64
	mode    Mode
	lanes   []string
	acts    []act
	mishaps int // crashes, faults and the like
	retry   registers.RetryPolicy
	tools   registers.ToolExecution

	steering, followUp registers.QueueMode

	maxResumes int64
	watched    bool // somebody watches every lane
}

// act is something that is asked of a lane.
type act struct {
	n    int // its place in the program
	kind string
	lane string
}

func (a act) String() string { return fmt.Sprintf("%s #%d", a.kind, a.n) }

// text is what the act says to the model: no two acts say the same.
func (a act) text() string { return fmt.Sprintf("%s %d", a.kind, a.n) }

// dice returns random numbers that follow from the seed and from what they are
// for, and from nothing that happened before.
func dice(seed uint64, what ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, what...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// chance is true once in n times.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// weighted picks an index with a probability in proportion to its weight.
func weighted(r *rand.Rand, weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := r.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	panic("sim: weights changed")
}

func newProgram(seed uint64) program {
	r := dice(seed, "program")
	p := program{seed: seed, mode: []Mode{Wild, Script, Drives}[weighted(r, []int{6, 3, 1})]}
	p.lanes = []string{"main", "side", "aux"}[:1+weighted(r, []int{3, 3, 1})]
	p.retry = registers.RetryPolicy{MaxAttempts: 1 + r.Int64N(4), BaseDelayMS: r.Int64N(3000)}
	if chance(r, 3) || p.mode == Drives && chance(r, 2) {
		p.tools = registers.Sequential
	}
	modes := []registers.QueueMode{registers.OneAtATime, registers.All}
	p.steering, p.followUp = modes[r.IntN(2)], modes[r.IntN(2)]
	var weights []int
	for _, k := range actKinds {
		weights = append(weights, k.weight)
	}
	for n := range 3 + r.IntN(20) {
		k := actKinds[weighted(r, weights)]
		p.acts = append(p.acts, act{n: n + 1, kind: k.name, lane: p.lanes[r.IntN(len(p.lanes))]})
	}
	if p.mode != Drives {
		p.mishaps = r.IntN(9)
	}
	p.maxResumes, p.watched = 1+r.Int64N(3), chance(r, 3)
	return p
}

// cut leaves only the first acts of a program.
func (p *program) cut(acts int) {
	if acts < 0 {
		acts = 0
	} else if acts == 0 {
		return
	}
	p.acts = p.acts[:min(acts, len(p.acts))]
}
