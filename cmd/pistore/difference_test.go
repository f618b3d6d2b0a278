package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

func TestChanges(t *testing.T) {
	for _, tt := range []struct {
		a, b pistore.JSON
		want []change
	}{
		{`{"a":1}`, `{"a":1}`, []change{}},
		{`{"a":1,"b":{"c":[1,2]}}`, `{"b":{"c":[1,3,4]},"d":null}`, []change{
			{"a", "1", ""}, {"b.c[1]", "2", "3"}, {"b.c[2]", "", "4"}, {"d", "", "null"},
		}},
		{`[1,{"x":2}]`, `[1]`, []change{{"[1]", `{"x":2}`, ""}}},
		{`{"a":[]}`, `{"a":{}}`, []change{{"a", "[]", "{}"}}},
		{`1`, `"1"`, []change{{"", "1", `"1"`}}},
	} {
		if diff := cmp.Diff(tt.want, changes(tt.a, tt.b)); diff != "" {
			t.Errorf("%s and %s: %s", tt.a, tt.b, diff)
		}
	}
}
