package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pistore"
)

// ParseMessage returns the view of a stored message. Members that the view does
// not know are ignored; a role or block type that it does not know gives an
// UnknownMessage or UnknownBlock. A known member that is absent or null gives
// its zero value, since messages of other programs leave some out; so does a
// timestamp that is no number. An error matches ErrInvalid: no object, no role,
// any other known member of a wrong kind, a tool call without id or name, a tool
// result without toolCallId.
func ParseMessage(raw pistore.JSON) (Message, error) {
	p := &parser{}
	if !raw.IsObject() {
		p.fail("", "is no object")
		return nil, p.err
	}
	role, _ := raw.Member("role")
	name, ok := role.Text()
	if !ok {
		p.fail("role", "is no string")
		return nil, p.err
	}
	m := p.message(Role(name), raw)
	if p.err != nil {
		return nil, p.err
	}
	return m, nil
}

// parser reads the parts of a message and keeps the first error.
type parser struct{ err error }

func (p *parser) fail(at, problem string) {
	if p.err == nil {
		if at != "" {
			at += " "
		}
		p.err = fmt.Errorf("%w: %s%s", pistore.ErrInvalid, at, problem)
	}
}

func (p *parser) message(role Role, raw pistore.JSON) Message {
	switch role {
	case RoleUser:
		return p.user(raw)
	case RoleAssistant:
		return p.assistant(raw)
	case RoleToolResult:
		return p.toolResult(raw)
	case RoleSystem:
		return p.system(raw)
	case RoleCustom:
		return p.custom(raw)
	case RoleBashExecution:
		return p.bash(raw)
	case RoleCompactionSummary, RoleBranchSummary:
		return p.summary(role, raw)
	default:
		return &UnknownMessage{RoleName: role, Raw: raw}
	}
}

func (p *parser) user(raw pistore.JSON) Message {
	m := &UserMessage{}
	for name, v := range raw.Members() {
		switch name {
		case "content":
			m.Content = p.content(v)
		case "timestamp":
			m.Timestamp = p.sentAt(v)
		}
	}
	return m
}

func (p *parser) assistant(raw pistore.JSON) Message {
	m := &AssistantMessage{}
	for name, v := range raw.Members() {
		switch name {
		case "content":
			m.Content = p.content(v)
		case "api":
			m.API = p.text(name, v)
		case "provider":
			m.Provider = p.text(name, v)
		case "model":
			m.Model = p.text(name, v)
		case "responseModel":
			m.ResponseModel = p.text(name, v)
		case "responseId":
			m.ResponseID = p.text(name, v)
		case "thinkingLevel":
			m.ThinkingLevel = p.text(name, v)
		case "usage":
			m.Usage = unlessNull(v)
		case "stopReason":
			m.StopReason = StopReason(p.text(name, v))
		case "errorMessage":
			m.ErrorMessage = p.text(name, v)
		case "deferred":
			m.Deferred = p.deferred(v)
		case "timestamp":
			m.Timestamp = p.sentAt(v)
		}
	}
	return m
}

func (p *parser) deferred(v pistore.JSON) *DeferredHandle {
	if v == "null" {
		return nil
	}
	if !v.IsObject() {
		p.fail("deferred", "is no object")
	}
	d := &DeferredHandle{}
	for name, v := range v.Members() {
		at := "deferred." + name
		switch name {
		case "provider":
			d.Provider = p.text(at, v)
		case "modelId":
			d.ModelID = p.text(at, v)
		case "api":
			d.API = p.text(at, v)
		case "id":
			d.ID = p.text(at, v)
		case "expiresAt":
			d.ExpiresAt = p.instant(at, v)
		case "pollAfterMs":
			d.PollAfterMS = p.number(at, v)
		case "data":
			d.Data = v
		}
	}
	return d
}

func (p *parser) toolResult(raw pistore.JSON) Message {
	m := &ToolResultMessage{}
	for name, v := range raw.Members() {
		switch name {
		case "toolCallId":
			m.ToolCallID = p.text(name, v)
		case "toolName":
			m.ToolName = p.text(name, v)
		case "content":
			m.Content = p.content(v)
		case "isError":
			m.IsError = p.flag(name, v)
		case "details":
			m.Details = v
		case "usage":
			m.Usage = unlessNull(v)
		case "timestamp":
			m.Timestamp = p.sentAt(v)
		}
	}
	if m.ToolCallID == "" {
		p.fail("toolCallId", "is missing")
	}
	return m
}

func (p *parser) system(raw pistore.JSON) Message {
	m := &SystemMessage{}
	for name, v := range raw.Members() {
		switch name {
		case "content":
			m.Content = p.content(v)
		case "sections":
			m.Sections = v
		case "toolsAdded":
			m.ToolsAdded = v
		case "toolsRemoved":
			m.ToolsRemoved = v
		case "timestamp":
			m.Timestamp = p.sentAt(v)
		}
	}
	return m
}

