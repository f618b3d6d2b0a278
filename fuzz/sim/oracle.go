package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sync"

	"pistore"
	"pistore/harness"
	"pistore/registers"
	"pistore/session"
)

// oracle knows what is durable: every transaction that was committed goes
// through it, in every life of the process, and is judged by the rules. It is
// what the design calls the recording decorator; [guard] is its end at the store.
type oracle struct {
	*account
	clock *clock
	world *world // its lock comes behind that of the oracle

	mu      sync.Mutex // orders commits and guards what follows
	changed *sync.Cond // something was committed, or the process died

	cells   map[pistore.Address]pistore.JSON
	entries map[pistore.ID]*node
	usage   map[pistore.ID]pistore.InsertUsage
	ops     map[pistore.ID]*record
	steps   map[pistore.ID]*stepRecord
	order   []pistore.ID // of the entries
	billed  []pistore.ID // of the usage rows
	commits []string     // readable, with ids
	// compacted is for what runs have compacted, see compactedFor.
	compacted map[string]bool
	lastSeq   pistore.Seq
	decisions map[pistore.ID]*decision // of hooks, by summary
	drafts    map[pistore.ID]string    // of summaries, by the usage row of the request
	// settings are those in force in this life, complete.
	settings harness.Settings
	// call is what a call under way is about.
	call call
	// asked: what is being committed was asked for by a call, and is not a drive's.
	asked bool
	doubt *doubt
}

// call is what a call on a lane names.
type call struct {
	cancelling  pistore.ID                   // the queued entry of a CancelQueued
	configuring *registers.LaneConfiguration // what a setter is to leave
}

// calling says what a call is about to name, or that it is over.
func (o *oracle) calling(set func(*call)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	set(&o.call)
}

// doubt is a transaction of which the store did not say whether it is durable,
// with what was known of it when it was committed.
type doubt struct {
	tx    pistore.Tx
	asked bool
	call  call
}

// node is a stored entry.
type node struct {
	pistore.InsertEntry
	message session.Message // of a message entry
	lane    string          // that an operation placed it in, else empty
}

// record is what is known of an operation, open or ended.
type record struct {
	id      pistore.ID
	meta    registers.OpMeta
	state   registers.OpState // nil: it ended
	result  *registers.LastResult
	resumed bool // Resume was called and nothing was committed since
	resumes int  // how often
	commits int  // of the drive
	effects int  // that were executed
	slept   pistore.UnixMS
	aborted bool
}

// stepRecord is what is known of a step.
type stepRecord struct {
	attempts int64 // the newest that was announced
	settled  int   // how many of them were answered, durably
	burned   bool  // an attempt was announced and never answered
}

func newOracle(a *account, c *clock, w *world) *oracle {
	o := &oracle{
		account: a, clock: c, world: w,
		cells: map[pistore.Address]pistore.JSON{}, entries: map[pistore.ID]*node{}, usage: map[pistore.ID]pistore.InsertUsage{},
		ops: map[pistore.ID]*record{}, steps: map[pistore.ID]*stepRecord{},
		compacted: map[string]bool{}, decisions: map[pistore.ID]*decision{}, drafts: map[pistore.ID]string{},
	}
	o.changed = sync.NewCond(&o.mu)
	return o
}

func (o *oracle) step(id pistore.ID) *stepRecord {
	if o.steps[id] == nil {
		o.steps[id] = &stepRecord{}
	}
	return o.steps[id]
}

// lane returns the durable state of a lane, and whether it exists. The caller
// holds mu.
func (o *oracle) lane(name string) (registers.LaneState, bool) {
	value, ok := o.cells[pistore.Address{Namespace: registers.LaneStateNS, Key: name}]
	if !ok {
		return registers.LaneState{}, false
	}
	state, err := registers.DecodeLaneState(value)
	if err != nil {
		o.find("invariant 21", "lane.state of %s cannot be read: %v", name, err)
	}
	return state, true
}

// open returns the open operation of a lane, nil if it is idle.
func (o *oracle) open(name string) *record {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.openLocked(name)
}

func (o *oracle) openLocked(name string) *record {
	state, _ := o.lane(name)
	if state.CurrentOperationID == "" {
		return nil
	}
	return o.ops[state.CurrentOperationID]
}

