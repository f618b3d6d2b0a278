package conformance

import (
	"slices"
	"time"
)

// Bounds of shrinking: each replay costs a fresh place, and a fresh process for
// a store behind a pipe. What is smallest by then is shown.
const (
	maxReplays    = 1500
	longestShrink = 30 * time.Second
)

// shrinker looks for the smallest program that still diverges. Any divergence will
// do: a smaller program that fails otherwise tells more.
type shrinker struct {
	p       *probe
	best    program
	found   *divergence
	replays int
	until   time.Time
}

// over reports whether the bounds are reached.
func (s *shrinker) over() bool { return s.replays >= maxReplays || time.Now().After(s.until) }

// shrink makes a failing program smaller: first whole steps are left out, in
// ever smaller runs, then single writes and conditions, until nothing can go.
func (p *probe) shrink(prog program, found *divergence) (program, *divergence) {
	if f := p.watch.Fault(); f != nil && f.Endless {
		prog.steps = prog.steps[:found.step+1]
		return prog, found // each replay would take as long again
	}
	s := &shrinker{p: p, best: prog, found: found, until: time.Now().Add(longestShrink)}
	s.try(slices.Clone(prog.steps[:found.step+1]))
	for !s.over() {
		before := size(s.best.steps)
		s.dropSteps()
		s.dropParts()
		if size(s.best.steps) == before {
			break
		}
	}
	return s.best, s.found
}

// try keeps the steps if they still diverge.
func (s *shrinker) try(steps []step) bool {
	if s.over() || len(steps) == 0 {
		return false
	}
	s.replays++
	d := s.p.replay(program{steps: steps, seed: s.best.seed})
	if d == nil {
		return false
	}
	s.best.steps, s.found = steps[:d.step+1], d
	return true
}

func (s *shrinker) dropSteps() {
	for run := max(len(s.best.steps)/2, 1); run > 0; run /= 2 {
		for from := 0; from < len(s.best.steps); {
			to := min(from+run, len(s.best.steps))
			if !s.try(slices.Delete(slices.Clone(s.best.steps), from, to)) {
				from = to
			}
		}
	}
}

func (s *shrinker) dropParts() {
	for i := 0; i < len(s.best.steps); i++ {
		for j := 0; i < len(s.best.steps) && j < len(s.best.steps[i].writes); {
			steps := slices.Clone(s.best.steps)
			steps[i].writes = slices.Delete(slices.Clone(steps[i].writes), j, j+1)
			if !s.try(steps) {
				j++
			}
		}
		for j := 0; i < len(s.best.steps) && j < len(s.best.steps[i].expect); {
			steps := slices.Clone(s.best.steps)
			steps[i].expect = slices.Delete(slices.Clone(steps[i].expect), j, j+1)
			if !s.try(steps) {
				j++
			}
		}
	}
}

// size counts what can be left out.
func size(steps []step) int {
	n := len(steps)
	for _, s := range steps {
		n += len(s.writes) + len(s.expect)
	}
	return n
}
