package session

import (
	"strings"

	"pistore"
	"pistore/registers"
)

// erasedText stands where content was erased.
const erasedText = "[erased]"

// eraser replaces content wherever it was copied to. Copies are found by their
// bytes: what takes a message over (a compaction's tail, the input of a summary,
// an application's register) keeps it as it stands.
type eraser struct {
	messages  map[pistore.JSON]pistore.JSON // what takes the place of each
	summaries map[string]bool               // texts of erased ones
	edited    map[string]bool               // targets whose context edits go too
	copies    int64
}

func newEraser() *eraser {
	return &eraser{messages: map[pistore.JSON]pistore.JSON{}, summaries: map[string]bool{}, edited: map[string]bool{}}
}

// learn remembers what an entry's content looks like where it was copied to, and
// returns the payload that it gets. The new payload is valid for its type and
// keeps what others rely on: roles, ids of calls, usage, references.
func (er *eraser) learn(e pistore.Entry) pistore.JSON {
	er.edited[string(e.ID)] = true
	switch e.Type {
	case pistore.TypeMessage:
		raw, _ := e.Payload.Member("message")
		erased := erasedMessage(raw)
		if raw != erased && raw.IsObject() {
			er.messages[raw] = erased
		}
		return object(func(w *writer) {
			w.put("message", erased)
			w.keep(e.Payload, "terminate")
		})
	case pistore.TypeCompaction:
		er.learnSummary(RoleCompactionSummary, e.Payload)
		return object(func(w *writer) {
			w.keep(e.Payload, "tokensBefore", "usage", "fromHook")
			w.text("summary", erasedText)
			w.put("retainedTail", "[]")
		})
	case pistore.TypeBranchSummary:
		er.learnSummary(RoleBranchSummary, e.Payload)
		return object(func(w *writer) {
			w.keep(e.Payload, "fromId", "usage", "fromHook")
			w.text("summary", erasedText)
		})
	default:
		return "{}"
	}
}

// learnSummary remembers a summary as a text and as the message that a
// projection makes of it.
func (er *eraser) learnSummary(role Role, payload pistore.JSON) {
	text := member(payload, "summary")
	summary, ok := text.Text()
	if !ok || summary == "" || summary == erasedText {
		return
	}
	er.summaries[summary] = true
	with := func(summary pistore.JSON) pistore.JSON {
		return object(func(w *writer) {
			w.text("role", string(role))
			w.put("summary", summary)
			w.keep(payload, "tokensBefore", "fromId")
		})
	}
	er.messages[with(text)] = with(pistore.QuoteJSON(erasedText))
}

func member(obj pistore.JSON, name string) pistore.JSON {
	v, _ := obj.Member(name)
	return v
}

// erasedMessage returns a message without its content.
func erasedMessage(raw pistore.JSON) pistore.JSON {
	value, _ := raw.Member("role")
	role, _ := value.Text()
	return object(func(w *writer) {
		w.keep(raw, "role", "timestamp")
		switch Role(role) {
		case RoleUser:
			w.content(TextContent(erasedText))
		case RoleSystem:
			w.keep(raw, "toolsAdded", "toolsRemoved")
			w.content(TextContent(erasedText))
		case RoleAssistant:
			w.keep(raw, "api", "provider", "model", "responseModel", "thinkingLevel", "usage", "stopReason")
			w.name("content")
			w.erasedAnswer(raw)
		case RoleToolResult:
			w.keep(raw, "toolCallId", "toolName", "isError", "usage")
			w.content(TextContent(erasedText))
		case RoleCustom:
			w.keep(raw, "customType", "display")
			w.content(TextContent(erasedText))
		case RoleBashExecution:
			w.keep(raw, "exitCode", "cancelled", "truncated", "excludeFromContext")
			w.text("command", erasedText)
			w.text("output", "")
		}
	})
}

// erasedAnswer writes content that makes the same calls, without arguments, so
// that their results keep their place.
func (w *writer) erasedAnswer(raw pistore.JSON) {
	calls := []pistore.JSON{""} // the first is the text
	for block := range member(raw, "content").Elements() {
		if member(block, "type") == `"toolCall"` {
			calls = append(calls, block)
		}
	}
	w.items(len(calls), func(i int) {
		if i == 0 {
			w.block(Text{erasedText})
			return
		}
		w.open()
		w.keep(calls[i], "type", "id", "name")
		w.put("arguments", "{}")
		w.close()
	})
}

// scrub replaces, within a value, what was learned.
func (er *eraser) scrub(j pistore.JSON) pistore.JSON {
	found := false
	for value := range er.messages {
		found = found || strings.Contains(string(j), string(value))
	}
	if !found {
		return j
	}
	var out strings.Builder
	er.write(&out, j)
	return pistore.JSON(out.String())
}

// write is scrub value by value: a text that was learned may stand within
// another one, or across two.
func (er *eraser) write(out *strings.Builder, j pistore.JSON) {
	if erased, ok := er.messages[j]; ok {
		er.copies++
		out.WriteString(string(erased))
		return
	}
	switch {
	case j.IsObject():
		sep := byte('{')
		for name, value := range j.RawMembers() {
			out.WriteByte(sep)
			out.WriteString(string(name))
			out.WriteByte(':')
			er.write(out, value)
			sep = ','
		}
		end(out, sep, '{', '}')
	case strings.HasPrefix(string(j), "["):
		sep := byte('[')
		for value := range j.Elements() {
			out.WriteByte(sep)
			er.write(out, value)
			sep = ','
		}
		end(out, sep, '[', ']')
	default:
		out.WriteString(string(j))
	}
}

// end closes an object or a list, of which sep tells whether it has begun.
func end(out *strings.Builder, sep, open, close byte) {
	if sep == open {
		out.WriteByte(open)
	}
	out.WriteByte(close)
}

// preparation erases the summary that another one is to go on from, which stands
// in its input as a text.
func (er *eraser) preparation(value pistore.JSON) pistore.JSON {
	p, err := registers.DecodePreparation(value)
	if err != nil || !er.summaries[p.PreviousSummary] {
		return value
	}
	er.copies++
	p.PreviousSummary = erasedText
	return registers.EncodePreparation(p)
}

// edit erases a context edit of content that was erased: what it has put in the
// place of that content is made of it. The target is then left out.
func (er *eraser) edit(e pistore.Entry) pistore.JSON {
	data, _ := e.Payload.Member("data")
	target, _ := data.Member("targetId")
	id, _ := target.Text()
	replacement, ok := data.Member("replacement")
	if !er.edited[id] || !ok || replacement == "null" {
		return e.Payload
	}
	er.copies++
	return CustomPayload(object(func(w *writer) {
		w.put("targetId", target)
		w.put("replacement", "null")
	}))
}
