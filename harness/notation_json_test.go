package harness_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"pistore"
)

// value is a JSON value whose members keep their order.
type value struct {
	shape   byte   // '{', '[', '"', or 0 for all others
	raw     string // of a string its text; of others, lists and objects aside, theirs
	members []member
	items   []*value
}

type member struct {
	name  string
	value *value
}

// parseValue parses what is JSON already.
func parseValue(text pistore.JSON) *value {
	if text == "" {
		return &value{}
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	return parseNext(d)
}

func parseNext(d *json.Decoder) *value {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch token := token.(type) {
	case json.Delim:
		v := &value{shape: byte(token)}
		for d.More() {
			if token == '[' {
				v.items = append(v.items, parseNext(d))
				continue
			}
			name := parseNext(d).raw
			v.members = append(v.members, member{name, parseNext(d)})
		}
		_, _ = d.Token()
		return v
	case string:
		return &value{shape: '"', raw: token}
	case nil:
		return &value{raw: "null"}
	default:
		return &value{raw: fmt.Sprint(token)}
	}
}

func (v *value) member(name string) *value {
	for _, m := range v.members {
		if m.name == name {
			return m.value
		}
	}
	return &value{}
}

func (v *value) text() string {
	if v.shape == '"' {
		return v.raw
	}
	return ""
}

// empty: false, null, an empty text, list or object, or absent.
func (v *value) empty() bool {
	switch v.shape {
	case '{':
		return len(v.members) == 0
	case '[':
		return len(v.items) == 0
	case '"':
		return v.raw == ""
	default:
		return v.raw == "" || v.raw == "false" || v.raw == "null"
	}
}

// compact is the value as JSON text.
func (v *value) compact() string {
	var parts []string
	switch v.shape {
	case '{':
		for _, m := range v.members {
			parts = append(parts, string(pistore.QuoteJSON(m.name))+":"+m.value.compact())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case '[':
		for _, item := range v.items {
			parts = append(parts, item.compact())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case '"':
		return string(pistore.QuoteJSON(v.raw))
	default:
		return v.raw
	}
}
