package harness

import (
	"slices"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
)

// Event is news of a lane for whoever watches: one of the structs below. Events
// are passive: nothing waits for what a listener makes of them. They come one
// at a time for each lane, in this order:
//
//   - A run: RunStart, the entries that it starts with, its turns, RunEnd. A
//     resumed one starts with RunResume, a suspended one stops at RunSuspend.
//   - A turn: TurnStart, its response, its calls, TurnEnd. Its id is that of its
//     step; a retry belongs to the same turn.
//   - A streamed response: MessageStart, MessageUpdate…, the hook after_response,
//     MessageEnd, then, once it is durable, EntryAdded and UsageAdded. If another
//     attempt is due: RetryScheduled, when that begins RetryStart, and when it is
//     settled RetryEnd, behind the rows that settle it.
//   - A call: ToolStart, ToolUpdate…, the hook after_tool, ToolEnd, then, once it
//     is durable, EntryAdded and UsageAdded. Calls that run beside each other
//     take turns.
//   - A commit: EntryAdded, UsageAdded, WritePending and FactUpdate in the order
//     of the writes, then QueueUpdate, then what else it amounts to. Every commit
//     of a lane tells of these, whichever call or row made it.
//
// EntryAdded is the only proof of durability of an entry.
type Event interface{ isHarnessEvent() }

// About says which lane, operation and turn an event belongs to. TurnID is the
// step id of the turn, empty outside one.
type About struct {
	Lane        string
	OperationID pistore.ID
	TurnID      pistore.ID
}

func (p *position) about(step pistore.ID) About {
	a := About{Lane: p.lane, TurnID: step}
	if p.op != nil {
		a.OperationID = p.op.meta.OperationID
	}
	return a
}

// Queues are the reserved entry ids of everything that waits for its place on
// a lane, each queue in its order.
type Queues struct {
	Steer, FollowUp, Writes []pistore.ID // of the open run
	NextRun                 []pistore.ID // of the lane
}

func (q Queues) equal(o Queues) bool {
	return slices.Equal(q.Steer, o.Steer) && slices.Equal(q.FollowUp, o.FollowUp) &&
		slices.Equal(q.Writes, o.Writes) && slices.Equal(q.NextRun, o.NextRun)
}

type (
	// RunStart: a prompt was accepted.
	RunStart struct{ About }
	// RunResume: a suspended operation, of any kind, goes on.
	RunResume struct{ About }
	// RunSuspend: the operation, of any kind, waits for a Resume.
	RunSuspend struct {
		About
		Suspension
	}
	// RunAbort: the wish to end the operation, of any kind, is durable. Steer and
	// FollowUp are what was drained from its queues.
	RunAbort struct {
		About
		Steer, FollowUp []pistore.ID
	}
	// RunEnd: the run ended and the lane is idle.
	RunEnd struct {
		About
		Result registers.LastResult
	}
	// TurnStart: a step captured its context.
	TurnStart struct{ About }
	// TurnEnd: the response and the calls it made are settled.
	TurnEnd struct{ About }
	// RetryScheduled: an attempt failed and another one is due.
	RetryScheduled struct {
		About
		NextAttempt  int64
		NotBefore    pistore.UnixMS
		ErrorMessage string
	}
	// RetryStart: the wait is over and the next attempt is announced.
	RetryStart struct {
		About
		Attempt int64
	}
	// RetryEnd: an attempt that RetryStart told of is settled. Error is that of its
	// response or summary, empty if it is good.
	RetryEnd struct {
		About
		Attempt int64
		Error   string
	}
	// MessageStart: a request was sent; EntryID is reserved for its response.
	MessageStart struct {
		About
		EntryID pistore.ID
		Attempt int64
	}
	// MessageUpdate: a part of the response came in.
	MessageUpdate struct {
		About
		EntryID pistore.ID
		Delta   provider.Delta
	}
	// MessageEnd: the response is whole, and not yet durable.
	MessageEnd struct {
		About
		EntryID pistore.ID
		Message *session.AssistantMessage
	}
	// ToolStart: a call starts; ResultEntryID is reserved for its result.
	ToolStart struct {
		About
		ResultEntryID pistore.ID
		Call          session.ToolCall
	}
	// ToolUpdate: a running call reports.
	ToolUpdate struct {
		About
		ResultEntryID pistore.ID
		Text          string
	}
	// ToolEnd: a call returned; its result is not yet durable.
	ToolEnd struct {
		About
		ResultEntryID pistore.ID
		IsError       bool
	}
	// EntryAdded: an entry is durable.
	EntryAdded struct {
		About
		Entry pistore.Entry
	}
	// UsageAdded: a usage row is durable.
	UsageAdded struct {
		About
		Row pistore.UsageRow
	}
	// WritePending: content is durable and waits for its place in the tree, which
	// it takes as an entry under EntryID.
	WritePending struct {
		About
		EntryID pistore.ID
		Content registers.PendingEntry
	}
	// QueueUpdate: what waits, by reserved entry id, after a commit that changed
	// it.
	QueueUpdate struct {
		About
		Queues Queues
	}
	// FactUpdate: a fact was set, or unset.
	FactUpdate struct {
		About
		Address pistore.Address
		Value   pistore.JSON // empty: it was unset
	}
	// ConfigUpdate: the lane's configuration was set.
	ConfigUpdate struct {
		About
		Configuration registers.LaneConfiguration
	}
	// LaneCreated: the lane exists and stands on Leaf, empty before any entry.
	LaneCreated struct {
		About
		Leaf pistore.ID
	}
	// CompactionStart: a compaction was accepted, or a run turned to one; Reason
	// is empty if somebody asked for it.
	CompactionStart struct {
		About
		Reason registers.CompactionReason
	}
	// CompactionEnd: a compaction is over. EntryID is that of its summary, empty
	// if there is none, and then Error says why: it failed or was ended, or a hook
	// declined.
	CompactionEnd struct {
		About
		Reason  registers.CompactionReason
		EntryID pistore.ID
		Error   string
	}
	// NavigationStart: a navigation was accepted.
	NavigationStart struct {
		About
		TargetID pistore.ID
	}
	// NavigationEnd: a navigation ended and the lane is idle. The leaf that it
	// left the lane on is in Result.
	NavigationEnd struct {
		About
		Result registers.LastResult
	}
	// HandlerError: application code panicked, a hook failed, or a provider could
	// not cancel a deferred response. Nothing else changes, but that before_tool
	// then blocks its call.
	HandlerError struct {
		About
		Handler string // "provider NAME", "tool NAME", "hook NAME", "listener", "sleep"
		Err     error
	}
	// Fault: a commit failed; nothing goes on until the session is reopened.
	Fault struct {
		About
		Err error
	}
)

