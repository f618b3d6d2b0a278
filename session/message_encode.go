package session

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"

	"pistore"
)

// ZeroUsage is the usage of a response that cost nothing.
const ZeroUsage pistore.JSON = `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,` +
	`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`

// EncodeMessage returns the stored form of a message, with its members in the
// order in which Pi writes them. It is deterministic. Optional members that are
// empty are left out; content that is one text block is written as a string
// where a user, the system or an application speaks. A part that is JSON but
// does not parse gives a text that does not parse either, so that no commit
// admits it.
func EncodeMessage(m Message) pistore.JSON {
	return encoded(func(w *writer) { w.message(m) })
}

func (w *writer) message(m Message) {
	if u, ok := m.(*UnknownMessage); ok {
		w.json(u.Raw)
		return
	}
	w.open()
	w.text("role", string(m.Role()))
	switch m := m.(type) {
	case *UserMessage:
		w.speech(m.Content)
		w.instant("timestamp", m.Timestamp)
	case *AssistantMessage:
		w.assistant(m)
	case *ToolResultMessage:
		w.text("toolCallId", m.ToolCallID)
		w.text("toolName", m.ToolName)
		w.content(m.Content)
		w.optional("details", m.Details)
		w.optional("usage", m.Usage)
		w.flag("isError", m.IsError)
		w.instant("timestamp", m.Timestamp)
	case *SystemMessage:
		w.speech(m.Content)
		w.optional("sections", m.Sections)
		w.optional("toolsAdded", m.ToolsAdded)
		w.optional("toolsRemoved", m.ToolsRemoved)
		w.instant("timestamp", m.Timestamp)
	case *CustomMessage:
		w.text("customType", m.CustomType)
		w.speech(m.Content)
		w.flag("display", m.Display)
		w.optional("details", m.Details)
		w.instant("timestamp", m.Timestamp)
	case *BashMessage:
		w.bash(m)
	case *SummaryMessage:
		w.text("summary", m.Summary)
		w.optional("tokensBefore", m.TokensBefore)
		w.optText("fromId", m.FromID)
	default:
		panic(fmt.Sprintf("session: unknown kind of message %T", m))
	}
	w.close()
}

func (w *writer) assistant(m *AssistantMessage) {
	w.content(m.Content)
	w.text("api", m.API)
	w.text("provider", m.Provider)
	w.text("model", m.Model)
	w.optText("responseModel", m.ResponseModel)
	w.optText("responseId", m.ResponseID)
	w.optText("thinkingLevel", m.ThinkingLevel)
	w.optional("usage", cmp.Or(m.Usage, ZeroUsage))
	w.text("stopReason", string(m.StopReason))
	w.optText("errorMessage", m.ErrorMessage)
	if d := m.Deferred; d != nil {
		w.name("deferred")
		w.open()
		w.text("provider", d.Provider)
		w.text("modelId", d.ModelID)
		w.text("api", d.API)
		w.text("id", d.ID)
		if d.ExpiresAt != 0 {
			w.instant("expiresAt", d.ExpiresAt)
		}
		if d.PollAfterMS != 0 {
			w.number("pollAfterMs", d.PollAfterMS)
		}
		w.optional("data", d.Data)
		w.close()
	}
	w.instant("timestamp", m.Timestamp)
}

func (w *writer) bash(m *BashMessage) {
	w.text("command", m.Command)
	w.text("output", m.Output)
	if m.ExitCode != nil {
		w.number("exitCode", *m.ExitCode)
	}
	w.flag("cancelled", m.Cancelled)
	w.flag("truncated", m.Truncated)
	w.optFlag("excludeFromContext", m.ExcludeFromContext)
	w.instant("timestamp", m.Timestamp)
}

// speech writes content that may be a string.
func (w *writer) speech(content []Block) {
	if len(content) == 1 {
		if t, ok := content[0].(Text); ok {
			w.text("content", t.Text)
			return
		}
	}
	w.content(content)
}

