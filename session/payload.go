package session

import (
	"fmt"

	"pistore"
)

// MessagePayload returns the payload of the message entry that holds m.
func MessagePayload(m Message) pistore.JSON {
	return object(func(w *writer) {
		w.name("message")
		w.message(m)
	})
}

// ToolResultPayload returns the payload of the entry that holds a tool's
// result; terminate says that the tool asked for the run to end.
func ToolResultPayload(m *ToolResultMessage, terminate bool) pistore.JSON {
	return object(func(w *writer) {
		w.name("message")
		w.message(m)
		w.optFlag("terminate", terminate)
	})
}

// CustomPayload returns the payload of a custom entry; empty: without data.
func CustomPayload(data pistore.JSON) pistore.JSON {
	return object(func(w *writer) { w.optional("data", data) })
}

// EntryMessage returns the message that an entry holds. An entry that is no
// message, or whose message has no view, gives an error that matches ErrInvalid.
func EntryMessage(e pistore.Entry) (Message, error) {
	raw, m, err := entryMessage(e)
	if err == nil && raw == "" {
		err = fmt.Errorf("%w: entry %s is of type %s and holds no message", pistore.ErrInvalid, e.ID, e.Type)
	}
	return m, err
}

// entryMessage returns a message entry's message as stored and as a view; raw
// is empty for an entry of another type.
func entryMessage(e pistore.Entry) (raw pistore.JSON, m Message, err error) {
	if e.Type != pistore.TypeMessage {
		return "", nil, nil
	}
	raw, ok := e.Payload.Member("message")
	if !ok {
		return "", nil, fmt.Errorf("%w: entry %s has no message", pistore.ErrInvalid, e.ID)
	}
	m, err = ParseMessage(raw)
	if err != nil {
		return "", nil, fmt.Errorf("entry %s: %w", e.ID, err)
	}
	return raw, m, nil
}

// Compaction is the content of a compaction entry.
type Compaction struct {
	Summary string
	// RetainedTail are the messages that stay as they are, oldest first.
	RetainedTail  []pistore.JSON
	TokensBefore  int64
	Details       pistore.JSON // optional
	Usage         pistore.JSON // optional
	FromHook      bool
	SystemMessage pistore.JSON // optional: the system message in force
	// RetainedSources are, where an import knows them, the ids of the entries
	// that the messages of RetainedTail come from, one for each; optional.
	RetainedSources []string
}

// CompactionPayload returns the payload of a compaction entry.
func CompactionPayload(c Compaction) pistore.JSON {
	return object(func(w *writer) {
		w.text("summary", c.Summary)
		w.list("retainedTail", len(c.RetainedTail), func(i int) { w.json(c.RetainedTail[i]) })
		w.number("tokensBefore", c.TokensBefore)
		w.optional("details", c.Details)
		w.optional("usage", c.Usage)
		w.optFlag("fromHook", c.FromHook)
		w.optional("systemMessage", c.SystemMessage)
		if n := len(c.RetainedSources); n > 0 {
			w.list("retainedSources", n, func(i int) { w.out = pistore.AppendQuoteJSON(w.out, c.RetainedSources[i]) })
		}
	})
}

// ParseCompaction reads the payload of a compaction entry. Members that are
// absent or null give their zero values; one of a wrong kind is ErrInvalid.
func ParseCompaction(payload pistore.JSON) (Compaction, error) {
	p, c := &parser{}, Compaction{}
	for name, v := range payload.Members() {
		switch name {
		case "summary":
			c.Summary = p.text(name, v)
		case "retainedTail":
			c.RetainedTail = p.list(name, v)
		case "tokensBefore":
			c.TokensBefore = p.number(name, v)
		case "details":
			c.Details = v
		case "usage":
			c.Usage = unlessNull(v)
		case "fromHook":
			c.FromHook = p.flag(name, v)
		case "systemMessage":
			c.SystemMessage = unlessNull(v)
		case "retainedSources":
			c.RetainedSources = nil
			for _, e := range p.list(name, v) {
				c.RetainedSources = append(c.RetainedSources, p.text(name, e))
			}
		}
	}
	return c, p.err
}

// BranchSummary is the content of a branch summary entry.
type BranchSummary struct {
	FromID   string // where the left branch ends; imported ones may say "root"
	Summary  string
	Details  pistore.JSON // optional
	Usage    pistore.JSON // optional
	FromHook bool
}

// BranchSummaryPayload returns the payload of a branch summary entry.
func BranchSummaryPayload(b BranchSummary) pistore.JSON {
	return object(func(w *writer) {
		w.text("fromId", b.FromID)
		w.text("summary", b.Summary)
		w.optional("details", b.Details)
		w.optional("usage", b.Usage)
		w.optFlag("fromHook", b.FromHook)
	})
}

// ParseBranchSummary reads the payload of a branch summary entry, in the way of
// ParseCompaction.
func ParseBranchSummary(payload pistore.JSON) (BranchSummary, error) {
	p, b := &parser{}, BranchSummary{}
	for name, v := range payload.Members() {
		switch name {
		case "fromId":
			b.FromID = p.text(name, v)
		case "summary":
			b.Summary = p.text(name, v)
		case "details":
			b.Details = v
		case "usage":
			b.Usage = unlessNull(v)
		case "fromHook":
			b.FromHook = p.flag(name, v)
		}
	}
	return b, p.err
}
