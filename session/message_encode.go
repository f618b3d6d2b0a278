package session

import (
	"fmt"
	"strconv"
	"strings"

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
	switch m := m.(type) {
	case *UserMessage:
		o := message(m).put("content", speech(m.Content))
		return o.instant("timestamp", m.Timestamp).end()
	case *AssistantMessage:
		return encodeAssistant(m)
	case *ToolResultMessage:
		o := message(m).text("toolCallId", m.ToolCallID).text("toolName", m.ToolName).put("content", blocks(m.Content))
		o.optional("details", m.Details).optional("usage", m.Usage).flag("isError", m.IsError)
		return o.instant("timestamp", m.Timestamp).end()
	case *SystemMessage:
		o := message(m).put("content", speech(m.Content)).optional("sections", m.Sections)
		o.optional("toolsAdded", m.ToolsAdded).optional("toolsRemoved", m.ToolsRemoved)
		return o.instant("timestamp", m.Timestamp).end()
	case *CustomMessage:
		o := message(m).text("customType", m.CustomType).put("content", speech(m.Content)).flag("display", m.Display)
		return o.optional("details", m.Details).instant("timestamp", m.Timestamp).end()
	case *BashMessage:
		o := message(m).text("command", m.Command).text("output", m.Output)
		if m.ExitCode != nil {
			o.put("exitCode", pistore.JSON(strconv.FormatInt(*m.ExitCode, 10)))
		}
		o.flag("cancelled", m.Cancelled).flag("truncated", m.Truncated).optFlag("excludeFromContext", m.ExcludeFromContext)
		return o.instant("timestamp", m.Timestamp).end()
	case *SummaryMessage:
		o := message(m).text("summary", m.Summary).optional("tokensBefore", m.TokensBefore)
		return o.optText("fromId", m.FromID).end()
	case *UnknownMessage:
		return checked(m.Raw)
	default:
		panic(fmt.Sprintf("session: unknown kind of message %T", m))
	}
}

func encodeAssistant(m *AssistantMessage) pistore.JSON {
	usage := m.Usage
	if usage == "" {
		usage = ZeroUsage
	}
	o := message(m).put("content", blocks(m.Content))
	o.text("api", m.API).text("provider", m.Provider).text("model", m.Model)
	o.optText("responseModel", m.ResponseModel).optText("responseId", m.ResponseID).optText("thinkingLevel", m.ThinkingLevel)
	o.put("usage", checked(usage)).text("stopReason", string(m.StopReason)).optText("errorMessage", m.ErrorMessage)
	if d := m.Deferred; d != nil {
		h := object().text("provider", d.Provider).text("modelId", d.ModelID).text("api", d.API).text("id", d.ID)
		if d.ExpiresAt != 0 {
			h.instant("expiresAt", d.ExpiresAt)
		}
		if d.PollAfterMS != 0 {
			h.put("pollAfterMs", pistore.JSON(strconv.FormatInt(d.PollAfterMS, 10)))
		}
		o.put("deferred", h.optional("data", d.Data).end())
	}
	return o.instant("timestamp", m.Timestamp).end()
}

// speech encodes content that may be a string.
func speech(content []Block) pistore.JSON {
	if len(content) == 1 {
		if t, ok := content[0].(Text); ok {
			return pistore.QuoteJSON(t.Text)
		}
	}
	return blocks(content)
}

func blocks(content []Block) pistore.JSON { return array(content, encodeBlock) }

func array[T any](items []T, encode func(T) pistore.JSON) pistore.JSON {
	var out strings.Builder
	out.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(string(encode(item)))
	}
	out.WriteByte(']')
	return pistore.JSON(out.String())
}

func encodeBlock(b Block) pistore.JSON {
	switch b := b.(type) {
	case Text:
		return object().text("type", "text").text("text", b.Text).end()
	case Image:
		return object().text("type", "image").text("data", b.Data).text("mimeType", b.MIMEType).end()
	case Thinking:
		o := object().text("type", "thinking").text("thinking", b.Thinking)
		return o.optText("thinkingSignature", b.Signature).optFlag("redacted", b.Redacted).end()
	case ToolCall:
		args := b.Arguments
		if args == "" {
			args = "{}"
		}
		o := object().text("type", "toolCall").text("id", b.ID).text("name", b.Name).put("arguments", checked(args))
		return o.optText("thoughtSignature", b.Signature).end()
	case UnknownBlock:
		return checked(b.Raw)
	default:
		panic(fmt.Sprintf("session: unknown kind of block %T", b))
	}
}

// writer writes the members of one JSON object.
type writer struct{ out strings.Builder }

func object() *writer { return &writer{} }

func message(m Message) *writer { return object().text("role", string(m.Role())) }

func (w *writer) put(name string, value pistore.JSON) *writer {
	if w.out.Len() == 0 {
		w.out.WriteByte('{')
	} else {
		w.out.WriteByte(',')
	}
	w.out.WriteString(string(pistore.QuoteJSON(name)))
	w.out.WriteByte(':')
	w.out.WriteString(string(value))
	return w
}

func (w *writer) text(name, s string) *writer { return w.put(name, pistore.QuoteJSON(s)) }

func (w *writer) optText(name, s string) *writer {
	if s == "" {
		return w
	}
	return w.text(name, s)
}

func (w *writer) flag(name string, b bool) *writer {
	return w.put(name, pistore.JSON(strconv.FormatBool(b)))
}

func (w *writer) optFlag(name string, b bool) *writer {
	if !b {
		return w
	}
	return w.flag(name, true)
}

func (w *writer) instant(name string, t pistore.UnixMS) *writer {
	return w.put(name, pistore.JSON(strconv.FormatInt(int64(t), 10)))
}

// optional writes a part that is JSON and may be absent.
func (w *writer) optional(name string, v pistore.JSON) *writer {
	if v == "" {
		return w
	}
	return w.put(name, checked(v))
}

func (w *writer) end() pistore.JSON {
	if w.out.Len() == 0 {
		return "{}"
	}
	return pistore.JSON(w.out.String() + "}")
}

// checked returns a part that is JSON as it is stored, and for one that does not
// parse a text that parses nowhere: spliced in as it is, a part such as
// `1},"x":{` could make a message that parses and says something else.
func checked(v pistore.JSON) pistore.JSON {
	j, err := pistore.CompactJSON(string(v))
	if err != nil {
		return "!"
	}
	return j
}
