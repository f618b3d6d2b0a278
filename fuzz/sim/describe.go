package sim

import (
	"fmt"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// brief shows a transaction in a line that a person reads.
func (c *commit) brief() string {
	var parts []string
	for _, w := range c.tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			parts = append(parts, "entry "+string(w.ID)+" "+briefEntry(c.inserted(w.ID)))
		case pistore.InsertUsage:
			parts = append(parts, fmt.Sprintf("usage %s of %s", w.ID, w.EntryID))
		case pistore.SetRegister:
			parts = append(parts, briefRegister(w))
		case pistore.DeleteRegister:
			parts = append(parts, fmt.Sprintf("delete %s %s", w.Namespace, w.Key))
		}
	}
	return strings.Join(parts, "; ")
}

func briefEntry(n *node) string {
	if n == nil {
		return ""
	}
	switch m := n.message.(type) {
	case *session.AssistantMessage:
		var calls []string
		for _, k := range m.ToolCalls() {
			calls = append(calls, k.Name)
		}
		return fmt.Sprintf("assistant %s %v", m.StopReason, calls)
	case *session.ToolResultMessage:
		return fmt.Sprintf("result of %s %.40q", m.ToolName, session.JoinText(m.Content))
	case *session.UserMessage:
		return fmt.Sprintf("user %.40q", session.JoinText(m.Content))
	case nil:
		return string(n.Type)
	default:
		return string(m.Role())
	}
}

func briefRegister(w pistore.SetRegister) string {
	if w.Namespace != registers.OpStateNS {
		return fmt.Sprintf("%s %s = %.120s", w.Namespace, w.Key, w.Value)
	}
	state, err := registers.DecodeOpState(w.Value)
	if err != nil {
		return w.Namespace + " that cannot be read"
	}
	control := ""
	if cancelled(state) {
		control = ", cancelled"
	}
	if queued := registers.QueuedIDs(state); len(queued) > 0 {
		control += fmt.Sprintf(", queued %v", queued)
	}
	return fmt.Sprintf("op.state %s%s", briefState(state), control)
}

func briefState(s registers.OpState) string {
	run, ok := s.(*registers.RunState)
	if !ok {
		return string(registers.KindOf(s))
	}
	switch p := run.Phase.(type) {
	case *registers.Checkpoint:
		return fmt.Sprintf("checkpoint %s", strings.TrimPrefix(fmt.Sprintf("%T", p.Continuation), "*registers."))
	case *registers.AssistantReady:
		return fmt.Sprintf("ready, attempt %d", p.NextAttempt)
	case *registers.AssistantPending:
		return fmt.Sprintf("request %s announced, attempt %d of %d", p.ResponseEntryID, p.Attempt, p.Context.RetryPolicy.MaxAttempts)
	case *registers.AssistantRetryWait:
		return fmt.Sprintf("retry until %d, attempt %d", p.NotBefore, p.NextAttempt)
	case *registers.Tools:
		text := "tools"
		for _, k := range p.Calls {
			text += fmt.Sprintf(" %s:%s%s", k.ResultEntryID, k.Status, strings.TrimSuffix(" "+string(k.Replay), " "))
		}
		return text
	case *registers.FailureDrain:
		return "failure_drain " + p.Error.Code
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", p), "*registers.")
	}
}