func (p *parser) custom(raw pistore.JSON) Message {
	m := &CustomMessage{}
	for name, v := range raw.Members() {
		switch name {
		case "customType":
			m.CustomType = p.text(name, v)
		case "content":
			m.Content = p.content(v)
		case "display":
			m.Display = p.flag(name, v)
		case "details":
			m.Details = v
		case "timestamp":
			m.Timestamp = p.sentAt(v)
		}
	}
	return m
}

func (p *parser) bash(raw pistore.JSON) Message {
	m := &BashMessage{}
	for name, v := range raw.Members() {
		switch name {
		case "command":
			m.Command = p.text(name, v)
		case "output":
			m.Output = p.text(name, v)
		case "exitCode":
			m.ExitCode = nil
			if v != "null" {
				code := p.number(name, v)
				m.ExitCode = &code
			}
		case "cancelled":
			m.Cancelled = p.flag(name, v)
		case "truncated":
			m.Truncated = p.flag(name, v)
		case "excludeFromContext":
			m.ExcludeFromContext = p.flag(name, v)
		case "timestamp":
			m.Timestamp = p.sentAt(v)
		}
	}
	return m
}

func (p *parser) summary(role Role, raw pistore.JSON) Message {
	m := &SummaryMessage{Kind: role}
	for name, v := range raw.Members() {
		switch {
		case name == "summary":
			m.Summary = p.text(name, v)
		case name == "tokensBefore" && role == RoleCompactionSummary:
			m.TokensBefore = v
		case name == "fromId" && role == RoleBranchSummary:
			m.FromID = p.text(name, v)
		}
	}
	return m
}

// content reads a string or a list of blocks.
func (p *parser) content(v pistore.JSON) []Block {
	if s, ok := v.Text(); ok {
		return TextContent(s)
	}
	var blocks []Block
	for _, e := range p.list("content", v) {
		blocks = append(blocks, p.block("content["+strconv.Itoa(len(blocks))+"]", e))
	}
	return blocks
}

func (p *parser) block(at string, v pistore.JSON) Block {
	kind, _ := v.Member("type")
	switch kind {
	case `"text"`:
		return Text{Text: p.member(at, v, "text")}
	case `"image"`:
		return Image{Data: p.member(at, v, "data"), MIMEType: p.member(at, v, "mimeType")}
	case `"thinking"`:
		redacted, _ := v.Member("redacted")
		return Thinking{
			Thinking: p.member(at, v, "thinking"), Signature: p.member(at, v, "thinkingSignature"), Redacted: p.flag(at+".redacted", redacted),
		}
	case `"toolCall"`:
		return p.toolCall(at, v)
	default:
		return UnknownBlock{Raw: v}
	}
}

func (p *parser) toolCall(at string, v pistore.JSON) Block {
	c := ToolCall{ID: p.member(at, v, "id"), Name: p.member(at, v, "name"), Arguments: "{}", Signature: p.member(at, v, "thoughtSignature")}
	if c.ID == "" || c.Name == "" {
		p.fail(at, "is a tool call without id or name")
	}
	if args, ok := v.Member("arguments"); ok && args != "null" {
		if !args.IsObject() {
			p.fail(at+".arguments", "is no object")
		}
		c.Arguments = args
	}
	return c
}

// list reads the elements of a list.
func (p *parser) list(at string, v pistore.JSON) []pistore.JSON {
	if !strings.HasPrefix(string(v), "[") && v != "null" && v != "" {
		p.fail(at, "is no list")
	}
	return slices.Collect(v.Elements())
}

func (p *parser) member(at string, v pistore.JSON, name string) string {
	m, _ := v.Member(name)
	return p.text(at+"."+name, m)
}

func (p *parser) text(at string, v pistore.JSON) string {
	s, ok := v.Text()
	if !ok && v != "null" && v != "" {
		p.fail(at, "is no string")
	}
	return s
}

func (p *parser) flag(at string, v pistore.JSON) bool {
	switch v {
	case "true":
		return true
	case "false", "null", "":
	default:
		p.fail(at, "is neither true nor false")
	}
	return false
}

// number reads any JSON number as the nearest whole one towards zero that every
// JSON reader keeps exactly: writers may spell 1000 as 1e3.
func (p *parser) number(at string, v pistore.JSON) int64 {
	if v == "null" || v == "" {
		return 0
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return min(max(n, -pistore.MaxSeq), pistore.MaxSeq)
	}
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		p.fail(at, "is no number")
		return 0
	}
	n, _ := strconv.ParseFloat(string(v), 64) // out of range: ±Inf
	return int64(min(max(n, -pistore.MaxSeq), pistore.MaxSeq))
}

func (p *parser) instant(at string, v pistore.JSON) pistore.UnixMS {
	return pistore.UnixMS(max(p.number(at, v), 0))
}

// sentAt reads the timestamp of a message. One of another kind counts as none:
// nothing hangs on it, and the message is worth more.
func (p *parser) sentAt(v pistore.JSON) pistore.UnixMS {
	return (&parser{}).instant("", v)
}

func unlessNull(v pistore.JSON) pistore.JSON {
	if v == "null" {
		return ""
	}
	return v
}
