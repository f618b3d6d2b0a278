package jsonl

import (
	"bytes"
	"strings"
	"time"

	"pistore"
)

// recordType is what a record is, by its type member.
type recordType uint8

const (
	typeUnknown recordType = iota
	typeSession            // a header

	// These become entries.
	typeMessage
	typeCustomMessage
	typeCustom
	typeCompaction
	typeBranchSummary
	typeContextEdit

	// These leave the tree.
	typeLabel
	typeSessionInfo
	typeModelChange
	typeThinkingChange
	typeToolsChange
	typeUsage
)

func typeOf(name string) recordType {
	switch name {
	case "session":
		return typeSession
	case "message":
		return typeMessage
	case "custom_message":
		return typeCustomMessage
	case "custom":
		return typeCustom
	case "compaction":
		return typeCompaction
	case "branch_summary":
		return typeBranchSummary
	case "context_edit":
		return typeContextEdit
	case "label":
		return typeLabel
	case "session_info":
		return typeSessionInfo
	case "model_change":
		return typeModelChange
	case "thinking_level_change":
		return typeThinkingChange
	case "active_tools_change":
		return typeToolsChange
	case "usage":
		return typeUsage
	default:
		return typeUnknown
	}
}

// retained reports whether records of the type stay in the tree.
func (t recordType) retained() bool { return t < typeLabel }

// record is one line of the file after its header. There may be millions, so
// that it is kept small.
type record struct {
	legacy string // its id, made unique; "#n" where it has none
	// body is the payload of the entry that it becomes, or, as long as raw is
	// set, the whole record.
	body   pistore.JSON
	custom string // the customType of the entry
	offset int64
	line   int64
	time   int64 // Unix ms; -1: unusable, until the earlier one is known
	parent int32 // index of the record, -1: a root
	length int32 // of the line
	typ    recordType
	raw    bool
	silent bool // an answer that ended in error, aborted or deferred: in no context
}

// parsed is what the members of a line say, before it is placed.
type parsed struct {
	text     pistore.JSON // the whole record
	typ      recordType
	typName  string
	hasType  bool
	id       string
	hasID    bool
	parent   string
	parentOK bool // the parent is an id or null
	isRoot   bool // the parent is null
	time     int64
	message  pistore.JSON // of the last such member
	extra    bool         // there are members beside the common ones and message
}

// parseRecord reads the common members of a record. Names are matched exactly;
// of a duplicate the last one counts, as in JSON.parse.
func parseRecord(text pistore.JSON) parsed {
	p := parsed{text: text, time: -1}
	for m := range members(text) {
		value := pistore.JSON(m.value)
		switch m.text() {
		case "type":
			p.typName, p.hasType = value.Text()
			p.typ = typeOf(p.typName)
		case "id":
			p.id, p.hasID = value.Text()
			p.hasID = p.hasID && p.id != ""
		case "parentId":
			p.parent, p.parentOK = value.Text()
			p.parentOK = p.parentOK && p.parent != ""
			p.isRoot = value == "null"
		case "timestamp":
			p.time = parseTime(value)
		case "message":
			p.extra = p.extra || p.message != ""
			p.message = value
		default:
			p.extra = true
		}
	}
	return p
}

// maxTime is the last instant that fits in 48 bits, hence in an id.
const maxTime = 1<<48 - 1

// parseTime reads a timestamp, an ISO 8601 text or Unix ms. It returns -1 for
// one that cannot be used.
func parseTime(value pistore.JSON) int64 {
	s, ok := value.Text()
	if !ok {
		return parseMS(string(value))
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return -1
	}
	if ms := t.UnixMilli(); 0 <= ms && ms <= maxTime {
		return ms
	}
	return -1
}

// parseMS reads a whole number of milliseconds.
func parseMS(s string) int64 {
	n := int64(0)
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 || n > maxTime {
			return -1
		}
		n = 10*n + int64(c)
	}
	if s == "" || n > maxTime {
		return -1
	}
	return n
}

// welded reports whether another record seems to start inside a line: a writer
// went on behind a line that was never ended.
func welded(text []byte) bool {
	const start = `{"type":"`
	for at := 0; ; {
		n := bytes.Index(text[at:], []byte(start))
		if n < 0 {
			return false
		}
		name := text[at+n+len(start):]
		end := bytes.IndexByte(name[:min(len(name), 32)], '"')
		if at+n > 0 && end > 0 && typeOf(string(name[:end])) != typeUnknown {
			return true
		}
		at += n + len(start)
	}
}

// facts of a message that an import needs.
type messageFacts struct {
	role      string
	isText    bool // role is a string
	stop      string
	usage     pistore.JSON
	timestamp pistore.JSON
}

func factsOf(message pistore.JSON) messageFacts {
	var f messageFacts
	for m := range members(message) {
		switch m.text() {
		case "role":
			f.role, f.isText = pistore.JSON(m.value).Text()
		case "stopReason":
			f.stop, _ = pistore.JSON(m.value).Text()
		case "usage":
			f.usage = pistore.JSON(m.value)
		case "timestamp":
			f.timestamp = pistore.JSON(m.value)
		}
	}
	return f
}

// counts reports whether a message's usage is part of the totals.
func (f messageFacts) counts() bool { return f.role == "assistant" || f.role == "toolResult" }

// silent reports whether a message is an answer that no context contains.
func (f messageFacts) silent() bool {
	if f.role != "assistant" {
		return false
	}
	switch f.stop {
	case "error", "aborted", "deferred":
		return true
	default:
		return false
	}
}

// isBlank reports whether a line has white space only.
func isBlank(text []byte) bool { return len(bytes.TrimLeft(text, " \t\r")) == 0 }

// kindOf names what a JSON value is.
func kindOf(value string) string {
	switch {
	case value == "":
		return "absent"
	case value[0] == '{':
		return "an object"
	case value[0] == '[':
		return "a list"
	case value[0] == '"':
		return "a string"
	case value == "null":
		return "null"
	case value == "true", value == "false":
		return value
	default:
		return "a number"
	}
}

func isNumber(value string) bool {
	return value != "" && (value[0] == '-' || value[0]-'0' <= 9)
}

func isString(value string) bool { return strings.HasPrefix(value, `"`) }

// isFlag reports whether a value can be read as a flag, absent ones included.
func isFlag(value string) bool {
	switch value {
	case "", "null", "true", "false":
		return true
	default:
		return false
	}
}