func (w *writer) content(content []Block) {
	w.list("content", len(content), func(i int) { w.block(content[i]) })
}

func (w *writer) block(b Block) {
	if u, ok := b.(UnknownBlock); ok {
		w.json(u.Raw)
		return
	}
	w.open()
	switch b := b.(type) {
	case Text:
		w.text("type", "text")
		w.text("text", b.Text)
	case Image:
		w.text("type", "image")
		w.text("data", b.Data)
		w.text("mimeType", b.MIMEType)
	case Thinking:
		w.text("type", "thinking")
		w.text("thinking", b.Thinking)
		w.optText("thinkingSignature", b.Signature)
		w.optFlag("redacted", b.Redacted)
	case ToolCall:
		w.text("type", "toolCall")
		w.text("id", b.ID)
		w.text("name", b.Name)
		w.optional("arguments", cmp.Or(b.Arguments, "{}"))
		w.optText("thoughtSignature", b.Signature)
	default:
		panic(fmt.Sprintf("session: unknown kind of block %T", b))
	}
	w.close()
}

// writer appends JSON.
type writer struct{ out []byte }

// writers are kept for their buffers: a text is copied once, when it is whole.
var writers = sync.Pool{New: func() any { return new(writer) }}

const maxKeptBytes = 64 << 10 // of the buffer of a writer

// encoded returns what write appends.
func encoded(write func(*writer)) pistore.JSON {
	w := writers.Get().(*writer)
	w.out = w.out[:0]
	write(w)
	text := pistore.JSON(w.out)
	if cap(w.out) <= maxKeptBytes {
		writers.Put(w)
	}
	return text
}

// object returns an object with the members that write appends.
func object(members func(*writer)) pistore.JSON {
	return encoded(func(w *writer) {
		w.open()
		members(w)
		w.close()
	})
}

func (w *writer) open()  { w.out = append(w.out, '{') }
func (w *writer) close() { w.out = append(w.out, '}') }

// name begins a member. Only an object that has none yet ends in a brace that
// opens.
func (w *writer) name(name string) {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(pistore.AppendQuoteJSON(w.out, name), ':')
}

// json writes a part that is JSON as it is stored, and for one that does not
// parse a text that parses nowhere: spliced in as it is, a part such as
// `1},"x":{` could make a message that parses and says something else.
func (w *writer) json(v pistore.JSON) {
	j, err := pistore.CompactJSON(string(v))
	if err != nil {
		j = "!"
	}
	w.out = append(w.out, j...)
}

// put writes a value as it stands, which must be JSON.
func (w *writer) put(name string, v pistore.JSON) {
	w.name(name)
	w.out = append(w.out, v...)
}

// keep writes the members of another object that are named, as they stand.
func (w *writer) keep(obj pistore.JSON, names ...string) {
	for _, name := range names {
		if v, ok := obj.Member(name); ok {
			w.put(name, v)
		}
	}
}

func (w *writer) text(name, s string) {
	w.name(name)
	w.out = pistore.AppendQuoteJSON(w.out, s)
}

func (w *writer) optText(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *writer) flag(name string, b bool) {
	w.name(name)
	w.out = strconv.AppendBool(w.out, b)
}

func (w *writer) optFlag(name string, b bool) {
	if b {
		w.flag(name, true)
	}
}

func (w *writer) number(name string, n int64) {
	w.name(name)
	w.out = strconv.AppendInt(w.out, n, 10)
}

func (w *writer) instant(name string, t pistore.UnixMS) { w.number(name, int64(t)) }

// optional writes a part that is JSON and may be absent.
func (w *writer) optional(name string, v pistore.JSON) {
	if v != "" {
		w.name(name)
		w.json(v)
	}
}

func (w *writer) list(name string, n int, item func(i int)) {
	w.name(name)
	w.items(n, item)
}

func (w *writer) items(n int, item func(i int)) {
	w.out = append(w.out, '[')
	for i := range n {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		item(i)
	}
	w.out = append(w.out, ']')
}
