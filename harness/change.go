package harness

import (
	"errors"
	"fmt"
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// change collects the writes of a fold. What is written twice on the way is
// written once, with its last value, and the writes come out in one order
// whatever the order of the rows: content, leaf, cells, op.meta, op.state,
// configuration, outcome, lane state. Which of the registers of lane and
// operation are written follows from what the fold changed.
type change struct {
	from    *position
	moved   bool            // a transition was made
	content []pistore.Write // entries and usage rows
	cells   []pistore.Write // registers beside those that tx knows of
	// configured: lane.config is written.
	configured bool
	result     *registers.LastResult
	news       []Event // what to tell once the change is durable
}

// place inserts an entry under the leaf and moves the leaf to it. What no entry
// may have is left for the commit to refuse.
func (c *change) place(p *position, content session.Content) *position {
	if stored, err := pistore.CheckEntry(content.Type, content.CustomType, content.Payload); err == nil {
		content.Payload = stored
	}
	e := pistore.Entry{
		ID: content.ID, ParentID: p.leaf, Type: content.Type, CustomType: content.CustomType, Payload: content.Payload,
	}
	c.content = append(c.content, pistore.InsertEntry{
		ID: e.ID, ParentID: e.ParentID, Type: e.Type, CustomType: e.CustomType, Payload: e.Payload,
	})
	moved := *p
	if moved.leaf = e.ID; p.hasPath() {
		moved.path = p.path.add(e)
	}
	return &moved
}

func (c *change) placeMessage(p *position, id pistore.ID, m session.Message) *position {
	return c.place(p, session.MessageContent(id, m))
}

func messageEntry(payload pistore.JSON) registers.PendingEntry {
	return registers.PendingEntry{Type: pistore.TypeMessage, Payload: payload}
}

// set writes a register that tx does not know of: op.* beside op.meta and
// op.state, pending.entry, a fact.
func (c *change) set(namespace, key string, value pistore.JSON) {
	c.cell(namespace, key, pistore.SetRegister{Namespace: namespace, Key: key, Value: value})
}

// remove deletes such a register.
func (c *change) remove(namespace, key string) {
	c.cell(namespace, key, pistore.DeleteRegister{Namespace: namespace, Key: key})
}

func (c *change) cell(namespace, key string, w pistore.Write) {
	c.cells = slices.DeleteFunc(c.cells, func(old pistore.Write) bool {
		switch old := old.(type) {
		case pistore.SetRegister:
			return old.Namespace == namespace && old.Key == key
		case pistore.DeleteRegister:
			return old.Namespace == namespace && old.Key == key
		default:
			panic(fmt.Sprintf("harness: write %T", old))
		}
	})
	c.cells = append(c.cells, w)
}

func (c *change) tell(ev Event) { c.news = append(c.news, ev) }

// errUnsound: the planning of a change panicked, as the encoders do on a state
// that has no stored form. That is a defect of the harness, which it faults
// with: what is stored is as it was, and the process may have other sessions.
var errUnsound = errors.New("a change cannot be planned")

// catchUnsound is deferred by what plans a change.
func catchUnsound(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", errUnsound, r)
	}
}

