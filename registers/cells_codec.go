package registers

import (
	"pistore"
)

// The encoders are deterministic and panic on what their decoders refuse.
// Decoders refuse unknown members in everything that belongs to an open
// operation or to a queue; of lane.config and lane.lastResult, which other
// programs write too, they ignore them. Errors match ErrInvalid and name the
// path. Empty lists are read as nil.

// EncodeLaneLeaf returns the value of a lane.leaf register; empty: the lane
// stands before any entry.
func EncodeLaneLeaf(leaf pistore.ID) pistore.JSON {
	if leaf == "" {
		return "null"
	}
	v := pistore.QuoteJSON(string(leaf))
	if _, err := DecodeLaneLeaf(v); err != nil {
		panic("registers: " + err.Error())
	}
	return v
}

// DecodeLaneLeaf reads the value of a lane.leaf register.
func DecodeLaneLeaf(value pistore.JSON) (pistore.ID, error) {
	at := &step{name: LaneLeafNS}
	value, err := pistore.CompactJSON(string(value))
	if err != nil {
		return "", faultAt(at, err.Error())
	}
	if value == "null" {
		return "", nil
	}
	s, ok := value.Text()
	if !ok {
		return "", faultAt(at, "is "+kindOf(value)+" instead of an entry id or null")
	}
	if err := pistore.ID(s).Check(); err != nil {
		return "", faultAt(at, err.Error())
	}
	return pistore.ID(s), nil
}

// EncodeLaneConfiguration returns the value of a lane.config register.
func EncodeLaneConfiguration(c LaneConfiguration) pistore.JSON {
	return encode(LaneConfigNS, func(f *fields) { f.configuration(&c) })
}

// DecodeLaneConfiguration reads the value of a lane.config register.
func DecodeLaneConfiguration(value pistore.JSON) (c LaneConfiguration, err error) {
	err = decode(LaneConfigNS, value, true, func(f *fields) { f.configuration(&c) })
	return c, err
}

func (f *fields) configurationIn(name string, c *LaneConfiguration) {
	f.inner(name, func(f *fields) { f.configuration(c) })
}

func (f *fields) configuration(c *LaneConfiguration) {
	f.inner("model", func(f *fields) {
		f.text("provider", &c.Model.Provider)
		f.text("modelId", &c.Model.ModelID)
	})
	f.text("thinkingLevel", &c.ThinkingLevel)
	f.texts("activeToolNames", &c.ActiveToolNames)
}

// EncodeLaneState returns the value of a lane.state register.
func EncodeLaneState(s LaneState) pistore.JSON {
	return encode(LaneStateNS, func(f *fields) { f.laneState(&s) })
}

// DecodeLaneState reads the value of a lane.state register.
func DecodeLaneState(value pistore.JSON) (s LaneState, err error) {
	err = decode(LaneStateNS, value, false, func(f *fields) { f.laneState(&s) })
	return s, err
}

func (f *fields) laneState(s *LaneState) {
	f.nullID("currentOperationId", &s.CurrentOperationID)
	f.ids("pendingNextRun", &s.PendingNextRun)
}

// EncodeLastResult returns the value of a lane.lastResult register.
func EncodeLastResult(r LastResult) pistore.JSON {
	return encode(LaneLastResultNS, func(f *fields) { f.lastResult(&r) })
}

// DecodeLastResult reads the value of a lane.lastResult register.
func DecodeLastResult(value pistore.JSON) (r LastResult, err error) {
	err = decode(LaneLastResultNS, value, true, func(f *fields) { f.lastResult(&r) })
	return r, err
}

func (f *fields) lastResult(r *LastResult) {
	f.id("operationId", &r.OperationID)
	word(f, "kind", &r.Kind, KindRun, KindCompaction, KindNavigation)
	word(f, "outcome", &r.Outcome, Completed, Failed, Aborted, Declined)
	f.nullID("leafId", &r.LeafID)
	optional(f, "error", &r.Error, (*fields).failure)
	f.optID("finalAssistantId", &r.FinalAssistantID)
	if f.has("runCompletion", r.RunCompletion != "") {
		word(f, "runCompletion", &r.RunCompletion, WithAssistant, WithTerminateTools)
	}
}

// EncodeOpMeta returns the value of an op.meta register.
func EncodeOpMeta(m OpMeta) pistore.JSON {
	return encode(OpMetaNS, func(f *fields) { f.opMeta(&m) })
}

// DecodeOpMeta reads the value of an op.meta register.
func DecodeOpMeta(value pistore.JSON) (m OpMeta, err error) {
	err = decode(OpMetaNS, value, false, func(f *fields) { f.opMeta(&m) })
	return m, err
}

