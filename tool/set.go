package tool

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"pistore"
	"pistore/registers"
)

// Set is a collection of tools by name. It does not change once it is made, and
// is safe for concurrent use. A nil set has no tools.
type Set struct {
	tools  []Tool
	byName map[string]int // index in tools and schemas
	schema []*jsonschema.Schema
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// NewSet checks tools and compiles their schemas. The error names the tool: its
// name is malformed or taken, its schema does not compile or refers to another
// document, its replay policy is unknown, or it has nothing to execute.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{byName: map[string]int{}}
	for _, t := range tools {
		if !nameForm.MatchString(t.Name) {
			return nil, fmt.Errorf("tool: %w: name %.80q is not 1 to 64 letters, digits, underscores and hyphens", pistore.ErrInvalid, t.Name)
		}
		if _, taken := s.byName[t.Name]; taken {
			return nil, fmt.Errorf("tool: %w: two tools named %s", pistore.ErrInvalid, t.Name)
		}
		switch t.Replay {
		case "":
			t.Replay = registers.ReplayNever
		case registers.ReplayNever, registers.ReplaySafe:
		default:
			return nil, fmt.Errorf("tool: %w: %s: unknown replay policy %q", pistore.ErrInvalid, t.Name, t.Replay)
		}
		if t.Execute == nil {
			return nil, fmt.Errorf("tool: %w: %s has nothing to execute", pistore.ErrInvalid, t.Name)
		}
		schema, err := compile(t.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool: %w: %s: parameters: %s", pistore.ErrInvalid, t.Name, oneLine(err.Error()))
		}
		s.byName[t.Name] = len(s.tools)
		s.tools = append(s.tools, t)
		s.schema = append(s.schema, schema)
	}
	return s, nil
}

// Names returns the names of the tools in the order they were given in. The
// slice is the caller's.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Name
	}
	return names
}

// Lookup returns a tool by name. Its Replay is never empty.
func (s *Set) Lookup(name string) (Tool, bool) {
	i, ok := s.index(name)
	if !ok {
		return Tool{}, false
	}
	return s.tools[i], true
}

func (s *Set) index(name string) (int, bool) {
	if s == nil {
		return 0, false
	}
	i, ok := s.byName[name]
	return i, ok
}

// compile compiles a schema, which may refer to itself and to the published
// meta-schemas only.
func compile(text pistore.JSON) (*jsonschema.Schema, error) {
	doc, err := decode(text)
	if err != nil {
		return nil, err
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, fmt.Errorf("the schema is %s and not a JSON object", kindOf(doc))
	}
	const url = "tool:///parameters"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refuser{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	return c.Compile(url)
}

// refuser loads nothing, so that a schema reaches neither files nor network.
type refuser struct{}

func (refuser) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to another document, %s", url)
}

// oneLine makes text fit one line of bounded length.
func oneLine(text string) string {
	const maxRunes = 400
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxRunes {
		text = string(runes[:maxRunes]) + "…"
	}
	return text
}
