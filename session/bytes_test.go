package session_test

import (
	"errors"
	"strings"
	"testing"

	"pistore"
	"pistore/session"
)

// fragile are JSON texts that are easily changed on the way.
var fragile = []pistore.JSON{
	`{"n":9007199254740993,"m":-9223372036854775809,"d":0.1000000000000000055511151231257827}`,
	`{"a":1.0,"b":1e2,"c":1E+2,"d":-0,"e":-0.0,"f":1e400,"g":0e0}`,
	`{"z":1,"a":2,"m":3,"Z":4,"ID":5,"Seq":6,"Type":7}`,
	`{"twice":1,"twice":2,"Twice":3}`,
	"{\"s\":\"\u2028\u2029\u0085\ufeff\u007f\"}",
	`{"s":"\ud800","t":"\udc00\ud800","u":"\u0000","v":"\u0041\/\b\f"}`,
	`{"` + `\u006bind` + `s":null,"":{}}`,
	pistore.JSON(`{"deep":` + strings.Repeat(`[`, pistore.MaxJSONDepth-1) + strings.Repeat(`]`, pistore.MaxJSONDepth-1) + `}`),
	`{"long":"` + pistore.JSON(strings.Repeat("ab\\u0000", 20000)) + `"}`,
}

// TestBytesSurvive commits fragile texts in each form to each engine, compacts,
// and converts to every engine and back: not one byte changes.
func TestBytesSurvive(t *testing.T) {
	onEach(t, func(t *testing.T, open func(*testing.T) pistore.Backend) {
		b := open(t)
		s, err := b.Create(t.Context(), pistore.Info{ID: "s", CWD: "/w\u2028", CreatedAt: 1})
		if err != nil {
			t.Fatal(err)
		}
		parent := pistore.ID("")
		for i, text := range fragile {
			id := pistore.ID(rune('a' + i))
			key := string(id) + "\u2028\U0001f600"
			_, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{
				pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeCustom, CustomType: "c\u2028", Payload: text},
				pistore.SetRegister{Namespace: "app.x", Key: key, Value: `"old"`}, pistore.SetRegister{Namespace: "app.x", Key: key, Value: text},
				pistore.InsertUsage{ID: "u" + id, Usage: text, Details: text},
			}})
			if err != nil {
				t.Fatal(err)
			}
			parent = id
		}
		whole := func(what string, s pistore.Storage) {
			t.Helper()
			entries, cells, usage := contentOf(t, s)
			for i, text := range fragile {
				id := pistore.ID(rune('a' + i))
				if entries[id] != text || cells["app.x/"+string(id)+"\u2028\U0001f600"] != text || usage != len(fragile) {
					t.Errorf("%s: text %d: %.100s, %.100s", what, i, entries[id], cells["app.x/"+string(id)+"\u2028\U0001f600"])
				}
			}
		}
		before, err := pistore.Digest(t.Context(), s)
		stats, statsErr := s.Stats(t.Context())
		if err = errors.Join(err, statsErr); err != nil {
			t.Fatal(err)
		}
		if c, ok := pistore.Find[pistore.Compacter](s); ok {
			if _, err := c.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		whole("compacted", s)
		for name, other := range engines {
			there, back := other(t), open(t)
			out, err := session.Convert(t.Context(), opened(t, b, "s"), there, session.ConvertOptions{})
			if err != nil {
				t.Fatal(name, err)
			}
			home, err := session.Convert(t.Context(), opened(t, there, "s"), back, session.ConvertOptions{})
			if err != nil || out.Digest != before || home.Digest != before {
				t.Fatalf("%s: digests %s, %s and %s, %v", name, before, out.Digest, home.Digest, err)
			}
			whole("in "+name, opened(t, there, "s"))
			again := opened(t, back, "s")
			if now, err := again.Stats(t.Context()); err != nil || now != stats {
				t.Errorf("back from %s: totals %+v instead of %+v, %v", name, now, stats, err)
			}
			whole("back from "+name, again)
		}
	})
}
