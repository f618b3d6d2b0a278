package jsonl

import (
	"iter"
	"strings"

	"pistore"
)

// member is a member of an object as it stands: the name with its quotes and
// escapes, and the value.
type member struct{ name, value string }

// text decodes the name.
func (m member) text() string {
	name := m.name[1 : len(m.name)-1]
	if strings.IndexByte(name, '\\') < 0 {
		return name
	}
	decoded, _ := pistore.JSON(m.name).Text()
	return decoded
}

// members yields the members of a valid object without white space, as they
// stand, so that they can be written elsewhere byte for byte. Of any other
// value it yields nothing.
func members(object pistore.JSON) iter.Seq[member] {
	return func(yield func(member) bool) {
		text := string(object)
		if len(text) < 2 || text[0] != '{' || text[1] != '"' {
			return
		}
		for i := 1; i < len(text); i++ { // i++ passes a comma
			colon := stringEnd(text, i)
			end := valueEnd(text, colon+1)
			if end > len(text) || end <= colon+1 {
				return
			}
			if !yield(member{text[i:colon], text[colon+1 : end]}) {
				return
			}
			if i = end; text[min(i, len(text)-1)] != ',' {
				return
			}
		}
	}
}

// stringEnd returns the index after the string at text[i].
func stringEnd(text string, i int) int {
	for i++; i < len(text); {
		n := strings.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		if i += n + 1; !escaped(text, i-1) {
			return i
		}
	}
	return len(text)
}

// escaped reports whether an odd number of backslashes stands before text[i].
func escaped(text string, i int) bool {
	odd := false
	for i--; i >= 0 && text[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// valueEnd returns the index after the value at text[i], which is inside an
// object or a list.
func valueEnd(text string, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// object builds a JSON object from members that are JSON already.
type object struct{ strings.Builder }

func newObject(size int) *object {
	o := &object{}
	o.Grow(size)
	o.WriteByte('{')
	return o
}

// put adds a member; name is JSON with its quotes.
func (o *object) put(name, value string) *object {
	if o.Len() > 1 {
		o.WriteByte(',')
	}
	o.WriteString(name)
	o.WriteByte(':')
	o.WriteString(value)
	return o
}

func (o *object) end() pistore.JSON {
	o.WriteByte('}')
	return pistore.JSON(o.String())
}

// withMember returns an object with another value of one of its members.
func withMember(obj pistore.JSON, name, value string) pistore.JSON {
	o, done := newObject(len(obj)+len(value)), false
	quoted := string(pistore.QuoteJSON(name))
	for m := range members(obj) {
		switch {
		case m.text() != name:
			o.put(m.name, m.value)
		case !done:
			o.put(quoted, value)
			done = true
		}
	}
	if !done {
		o.put(quoted, value)
	}
	return o.end()
}
