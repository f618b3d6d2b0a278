package registers

import (
	"fmt"

	"pistore"
)

// Keys returns every register that an open operation may own, by its id and
// total state: no prefix scan is ever needed. Those that must exist come first,
// as RequiredKeys returns them. The others may exist: the arguments of a call
// that is completed (one that was never started has none) and the partial
// output of a running one. A terminal transaction deletes them all.
func Keys(op pistore.ID, s OpState) []pistore.Address {
	keys := RequiredKeys(op, s)
	if t := batch(s); t != nil {
		for _, c := range t.Calls {
			key := ToolKey(op, t.StepID, c.SourceIndex)
			switch c.Status {
			case CallPlanned:
			case CallEffectPending:
				keys = append(keys, pistore.Address{Namespace: OpToolOutputNS, Key: key})
			case CallCompleted:
				keys = append(keys, pistore.Address{Namespace: OpToolArgsNS, Key: key})
			default:
				panic(fmt.Sprintf("registers: unknown call status %q", c.Status))
			}
		}
	}
	return keys
}

// RequiredKeys returns every register that must exist while an operation is
// open with this state: op.meta, op.state, the arguments of each running call,
// the preparation of a summary, and the content of everything queued or drained.
func RequiredKeys(op pistore.ID, s OpState) []pistore.Address {
	keys := []pistore.Address{{Namespace: OpMetaNS, Key: string(op)}, {Namespace: OpStateNS, Key: string(op)}}
	if t := batch(s); t != nil {
		for _, c := range t.Calls {
			if c.Status == CallEffectPending {
				keys = append(keys, pistore.Address{Namespace: OpToolArgsNS, Key: ToolKey(op, t.StepID, c.SourceIndex)})
			}
		}
	}
	if sum := SummaryOf(s); sum != nil {
		keys = append(keys, pistore.Address{Namespace: OpPreparationNS, Key: PreparationKey(op, sum.SummaryID)})
	}
	for _, id := range QueuedIDs(s) {
		keys = append(keys, pistore.Address{Namespace: PendingEntryNS, Key: string(id)})
	}
	return keys
}

// SummaryOf returns the summary that an operation is in, nil if it is in none.
func SummaryOf(s OpState) *Summary {
	switch s := s.(type) {
	case *RunState:
		if p, ok := s.Phase.(*RunCompaction); ok {
			return &p.Summary
		}
		return nil
	case *CompactionState:
		return &s.Summary
	case *NavigationState:
		return s.Summary
	default:
		panic(fmt.Sprintf("registers: unknown operation state %T", s))
	}
}

// ControlOf returns the control of an operation, which every kind has.
func ControlOf(s OpState) *Control {
	switch s := s.(type) {
	case *RunState:
		return &s.Control
	case *CompactionState:
		return &s.Control
	case *NavigationState:
		return &s.Control
	default:
		panic(fmt.Sprintf("registers: unknown operation state %T", s))
	}
}

// ResumesOf returns the count of resumes of an operation, which every kind has.
func ResumesOf(s OpState) *int64 {
	switch s := s.(type) {
	case *RunState:
		return &s.Resumes
	case *CompactionState:
		return &s.Resumes
	case *NavigationState:
		return &s.Resumes
	default:
		panic(fmt.Sprintf("registers: unknown operation state %T", s))
	}
}

// CopyState returns a copy of a state. What it points to, its slices included,
// is shared with s.
func CopyState(s OpState) OpState {
	switch s := s.(type) {
	case *RunState:
		out := *s
		return &out
	case *CompactionState:
		out := *s
		return &out
	case *NavigationState:
		out := *s
		return &out
	default:
		panic(fmt.Sprintf("registers: unknown operation state %T", s))
	}
}

func batch(s OpState) *Tools {
	if run, ok := s.(*RunState); ok {
		if t, ok := run.Phase.(*Tools); ok {
			return t
		}
	}
	return nil
}