// tx is the transaction that leads from the change's start to p, conditional
// on the registers that it was decided from: one that is overwritten from
// memory must be what memory says, and so must what an idle lane was taken for.
func (c *change) tx(p *position) (tx pistore.Tx, err error) {
	defer catchUnsound(&err)
	set := func(namespace, key string, value pistore.JSON) {
		tx.Writes = append(tx.Writes, pistore.SetRegister{Namespace: namespace, Key: key, Value: value})
	}
	expect := func(namespace, key string, seq pistore.Seq) {
		tx.Expect = append(tx.Expect, pistore.Precondition{Namespace: namespace, Key: key, Seq: seq})
	}
	from, op := c.from.op, p.op
	if from != nil && (op == nil || op.state != from.state) {
		expect(registers.OpStateNS, string(from.meta.OperationID), from.seq)
	}
	accepted := from == nil && op != nil // on what the lane was: leaf, configuration
	moved := p.leaf != c.from.leaf
	laneState := !sameState(c.from.state, p.state)
	if laneState || from == nil && moved { // an idle lane is nobody else's either
		expect(registers.LaneStateNS, p.lane, c.from.stateSeq)
	}
	if moved || accepted {
		expect(registers.LaneLeafNS, p.lane, c.from.leafSeq)
	}
	if c.configured || accepted || from != nil && op != nil && capturedConfiguration(from, op) {
		expect(registers.LaneConfigNS, p.lane, c.from.configSeq)
	}

	c.writeContent(&tx, p)
	tx.Writes = append(tx.Writes, c.cells...)
	switch {
	case op == nil && from != nil:
		tx.Writes = append(tx.Writes,
			pistore.DeleteRegister{Namespace: registers.OpMetaNS, Key: string(from.meta.OperationID)},
			pistore.DeleteRegister{Namespace: registers.OpStateNS, Key: string(from.meta.OperationID)})
	case accepted:
		set(registers.OpMetaNS, string(op.meta.OperationID), registers.EncodeOpMeta(op.meta))
		set(registers.OpStateNS, string(op.meta.OperationID), registers.EncodeOpState(op.state))
	case op != nil && op.state != from.state:
		set(registers.OpStateNS, string(op.meta.OperationID), registers.EncodeOpState(op.state))
	}
	if c.configured {
		set(registers.LaneConfigNS, p.lane, registers.EncodeLaneConfiguration(*p.config))
	}
	if c.result != nil {
		set(registers.LaneLastResultNS, p.lane, registers.EncodeLastResult(*c.result))
	}
	if laneState {
		set(registers.LaneStateNS, p.lane, registers.EncodeLaneState(p.state))
	}
	return tx, nil
}

// writeContent writes entries and usage rows, and the leaf behind the last
// entry.
func (c *change) writeContent(tx *pistore.Tx, p *position) {
	leaf := 0 // where in content the leaf is written
	for i, w := range c.content {
		if _, entry := w.(pistore.InsertEntry); entry {
			leaf = i + 1
		}
	}
	tx.Writes = append(tx.Writes, c.content[:leaf]...)
	if p.leaf != c.from.leaf {
		tx.Writes = append(tx.Writes, pistore.SetRegister{
			Namespace: registers.LaneLeafNS, Key: p.lane, Value: registers.EncodeLaneLeaf(p.leaf),
		})
	}
	tx.Writes = append(tx.Writes, c.content[leaf:]...)
}

func sameState(a, b registers.LaneState) bool {
	return a.CurrentOperationID == b.CurrentOperationID && slices.Equal(a.PendingNextRun, b.PendingNextRun)
}

// capturedConfiguration reports whether a step began between two positions of
// one operation, and with it the lane's configuration was read.
func capturedConfiguration(from, to *operation) bool {
	step := capturedStep(to)
	return step != "" && step != capturedStep(from)
}

// capturedStep is the step, of a turn or a summary, that an operation stands in.
func capturedStep(op *operation) pistore.ID {
	if sum := registers.SummaryOf(op.state); sum != nil && sum.Generating != nil {
		return sum.Generating.Context.StepID
	}
	return stepOf(op.phase())
}

// stepOf is the turn that a phase belongs to, or empty.
func stepOf(ph registers.Phase) pistore.ID {
	switch ph := ph.(type) {
	case *registers.AssistantReady:
		return ph.Context.StepID
	case *registers.AssistantPending:
		return ph.Context.StepID
	case *registers.AssistantRetryWait:
		return ph.Context.StepID
	case *registers.Tools:
		return ph.StepID
	case *registers.DeferredSuspended:
		return ph.StepID
	case *registers.DeferredPending:
		return ph.StepID
	default:
		return ""
	}
}

// advance gives p the seqs that its transaction got. An idle lane keeps only a
// short path.
func (c *change) advance(p *position, tx pistore.Tx, r pistore.Receipt) *position {
	q := *p
	if q.path = p.path.stamped(tx, r); p.op == nil {
		q.path = q.path.idle()
	}
	if p.op != nil {
		op := *p.op
		q.op = &op
	}
	for i, w := range tx.Writes {
		set, ok := w.(pistore.SetRegister)
		if !ok {
			continue
		}
		switch set.Namespace {
		case registers.LaneLeafNS:
			q.leafSeq = r.Seqs[i]
		case registers.LaneStateNS:
			q.stateSeq = r.Seqs[i]
		case registers.LaneConfigNS:
			q.configSeq = r.Seqs[i]
		case registers.OpStateNS:
			q.op.seq = r.Seqs[i]
		}
	}
	return &q
}