func (RunStart) isHarnessEvent()        {}
func (RunResume) isHarnessEvent()       {}
func (RunSuspend) isHarnessEvent()      {}
func (RunAbort) isHarnessEvent()        {}
func (RunEnd) isHarnessEvent()          {}
func (TurnStart) isHarnessEvent()       {}
func (TurnEnd) isHarnessEvent()         {}
func (RetryScheduled) isHarnessEvent()  {}
func (RetryStart) isHarnessEvent()      {}
func (RetryEnd) isHarnessEvent()        {}
func (MessageStart) isHarnessEvent()    {}
func (MessageUpdate) isHarnessEvent()   {}
func (MessageEnd) isHarnessEvent()      {}
func (ToolStart) isHarnessEvent()       {}
func (ToolUpdate) isHarnessEvent()      {}
func (ToolEnd) isHarnessEvent()         {}
func (EntryAdded) isHarnessEvent()      {}
func (UsageAdded) isHarnessEvent()      {}
func (WritePending) isHarnessEvent()    {}
func (QueueUpdate) isHarnessEvent()     {}
func (FactUpdate) isHarnessEvent()      {}
func (ConfigUpdate) isHarnessEvent()    {}
func (LaneCreated) isHarnessEvent()     {}
func (CompactionStart) isHarnessEvent() {}
func (CompactionEnd) isHarnessEvent()   {}
func (NavigationStart) isHarnessEvent() {}
func (NavigationEnd) isHarnessEvent()   {}
func (HandlerError) isHarnessEvent()    {}
func (Fault) isHarnessEvent()           {}

// committed turns the writes of a durable transaction into events, with what
// the rows have to tell behind them; only the start of a run comes before what
// it starts with.
func committed(about About, from, to *position, tx pistore.Tx, r pistore.Receipt, news []Event) []Event {
	var out []Event
	if len(news) > 0 {
		if start, ok := news[0].(RunStart); ok {
			out, news = append(out, start), news[1:]
		}
	}
	for i, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			out = append(out, EntryAdded{about, pistore.Entry{
				ID: w.ID, ParentID: w.ParentID, Seq: r.Seqs[i], Timestamp: r.Timestamp,
				Type: w.Type, CustomType: w.CustomType, Payload: w.Payload,
			}})
		case pistore.InsertUsage:
			out = append(out, UsageAdded{about, pistore.UsageRow{
				ID: w.ID, Seq: r.Seqs[i], Usage: w.Usage, EntryID: w.EntryID, Adjustment: w.Adjustment, Details: w.Details,
			}})
		case pistore.SetRegister:
			if ev := registerSet(about, w); ev != nil {
				out = append(out, ev)
			}
		case pistore.DeleteRegister:
			if isFact(w.Namespace) {
				out = append(out, FactUpdate{About: about, Address: pistore.Address(w)})
			}
		}
	}
	if now := to.queues(); !now.equal(from.queues()) {
		out = append(out, QueueUpdate{about, now})
	}
	return append(out, news...)
}

// registerSet is what a register that was set tells, nil for most.
func registerSet(about About, w pistore.SetRegister) Event {
	switch {
	case isFact(w.Namespace):
		return FactUpdate{about, pistore.Address{Namespace: w.Namespace, Key: w.Key}, w.Value}
	case w.Namespace == registers.PendingEntryNS:
		content, err := registers.DecodePendingEntry(w.Value)
		if err != nil {
			panic("harness: " + err.Error()) // it was encoded a moment ago
		}
		return WritePending{about, pistore.ID(w.Key), content}
	default:
		return nil
	}
}

func isFact(namespace string) bool {
	switch namespace {
	case registers.FactNameNS, registers.FactLabelNS, registers.FactCustomNS:
		return true
	default:
		return false
	}
}
