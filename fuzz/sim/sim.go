package sim

import (
	"context"
	"fmt"
	"slices"

	"pistore"
	"pistore/harness"
)

// Config says what is simulated. The zero value is the harness over memstore.
type Config struct {
	// Backend is one of [Backends]; empty: memstore.
	Backend string
	// New makes the harness under test; nil: harness.New.
	New func(pistore.Storage, harness.Options) (*harness.Harness, error)
	// Acts and Mishaps cut the program short: only the first so many things are
	// asked of the lanes, and only so many crashes, faults and the like happen.
	// 0: as many as the seed says; negative: none.
	Acts, Mishaps int
	// Trace keeps a readable account of what happens.
	Trace bool
}

// Finding is what a simulation found wrong.
type Finding struct {
	// Check names what is broken: "invariant 14", "liveness", …
	Check  string
	Detail string
}

func (f Finding) String() string { return f.Check + ": " + f.Detail }

// Result is what one seed came to.
type Result struct {
	Seed    uint64
	Mode    Mode
	Acts    int // of the program
	Mishaps int // that happened
	Counts  Counts
	Finding *Finding // nil: none
	Trace   []string // with Config.Trace
}

// Counts say how much was done, by kind.
type Counts map[string]int64

// Add adds what another simulation did.
func (c Counts) Add(more Counts) {
	for name, n := range more {
		c[name] += n
	}
}

// Mode is what a seed is after.
type Mode string

// The modes.
const (
	// Wild: anything may happen between any two effects.
	Wild Mode = "wild"
	// Script: what is asked of a lane comes at the same places of its
	// conversation whatever crashes, so that the transcript can be compared with
	// that of an uninterrupted run.
	Script Mode = "script"
	// Drives: one program in automatic and in manual drive leaves the same
	// commits and the same state.
	Drives Mode = "drives"
)

// Run simulates one seed. The error says that the simulation itself could not
// be made; what it found is in the result.
func Run(ctx context.Context, seed uint64, c Config) (Result, error) {
	if c.Backend == "" {
		c.Backend = Memstore
	}
	if !slices.Contains(Backends, c.Backend) {
		return Result{}, fmt.Errorf("sim: %w: there is no backend %q", pistore.ErrInvalid, c.Backend)
	}
	if c.New == nil {
		c.New = harness.New
	}
	p := newProgram(seed)
	p.cut(c.Acts)
	switch p.mode {
	case Drives:
		return compareDrives(ctx, p, c)
	case Script:
		return compareTranscripts(ctx, p, c)
	default:
		s, err := simulate(ctx, p, c, true)
		if err != nil {
			return Result{}, err
		}
		return s.result(), nil
	}
}

// simulate runs a program once.
func simulate(ctx context.Context, p program, c Config, mishaps bool) (*simulation, error) {
	s, err := newSimulation(ctx, p, c)
	if err != nil {
		return nil, err
	}
	if !mishaps {
		s.mishaps = 0
	}
	s.run()
	return s, s.end()
}

// compareTranscripts runs a program without and with mishaps. The conversations
// are the same in every lane to which nothing uncertain happened.
func compareTranscripts(ctx context.Context, p program, c Config) (Result, error) {
	calm, err := simulate(ctx, p, c, false)
	if err != nil || calm.finding != nil {
		return calm.result(), err
	}
	rough, err := simulate(ctx, p, c, true)
	if err != nil || rough.finding != nil {
		return rough.result(), err
	}
	for _, name := range p.lanes {
		if why := rough.world.uncertain[name]; why != "" {
			continue
		}
		rough.count("transcript compared")
		if at := firstDifference(calm.transcripts[name], rough.transcripts[name]); at != "" {
			rough.find("transcript", "lane %s differs from an uninterrupted run: %s", name, at)
			break
		}
	}
	return rough.result(), nil
}

// compareDrives runs a program in both drives.
func compareDrives(ctx context.Context, p program, c Config) (Result, error) {
	automatic, err := simulateDrive(ctx, p, c, harness.Automatic)
	if err != nil || automatic.finding != nil {
		return automatic.result(), err
	}
	manual, err := simulateDrive(ctx, p, c, harness.Manual)
	if err != nil || manual.finding != nil {
		return manual.result(), err
	}
	manual.count("drives compared")
	if at := firstDifference(automatic.oracle.commits, manual.oracle.commits); at != "" {
		manual.find("drives", "the commits differ, automatic from manual: %s", at)
	} else if automatic.digest != manual.digest {
		manual.find("drives", "equal commits left unequal digests")
	}
	return manual.result(), nil
}

// firstDifference shows where two lists part, or is empty.
func firstDifference(want, got []string) string {
	at := func(list []string, i int) string {
		if i < len(list) {
			return fmt.Sprintf("%.200s", list[i])
		}
		return "nothing"
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			return fmt.Sprintf("at %d there is %s and should be %s", i+1, at(got, i), at(want, i))
		}
	}
	return ""
}
