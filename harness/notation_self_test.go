package harness_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"pistore"
	"pistore/registers"
)

// Whatever a state differs in from the one before it, the notation shows: each
// member of each shape of op.state is changed in turn.
func TestNotationShowsEveryChange(t *testing.T) {
	files, err := filepath.Glob("../registers/testdata/op.state-*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d shapes: %v", len(files), err)
	}
	render := func(states ...pistore.JSON) (last string) {
		n := newNotation()
		for _, s := range states {
			last = n.write(pistore.SetRegister{Namespace: registers.OpStateNS, Key: "O", Value: s})
		}
		return last
	}
	tried := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, err := pistore.CompactJSON(string(text))
		if err != nil {
			t.Fatal(err)
		}
		same := render(before, before)
		for _, after := range mutations(t, before) {
			state, err := registers.DecodeOpState(after)
			if err != nil {
				continue // no state at all
			}
			after = registers.EncodeOpState(state) // members in their order
			if after == before {
				continue
			}
			tried++
			if got := render(before, after); got == same {
				t.Errorf("%s: a change to %s shows as nothing: %s", filepath.Base(path), after, got)
			}
		}
	}
	if tried < 150 {
		t.Errorf("only %d changes were tried", tried)
	}
}

// mutations are the JSON text with one leaf changed, for each leaf.
func mutations(t *testing.T, text pistore.JSON) []pistore.JSON {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	var out []pistore.JSON
	emit := func() {
		changed, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pistore.JSON(changed))
	}
	var visit func(v any, set func(any))
	visit = func(v any, set func(any)) {
		var others []any
		switch v := v.(type) {
		case map[string]any:
			for k, child := range v {
				visit(child, func(x any) { v[k] = x })
			}
			if len(v) == 0 {
				others = []any{map[string]any{"more": 1}}
			}
		case []any:
			for i, child := range v {
				visit(child, func(x any) { v[i] = x })
			}
			others = []any{append([]any{"019bcfe5-6800-7000-8000-000000000001"}, v...)}
		case string:
			others = []any{v + "x", "019bcfe5-6800-7000-8000-000000000002", "all", "sequential", "safe", "threshold"}
		case bool:
			others = []any{!v}
		case float64:
			others = []any{v + 1}
		case nil:
			others = []any{"019bcfe5-6800-7000-8000-000000000003"}
		}
		for _, other := range others {
			set(other)
			emit()
		}
		if len(others) > 0 {
			set(v)
		}
	}
	visit(root, func(x any) { root = x })
	return out
}
