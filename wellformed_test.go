package pistore_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pistore"
)

func TestWellFormed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`"plain"`, `"plain"`},
		{`"\\ud800"`, `"\\ud800"`},
		{`"\ud800"`, `"\ufffd"`},
		{`"\uDC00\ud800"`, `"\ufffd\ufffd"`},
		{`"\ud83d\ude00"`, `"\ud83d\ude00"`},
		{`"\ud83d\ud83d\ude00\ude00"`, `"\ufffd\ud83d\ude00\ufffd"`},
		{`"\ud83d\n\u0041\ufffd"`, `"\ufffd\n\u0041\ufffd"`},
		{`{"\udfff":["\\\ud800",1]}`, `{"\ufffd":["\\\ufffd",1]}`},
	} {
		j := pistore.JSON(c.text)
		if got := j.ToWellFormed(); string(got) != c.want {
			t.Errorf("ToWellFormed(%s) = %s, want %s", c.text, got, c.want)
		}
		if got := j.IsWellFormed(); got != (c.text == c.want) {
			t.Errorf("IsWellFormed(%s) = %t", c.text, got)
		}
		// encoding/json takes half of a pair for U+FFFD: to it nothing changes.
		var before, after any
		if err := json.Unmarshal([]byte(c.text), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &after); err != nil {
			t.Fatal(err)
		}
		if b, a := mustMarshal(t, before), mustMarshal(t, after); b != a {
			t.Errorf("%s says %s, but its well-formed form %s", c.text, b, a)
		}
	}
}

func mustMarshal(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
