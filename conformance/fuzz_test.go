package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bytes make programs that are worth running: they have commits of each result,
// and a longer input makes a longer program that begins alike.
func TestDecidedPrograms(t *testing.T) {
	commits, writes, reopened, expects := 0, map[string]int{}, 0, 0
	for _, seed := range fuzzSeeds() {
		p := decided(seed)
		for _, s := range p.steps {
			if s.reopen {
				reopened++
				continue
			}
			commits++
			expects += len(s.expect)
			for _, w := range s.writes {
				kind, _, _ := strings.Cut(describeWrite(w), " ")
				writes[kind]++
			}
		}
		if half := decided(seed[:len(seed)/2]); len(half.steps) > 1 &&
			!strings.HasPrefix(p.String(), program{steps: half.steps[:len(half.steps)-1]}.String()) {
			t.Errorf("half of the input makes another program:\n%s\n%s", half, p)
		}
	}
	if commits < 60 || reopened < 3 || expects < 20 || len(writes) != 4 {
		t.Errorf("%d commits, %d reopenings, %d preconditions, writes %v", commits, reopened, expects, writes)
	}
}

// A byte changed in an input changes one decision, not all that follow.
func TestDecisionsAreLocal(t *testing.T) {
	seed := fuzzSeeds()[3]
	same := 0
	for i := range seed {
		changed := slices.Clone(seed)
		changed[i] ^= 1
		if decided(changed).String() == decided(seed).String() {
			same++
		}
	}
	if same < len(seed)/4 {
		t.Errorf("of %d bytes %d can change by one without changing the program", len(seed), same)
	}
}

// What is printed of a failing input is a minimal program.
func TestFuzzedProgramIsShrunk(t *testing.T) {
	i := slices.IndexFunc(mutants(), func(m mutant) bool { return m.name == "takes null for a delete" })
	cfg := mutants()[i].config().complete()
	if result := checkProgram(plain().complete(), fuzzSeeds()[4]); result.Outcome != Pass {
		t.Errorf("a store that is in order: %s", result)
	}
	for _, seed := range fuzzSeeds() {
		result := checkProgram(cfg, seed)
		if result.Outcome == Pass {
			continue
		}
		n := len(regexp.MustCompile(`(?m)^ {6}(entry|usage|set|delete|expect) `).FindAllString(result.Why, -1))
		if !strings.HasPrefix(result.Why, fmt.Sprintf("input %q\nprogram:\n", seed)) || n > 4 {
			t.Errorf("a program of %d writes and conditions:\n%s", n, result.Why)
		}
		return
	}
	t.Error("the mutant is not found")
}
