package tool_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/registers"
	"pistore/tool"
)

func execute(context.Context, tool.Call) (tool.Result, error) { return tool.Text("ok"), nil }

func named(name string, parameters pistore.JSON) tool.Tool {
	return tool.Tool{Name: name, Parameters: parameters, Execute: execute}
}

func TestSet(t *testing.T) {
	safe := named("b", `{"type":"object"}`)
	safe.Replay = registers.ReplaySafe
	s, err := tool.NewSet(named("c", `{}`), named("a", `{"type":"object"}`), safe)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c", "a", "b"}, s.Names()); diff != "" {
		t.Error(diff)
	}
	if a, ok := s.Lookup("a"); !ok || a.Name != "a" || a.Replay != registers.ReplayNever {
		t.Errorf("a: %+v", a)
	}
	if b, ok := s.Lookup("b"); !ok || b.Replay != registers.ReplaySafe {
		t.Errorf("b: %+v", b)
	}
	if _, ok := s.Lookup("d"); ok {
		t.Error("d")
	}
	var none *tool.Set
	if _, ok := none.Lookup("a"); ok || none.Names() != nil || none.Validate("a", "{}") == nil {
		t.Error("a nil set has no tools")
	}
}

func TestSetRefuses(t *testing.T) {
	idle := named("x", `{}`)
	idle.Execute = nil
	odd := named("x", `{}`)
	odd.Replay = "sometimes"
	for name, c := range map[string]struct {
		tools []tool.Tool
		want  string
	}{
		"no name":        {[]tool.Tool{named("", `{}`)}, "name"},
		"name":           {[]tool.Tool{named("a b", `{}`)}, `"a b"`},
		"long name":      {[]tool.Tool{named(strings.Repeat("x", 65), `{}`)}, "64"},
		"twice":          {[]tool.Tool{named("x", `{}`), named("x", `{}`)}, "two tools named x"},
		"no execute":     {[]tool.Tool{idle}, "nothing to execute"},
		"replay":         {[]tool.Tool{odd}, "sometimes"},
		"no schema":      {[]tool.Tool{named("x", ``)}, "empty"},
		"no object":      {[]tool.Tool{named("x", `true`)}, "a boolean"},
		"no JSON":        {[]tool.Tool{named("x", `{`)}, "x: parameters"},
		"no such type":   {[]tool.Tool{named("x", `{"type":"objekt"}`)}, "x: parameters"},
		"a remote file":  {[]tool.Tool{named("x", `{"$ref":"https://example.com/s.json"}`)}, "another document"},
		"a local file":   {[]tool.Tool{named("x", `{"$ref":"file:///etc/hostname"}`)}, "another document"},
		"a relative one": {[]tool.Tool{named("x", `{"properties":{"a":{"$ref":"other.json"}}}`)}, "another document"},
		"its meta":       {[]tool.Tool{named("x", `{"$schema":"https://example.com/meta"}`)}, "another document"},
		"twice a member": {[]tool.Tool{named("x", `{"type":"object","type":"object"}`)}, `"type" is there twice`},
	} {
		_, err := tool.NewSet(c.tools...)
		if !errors.Is(err, pistore.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const schema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
	"path":{"type":"string","minLength":1},"limit":{"type":"integer","minimum":1,"maximum":100},
	"ratio":{"type":"number","multipleOf":0.01},"mode":{"enum":["fast","slow<"]},
	"edits":{"type":"array","items":{"type":"object","required":["old"],"properties":{"old":{"type":"string"}}}},
	"either":{"anyOf":[{"type":"string"},{"type":"null"}]},
	"tree":{"$ref":"#/$defs/node"}},
	"$defs":{"node":{"type":"object","properties":{"left":{"$ref":"#/$defs/node"}},"additionalProperties":false}}}`

func TestValidate(t *testing.T) {
	s, err := tool.NewSet(named("read", schema))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{`{"path":"a"}`, ""},
		{` { "path" : "a", "limit" : 1e1 } `, ""},
		{`{"path":"a","limit":7.0,"ratio":0.07,"mode":"slow<","either":null}`, ""},
		{`{"path":"a","tree":{"left":{"left":{}}}}`, ""},
		{`{}`, `"path" is missing`},
		{`{"path":""}`, `"path": minLength`},
		{`{"path":7}`, `"path" is of type number and must be string`},
		{`{"path":"a","Path":"b"}`, `"Path" is not a known member`},
		{`{"path":"a","limit":0}`, `"limit": minimum`},
		{`{"path":"a","limit":9007199254740993000000000000000}`, `"limit": maximum`},
		{`{"path":"a","limit":1.5}`, `"limit" is of type number and must be integer`},
		{`{"path":"a","limit":"5"}`, `"limit" is of type string and must be integer`},
		{`{"path":"a","ratio":0.075}`, `"ratio": multipleOf`},
		{`{"path":"a","ratio":1e999999999}`, `"ratio": the number is too long or its exponent too large`},
		{`{"path":"a","ratio":1e99999999999999999999}`, `"ratio": the number is too long`},
		{`{"path":"a","ratio":` + strings.Repeat("9", 401) + `}`, `"ratio": the number is too long`},
		{`{"path":"a","mode":"slow"}`, `"mode" must be one of ["fast","slow<"]`},
		{`{"path":"a","edits":[{"old":"x"},{}]}`, `"edits[1].old" is missing`},
		{`{"path":"a","edits":[{"old":"x","old":"y"}]}`, `"edits[0].old" is there twice`},
		{`{"path":"a","path":"b"}`, `"path" is there twice`},
		{`{"path":"a","pa\u0074h":"b"}`, `"path" is there twice`},
		{`{"path":"a","tree":{"left":{"right":{}}}}`, `"tree.left.right" is not a known member`},
		{`{"a":1,"b":2,"c":3,"d":4}`, `"a" is not a known member; "b" is not a known member; "c" is not a known member; and 2 more`},
		{`[]`, "are an array and not a JSON object"},
		{`null`, "are null and not"},
		{`"{}"`, "are a string and not"},
		{`5`, "are a number and not"},
		{`true`, "are a boolean and not"},
		{``, "empty"},
		{`{"path":"a"`, "malformed"},
		{`{"path":"a"} {}`, "malformed"},
		{"{\"path\":\"\xff\"}", "malformed"},
		{`{"x\ny":1}`, `"x\ny" is not a known member`},
		{strings.Repeat(`{"path":`, 1001) + "1" + strings.Repeat("}", 1001), "malformed"},
	} {
		err := s.Validate("read", pistore.JSON(c.args))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%.80s: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%.80s: %v, want %s", c.args, err, c.want)
		case err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 || !strings.Contains(err.Error(), "read")):
			t.Errorf("%.80s: %q", c.args, err)
		}
	}
	if err := s.Validate("wipe", `{}`); err == nil || !strings.Contains(err.Error(), `no tool named "wipe"`) {
		t.Error(err)
	}
}

func TestValidateSaysTheSameEveryTime(t *testing.T) {
	s, err := tool.NewSet(named("x", `{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	first := s.Validate("x", `{"c":1,"b":1,"a":1}`)
	for range 50 {
		if again := s.Validate("x", `{"a":1,"b":1,"c":1}`); again.Error() != first.Error() {
			t.Fatalf("%v\n%v", first, again)
		}
	}
}

// TestValidateIsLinear hangs if a long member name is copied for each element
// below it.
func TestValidateIsLinear(t *testing.T) {
	s, err := tool.NewSet(named("x", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	args := `{"` + strings.Repeat("n", 1<<20) + `":[` + strings.Repeat("1,", 200_000) + `1]}`
	if err := s.Validate("x", pistore.JSON(args)); err != nil {
		t.Error(err)
	}
}
