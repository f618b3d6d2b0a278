package session

import (
	"slices"

	"pistore"
)

// View is an entry with the message that it holds, so that a path which is
// projected again and again is parsed once. It is never changed; copies share
// the message.
type View struct {
	Entry pistore.Entry

	raw     pistore.JSON // the message as stored; empty: the entry is of another type, or see problem
	message Message
	problem error // why an entry that should hold a message holds none
}

// ViewOf parses an entry.
func ViewOf(e pistore.Entry) *View {
	v := &View{Entry: e}
	v.raw, v.message, v.problem = entryMessage(e)
	return v
}

// Message returns the message that the entry holds, nil if it holds none that
// can be read. It is shared: to be read, or to be copied by [CopyMessage].
func (v *View) Message() Message { return v.message }

// CopyMessage returns a message that whoever gets it may change.
func CopyMessage(m Message) Message {
	switch m := m.(type) {
	case *UserMessage:
		c := *m
		c.Content = slices.Clone(m.Content)
		return &c
	case *AssistantMessage:
		c := *m
		c.Content = slices.Clone(m.Content)
		if m.Deferred != nil {
			d := *m.Deferred
			c.Deferred = &d
		}
		return &c
	case *ToolResultMessage:
		c := *m
		c.Content = slices.Clone(m.Content)
		return &c
	case *SystemMessage:
		c := *m
		c.Content = slices.Clone(m.Content)
		return &c
	case *CustomMessage:
		c := *m
		c.Content = slices.Clone(m.Content)
		return &c
	case *BashMessage:
		c := *m
		if m.ExitCode != nil {
			code := *m.ExitCode
			c.ExitCode = &code
		}
		return &c
	case *SummaryMessage:
		c := *m
		return &c
	case *UnknownMessage:
		c := *m
		return &c
	default:
		return m
	}
}