// leaf returns the entry that a lane stands on.
func (o *oracle) leaf(name string) pistore.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leafIn(o.cells[pistore.Address{Namespace: registers.LaneLeafNS, Key: name}])
}

func (o *oracle) leafIn(value pistore.JSON) pistore.ID {
	if value == "" {
		return ""
	}
	leaf, err := registers.DecodeLaneLeaf(value)
	if err != nil {
		o.find("invariant 21", "a leaf cannot be read: %v", err)
	}
	return leaf
}

// committed judges a transaction and takes it over. The caller holds mu.
func (o *oracle) committed(tx pistore.Tx, r pistore.Receipt) {
	c := newCommit(o, tx, r)
	o.commits = append(o.commits, c.String())
	if o.tracing {
		o.say("  commit %d: %s", len(o.commits), c.brief())
	}
	o.count("commit")
	for _, rule := range rules {
		if problem := rule.judge(c); problem != "" {
			o.find(rule.name, "commit %d: %s", len(o.commits), problem)
		}
	}
	c.take()
	o.changed.Broadcast()
}

// settleDoubt decides, from what the store holds when it is opened again, whether
// the transaction in doubt is part of it.
func (o *oracle) settleDoubt(there func(pistore.Tx) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.doubt
	o.doubt = nil
	if d == nil {
		return
	}
	o.asked, o.call = d.asked, d.call
	if there(d.tx) {
		o.say("  what the store was not sure of is durable")
		o.count("doubt, durable")
		o.committed(d.tx, pistore.Receipt{})
	} else {
		o.count("doubt, gone")
	}
	o.call = call{}
}

// compare holds the rows of a store against what was committed: all of it must be
// there, and nothing else.
func (o *oracle) compare(rows []pistore.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	cells, entries, usage := 0, 0, 0
	for _, row := range rows {
		switch row := row.(type) {
		case pistore.Register:
			cells++
			if want, ok := o.cells[row.Address()]; !ok || want != row.Value {
				o.find("durability", "register %s/%s is %s after reopening, and was %q", row.Namespace, row.Key, row.Value, want)
			}
		case pistore.Entry:
			entries++
			if want := o.entries[row.ID]; want == nil || want.Payload != row.Payload || want.ParentID != row.ParentID {
				o.find("durability", "entry %s is not as it was committed", row.ID)
			}
		case pistore.UsageRow:
			usage++
			if want, ok := o.usage[row.ID]; !ok || want.Usage != row.Usage {
				o.find("durability", "usage row %s is not as it was committed", row.ID)
			}
		}
	}
	if cells != len(o.cells) || entries != len(o.entries) || usage != len(o.usage) {
		o.find("durability", "%d registers, %d entries and %d usage rows after reopening, of %d, %d and %d that were committed",
			cells, entries, usage, len(o.cells), len(o.entries), len(o.usage))
	}
}

// settledAttempts returns how many attempts at the open step of a lane were
// answered.
func (o *oracle) settledAttempts(lane string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.openLocked(lane)
	if op == nil {
		return 0
	}
	if p := pendingOf(op.state); p != nil {
		return o.step(p.step).settled
	}
	return 0
}

// announced returns the request that a lane has announced, nil if there is none.
func (o *oracle) announced(lane string) *pending {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.openLocked(lane); op != nil {
		return pendingOf(op.state)
	}
	return nil
}

// path returns the entries from a leaf to the root, oldest first.
func (o *oracle) path(leaf pistore.ID) []*node {
	o.mu.Lock()
	defer o.mu.Unlock()
	var path []*node
	for at := o.entries[leaf]; at != nil; at = o.entries[at.ParentID] {
		path = append(path, at)
	}
	slices.Reverse(path)
	return path
}

// waitTurn waits until every call of the batch is cleared and those before this
// one are settled, so that calls that run beside each other complete in one order
// in every drive.
func (o *oracle) waitTurn(ctx context.Context, lane string, result pistore.ID) {
	defer context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changed.Broadcast()
	})()
	o.mu.Lock()
	defer o.mu.Unlock()
	for ctx.Err() == nil && !o.isNext(lane, result) {
		o.changed.Wait()
	}
}

