package verify

import (
	"errors"
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// verdict is what a row says by itself, whatever stands around it.
type verdict struct {
	faults []Fault
	ok     bool // of a register: key and value are as declared; of a usage row: it can be added
	said   said // of an entry
}

// said is what checks across rows need of the content of an entry.
type said struct {
	calls            int32 // tool calls of a response
	response, result bool  // a message of that role
	aborted          bool  // a response that was
}

// judge checks a row by itself. It knows nothing of other rows, so that many can
// be judged at once.
func judge(row pistore.Row) (v verdict) {
	switch row := row.(type) {
	case pistore.Entry:
		v.entry(row)
	case pistore.UsageRow:
		v.usage(row)
	case pistore.Register:
		v.ok = v.register(row.Address(), row.Value)
	}
	return v
}

// entry checks an entry against the schema of its type.
func (v *verdict) entry(e pistore.Entry) {
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
		err = checkContent(e.Type, payload, &v.said)
	}
	if err != nil {
		v.add(rowFault(7, e.ID, e.Seq, "entry of type %.64q: %v", string(e.Type), err))
	}
	if e.Type == pistore.TypeCustom && orchestrates(e.CustomType) {
		v.add(rowFault(8, e.ID, e.Seq, "a custom entry of type %q: configuration and orchestration live in registers", e.CustomType))
	}
}

func (v *verdict) add(f Fault) { v.faults = append(v.faults, f) }

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
func checkContent(t pistore.EntryType, payload pistore.JSON, s *said) error {
	switch t {
	case pistore.TypeMessage:
		if s.common(payload) {
			return nil
		}
		raw, ok := payload.Member("message")
		if !ok {
			return errors.New("message is missing")
		}
		return parseMessage(raw, s)
	case pistore.TypeCompaction:
		return checkCompaction(payload)
	case pistore.TypeBranchSummary:
		_, err := session.ParseBranchSummary(payload)
		return errors.Join(err, needMember(payload, "summary"))
	default: // custom: any object
		return nil
	}
}

func parseMessage(raw pistore.JSON, s *said) error {
	m, err := session.ParseMessage(raw)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	switch m := m.(type) {
	case *session.AssistantMessage:
		s.response, s.calls = true, int32(len(m.ToolCalls()))
		s.aborted = m.StopReason == session.StopAborted
		if m.StopReason == "pending" {
			return errors.New("message: stopReason is pending, which is never stored")
		}
	case *session.ToolResultMessage:
		s.result = true
	}
	return nil
}

func checkCompaction(payload pistore.JSON) error {
	c, err := session.ParseCompaction(payload)
	if err != nil {
		return err
	}
	for i, raw := range c.RetainedTail {
		if err := parseMessage(raw, &said{}); err != nil {
			return fmt.Errorf("retainedTail[%d]: %w", i, err)
		}
	}
	if c.SystemMessage != "" {
		if err := parseMessage(c.SystemMessage, &said{}); err != nil {
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

// usage checks a ledger row.
func (v *verdict) usage(u pistore.UsageRow) {
	_, err := pistore.Tx{Writes: []pistore.Write{pistore.InsertUsage{
		ID: u.ID, Usage: u.Usage, EntryID: u.EntryID, Adjustment: u.Adjustment, Details: u.Details,
	}}}.Admit()
	if v.ok = err == nil; !v.ok {
		v.add(rowFault(0, u.ID, u.Seq, "a usage row that cannot have been written: %v", err))
	}
}

// register checks a register against the declaration of its namespace, and
// reports whether its content is as declared.
func (v *verdict) register(at pistore.Address, value pistore.JSON) bool {
	fail := func(format string, args ...any) bool {
		v.add(cellFault(3, Error, at, format, args...))
		return false
	}
	if err := pistore.CheckAddress(at.Namespace, at.Key); err != nil {
		return fail("address: %v", err)
	}
	switch compact, err := pistore.CompactJSON(string(value)); {
	case err != nil:
		return fail("value: %v", err)
	case compact != value:
		fail("the value is not in stored form: it has white space")
	}
	n, ok := registers.Lookup(at.Namespace)
	if !ok {
		v.add(cellFault(3, Warning, at, "the namespace is neither declared nor an application's (app.)"))
		return true
	}
	if err := n.CheckKey(at.Key); err != nil {
		return fail("%v", err)
	}
	if err := n.CheckValue(at.Key, value); err != nil {
		return fail("%v", err)
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
