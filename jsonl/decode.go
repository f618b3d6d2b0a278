package jsonl

import (
	"bytes"
	"errors"
	"fmt"

	"pistore"
)

// write4 is one write of a line of format 4, as found by a structural scan. Its
// texts are parts of the line as they stand, names and strings with their quotes;
// an absent one is empty. They are valid as long as the line is.
type write4 struct {
	text []byte // of the line

	kind, op, seq, timestamp, id, parentID, typ, customType, sum []byte
	entryID, adjustment, usage, details                          []byte
	namespace, key, value                                        []byte

	// from and to are where the payload members of an entry stand, if they stand
	// together, as they do in what is written here.
	from, to  int
	scattered bool

	start, length int  // of the object
	isEntry       bool // known from the start, since members depend on it
}

var errShape = errors.New("not an object of a transaction")

func misshapen(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errShape, fmt.Sprintf(format, args...))
}

// scanLine calls each for every write of a line without white space, which it puts
// into w. The text need not be valid JSON: what does not have the outer shape is
// errShape, and what is inside of values is not looked at.
func scanLine(text []byte, w *write4, each func(w *write4) error) error {
	if len(text) == 0 {
		return misshapen("it is empty")
	}
	if text[0] != '[' {
		end, err := scanWrite(text, 0, w)
		if err == nil && end != len(text) {
			err = misshapen("more follows at byte %d", end)
		}
		if err != nil {
			return err
		}
		return each(w)
	}
	for i := 1; ; i++ {
		end, err := scanWrite(text, i, w)
		if err != nil {
			return err
		}
		if err := each(w); err != nil {
			return err
		}
		switch {
		case end == len(text)-1 && text[end] == ']':
			return nil
		case end < len(text) && text[end] == ',':
			i = end
		default:
			return misshapen("byte %d is not the end of the list", end)
		}
	}
}

// scanWrite scans the object at text[i] and returns where it ends.
func scanWrite(text []byte, i int, w *write4) (int, error) {
	*w = write4{text: text, from: -1, start: i}
	if i >= len(text) || text[i] != '{' {
		return 0, misshapen("no object at byte %d", i)
	}
	if i+1 < len(text) && text[i+1] == '}' {
		w.length = 2
		return i + 2, nil
	}
	w.isEntry = bytes.HasPrefix(text[i:], []byte(entryStart)) ||
		!bytes.HasPrefix(text[i:], []byte(kindStart)) && kindAt(text, i) == `"entry"`
	for i++; ; i++ {
		if i >= len(text) || text[i] != '"' {
			return 0, misshapen("no member name at byte %d", i)
		}
		colon := textEnd(text, i)
		if colon >= len(text) || text[colon] != ':' {
			return 0, misshapen("no colon at byte %d", colon)
		}
		end := anyEnd(text, colon+1)
		if end >= len(text) || end == colon+1 || text[end] != ',' && text[end] != '}' {
			return 0, misshapen("no end of the value at byte %d", colon+1)
		}
		if err := w.member(i, colon, end); err != nil {
			return 0, err
		}
		if i = end; text[i] == '}' {
			w.length = i + 1 - w.start
			return i + 1, nil
		}
	}
}

// member files one member, whose name starts at from.
func (w *write4) member(from, colon, end int) error {
	name, value := w.text[from+1:colon-1], w.text[colon+1:end]
	if bytes.IndexByte(name, '\\') >= 0 {
		decoded, _ := pistore.JSON(w.text[from:colon]).Text()
		name = []byte(decoded)
	}
	field := w.field(name)
	switch {
	case field == nil:
		if w.from < 0 {
			w.from = from
		} else if w.to+1 != from {
			w.scattered = true
		}
		w.to = end
		return nil
	case len(*field) > 0:
		return misshapen("%s stands twice", name)
	}
	*field = value
	return nil
}

// field returns the field of a structural member, nil for any other. What is
// structural depends on the kind.
func (w *write4) field(name []byte) *[]byte {
	switch string(name) {
	case "kind":
		return &w.kind
	case "seq":
		return &w.seq
	case "id":
		return &w.id
	case "timestamp":
		return &w.timestamp
	case "parentId":
		return &w.parentID
	case "type":
		return &w.typ
	case "customType":
		return &w.customType
	case "sum":
		return &w.sum
	}
	if w.isEntry {
		return nil
	}
	switch string(name) {
	case "op":
		return &w.op
	case "namespace":
		return &w.namespace
	case "key":
		return &w.key
	case "value":
		return &w.value
	case "usage":
		return &w.usage
	case "entryId":
		return &w.entryID
	case "adjustment":
		return &w.adjustment
	case "details":
		return &w.details
	}
	return nil
}

// payload returns what an entry holds beside its structural members.
func (w *write4) payload() pistore.JSON {
	switch {
	case w.from < 0:
		return "{}" // the constant, however many entries have it
	case !w.scattered:
		p := make([]byte, 0, w.to-w.from+2)
		p = append(append(append(p, '{'), w.text[w.from:w.to]...), '}')
		return pistore.JSON(p)
	}
	o := newObject(w.length)
	for m := range members(pistore.JSON(w.text[w.start : w.start+w.length])) {
		if name := m.text(); w.field([]byte(name)) == nil {
			o.put(m.name, m.value)
		}
	}
	return o.end()
}

// What is written here has its kind in front.
const (
	kindStart  = `{"kind":`
	entryStart = `{"kind":"entry",`
)

// kindAt looks for the kind of the object at text[i]; empty: it has none.
func kindAt(text []byte, i int) string {
	for i++; i < len(text) && text[i] == '"'; i++ {
		colon := textEnd(text, i)
		if colon >= len(text) {
			break
		}
		end := anyEnd(text, colon+1)
		if string(text[i:colon]) == `"kind"` {
			return string(text[colon+1 : end])
		}
		if i = end; i >= len(text) || text[i] != ',' {
			break
		}
	}
	return ""
}

// textEnd returns the index after the string at text[i].
func textEnd(text []byte, i int) int {
	for i++; i < len(text); {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		i += n + 1
		backslashes := 0
		for i-2-backslashes >= 0 && text[i-2-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i
		}
	}
	return len(text)
}

// anyEnd returns the index after the value at text[i], which is inside an object
// or a list.
func anyEnd(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = textEnd(text, i) - 1
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

// containerEnd returns the index after the object or list that text starts with,
// or the length of a text that ends before it does.
func containerEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = textEnd(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// wholeNumber reads a whole number of 0 to 2^53-1 without exponent.
func wholeNumber(text []byte) (int64, bool) {
	if len(text) == 0 || len(text) > 16 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	n := int64(0)
	for _, c := range text {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = 10*n + int64(c)
	}
	return n, n <= pistore.MaxSeq
}

// plainText decodes a string that has to be one.
func plainText(what string, text []byte) (string, error) {
	if len(text) >= 2 && text[0] == '"' && bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1]), nil
	}
	s, ok := pistore.JSON(text).Text()
	if !ok {
		return "", misshapen("%s is %s instead of a string", what, kindOf(string(text[:min(len(text), 1)])))
	}
	return s, nil
}
