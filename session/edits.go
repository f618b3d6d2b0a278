package session

import (
	"fmt"

	"pistore"
)

// ContextEditType is the customType of an imported context edit. Its data names
// a target entry, targetId, and what takes its place in a context, replacement:
// null to leave it out, or an object with the content that it is to have. No
// call of this module makes one.
const ContextEditType = "legacy.context_edit"

// edit is a context edit that can be read.
type edit struct {
	entry   pistore.ID
	target  string
	content pistore.JSON // empty: the target is left out
}

func (c *collector) edit(e pistore.Entry) {
	data, _ := e.Payload.Member("data")
	target, _ := data.Member("targetId")
	id, ok := target.Text()
	if !ok {
		c.note(e.ID, "a context edit without a target")
		return
	}
	ed := edit{entry: e.ID, target: id}
	replacement, ok := data.Member("replacement")
	if ok && replacement != "null" {
		ed.content, ok = replacement.Member("content")
		if p := (&parser{}); ok {
			p.content(ed.content)
			ok = p.err == nil
		}
	}
	if !ok {
		c.note(e.ID, "a context edit without a replacement that can be read")
		return
	}
	c.edits = append(c.edits, ed)
}

// applyEdits lets the last edit of each target win. An edit whose target does
// not stand on the path is dangling; what a compaction retained is a target by
// the entry that it was imported from.
func (c *collector) applyEdits(path []*View) {
	if len(c.edits) == 0 {
		return
	}
	compaction := pistore.ID("")
	there := make(map[string]bool, len(path))
	for _, v := range path {
		if e := v.Entry; e.Type == pistore.TypeCompaction {
			compaction = e.ID
		} else {
			there[string(e.ID)] = true
		}
	}
	targetOf := func(m ProjectedMessage) string {
		if m.Source == compaction {
			return m.LegacySource
		}
		return string(m.Source)
	}
	for _, m := range c.messages {
		there[targetOf(m)] = true
	}
	delete(there, "")
	last := make(map[string]edit, len(c.edits))
	for _, e := range c.edits {
		if !there[e.target] {
			c.note(e.entry, fmt.Sprintf("a context edit of %.128q, which is not on the path since the newest compaction", e.target))
			continue
		}
		last[e.target] = e
	}
	kept := c.messages[:0]
	for _, m := range c.messages {
		e, ok := last[targetOf(m)]
		switch {
		case !ok:
			kept = append(kept, m)
		case e.content != "":
			kept = append(kept, c.replaced(m, e))
		}
	}
	c.messages = kept
}

// replaced returns a message with the content of an edit.
func (c *collector) replaced(m ProjectedMessage, e edit) ProjectedMessage {
	switch m.Message.(type) {
	case *UserMessage, *AssistantMessage, *ToolResultMessage, *SystemMessage, *CustomMessage:
	default:
		c.note(e.entry, fmt.Sprintf("a context edit of the content of %.128q, which has none", e.target))
		return m
	}
	raw := withMember(m.Raw, "content", e.content)
	edited, err := ParseMessage(raw)
	if err != nil { // the content was read when the edit was
		c.note(e.entry, err.Error())
		return m
	}
	m.Raw, m.Message = raw, edited
	return m
}

// withMember returns an object with another value of one of its members.
func withMember(obj pistore.JSON, name string, value pistore.JSON) pistore.JSON {
	return object(func(w *writer) {
		done := false
		for n, v := range obj.Members() {
			switch {
			case n != name:
				w.put(n, v)
			case !done:
				w.put(n, value)
				done = true
			}
		}
		if !done {
			w.put(name, value)
		}
	})
}