func (o *oracle) isNext(lane string, result pistore.ID) bool {
	op := o.openLocked(lane)
	if op == nil {
		return true
	}
	batch := batchOf(op.state)
	if batch == nil || o.sequential(op.state.(*registers.RunState), batch) {
		return true
	}
	planned := func(call registers.Call) bool { return call.Status == registers.CallPlanned }
	if slices.ContainsFunc(batch.Calls, planned) {
		return false
	}
	at := slices.IndexFunc(batch.Calls, func(call registers.Call) bool { return call.Status != registers.CallCompleted })
	return at < 0 || batch.Calls[at].ResultEntryID == result
}

// sequential reports whether the calls of a batch run one after the other.
func (o *oracle) sequential(run *registers.RunState, batch *registers.Tools) bool {
	response, ok := o.entries[batch.AssistantEntryID].message.(*session.AssistantMessage)
	return run.Settings.ToolExecution == registers.Sequential ||
		ok && slices.ContainsFunc(response.ToolCalls(), func(call session.ToolCall) bool { return call.Name == aloneTool })
}

// guard is the store as one life of the process sees it.
type guard struct {
	pistore.Storage
	o *oracle

	// What follows is under the lock of the oracle.

	dead   bool  // nothing gets through any more, and nobody is told
	broken error // every commit fails with it
	plan   fault // what becomes of the next commit
}

var _ pistore.Decorator = (*guard)(nil)

// fault is what becomes of a commit.
type fault int

const (
	noFault     fault = iota
	beforeFault       // it fails before anything is written
	afterFault        // it is durable, and the store does not know
)

var errDisk = fmt.Errorf("%w: the disk is gone", pistore.ErrFaulted)

// Unwrap is part of [pistore.Decorator].
func (g *guard) Unwrap() pistore.Storage { return g.Storage }

// Commit commits, unless the process is dead or the disk fails.
func (g *guard) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	if g.dead {
		return pistore.Receipt{}, pistore.ErrClosed
	}
	if g.broken != nil {
		return pistore.Receipt{}, g.broken
	}
	r, err := pistore.Receipt{}, errDisk
	if g.plan != beforeFault {
		r, err = g.Storage.Commit(ctx, tx)
	}
	if g.plan == afterFault && err == nil {
		r, err = pistore.Receipt{}, errDisk
	}
	asked := ctx.Value(asked{}) != nil
	switch {
	case err == nil:
		g.o.asked = asked
		g.o.committed(tx, r)
	case errors.Is(err, pistore.ErrFaulted):
		g.o.say("  a commit fails: %s", logNumber.ReplaceAllString(err.Error(), "LOG"))
		g.broken, g.o.doubt = err, &doubt{tx, asked, g.o.call}
	case errors.Is(err, ctx.Err()):
	default:
		g.o.find("refused", "the store refuses a commit: %v", err)
	}
	return r, err
}

// logNumber is the name of a log of logstore, whose number depends on what its
// engine did beside the commits.
var logNumber = regexp.MustCompile(`[0-9]{6}\.log`)

// die cuts the process off from the store.
func (g *guard) die() {
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	g.dead = true
	g.o.changed.Broadcast()
}

func (g *guard) isDead() bool {
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	return g.dead
}

func (g *guard) failing() error {
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	return g.broken
}

func (g *guard) arm(f fault) {
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	g.plan = f
}

// The reads that no path of execution or recovery may make (invariant 5); who
// watches may.

// ScanEntries is a finding.
func (g *guard) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	if ctx.Value(watching{}) == nil {
		g.scanned("entries")
	}
	return g.Storage.ScanEntries(ctx, q)
}

// ScanUsage is a finding.
func (g *guard) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	if ctx.Value(watching{}) == nil {
		g.scanned("usage")
	}
	return g.Storage.ScanUsage(ctx, q)
}

// RegistersByPrefix is a finding.
func (g *guard) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	g.scanned("registers " + namespace)
	return g.Storage.RegistersByPrefix(ctx, namespace, prefix)
}

// Export is a finding.
func (g *guard) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	g.scanned("everything")
	return g.Storage.Export(ctx)
}

// Branch may go back to the newest compaction, and no further, but for a call
// that looks where two branches part.
func (g *guard) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	if ctx.Value(watching{}) == nil && q.StopAtType != pistore.TypeCompaction && q.StopAtID == "" && q.Limit == 0 && !(q.StructureOnly && ctx.Value(asked{}) != nil) {
		g.scanned("a branch to its root")
	}
	return g.Storage.Branch(ctx, q)
}

func (g *guard) scanned(what string) { g.o.find("invariant 5", "the harness scans %s", what) }