// QueuedIDs returns the reserved entry ids of everything that is queued in an
// operation or drained from its queues: each has a pending.entry register.
func QueuedIDs(s OpState) []pistore.ID {
	var ids []pistore.ID
	if run, ok := s.(*RunState); ok {
		ids = append(ids, run.Inbox.Steer...)
		ids = append(ids, run.Inbox.FollowUp...)
		ids = append(ids, run.Inbox.Writes...)
	}
	c := ControlOf(s)
	ids = append(ids, c.DrainedSteer...)
	return append(ids, c.DrainedFollowUp...)
}

// ReservedIDs returns every id that a state reserves for an entry or a usage
// row to come: neither exists yet.
func ReservedIDs(s OpState) []pistore.ID { return unique(reserved(s)) }

func reserved(s OpState) []pistore.ID {
	ids := QueuedIDs(s)
	if sum := SummaryOf(s); sum != nil && sum.Generating != nil {
		ids = append(ids, sum.Generating.ResultEntryID)
		if g, ok := sum.Generating.Generation.(*GenerationPending); ok && g.Request != nil {
			ids = append(ids, g.Request.UsageID)
		}
	}
	run, ok := s.(*RunState)
	if !ok {
		return ids
	}
	switch p := run.Phase.(type) {
	case *AssistantPending:
		ids = append(ids, p.ResponseEntryID, p.UsageID)
	case *DeferredPending:
		ids = append(ids, p.ResponseEntryID, p.UsageID)
	case *Tools:
		for _, c := range p.Calls {
			if c.Status != CallCompleted {
				ids = append(ids, c.ResultEntryID)
			}
		}
	case *Checkpoint, *AssistantReady, *AssistantRetryWait, *RunCompaction, *DeferredSuspended, *FailureDrain:
	default:
		panic(fmt.Sprintf("registers: unknown phase %T", p))
	}
	return ids
}

// EntryIDs returns every entry that a state names and that exists: triggers,
// responses, results, the source of a deferred response, the target of a
// navigation. Each is returned once.
func EntryIDs(s OpState) []pistore.ID {
	var ids []pistore.ID
	if sum := SummaryOf(s); sum != nil && sum.Generating != nil {
		ids = append(ids, sum.Generating.Context.TriggerEntryID)
	}
	switch s := s.(type) {
	case *RunState:
		ids = append(ids, s.LatestAssistantEntryID)
		ids = append(ids, phaseEntryIDs(s.Phase)...)
	case *CompactionState:
	case *NavigationState:
		ids = append(ids, s.TargetID)
	default:
		panic(fmt.Sprintf("registers: unknown operation state %T", s))
	}
	return unique(ids)
}

func phaseEntryIDs(p Phase) []pistore.ID {
	switch p := p.(type) {
	case *Checkpoint:
		return []pistore.ID{p.TriggerEntryID, p.ThresholdCheckedTriggerEntryID}
	case *AssistantReady:
		return []pistore.ID{p.Context.TriggerEntryID}
	case *AssistantPending:
		return []pistore.ID{p.Context.TriggerEntryID}
	case *AssistantRetryWait:
		return []pistore.ID{p.Context.TriggerEntryID}
	case *Tools:
		ids := []pistore.ID{p.AssistantEntryID}
		for _, c := range p.Calls {
			if c.Status == CallCompleted {
				ids = append(ids, c.ResultEntryID)
			}
		}
		return ids
	case *RunCompaction:
		return phaseEntryIDs(&p.ResumeAfter)
	case *DeferredSuspended:
		return []pistore.ID{p.SourceEntryID}
	case *DeferredPending:
		return []pistore.ID{p.SourceEntryID}
	case *FailureDrain:
		return []pistore.ID{p.Provenance.ResponseEntryID}
	default:
		panic(fmt.Sprintf("registers: unknown phase %T", p))
	}
}

// EntryIDs returns every entry that acceptance data names.
func (m OpMeta) EntryIDs() []pistore.ID {
	return unique(append([]pistore.ID{m.SourceLeafID, m.Intent.TargetID}, m.Intent.PromptEntryIDs...))
}

// unique returns ids in their order without empty and repeated ones.
func unique(ids []pistore.ID) []pistore.ID {
	seen := map[pistore.ID]bool{"": true}
	var out []pistore.ID
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}
