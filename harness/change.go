package harness

import (
	"pistore"
	"pistore/registers"
	"pistore/session"
)

// change collects the writes of a fold. What is written twice on the way
// (leaf, op.state) is written once, with its last value, and the writes come
// out in one order whatever the order of the rows: content, leaf, arguments,
// op.meta, op.state, configuration, outcome, lane state.
type change struct {
	from    *position
	moved   bool            // a transition was made
	content []pistore.Write // entries and usage rows
	cells   []pistore.Write // op.tool_args, op.tool_output
	seeded  bool            // lane.config is written
	result  *registers.LastResult
	news    []Event // what to tell once the change is durable
}

// place inserts an entry under the leaf and moves the leaf to it.
func (c *change) place(p *position, id pistore.ID, payload pistore.JSON) *position {
	c.content = append(c.content, pistore.InsertEntry{ID: id, ParentID: p.leaf, Type: pistore.TypeMessage, Payload: payload})
	moved := *p
	moved.leaf = id
	return &moved
}

func (c *change) placeMessage(p *position, id pistore.ID, m session.Message) *position {
	return c.place(p, id, session.MessagePayload(m))
}

func (c *change) tell(ev Event) { c.news = append(c.news, ev) }

// tx is the transaction that leads from the change's start to p, conditional
// on the registers that it was decided from.
func (c *change) tx(p *position) pistore.Tx {
	var tx pistore.Tx
	add := func(w pistore.Write) { tx.Writes = append(tx.Writes, w) }
	set := func(namespace, key string, value pistore.JSON) {
		add(pistore.SetRegister{Namespace: namespace, Key: key, Value: value})
	}
	expect := func(namespace, key string, seq pistore.Seq) {
		tx.Expect = append(tx.Expect, pistore.Precondition{Namespace: namespace, Key: key, Seq: seq})
	}

	last := -1
	for i, w := range c.content {
		if _, entry := w.(pistore.InsertEntry); entry {
			last = i
		}
	}
	for i, w := range c.content {
		add(w)
		if i == last {
			set(registers.LaneLeafNS, p.lane, registers.EncodeLaneLeaf(p.leaf))
		}
	}
	tx.Writes = append(tx.Writes, c.cells...)

	from, op := c.from.op, p.op
	if from == nil { // acceptance
		set(registers.OpMetaNS, string(op.meta.OperationID), registers.EncodeOpMeta(op.meta))
	} else {
		expect(registers.OpStateNS, string(from.meta.OperationID), from.seq)
	}
	// A register that is overwritten from memory must be what memory says.
	if (from == nil) != (op == nil) {
		expect(registers.LaneStateNS, p.lane, c.from.stateSeq)
	}
	if last >= 0 {
		expect(registers.LaneLeafNS, p.lane, c.from.leafSeq)
	}
	if c.seeded || from != nil && op != nil && capturedConfiguration(from, op) {
		expect(registers.LaneConfigNS, p.lane, c.from.configSeq)
	}
	if op != nil {
		set(registers.OpStateNS, string(op.meta.OperationID), registers.EncodeOpState(&op.run))
	} else {
		add(pistore.DeleteRegister{Namespace: registers.OpMetaNS, Key: string(from.meta.OperationID)})
		add(pistore.DeleteRegister{Namespace: registers.OpStateNS, Key: string(from.meta.OperationID)})
	}
	if c.seeded {
		set(registers.LaneConfigNS, p.lane, registers.EncodeLaneConfiguration(*p.config))
	}
	if c.result != nil {
		set(registers.LaneLastResultNS, p.lane, registers.EncodeLastResult(*c.result))
	}
	if (from == nil) != (op == nil) {
		set(registers.LaneStateNS, p.lane, registers.EncodeLaneState(p.state))
	}
	return tx
}

// capturedConfiguration reports whether a step began between two positions of
// one operation, and with it the lane's configuration was read.
func capturedConfiguration(from, to *operation) bool {
	step := stepOf(to.run.Phase)
	return step != "" && step != stepOf(from.run.Phase)
}

// stepOf is the step that a phase belongs to, or empty.
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
	default:
		return ""
	}
}

// advance gives p the seqs that its transaction got.
func (c *change) advance(p *position, tx pistore.Tx, r pistore.Receipt) *position {
	q := *p
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
