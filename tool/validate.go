package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pistore"
)

// Validate checks the arguments of a call of the named tool. The error is for
// the model: one line that names the member at fault. It is not nil for an
// unknown tool, for anything that is not a JSON object, and for an object with
// two members of one name, of which tool and check might see different ones.
func (s *Set) Validate(name string, args pistore.JSON) error {
	i, ok := s.index(name)
	if !ok {
		return fmt.Errorf("there is no tool named %.80q", name)
	}
	value, err := decode(args)
	if err != nil {
		return fmt.Errorf("the arguments of %s are malformed: %s", name, oneLine(err.Error()))
	}
	if _, ok := value.(map[string]any); !ok {
		return fmt.Errorf("the arguments of %s are %s and not a JSON object", name, kindOf(value))
	}
	if err := s.schema[i].Validate(value); err != nil {
		return fmt.Errorf("the arguments of %s do not fit its schema: %s", name, oneLine(describe(err)))
	}
	return nil
}

// decode parses JSON text for the validator: numbers as json.Number, so that
// none is rounded. It refuses what a validator and a tool could read
// differently (two members of one name) and what could cost them more than its
// length (nesting beyond [pistore.MaxJSONDepth], numbers beyond maxNumberBytes
// and maxExponent).
func decode(text pistore.JSON) (any, error) {
	if strings.TrimSpace(string(text)) == "" {
		return nil, errors.New("empty text instead of JSON")
	}
	compact, err := pistore.CompactJSON(string(text))
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(compact)))
	d.UseNumber()
	return decodeValue(d, nil)
}

// place is where a value stands in the text; nil is the root. It is spelled out
// for messages only.
type place struct {
	parent *place
	step   string // ".name" or "[index]"
}

func (p *place) String() string {
	if p == nil {
		return ""
	}
	const maxSteps = 20
	var steps []string
	for ; p != nil && len(steps) < maxSteps; p = p.parent {
		steps = append(steps, p.step)
	}
	slices.Reverse(steps)
	return strings.TrimPrefix(strings.Join(steps, ""), ".")
}

// decodeValue reads the value at p; see [decode].
func decodeValue(d *json.Decoder, p *place) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return decodeObject(d, p)
		}
		return decodeArray(d, p)
	case json.Number:
		if !modest(t) {
			return nil, fmt.Errorf("%s: the number is too long or its exponent too large", at(p.String()))
		}
	}
	return token, nil
}

func decodeObject(d *json.Decoder, p *place) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // CompactJSON has seen to it
		member := &place{p, "." + name}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("%s is there twice", at(member.String()))
		}
		if object[name], err = decodeValue(d, member); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

func decodeArray(d *json.Decoder, p *place) (any, error) {
	array := []any{}
	for d.More() {
		item, err := decodeValue(d, &place{p, "[" + strconv.Itoa(len(array)) + "]"})
		if err != nil {
			return nil, err
		}
		array = append(array, item)
	}
	_, err := d.Token()
	return array, err
}

// Bounds on number literals: exact arithmetic on 1e1000000000 would not end.
const (
	maxNumberBytes = 400
	maxExponent    = 400
)

func modest(n json.Number) bool {
	if len(n) > maxNumberBytes {
		return false
	}
	i := strings.IndexAny(string(n), "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(string(n[i+1:]))
	return err == nil && -maxExponent <= exponent && exponent <= maxExponent
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// at quotes a path for a message; the root is "the object itself".
func at(path string) string {
	const maxBytes = 120
	if path == "" {
		return "the object itself"
	}
	if len(path) > maxBytes {
		path = strings.ToValidUTF8(path[:maxBytes], "") + "…"
	}
	return strconv.Quote(path)
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}

var english = message.NewPrinter(language.English)

// describe turns what the validator found into text, by place and then by
// text, so that the same arguments always give the same message.
func describe(err error) string {
	const most = 3
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err.Error()
	}
	var found []string
	collect(v, &found)
	slices.Sort(found)
	found = slices.Compact(found)
	if more := len(found) - most; more > 0 {
		found = append(found[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(found, "; ")
}

// collect adds one message for each leaf of the tree of failures.
func collect(e *jsonschema.ValidationError, found *[]string) {
	if len(e.Causes) > 0 {
		for _, cause := range e.Causes {
			collect(cause, found)
		}
		return
	}
	path := ""
	for _, token := range e.InstanceLocation {
		if _, err := strconv.ParseUint(token, 10, 31); err == nil && path != "" {
			path += "[" + token + "]"
		} else {
			path = join(path, token)
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*found = append(*found, at(join(path, name))+" is missing")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*found = append(*found, at(join(path, name))+" is not a known member")
		}
	case *kind.Type:
		*found = append(*found, fmt.Sprintf("%s is of type %s and must be %s", at(path), k.Got, strings.Join(k.Want, " or ")))
	case *kind.Enum:
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(k.Want) // of values that were decoded from JSON
		*found = append(*found, at(path)+" must be one of "+strings.TrimSpace(want.String()))
	default:
		*found = append(*found, at(path)+": "+e.ErrorKind.LocalizedString(english))
	}
}
