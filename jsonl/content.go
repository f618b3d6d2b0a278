package jsonl

import (
	"errors"
	"fmt"
	"strings"

	"pistore"
)

// legacyPrefix starts the customType of a record that has no type of its own
// here, and the name of a member that would stand for something else.
const legacyPrefix = "legacy."

// contextEdit is the customType of a context edit; package session, which
// projects contexts, applies entries of this type.
const contextEdit = legacyPrefix + "context_edit"

// errSchema says that a record does not have what its type demands. It is kept
// as a custom entry with everything that it holds.
var errSchema = errors.New("does not fit its type")

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSchema, fmt.Sprintf(format, args...))
}

// content makes of a record what it becomes, as far as that needs no other
// record. An error says that it cannot be stored at all.
func (im *importer) content(r *record, p parsed) error {
	im.spent, im.untimed = "", ""
	err := im.contentOf(r, p)
	misfit := errors.Is(err, errSchema)
	if err != nil && !misfit {
		return err
	}
	if misfit {
		r.typ, r.raw = typeUnknown, false
	}
	if r.typ == typeUnknown {
		r.custom, r.body = legacyType(p.typName), unknownPayload(p)
	}
	if len(r.body) > pistore.MaxPayloadBytes {
		return &pistore.LimitError{Limit: "payload bytes", Got: int64(len(r.body)), Max: pistore.MaxPayloadBytes}
	}
	if misfit {
		im.failAt(KindSchema, 7, line{number: r.line, offset: r.offset}, int32(len(im.records)),
			fmt.Sprintf("a record of type %s %v; it is kept as a custom entry", show(p.typName), err))
	}
	return nil
}

func (im *importer) contentOf(r *record, p parsed) error {
	switch p.typ {
	case typeMessage:
		return im.message(r, p)
	case typeCustom:
		return im.custom(r, p)
	case typeUnknown:
		return nil
	case typeCustomMessage:
		r.raw, r.body = true, p.text
		return checkMembers(p.text, check{"customType", isString, "string"}, check{"display", isFlag, "flag"})
	case typeCompaction:
		r.raw, r.body = true, p.text
		im.spent, _ = p.text.Member("usage")
		return checkMembers(p.text, check{"summary", isString, "string"},
			check{"tokensBefore", optional(isNumber), "number"}, check{"fromHook", isFlag, "flag"})
	case typeBranchSummary:
		r.raw, r.body = true, p.text
		im.spent, _ = p.text.Member("usage")
		return checkMembers(p.text, check{"summary", isString, "string"},
			check{"fromId", optional(isString), "string"}, check{"fromHook", isFlag, "flag"})
	default: // placed, or taken out of the tree, when all records are there
		r.raw, r.body = true, p.text
		return nil
	}
}

// check is what a member must be; one that is absent is judged as "".
type check struct {
	name string
	ok   func(value string) bool
	want string
}

func optional(ok func(string) bool) func(string) bool {
	return func(value string) bool { return value == "" || value == "null" || ok(value) }
}

func checkMembers(text pistore.JSON, checks ...check) error {
	for _, c := range checks {
		value, _ := text.Member(c.name)
		if !c.ok(string(value)) {
			return unfit("%s is %s instead of a %s", c.name, kindOf(string(value)), c.want)
		}
	}
	return nil
}

// message takes a message as it stands; in files before version 3 the role
// hookMessage is renamed, and nothing else of the text touched.
func (im *importer) message(r *record, p parsed) error {
	facts := factsOf(p.message)
	if !p.message.IsObject() || !facts.isText {
		return unfit("has no message with a role")
	}
	rename := im.version < 3 && facts.role == "hookMessage"
	r.silent = facts.silent()
	if facts.counts() {
		im.spent = facts.usage
	}
	if time := string(facts.timestamp); !optional(isNumber)(time) {
		im.untimed = kindOf(time)
	}
	if !p.extra && !rename {
		r.body = pistore.JSON(`{"message":` + string(p.message) + `}`)
		return nil
	}
	o := newObject(len(p.text))
	for m := range members(p.text) {
		name := m.text()
		if name == "message" && rename {
			m.value = string(renameRole(pistore.JSON(m.value)))
		}
		putExtra(o, m, name, "")
	}
	r.body = o.end()
	return nil
}

// renameRole replaces the role by custom, every one of it where it stands
// twice, and leaves every other byte.
func renameRole(message pistore.JSON) pistore.JSON {
	o := newObject(len(message))
	for m := range members(message) {
		if m.text() == "role" {
			m.value = `"custom"`
		}
		o.put(m.name, m.value)
	}
	return o.end()
}

// custom takes an extension's entry. Without a usable customType it is one of
// unknown type.
func (im *importer) custom(r *record, p parsed) error {
	value, _ := p.text.Member("customType")
	customType, ok := value.Text()
	o := newObject(len(p.text))
	for m := range members(p.text) {
		putExtra(o, m, m.text(), "customType")
	}
	r.body = o.end()
	if _, err := pistore.CheckEntry(pistore.TypeCustom, customType, "{}"); err != nil || !ok {
		im.warnAt(kindUnknownType, line{number: r.line, offset: r.offset}, int32(len(im.records)),
			"a custom entry whose customType cannot be used; it is kept as legacy.custom")
		r.typ, r.body = typeUnknown, ""
		return nil
	}
	r.custom = strings.Clone(customType)
	return nil
}

// putExtra writes a member of a record into its payload, unless it is one of
// those that an entry holds elsewhere, or the one named in without. A name that
// is structural in a payload gets a prefix.
func putExtra(o *object, m member, name, without string) {
	switch {
	case name == without:
	case name == "type", name == "id", name == "parentId", name == "timestamp":
	case name == "kind", name == "seq", name == "sum", name == "customType":
		o.put(`"`+legacyPrefix+name+`"`, m.value)
	default:
		o.put(m.name, m.value)
	}
}

// unknownPayload keeps all that a record holds beside its place.
func unknownPayload(p parsed) pistore.JSON {
	data := newObject(len(p.text))
	for m := range members(p.text) {
		switch m.text() {
		case "id", "parentId", "timestamp":
		case "type":
			if legacyType(p.typName) != legacyPrefix+p.typName {
				data.put(m.name, m.value)
			}
		default:
			data.put(m.name, m.value)
		}
	}
	return newObject(data.Len()+16).put(`"data"`, string(data.end())).end()
}

// legacyType returns the customType of a record of an unknown type. A name that
// no customType may have becomes one that says no more than that.
func legacyType(name string) string {
	if _, err := pistore.CheckEntry(pistore.TypeCustom, legacyPrefix+name, "{}"); err != nil || name == "" {
		return legacyPrefix + "unnamed"
	}
	return legacyPrefix + name
}
