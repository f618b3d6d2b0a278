package rows

import (
	"slices"
	"strings"
	"time"

	"pistore"
	"pistore/bench"
	"pistore/bench/stores"
)

// Row is one question.
type Row struct {
	Name     string // "1" to "15", as in the list of targets; Levels for the one without targets
	Question string
	Work     string // what is done, for a reader who has not seen the code
	Tables   []Table
	Chart    bench.Unit // what its chart shows of each side; empty: no chart
	Not      string     // what it does not show
	GiB      bool       // has a form with 1 GiB of content
}

// Levels is the name of the row for people who choose a durability level.
const Levels = "levels"

// Table is what was measured in turn: each round runs every side once, so that
// the sides of a round met the same machine.
type Table struct {
	Name   string // what tells it from others of the row; empty: it is the only one
	Rounds int
	Sides  []Side
	Show   []bench.Unit // columns
	Checks []Check
}

// Side is a candidate with its work.
type Side struct {
	Label string
	Store Store
	Work  bench.Config
}

// Store names a candidate.
type Store struct {
	Name  string
	Level pistore.Durability
}

// The peers of this module, beside the names in package stores.
const (
	SQLite           = "sqlite"
	TypeScriptJSONL  = "typescript-jsonl"
	TypeScriptMemory = "typescript-memory"
)

func (s Store) String() string { return s.Name + "/" + s.Level.String() }

// ParseStore is the reverse of String.
func ParseStore(text string) (Store, bool) {
	name, level, _ := strings.Cut(text, "/")
	d, err := pistore.ParseDurability(level)
	return Store{name, d}, err == nil
}

// NeedsNode says whether a store is a process of Node.
func (s Store) NeedsNode() bool { return s.Name == TypeScriptJSONL || s.Name == TypeScriptMemory }

// Check is what a measurement should be, or a ratio of two.
type Check struct {
	A, B   int // sides; B < 0: the measurement of A itself
	Unit   bench.Unit
	UnitB  bench.Unit // of B; empty: Unit
	AtMost bool       // else at least
	// Must and Stretch are what is asked; 0: it is shown and nothing is asked.
	Must, Stretch float64
}

// Form is how much is done.
type Form string

// The forms.
const (
	Full  Form = "full"
	Quick Form = "quick" // for trying: short, one round, little content
	GiB   Form = "1 GiB" // one round of rows that say so, with 1 GiB of content a side
)

// In is the row in a form.
func (r Row) In(f Form) Row {
	r.Tables = slices.Clone(r.Tables)
	for i := range r.Tables {
		t := &r.Tables[i]
		if f != Full {
			t.Rounds = 1
		}
		t.Sides = slices.Clone(t.Sides)
		for j := range t.Sides {
			t.Sides[j].Work = inForm(t.Sides[j].Work, f)
		}
	}
	return r
}

func inForm(c bench.Config, f Form) bench.Config {
	switch f {
	case Quick:
		c.Duration = min(c.Duration, 200*time.Millisecond)
		c.Turns, c.Sessions, c.Unflushed = min(c.Turns, 500), min(c.Sessions, 64), min(c.Unflushed, 256<<10)
		switch c.Workload {
		case open, openKilled:
			c.Ops = 1
		case "runs", "runs-bare":
			c.Ops = min(c.Ops, 160)
		}
	case GiB:
		switch c.Workload {
		case bench.Turn:
			c.Ops, c.Duration = 1<<30/bytesOfTurn, 0
		case bench.Small:
			c.Ops, c.Duration = 1<<30/bytesOfSmall, 0
		default:
			c.Turns = 1 << 30 / bytesOfHistory
		}
	}
	return c
}

// Logical bytes of a commit of the workloads, and of a turn of a history. A test
// holds them.
const bytesOfTurn, bytesOfSmall, bytesOfHistory = 3716, 522, 745

// All are all rows, in the order of the page.
func All() []Row {
	return slices.Concat([]Row{levels()}, commitRows(), openRows(), readRows(), runRows(), spaceRows())
}

// Find returns the row of a name.
func Find(name string) (Row, bool) {
	all := All()
	if i := slices.IndexFunc(all, func(r Row) bool { return r.Name == name }); i >= 0 {
		return all[i], true
	}
	return Row{}, false
}

// Names are the names of all rows.
func Names() []string {
	var all []string
	for _, r := range All() {
		all = append(all, r.Name)
	}
	return all
}

// The workloads that are not of commits.
const (
	open       = "open"
	openKilled = "open-killed"
)

// Durations of a run: an engine runs past its third flush, peers that do not
// flush do not need to.
const flushing, plain, reading = 30 * time.Second, 10 * time.Second, 2 * time.Second

// pairs is how many rounds a table has that says nothing else.
const pairs = 5

// labels are the names of stores for readers.
var labels = map[string]string{
	stores.Memory: "memory", stores.JSONL: "jsonl", stores.Logstore: "logstore",
	stores.BarePebble: "bare Pebble", stores.RawLog: "raw log, no checks", stores.RawLogJSON: "raw log",
	stores.GroupLog: "raw group log, no checks", stores.GroupLogJSON: "raw group log",
	SQLite: "SQLite WAL", TypeScriptJSONL: "TypeScript JSONL", TypeScriptMemory: "TypeScript memory",
}

// side is a store at a level with its work.
func side(name string, level pistore.Durability, c bench.Config) Side {
	label := labels[name]
	if name == SQLite {
		label += map[pistore.Durability]string{pistore.Process: " NORMAL", pistore.Power: " FULL"}[level]
	}
	return Side{Label: label, Store: Store{name, level}, Work: c}
}

// named is a side under a name that tells it from others of the same store.
func named(label string, s Side) Side {
	s.Label = label
	return s
}
