package verify

import (
	"errors"
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// checkEntry checks an entry against the schema of its type, and notes in n
// what other checks need of its content.
func (c *checker) checkEntry(e pistore.Entry, n *node) {
	err := e.ID.Check()
	if err == nil && e.ParentID != "" {
		if err = e.ParentID.Check(); err != nil {
			err = fmt.Errorf("parent: %w", err)
		}
	}
	if err == nil && (e.Timestamp < 0 || e.Timestamp > pistore.MaxSeq) {
		err = fmt.Errorf("the timestamp is %d ms", e.Timestamp)
	}
	var payload pistore.JSON
	if err == nil {
		payload, err = pistore.CheckEntry(e.Type, e.CustomType, e.Payload)
	}
	if err == nil && payload != e.Payload {
		err = errors.New("the payload is not in stored form: it has white space, or is absent")
	}
	if err == nil {
		err = checkContent(e.Type, payload, n)
	}
	if err != nil {
		c.row(7, e.ID, e.Seq, "entry of type %.64q: %v", string(e.Type), err)
	}
	if e.Type == pistore.TypeCustom && orchestrates(e.CustomType) {
		c.row(8, e.ID, e.Seq, "a custom entry of type %q: configuration and orchestration live in registers", e.CustomType)
	}
}

// orchestrates reports whether a name is that of a namespace for configuration
// or orchestration.
func orchestrates(name string) bool {
	n, ok := registers.Lookup(name)
	if !ok || n.AnyValue {
		return false
	}
	switch n.Lifetime {
	case registers.WithSession, registers.WithOperation, registers.WithBatch, registers.WithSummary, registers.UntilPlaced:
		return true
	default:
		return false
	}
}

// checkContent checks a payload, which is valid JSON, by the type of its entry.
// Members, roles and blocks that are not known are the writer's own.
func checkContent(t pistore.EntryType, payload pistore.JSON, n *node) error {
	switch t {
	case pistore.TypeMessage:
		raw, ok := payload.Member("message")
		if !ok {
			return errors.New("message is missing")
		}
		return checkMessage(raw, n)
	case pistore.TypeCompaction:
		return checkCompaction(payload)
	case pistore.TypeBranchSummary:
		_, err := session.ParseBranchSummary(payload)
		return errors.Join(err, needMember(payload, "summary"))
	default: // custom: any object
		return nil
	}
}

func checkMessage(raw pistore.JSON, n *node) error {
	m, err := session.ParseMessage(raw)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	switch m := m.(type) {
	case *session.AssistantMessage:
		n.response, n.calls = true, int32(len(m.ToolCalls()))
		n.aborted = m.StopReason == session.StopAborted
		if m.StopReason == "pending" {
			return errors.New("message: stopReason is pending, which is never stored")
		}
	case *session.ToolResultMessage:
		n.result = true
	}
	return nil
}

func checkCompaction(payload pistore.JSON) error {
	c, err := session.ParseCompaction(payload)
	if err != nil {
		return err
	}
	for i, raw := range c.RetainedTail {
		if err := checkMessage(raw, &node{}); err != nil {
			return fmt.Errorf("retainedTail[%d]: %w", i, err)
		}
	}
	if c.SystemMessage != "" {
		if err := checkMessage(c.SystemMessage, &node{}); err != nil {
			return fmt.Errorf("systemMessage: %w", err)
		}
	}
	return needMember(payload, "summary")
}

func needMember(payload pistore.JSON, name string) error {
	if _, ok := payload.Member(name); !ok {
		return fmt.Errorf("%s is missing", name)
	}
	return nil
}

// checkUsage checks a ledger row and adds it up.
func (c *checker) checkUsage(u pistore.UsageRow) {
	_, err := pistore.Tx{Writes: []pistore.Write{pistore.InsertUsage{
		ID: u.ID, Usage: u.Usage, EntryID: u.EntryID, Adjustment: u.Adjustment, Details: u.Details,
	}}}.Admit()
	if err != nil {
		c.rows.sumUnknown = true
		c.row(0, u.ID, u.Seq, "a usage row that cannot have been written: %v", err)
		return
	}
	c.rows.sum.Add(u)
}

// readRegister checks a register against the declaration of its namespace and
// keeps what it says of lanes and operations. It reports whether the register
// can be looked up.
func (c *checker) readRegister(reg pistore.Register) bool {
	r := &c.rows
	at := pistore.Address{Namespace: r.intern(reg.Namespace), Key: string(append([]byte(nil), reg.Key...))}
	if first, twice := r.at[at]; twice {
		c.cell(3, at, "the register is there twice, of seq %d and of seq %d", first, reg.Seq)
		return false
	}
	r.at[at] = reg.Seq
	ok := c.checkRegister(at, reg.Value)
	r.cells = append(r.cells, cell{at: at, seq: reg.Seq, ok: ok})
	r.note(at, reg.Value)
	return true
}

func (c *checker) checkRegister(at pistore.Address, value pistore.JSON) bool {
	if err := pistore.CheckAddress(at.Namespace, at.Key); err != nil {
		c.cell(3, at, "address: %v", err)
		return false
	}
	switch compact, err := pistore.CompactJSON(string(value)); {
	case err != nil:
		c.cell(3, at, "value: %v", err)
		return false
	case compact != value:
		c.cell(3, at, "the value is not in stored form: it has white space")
	}
	n, ok := registers.Lookup(at.Namespace)
	if !ok {
		c.cellWarning(3, at, "the namespace is neither declared nor an application's (app.)")
		return true
	}
	if err := n.CheckKey(at.Key); err != nil {
		c.cell(3, at, "%v", err)
		return false
	}
	if err := n.CheckValue(at.Key, value); err != nil {
		c.cell(3, at, "%v", err)
		return false
	}
	return true
}

// note keeps what a register says of a lane or an operation; what cannot be
// read is noted as being there.
func (r *rows) note(at pistore.Address, value pistore.JSON) {
	switch at.Namespace {
	case registers.LaneLeafNS:
		l := r.lane(at.Key)
		l.hasLeaf, l.leaf = true, decoded(registers.DecodeLaneLeaf, value)
	case registers.LaneStateNS:
		l := r.lane(at.Key)
		l.hasState, l.state = true, decoded(registers.DecodeLaneState, value)
	case registers.LaneConfigNS:
		r.lane(at.Key).hasConfig = true
	case registers.LaneLastResultNS:
		r.lane(at.Key).last = decoded(registers.DecodeLastResult, value)
	case registers.OpMetaNS:
		o := r.op(pistore.ID(at.Key))
		o.hasMeta, o.meta = true, decoded(registers.DecodeOpMeta, value)
	case registers.OpStateNS:
		o := r.op(pistore.ID(at.Key))
		o.hasState = true
		if s := decoded(registers.DecodeOpState, value); s != nil {
			o.state = *s
		}
	}
}

func decoded[T any](decode func(pistore.JSON) (T, error), value pistore.JSON) *T {
	v, err := decode(value)
	if err != nil {
		return nil
	}
	return &v
}
