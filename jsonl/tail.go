package jsonl

import (
	"errors"
	"fmt"
	"strings"

	"pistore"
)

// What compactions retain is copied into each of them. A file that has many
// retain everything would grow with the square of its length, so that all
// copies together are held to a multiple of it.
const (
	tailFactor = 8
	tailBase   = 8 << 20
	tailStep   = 16 // what looking at one record costs, in bytes
)

var errTailBudget = errors.New("what the compactions of this file retain is out of proportion to it")

// kept returns the record from which on a compaction keeps what stands before
// it. Keeping nothing is -1; an impossible reference is a problem, in words.
func (im *importer) kept(compaction int32) (first int32, problem string) {
	text := im.records[compaction].body
	if im.version == 1 {
		return im.keptByIndex(compaction, text)
	}
	value, _ := text.Member("firstKeptEntryId")
	id, ok := value.Text()
	switch {
	case value == "" || value == "null":
		return -1, "a compaction without firstKeptEntryId; it keeps nothing"
	case !ok:
		return -1, "firstKeptEntryId is " + kindOf(string(value)) + " instead of an id; the compaction keeps nothing"
	}
	first, known := im.byID[id]
	switch {
	case !known:
		return -1, fmt.Sprintf("firstKeptEntryId %s is nowhere in the file; the compaction keeps nothing", show(id))
	case first == compaction:
		return -1, ""
	case !im.isAncestor(first, compaction):
		return -1, fmt.Sprintf("firstKeptEntryId %s is not on the compaction's own branch; the compaction keeps nothing", show(id))
	}
	return first, ""
}

// keptByIndex reads the reference of version 1, which counts the header as 0.
func (im *importer) keptByIndex(compaction int32, text pistore.JSON) (int32, string) {
	value, _ := text.Member("firstKeptEntryIndex")
	n := parseMS(string(value)) // any whole number
	switch {
	case value == "":
		return -1, "a compaction without firstKeptEntryIndex; it keeps nothing"
	case n == int64(compaction)+1:
		return -1, ""
	case n < 1 || n > int64(compaction):
		return -1, fmt.Sprintf("firstKeptEntryIndex %s names no record before the compaction; it keeps nothing", show(string(value)))
	}
	return int32(n - 1), ""
}

// retained collects what a compaction retains: the messages, each as it stands,
// and where they come from.
type retained struct {
	messages []string
	sources  []pistore.ID
}

// tailOf resolves what a compaction keeps into messages, oldest first.
func (im *importer) tailOf(compaction, first int32) (retained, error) {
	if first < 0 {
		return retained{}, nil
	}
	var path []int32 // newest first
	edits := map[int32]int32{}
	at := im.records[compaction].parent
	for at >= 0 {
		at = im.shown[at]
		if at < 0 || im.depth[at] < im.depth[first] {
			break
		}
		if im.budget -= tailStep; im.budget < 0 {
			return retained{}, errTailBudget
		}
		if im.records[at].typ == typeContextEdit {
			if target, ok := im.targets[at]; ok {
				if _, later := edits[target]; !later {
					edits[target] = at
				}
			}
		} else {
			path = append(path, at)
		}
		at = im.records[at].parent
	}
	var t retained
	for n := len(path) - 1; n >= 0; n-- {
		message := im.element(path[n])
		if edit, ok := edits[path[n]]; ok && message != "" {
			im.budget -= int64(len(message)) // which is read for that
			message = im.edited(message, edit)
		}
		if message == "" {
			continue
		}
		if im.budget -= int64(len(message)) + 64; im.budget < 0 {
			return retained{}, errTailBudget
		}
		t.messages = append(t.messages, string(message))
		t.sources = append(t.sources, im.ids[path[n]])
	}
	return t, nil
}

// element returns what a record before a compaction gives to its retained tail;
// empty: nothing. The record has its payload already, which is read once for all
// compactions.
func (im *importer) element(index int32) pistore.JSON {
	message, known := im.elements[index]
	if !known {
		message = im.readElement(index)
		im.elements[index] = message
	}
	return message
}

func (im *importer) readElement(index int32) pistore.JSON {
	r := &im.records[index]
	switch {
	case r.silent:
		return ""
	case r.typ == typeBranchSummary:
		summary, _ := r.body.Member("summary")
		if summary == `""` {
			return ""
		}
		o := newObject(len(r.body)).put(`"role"`, `"branchSummary"`).put(`"summary"`, string(summary))
		if fromID, ok := r.body.Member("fromId"); ok {
			o.put(`"fromId"`, string(fromID))
		}
		return o.end()
	default:
		message, _ := r.body.Member("message")
		return message
	}
}

// edited applies a context edit to a message; empty: it is left out. An edit
// that cannot be applied changes nothing.
func (im *importer) edited(message pistore.JSON, edit int32) pistore.JSON {
	data, _ := im.records[edit].body.Member("data")
	replacement, _ := data.Member("replacement")
	if replacement == "null" {
		return ""
	}
	content, ok := replacement.Member("content")
	if !ok || !readable(content) {
		return message
	}
	switch factsOf(message).role {
	case "user", "assistant", "toolResult", "system", "custom":
		return withMember(message, "content", string(content))
	default:
		return message // it has no content to be replaced
	}
}

// readable reports whether a value can be the content of a message: a text,
// nothing, or a list of blocks of which each that is known has what it needs.
func readable(content pistore.JSON) bool {
	switch {
	case content == "":
		return false
	case content[0] == '"', content == "null":
		return true
	case content[0] != '[':
		return false
	}
	for block := range content.Elements() {
		if !readableBlock(block) {
			return false
		}
	}
	return true
}

func readableBlock(block pistore.JSON) bool {
	kind, _ := block.Member("type")
	is := func(ok func(string) bool, names ...string) bool {
		for _, name := range names {
			if value, _ := block.Member(name); !ok(string(value)) {
				return false
			}
		}
		return true
	}
	text := optional(isString)
	switch kind {
	case `"text"`:
		return is(text, "text")
	case `"image"`:
		return is(text, "data", "mimeType")
	case `"thinking"`:
		return is(text, "thinking", "thinkingSignature") && is(isFlag, "redacted")
	case `"toolCall"`:
		named := func(value string) bool { return isString(value) && value != `""` }
		arguments := optional(func(value string) bool { return value[0] == '{' })
		return is(named, "id", "name") && is(text, "thoughtSignature") && is(arguments, "arguments")
	default:
		return true
	}
}

// list joins what is JSON already to a list.
func list(elements []string) string { return "[" + strings.Join(elements, ",") + "]" }
