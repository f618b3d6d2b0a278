package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync/atomic"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

// Config says how to make the backend under test, and how much is done to it.
// Open or OpenOn has to be given; every other field may be zero.
type Config struct {
	// Open opens the backend whose content lives in a directory of the operating
	// system. Without it the rows of killed processes are skipped.
	Open func(at Place) (pistore.Backend, error)

	// OpenOn opens the backend on a machine of the kit's own making. Without it
	// the rows of power cuts, failed calls and damage are skipped. Where the
	// backend takes a disk.FS, it may be the same function as Open.
	OpenOn func(at Place) (pistore.Backend, error)

	// Child returns the command of a process that is there to be killed: a program
	// that calls [Child]. nil: the running program.
	Child func() *exec.Cmd

	// Start, unless nil, takes the place of children: it opens the backend in a
	// process of its own, of any language, which is driven from here.
	Start func(at Place) (Process, error)

	// Levels are those that the backend promises; nil: both.
	Levels []pistore.Durability

	// Lacks names what the backend does not do. NoSessions, NoReadOnly, NoLoad,
	// NoRewrite, NoDelete and NoList count here.
	Lacks []conformance.Capability

	// Only selects rows by id; empty: all of them.
	Only []string

	// Dir is where directories for the backend are made and removed again; empty:
	// the system's place for temporary files.
	Dir string

	// Sessions is how many sessions are committed to at once; 0: 3.
	Sessions int

	// PayloadBytes is the size of the largest payloads; 0: 4 KiB. A store that
	// moves data in the background needs them large enough for that to happen
	// within a dozen commits.
	PayloadBytes int

	// Kills, Cuts, Faults and Flips are how often a row does its thing at each
	// level; 0: 20, 60, 60, 100. All calls of a short story are cut or failed where
	// that takes no more than this.
	Kills, Cuts, Faults, Flips int

	// EveryBit flips every bit of every file instead of some.
	EveryBit bool

	// Seed of everything that is random; 0: any, which is printed. What two
	// processes or goroutines do to each other is as random as ever.
	Seed uint64

	// Progress, unless nil, is called with each result as it comes.
	Progress func(Result)

	flags  bool
	beside *atomic.Pointer[verdict] // what checkFS came to
}

// Place is where a backend is opened, and how.
type Place struct {
	Dir   string // an existing directory, empty at first
	Level pistore.Durability
	// Mode is ReadOnly where the backend is opened to look only: then no byte may
	// change. It is never asked of a backend that lacks NoReadOnly.
	Mode pistore.Mode

	FS disk.FS // for OpenOn: where Dir is; else nil, the operating system's
	// Boot is for OpenOn: which start of the machine this is, from 1. It is another
	// one after a power cut, the same after a mere death of the process.
	Boot uint32
}

// Process is a backend that another process serves.
type Process struct {
	Backend pistore.Backend
	// Kill ends the process with SIGKILL, and all that it has started. It returns
	// when they are gone.
	Kill func() error
}

// Flags binds what says how much is done to flags, for the long run: -kills,
// -cuts, -faults, -flips, -every-bit, -crash-seed. What the config says is their
// default.
func (c *Config) Flags(f *flag.FlagSet) {
	c.flags = true
	f.IntVar(&c.Kills, "kills", c.Kills, "processes killed by a row of the crash kit at each level; 0: 20")
	f.IntVar(&c.Cuts, "cuts", c.Cuts, "power cuts of a row of the crash kit at each level; 0: 60")
	f.IntVar(&c.Faults, "faults", c.Faults, "calls failed by a row of the crash kit at each level; 0: 60")
	f.IntVar(&c.Flips, "flips", c.Flips, "bits flipped, or files cut, by a row of the crash kit at each level; 0: 100")
	f.BoolVar(&c.EveryBit, "every-bit", c.EveryBit, "flip every bit of every file")
	f.Uint64Var(&c.Seed, "crash-seed", c.Seed, "seed of the crash kit; 0: any")
}

// complete checks the config and fills in defaults. It panics on misuse.
func (c Config) complete() Config {
	if c.Open == nil && c.OpenOn == nil {
		panic("crash: neither Config.Open nor Config.OpenOn")
	}
	if min(c.Sessions, c.PayloadBytes, c.Kills, c.Cuts, c.Faults, c.Flips) < 0 {
		panic("crash: a number in the Config is negative")
	}
	for _, d := range []struct {
		n  *int
		to int
	}{{&c.Sessions, 3}, {&c.PayloadBytes, 4 << 10}, {&c.Kills, 20}, {&c.Cuts, 60}, {&c.Faults, 60}, {&c.Flips, 100}} {
		if *d.n == 0 {
			*d.n = d.to
		}
	}
	if c.lacks(conformance.NoSessions) {
		c.Sessions = 1
	}
	if c.Levels == nil {
		c.Levels = []pistore.Durability{pistore.Process, pistore.Power}
	}
	if len(c.Levels) == 0 {
		panic("crash: Config.Levels is empty, and no row would run; nil means both levels")
	}
	for _, level := range c.Levels {
		if _, err := pistore.ParseDurability(level.String()); err != nil {
			panic(fmt.Sprintf("crash: Config.Levels names %v, which is no level", level))
		}
	}
	c.beside = new(atomic.Pointer[verdict])
	for c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	for _, id := range c.Only {
		if !slices.Contains(RowIDs(), id) {
			panic(fmt.Sprintf("crash: Config.Only names %q, which is no row", id))
		}
	}
	for _, capability := range c.Lacks {
		if !slices.Contains(conformance.Capabilities(), capability) {
			panic(fmt.Sprintf("crash: Config.Lacks names %q, which is no capability", capability))
		}
	}
	return c
}

func (c Config) lacks(capability conformance.Capability) bool {
	return slices.Contains(c.Lacks, capability)
}

func (c Config) selects(id string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, id) }
