package verify

import (
	"strings"

	"pistore"
)

// common reads the message of a payload without taking it apart, if it is of the
// form in which most are written: role and type in front, no name twice where that
// matters, no escapes in names. It reports false for every other message, sound or
// not, which is then parsed. What it accepts the parser accepts, and says the
// same of it.
func (s *said) common(payload pistore.JSON) bool {
	var message pistore.JSON
	for name, value := range payload.RawMembers() {
		switch {
		case name == `"message"` && message == "":
			message = value
		case name == `"message"` || escaped(name):
			return false
		}
	}
	var found said
	ok, first, role, content, call := true, true, pistore.JSON(""), false, false
	for name, value := range message.RawMembers() {
		switch {
		case first:
			role, ok = value, name == `"role"`
			first = false
		case name == `"content"`:
			ok = !content && found.content(value)
			content = true
		case role == `"user"`:
			ok = name != `"role"` && !escaped(name)
		case role == `"assistant"`:
			ok = found.responseMember(name, value)
		case role == `"toolResult"`:
			call = call || name == `"toolCallId"`
			ok = resultMember(name, value)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	switch role {
	case `"user"`:
		*s = said{}
	case `"assistant"`:
		found.response = true
		*s = found
	case `"toolResult"`:
		if !call {
			return false
		}
		*s = said{result: true}
	default:
		return false
	}
	return true
}

// escaped reports whether a text is not what stands in it.
func escaped(text pistore.JSON) bool { return strings.IndexByte(string(text), '\\') >= 0 }

// isText reports whether a value is a string or null.
func isText(value pistore.JSON) bool { return value[0] == '"' || value == "null" }

// isName reports whether a value is a string that is not empty.
func isName(value pistore.JSON) bool { return value[0] == '"' && len(value) > len(`""`) }

func isFlag(value pistore.JSON) bool { return value == "true" || value == "false" || value == "null" }

// responseMember reads a member of a response beside role and content.
func (s *said) responseMember(name, value pistore.JSON) bool {
	switch name {
	case `"api"`, `"provider"`, `"model"`, `"responseModel"`, `"responseId"`, `"thinkingLevel"`, `"errorMessage"`:
		return isText(value)
	case `"stopReason"`:
		s.aborted = value == `"aborted"`
		return value[0] == '"' && value != `"pending"` && !escaped(value)
	case `"deferred"`:
		return value == "null"
	case `"role"`:
		return false
	default:
		return !escaped(name)
	}
}

// resultMember reads a member of a tool result beside role and content.
func resultMember(name, value pistore.JSON) bool {
	switch name {
	case `"toolCallId"`:
		return isName(value)
	case `"toolName"`:
		return isText(value)
	case `"isError"`:
		return isFlag(value)
	case `"role"`:
		return false
	default:
		return !escaped(name)
	}
}

// content reads a string or a list of blocks.
func (s *said) content(value pistore.JSON) bool {
	if value[0] != '[' {
		return value[0] == '"'
	}
	for block := range value.Elements() {
		if !s.block(block) {
			return false
		}
	}
	return true
}

func (s *said) block(block pistore.JSON) bool {
	kind, id, called := pistore.JSON(""), false, false
	for name, value := range block.RawMembers() {
		ok := true
		switch {
		case kind == "":
			kind, ok = value, name == `"type"`
		case name == `"type"` || escaped(name):
			ok = false
		case kind == `"text"`:
			ok = name != `"text"` || isText(value)
		case kind == `"thinking"`:
			ok = name != `"thinking"` && name != `"thinkingSignature"` || isText(value)
			ok = ok && (name != `"redacted"` || isFlag(value))
		case kind == `"toolCall"`:
			id, called = id || name == `"id"`, called || name == `"name"`
			ok = callMember(name, value)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	switch kind {
	case `"text"`, `"thinking"`:
		return true
	case `"toolCall"`:
		s.calls++
		return id && called
	default:
		return false
	}
}

func callMember(name, value pistore.JSON) bool {
	switch name {
	case `"id"`, `"name"`:
		return isName(value)
	case `"arguments"`:
		return value[0] == '{' || value == "null"
	case `"thoughtSignature"`:
		return isText(value)
	default:
		return true
	}
}
