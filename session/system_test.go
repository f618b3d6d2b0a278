package session_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/session"
)

func TestMergeSystem(t *testing.T) {
	for name, c := range map[string]struct {
		patches []pistore.JSON
		want    pistore.JSON
	}{
		"one": {
			[]pistore.JSON{`{"role":"system","content":"be kind","sections":{"a":"1"},"timestamp":5}`},
			`{"role":"system","content":"be kind","sections":{"a":"1"},"timestamp":5}`,
		},
		"content is replaced by content only": {
			[]pistore.JSON{`{"role":"system","content":"old","timestamp":1}`, `{"role":"system","content":"new","timestamp":2}`, `{"role":"system","content":"","timestamp":3}`},
			`{"role":"system","content":"new","timestamp":3}`,
		},
		"sections keep their place, null removes": {
			[]pistore.JSON{
				`{"role":"system","content":"","sections":{"a":"1","b":"2","c":"3"},"timestamp":1}`,
				`{"role":"system","content":"","sections":{"a":"one","b":null,"gone":null,"d":"4"},"timestamp":2}`,
			},
			`{"role":"system","content":[],"sections":{"a":"one","c":"3","d":"4"},"timestamp":2}`,
		},
		"tools by name, whole or in a word": {
			[]pistore.JSON{
				`{"role":"system","content":"x","toolsAdded":[{"name":"read","v":1},{"name":"bash"},"grep"],"timestamp":1}`,
				`{"role":"system","content":"","toolsAdded":[{"name":"read","v":2}],"toolsRemoved":["bash",{"name":"grep"},"never"],"timestamp":2}`,
			},
			`{"role":"system","content":"x","toolsAdded":[{"name":"read","v":2}],"timestamp":2}`,
		},
		"all tools gone": {
			[]pistore.JSON{`{"role":"system","content":"x","toolsAdded":["a"],"timestamp":1}`, `{"role":"system","content":"","toolsRemoved":["a"],"timestamp":2}`},
			`{"role":"system","content":"x","timestamp":2}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var patches []*session.SystemMessage
			for _, raw := range c.patches {
				m, err := session.ParseMessage(raw)
				if err != nil {
					t.Fatal(err)
				}
				patches = append(patches, m.(*session.SystemMessage))
			}
			if diff := cmp.Diff(c.want, session.EncodeMessage(session.MergeSystem(patches...))); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}
