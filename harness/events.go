package harness

import (
	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
)

// Event is news of a lane for whoever watches: one of the structs below. Events
// are passive: nothing waits for what a listener makes of them.
//
// A streamed response gives MessageStart, MessageUpdate…, MessageEnd, then,
// once it is durable, EntryAdded and UsageAdded. EntryAdded is the only proof
// of durability.
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

type (
	// RunStart: a prompt was accepted.
	RunStart struct{ About }
	// RunResume: a suspended run goes on.
	RunResume struct{ About }
	// RunSuspend: the run waits for a Resume.
	RunSuspend struct {
		About
		Suspension
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
	// RetryStart: the wait is over and the next attempt begins.
	RetryStart struct {
		About
		Attempt int64
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
	// ConfigUpdate: the lane's configuration was set.
	ConfigUpdate struct {
		About
		Configuration registers.LaneConfiguration
	}
	// HandlerError: application code (a provider, a tool, a listener) panicked.
	HandlerError struct {
		About
		Handler string // "provider NAME", "tool NAME", "listener"
		Err     error
	}
	// Fault: a commit failed; nothing goes on until the session is reopened.
	Fault struct {
		About
		Err error
	}
)

func (RunStart) isHarnessEvent()       {}
func (RunResume) isHarnessEvent()      {}
func (RunSuspend) isHarnessEvent()     {}
func (RunEnd) isHarnessEvent()         {}
func (TurnStart) isHarnessEvent()      {}
func (TurnEnd) isHarnessEvent()        {}
func (RetryScheduled) isHarnessEvent() {}
func (RetryStart) isHarnessEvent()     {}
func (MessageStart) isHarnessEvent()   {}
func (MessageUpdate) isHarnessEvent()  {}
func (MessageEnd) isHarnessEvent()     {}
func (ToolStart) isHarnessEvent()      {}
func (ToolUpdate) isHarnessEvent()     {}
func (ToolEnd) isHarnessEvent()        {}
func (EntryAdded) isHarnessEvent()     {}
func (UsageAdded) isHarnessEvent()     {}
func (ConfigUpdate) isHarnessEvent()   {}
func (HandlerError) isHarnessEvent()   {}
func (Fault) isHarnessEvent()          {}

// committed turns the writes of a durable transaction into events, with what
// the rows have to tell behind them; only the start of a run comes before what
// it starts with.
func committed(about About, tx pistore.Tx, r pistore.Receipt, news []Event) []Event {
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
		}
	}
	return append(out, news...)
}
