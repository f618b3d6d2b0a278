package conformance

import (
	"fmt"
	"slices"

	"pistore"
)

// DefaultTransactions is how many generated transactions the model row commits
// unless Config.Transactions says otherwise.
const DefaultTransactions = 10_000

// Config says how to make the backend under test. Every field but Open may be
// zero.
type Config struct {
	// Open opens the backend whose content lives in dir, an existing directory
	// that is empty at first. Called again with the same dir after Close, it
	// shows what was committed before, unless the backend is Volatile.
	Open func(dir string) (pistore.Backend, error)

	// Volatile: the content lives in the Backend value and dies with it. Then
	// reopening closes the session and opens it again in the same Backend, and
	// dir is to be ignored.
	Volatile bool

	// Lacks names what the backend does not do. Rows that need it are skipped.
	Lacks []Capability

	// Only selects rows by id; empty: all of them.
	Only []string

	// Dir is where directories for the backend are made and removed again;
	// empty: the system's place for temporary files.
	Dir string

	// Seed of everything that is random; 0 is 1. A failing program is printed
	// with the seed that replays it.
	Seed int64

	// Transactions is the number of generated transactions of the model row;
	// 0: DefaultTransactions. A slow store passes fewer.
	Transactions int

	// ReopenEvery reopens the session after every n-th commit that a row makes,
	// and the backend too where the model row does; 1 is the strictest. 0: only
	// where rows ask for it and, in the model row, at seeded points.
	ReopenEvery int

	// Progress, unless nil, is called with each result as it comes.
	Progress func(Result)
}

// Capability names something that the contract asks for and a backend may lack.
type Capability string

// The capabilities that can be declared absent. A row that needs one is skipped;
// without the last two, rows ask for less.
const (
	NoReadOnly  Capability = "read-only"  // sessions cannot be opened read-only
	NoOwnership Capability = "ownership"  // a second opener is not refused
	NoReopen    Capability = "reopening"  // a closed session cannot be opened again
	NoLoad      Capability = "load"       // no Backend.Load
	NoRewrite   Capability = "rewrite"    // no Backend.Rewrite
	NoDelete    Capability = "delete"     // no Backend.Delete
	NoList      Capability = "list"       // no Backend.List
	NoExport    Capability = "export"     // no Storage.Export, hence no digest
	NoLarge     Capability = "large data" // payloads of many megabytes are out of proportion here

	NoSessions     Capability = "several sessions" // a place holds one session
	NoGeneration   Capability = "generations"      // Info.Generation stays empty
	NoErrorDetails Capability = "error details"    // errors match their sentinels and say no more to programs
)

// Capabilities returns every capability that can be declared absent.
func Capabilities() []Capability {
	return []Capability{
		NoReadOnly, NoOwnership, NoReopen, NoLoad, NoRewrite, NoDelete, NoList, NoExport, NoLarge,
		NoSessions, NoGeneration, NoErrorDetails,
	}
}

// complete checks the config and fills in defaults. It panics on misuse.
func (c Config) complete() Config {
	if c.Open == nil {
		panic("conformance: Config.Open is nil")
	}
	if c.Transactions < 0 || c.ReopenEvery < 0 {
		panic(fmt.Sprintf("conformance: %d transactions, reopening every %d", c.Transactions, c.ReopenEvery))
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Transactions == 0 {
		c.Transactions = DefaultTransactions
	}
	for _, id := range c.Only {
		if !slices.ContainsFunc(rows(), func(r row) bool { return r.id == id }) {
			panic(fmt.Sprintf("conformance: Config.Only names %q, which is no row", id))
		}
	}
	for _, capability := range c.Lacks {
		if !slices.Contains(Capabilities(), capability) {
			panic(fmt.Sprintf("conformance: Config.Lacks names %q, which is no capability", capability))
		}
	}
	return c
}

func (c Config) lacks(capability Capability) bool { return slices.Contains(c.Lacks, capability) }

// reopens reports whether sessions can be reopened as the config asks for.
func (c Config) reopens() bool { return !c.lacks(NoReopen) }
