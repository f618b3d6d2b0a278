package verify

import (
	"errors"
	"fmt"

	"pistore"
)

// Severity says what a fault means for the store.
type Severity string

const (
	// Error: the store breaks an invariant.
	Error Severity = "error"
	// Warning: the store can be used, and something in it is not as it should be.
	Warning Severity = "warning"
)

// Fault is one thing that is wrong, and where.
type Fault struct {
	Invariant int // by number; 0: physical damage, or a read that breaks its contract
	Severity  Severity
	ID        pistore.ID // the entry or usage row at fault; empty: none
	Place     string     // where: "seq 12", "register op.state/…", or what the backend says
	Message   string     // what was expected and what was found
}

// Counts say how much was looked at.
type Counts struct {
	Entries   int64
	Registers int64
	Usage     int64
	// Transactions of the history, where the store keeps one; -1: it does not.
	Transactions int64
}

// A store may be broken in a million places. The first ones say what is wrong;
// the share of one invariant is bounded so that it cannot hide the others.
const (
	maxFaults             = 1000
	maxFaultsPerInvariant = 100
)

// Report is the result of a check.
type Report struct {
	Checked  Counts
	Faults   []Fault // in the order in which they were found; the first ones only
	Errors   int64   // all of severity error, those not kept included
	Warnings int64   // all of severity warning, those not kept included
	// Incomplete says that reading ended early, at damage that Faults names.
	// What rows were not read cannot be judged, so checks across rows were left
	// out.
	Incomplete bool
}

// OK reports whether no fault of severity error was found.
func (r Report) OK() bool { return r.Errors == 0 }

// Omitted counts the faults that were found and not kept.
func (r Report) Omitted() int64 { return r.Errors + r.Warnings - int64(len(r.Faults)) }

// collector gathers faults.
type collector struct {
	report Report
	kept   map[int]int // faults kept, by invariant
}

func (c *collector) add(f Fault) {
	if f.Severity == Warning {
		c.report.Warnings++
	} else {
		c.report.Errors++
	}
	c.keep(f)
}

// keep keeps a fault that is counted, if there is room.
func (c *collector) keep(f Fault) {
	if len(c.report.Faults) >= maxFaults || c.kept[f.Invariant] >= maxFaultsPerInvariant {
		return
	}
	if c.kept == nil {
		c.kept = map[int]int{}
	}
	c.kept[f.Invariant]++
	c.report.Faults = append(c.report.Faults, f)
}

// addFrom adds what another one has gathered, with its count of what it did not
// keep.
func (c *collector) addFrom(o *collector) {
	for _, f := range o.report.Faults {
		c.keep(f)
	}
	c.report.Errors += o.report.Errors
	c.report.Warnings += o.report.Warnings
}

// row adds an error about an entry or a usage row.
func (c *collector) row(invariant int, id pistore.ID, seq pistore.Seq, format string, args ...any) {
	c.add(rowFault(invariant, id, seq, format, args...))
}

// cell adds an error about a register.
func (c *collector) cell(invariant int, at pistore.Address, format string, args ...any) {
	c.add(cellFault(invariant, Error, at, format, args...))
}

// cellWarning adds a warning about a register.
func (c *collector) cellWarning(invariant int, at pistore.Address, format string, args ...any) {
	c.add(cellFault(invariant, Warning, at, format, args...))
}

func rowFault(invariant int, id pistore.ID, seq pistore.Seq, format string, args ...any) Fault {
	return Fault{
		Invariant: invariant, Severity: Error, ID: id,
		Place: seqPlace(seq), Message: fmt.Sprintf(format, args...),
	}
}

func cellFault(invariant int, s Severity, at pistore.Address, format string, args ...any) Fault {
	return Fault{Invariant: invariant, Severity: s, Place: cellPlace(at), Message: fmt.Sprintf(format, args...)}
}

func seqPlace(seq pistore.Seq) string { return fmt.Sprintf("seq %d", seq) }

// quoted shows an id in a message.
func quoted(id pistore.ID) string { return fmt.Sprintf("%.140q", string(id)) }

func cellPlace(at pistore.Address) string { return "register " + at.Namespace + "/" + at.Key }

// damage turns an error of reading into a fault if it says that the store is
// damaged, and returns it otherwise: cancelled, closed, an I/O failure.
func (c *collector) damage(err error, what string) error {
	if err == nil || !errors.Is(err, pistore.ErrCorrupt) {
		return err
	}
	f := Fault{Severity: Error, Message: what + ": " + err.Error()}
	var corrupt *pistore.CorruptError
	if errors.As(err, &corrupt) {
		f.Invariant, f.Place, f.Message = corrupt.Invariant, corrupt.Place, corrupt.Problem
	}
	c.add(f)
	return nil
}