func (f *fields) opMeta(m *OpMeta) {
	f.keyID("operationId", &m.OperationID)
	f.text("lane", &m.Lane)
	if err := CheckLane(m.Lane); err != nil {
		f.fail(f.at("lane"), "%v", err)
	}
	f.nullID("sourceLeafId", &m.SourceLeafID)
	integer(f, "startedAt", &m.StartedAt, 0)
	f.optText("requestId", &m.RequestID)
	f.inner("intent", func(f *fields) { f.intent(&m.Intent) })
}

func (f *fields) intent(i *Intent) {
	word(f, "kind", &i.Kind, KindRun, KindCompaction, KindNavigation)
	switch i.Kind {
	case KindRun:
		f.ids("promptEntryIds", &i.PromptEntryIDs)
	case KindCompaction:
		f.optText("customInstructions", &i.CustomInstructions)
	case KindNavigation:
		f.id("targetId", &i.TargetID)
		f.flag("summarize", &i.Summarize)
		f.optText("customInstructions", &i.CustomInstructions)
	}
}

// EncodePendingEntry returns the value of a pending.entry register. It does not
// check the payload; CheckEntry does, and so does the commit that places it.
func EncodePendingEntry(p PendingEntry) pistore.JSON {
	return encode(PendingEntryNS, func(f *fields) { f.pendingEntry(&p) })
}

// DecodePendingEntry reads the value of a pending.entry register: content that
// an entry may be created with.
func DecodePendingEntry(value pistore.JSON) (p PendingEntry, err error) {
	err = decode(PendingEntryNS, value, false, func(f *fields) {
		f.pendingEntry(&p)
		if *f.fault == nil {
			if _, err := pistore.CheckEntry(p.Type, p.CustomType, p.Payload); err != nil {
				f.fail(f.path, "%v", err)
			}
		}
	})
	return p, err
}

func (f *fields) pendingEntry(p *PendingEntry) {
	word(f, "type", &p.Type, pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary, pistore.TypeCustom)
	f.optText("customType", &p.CustomType)
	f.object("payload", &p.Payload)
}

// EncodePreparation returns the value of an op.preparation register.
func EncodePreparation(p Preparation) pistore.JSON {
	return encode(OpPreparationNS, func(f *fields) { f.preparation(&p) })
}

// DecodePreparation reads the value of an op.preparation register.
func DecodePreparation(value pistore.JSON) (p Preparation, err error) {
	err = decode(OpPreparationNS, value, false, func(f *fields) { f.preparation(&p) })
	return p, err
}

func (f *fields) preparation(p *Preparation) {
	f.objects("messagesToSummarize", &p.MessagesToSummarize)
	f.optText("previousSummary", &p.PreviousSummary)
	f.objects("retainedTail", &p.RetainedTail)
	integer(f, "tokensBefore", &p.TokensBefore, 0)
	f.optID("fromId", &p.FromID)
	f.optID("commonAncestorId", &p.CommonAncestorID)
}

// EncodeToolOutput returns the value of an op.tool_output register.
func EncodeToolOutput(o ToolOutput) pistore.JSON {
	return encode(OpToolOutputNS, func(f *fields) { f.toolOutput(&o) })
}

// DecodeToolOutput reads the value of an op.tool_output register.
func DecodeToolOutput(value pistore.JSON) (o ToolOutput, err error) {
	err = decode(OpToolOutputNS, value, false, func(f *fields) { f.toolOutput(&o) })
	return o, err
}

func (f *fields) toolOutput(o *ToolOutput) {
	f.text("head", &o.Head)
	f.optText("tail", &o.Tail)
	if f.has("droppedBytes", o.DroppedBytes != 0) {
		integer(f, "droppedBytes", &o.DroppedBytes, 0)
	}
	f.optRaw("details", &o.Details)
}

// CheckToolArgs checks the value of an op.tool_args register: the effective
// arguments of a call, a JSON object, kept as it is.
func CheckToolArgs(value pistore.JSON) error {
	return decode(OpToolArgsNS, value, true, func(*fields) {})
}

// EncodeText returns the value of a fact.name or fact.label register.
func EncodeText(text string) pistore.JSON { return pistore.QuoteJSON(text) }

// DecodeText reads the value of a fact.name or fact.label register.
func DecodeText(value pistore.JSON) (string, error) {
	value, err := pistore.CompactJSON(string(value))
	if err != nil {
		return "", &faultError{"a name or label: " + err.Error()}
	}
	s, ok := value.Text()
	if !ok {
		return "", &faultError{"a name or label is " + kindOf(value) + " instead of a string"}
	}
	return s, nil
}
