package bench

import (
	"context"
	"fmt"
	"iter"

	"pistore"
)

// CommitOnly is embedded by a Backend that creates sessions and commits to them,
// and does nothing else: a peer that marks what a machine can do. Whatever else
// it is asked is pistore.ErrUnsupported.
type CommitOnly struct{}

// CommitOnlySession is embedded by a session of such a Backend, which adds Commit
// and Close.
type CommitOnlySession struct{ ID pistore.SessionID }

func cannot(what string) error {
	return fmt.Errorf("bench: %w: this peer only commits; it has no %s", pistore.ErrUnsupported, what)
}

func none[T any](what string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		yield(zero, cannot(what))
	}
}

// Open is ErrUnsupported.
func (CommitOnly) Open(context.Context, pistore.SessionID, pistore.Mode) (pistore.Storage, error) {
	return nil, cannot("opening of sessions")
}

// Load is ErrUnsupported.
func (CommitOnly) Load(context.Context, iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	return pistore.Info{}, cannot("loading")
}

// Rewrite is ErrUnsupported.
func (CommitOnly) Rewrite(context.Context, pistore.SessionID, func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	return pistore.Info{}, cannot("rewriting")
}

// List yields ErrUnsupported.
func (CommitOnly) List(context.Context) iter.Seq2[pistore.Info, error] {
	return none[pistore.Info]("listing")
}

// Delete is ErrUnsupported.
func (CommitOnly) Delete(context.Context, pistore.SessionID) error { return cannot("deleting") }

// Info returns the id.
func (s CommitOnlySession) Info() pistore.Info { return pistore.Info{ID: s.ID} }

// Entries is ErrUnsupported.
func (CommitOnlySession) Entries(context.Context, []pistore.ID) ([]pistore.Entry, error) {
	return nil, cannot("entries to read")
}

// Registers is ErrUnsupported.
func (CommitOnlySession) Registers(context.Context, []pistore.Address) ([]pistore.Register, error) {
	return nil, cannot("registers to read")
}

// RegistersByPrefix yields ErrUnsupported.
func (CommitOnlySession) RegistersByPrefix(context.Context, string, string) iter.Seq2[pistore.Register, error] {
	return none[pistore.Register]("registers to read")
}

// Branch yields ErrUnsupported.
func (CommitOnlySession) Branch(context.Context, pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return none[pistore.Entry]("branches to read")
}

// ScanEntries yields ErrUnsupported.
func (CommitOnlySession) ScanEntries(context.Context, pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	return none[pistore.Entry]("entries to read")
}

// ScanUsage yields ErrUnsupported.
func (CommitOnlySession) ScanUsage(context.Context, pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return none[pistore.UsageRow]("usage to read")
}

// Stats is ErrUnsupported.
func (CommitOnlySession) Stats(context.Context) (pistore.Stats, error) {
	return pistore.Stats{}, cannot("statistics")
}

// Export yields ErrUnsupported.
func (CommitOnlySession) Export(context.Context) iter.Seq2[pistore.Row, error] {
	return none[pistore.Row]("export")
}
