package pistore

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCompactJSON(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`null`, `null`},
		{`-0`, `-0`},
		{"\t{ \"a\" :\r\n[ 1 , { } , [ ] ] , \"b\" : \" x \" }\n", `{"a":[1,{},[]],"b":" x "}`},
		{`[0, -0.0, 1E+5, 1e-05, 123456789012345678901234567890.10]`, `[0,-0.0,1E+5,1e-05,123456789012345678901234567890.10]`},
		{`{"b":1, "a":2, "B":3, "b":4, "":5}`, `{"b":1,"a":2,"B":3,"b":4,"":5}`},
		{`"\u0000 \ud800 \uDFFF\/ \"\\ \b\f\n\r\t <&> \u0041"`, `"\u0000 \ud800 \uDFFF\/ \"\\ \b\f\n\r\t <&> \u0041"`},
		{"\"\x7f\u0080é\u2028\ufeff\uffff😀\"", "\"\x7f\u0080é\u2028\ufeff\uffff😀\""},
		{`"ends with a backslash \\" `, `"ends with a backslash \\"`},
	} {
		got, err := CompactJSON(test.text)
		if err != nil || string(got) != test.want {
			t.Errorf("CompactJSON(%q) = %q, %v; want %q", test.text, got, err, test.want)
		}
	}
}

func TestCompactJSONRefusals(t *testing.T) {
	for _, test := range []struct {
		text   string
		offset int64
	}{
		{"", 0},
		{" \n", 2},
		{`nul`, 3},
		{`nulL`, 3},
		{`True`, 0},
		{`NaN`, 0},
		{`1 2`, 2},
		{`{}}`, 2},
		{`01`, 1},
		{`-`, 1},
		{`-a`, 1},
		{`+1`, 0},
		{`.5`, 0},
		{`1.`, 2},
		{`1.e1`, 2},
		{`1e`, 2},
		{`1e+`, 3},
		{`[1 2]`, 3},
		{`[1,]`, 3},
		{`[,1]`, 1},
		{`[`, 1},
		{`[1`, 2},
		{`[1}`, 2},
		{`{]`, 1},
		{`{"a":1]`, 6},
		{`{"a":1,}`, 7},
		{`{"a"}`, 4},
		{`{"a":}`, 5},
		{`{"a"`, 4},
		{`{a:1}`, 1},
		{`{1:1}`, 1},
		{`[1]//`, 3},
		{`'a'`, 0},
		{`"a`, 2},
		{`"a\`, 2},
		{`"a\"`, 4},
		{`"\x41"`, 1},
		{`"\u12g4"`, 1},
		{`"\u123"`, 1},
		{`"\U0041"`, 1},
		{"\"a\nb\"", 2},
		{"\"a\x00b\"", 2},
		{"\x00", 0},
		{"1\x00", 1},
		{"\ufeff1", 0},
		{"\u00a01", 0},
		{"\v1", 0},
		{"\"ab\xff\"", 3},
		{"\"\xc0\x80\"", 1},         // overlong
		{"\"\xed\xa0\x80\"", 1},     // a surrogate
		{"\"\xf4\x90\x80\x80\"", 1}, // beyond U+10FFFF
		{"\"\ufffd\xe2\x82\"", 4},   // cut
		{"{\"a\":1,\"\x80\":2}", 8}, // in a name
		{"[\u2028\x80", 4},          // outside strings
	} {
		got, err := CompactJSON(test.text)
		var syntax *SyntaxError
		if got != "" || !errors.As(err, &syntax) || !errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) {
			t.Errorf("CompactJSON(%q) = %q, %v; want a SyntaxError", test.text, got, err)
		} else if syntax.Offset != test.offset || syntax.Problem == "" {
			t.Errorf("CompactJSON(%q): %v; want byte %d", test.text, err, test.offset)
		}
	}
}

// TestCompactJSONStringBytes holds the eight-byte steps of plainEnd against
// encoding/json: every byte at every place of a string, alone and after a byte
// that could disturb the arithmetic for its neighbour.
func TestCompactJSONStringBytes(t *testing.T) {
	for b := range 256 {
		for at := range 18 {
			for _, before := range []string{"", "\x1f", "\x20", "!", "#", "\x7f", "[", "]", "é", `\\`, `\"`} {
				text := `"` + strings.Repeat("x", at) + before + string([]byte{byte(b)}) + strings.Repeat("y", 17-at) + `"`
				checkCompactJSON(t, text)
			}
		}
	}
}

func TestCompactJSONDepth(t *testing.T) {
	for _, unit := range []struct{ open, leaf, end string }{
		{"[", "", "]"},
		{"[", "1", "]"},
		{"[0,", "[]", "]"},
		{`{"a":`, "{}", "}"},
		{`{"a":`, "null", ",\"b\":[]}"},
		{` [ { "a" : `, "[]", " } ] "},
	} {
		levels := strings.Count(unit.open, "[") + strings.Count(unit.open, "{")
		inner := len(unit.leaf) / 2 // a leaf of two bytes is a container
		if unit.leaf == "null" {
			inner = 1 // its sibling is
		}
		n := (MaxJSONDepth - inner) / levels
		text := strings.Repeat(unit.open, n) + unit.leaf + strings.Repeat(unit.end, n)
		for len := n*levels + inner; len < MaxJSONDepth; len++ {
			text = "[" + text + "]"
		}
		if _, err := CompactJSON(text); err != nil {
			t.Errorf("depth %d of %q: %v", MaxJSONDepth, unit.open, err)
		}
		for _, text := range []string{`[` + text + `]`, `{"a":` + text + `}`, `{"a":[` + text} {
			got, err := CompactJSON(text)
			var limit *LimitError
			if got != "" || !errors.As(err, &limit) || !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrInvalid) {
				t.Errorf("depth %d of %q: %v; want a LimitError", MaxJSONDepth+1, unit.open, err)
			} else if *limit != (LimitError{Limit: "json nesting", Got: MaxJSONDepth + 1, Max: MaxJSONDepth}) {
				t.Errorf("depth %d of %q: %+v", MaxJSONDepth+1, unit.open, *limit)
			}
		}
	}
	// Siblings do not add up.
	if _, err := CompactJSON("[" + strings.Repeat("[{}],", 5000) + "0]"); err != nil {
		t.Error(err)
	}
}

func TestCompactJSONAllocs(t *testing.T) {
	text := agentMessage()
	buffer, spaced := []byte(text), []byte(" { "+text[1:]+"\n")
	for _, test := range []struct {
		name string
		f    func()
		want float64
	}{
		{"compact string", func() { CompactJSON(text) }, 0},
		{"compact bytes", func() { CompactJSONBytes(buffer) }, 1},
		{"spaced bytes", func() { CompactJSONBytes(spaced) }, 1},
		{"members", func() {
			for range JSON(text).Members() {
			}
		}, 0},
		{"member", func() { JSON(text).Member("timestamp") }, 0},
		{"plain text", func() { JSON(`"plain"`).Text() }, 0},
	} {
		if got := testing.AllocsPerRun(100, test.f); got != test.want {
			t.Errorf("%s: %v allocations, want %v", test.name, got, test.want)
		}
	}
	buffer[0] = 'x'
	j, err := CompactJSONBytes(spaced)
	if clear(spaced); err != nil || string(j) != text {
		t.Errorf("the text changed with its buffer: %q, %v", j, err)
	}
}

func TestJSONMembers(t *testing.T) {
	type member struct {
		Name  string
		Value JSON
	}
	for _, test := range []struct {
		text JSON
		want []member
	}{
		{`{}`, nil},
		{`{"a":1}`, []member{{"a", `1`}}},
		{`{"ID":"no","\u0069d":"x","id":[1,{"id":2}],"":{"a":"}"}}`,
			[]member{{"ID", `"no"`}, {"id", `"x"`}, {"id", `[1,{"id":2}]`}, {"", `{"a":"}"}`}}},
		{`{"a\"":"\\","\\":"\"","b,}":true,"c":-1.5e3}`,
			[]member{{`a"`, `"\\"`}, {`\`, `"\""`}, {"b,}", `true`}, {"c", `-1.5e3`}}},
		{`{"\ud83d\ude00\n":[[],[[]],"]"],"\ud800":{},"k":null}`,
			[]member{{"😀\n", `[[],[[]],"]"]`}, {"\ufffd", `{}`}, {"k", `null`}}},
		{`[{"a":1}]`, nil},
		{`"{}"`, nil},
		{`1`, nil},
		{``, nil},
	} {
		var got []member
		for name, value := range test.text.Members() {
			got = append(got, member{name, value})
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("members of %s: %q, want %q", test.text, got, test.want)
		}
		if test.text.IsObject() != strings.HasPrefix(string(test.text), "{") {
			t.Errorf("IsObject of %s", test.text)
		}
	}
	for name := range JSON(`{"a":1,"b":2}`).Members() {
		if name == "b" {
			t.Error("break does not stop the iteration")
		}
		break
	}
}

// Raw members put together again give the object back, byte for byte.
func TestJSONRawMembers(t *testing.T) {
	for _, text := range []JSON{
		`{}`, `{"a":1}`, `{"\u0061":"\ud800","a":[1,{"b":2}],"a":{}}`, `{"a\"":"\\","\\":"\"","b,}:":true}`, `{"":null}`,
	} {
		var parts []string
		for name, value := range text.RawMembers() {
			parts = append(parts, string(name)+":"+string(value))
		}
		if got := "{" + strings.Join(parts, ",") + "}"; got != string(text) {
			t.Errorf("raw members of %s: %s", text, got)
		}
	}
}

func TestJSONElements(t *testing.T) {
	for _, test := range []struct {
		list JSON
		want []JSON
	}{
		{`[]`, nil}, {``, nil}, {`{}`, nil}, {`[`, nil}, {`"[1]"`, nil}, {`[1]`, []JSON{"1"}},
		{`[[],{},"a,]\"","\\",null]`, []JSON{"[]", "{}", `"a,]\""`, `"\\"`, "null"}},
		{`[[1,[2,3]],{"a":[4,"]"]}]`, []JSON{"[1,[2,3]]", `{"a":[4,"]"]}`}},
	} {
		got := slices.Collect(test.list.Elements())
		if !slices.Equal(got, test.want) {
			t.Errorf("elements of %s: %q, want %q", test.list, got, test.want)
		}
		for range test.list.Elements() {
			break // stops early
		}
	}
}

func TestJSONMember(t *testing.T) {
	const text = JSON(`{"ID":1,"id":2,"Id":3,"\u0073eq":4,"ſeq":5,"a":{"deep":6},"id":7,"iD":8,"x":null}`)
	for _, test := range []struct {
		name string
		want JSON
		ok   bool
	}{
		{"id", `7`, true},
		{"ID", `1`, true},
		{"Id", `3`, true},
		{"seq", `4`, true}, // ſ and s are equal in encoding/json's eyes
		{"SEQ", ``, false},
		{"deep", ``, false},
		{"", ``, false},
		{"x", `null`, true},
	} {
		if got, ok := text.Member(test.name); got != test.want || ok != test.ok {
			t.Errorf("member %q: %s, %v; want %s, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}

func TestJSONText(t *testing.T) {
	for _, test := range []struct {
		text JSON
		want string
		ok   bool
	}{
		{`""`, "", true},
		{`"plain é"`, "plain é", true},
		{`"\"\\\/\b\f\n\r\t\u0000\u00e9\u2028"`, "\"\\/\b\f\n\r\t\x00é\u2028", true},
		{`"\ud83d\ude00\uD83D\uDE00"`, "😀😀", true},
		{`"\ud800"`, "\ufffd", true},
		{`"\ud800\u0041"`, "\ufffdA", true},
		{`"\udc00\ud800"`, "\ufffd\ufffd", true},
		{`"\ud800\ud83d\ude00\ud83d\\ude00"`, "\ufffd😀\ufffd\\ude00", true},
		{`1`, "", false},
		{`null`, "", false},
		{`["a"]`, "", false},
		{``, "", false},
	} {
		if got, ok := test.text.Text(); got != test.want || ok != test.ok {
			t.Errorf("text of %s: %q, %v; want %q, %v", test.text, got, ok, test.want, test.ok)
		}
	}
}

func TestQuoteJSON(t *testing.T) {
	for _, test := range []struct {
		s    string
		want JSON
	}{
		{"", `""`},
		{"<a href=\"x\">&amp;</a>\\", `"<a href=\"x\">&amp;</a>\\"`},
		{"\x00\b\t\n\v\f\r\x1f\x7f", `"\u0000\b\t\n\u000b\f\r\u001f` + "\x7f\""},
		{"é\u2028😀\ufffd", "\"é\u2028😀\ufffd\""},
		{"a\xff\xfeb\xe2\x82", "\"a\ufffd\ufffdb\ufffd\ufffd\""},
	} {
		got := QuoteJSON(test.s)
		if got != test.want {
			t.Errorf("QuoteJSON(%q) = %s, want %s", test.s, got, test.want)
		}
		back, ok := got.Text()
		if !ok || back != string([]rune(test.s)) {
			t.Errorf("QuoteJSON(%q) reads back as %q", test.s, back)
		}
	}
}

func TestJSONInStructs(t *testing.T) {
	type row struct {
		A JSON  `json:"a"`
		B JSON  `json:"b,omitempty"`
		C *JSON `json:"c,omitempty"`
	}
	var r row
	if err := json.Unmarshal([]byte(`{"a": null, "c": [ 1.0, "<&>\u003c\u2028" ] }`), &r); err != nil {
		t.Fatal(err)
	}
	if r.A != "null" || r.B != "" || r.C == nil || *r.C != `[1.0,"<&>\u003c\u2028"]` {
		t.Errorf("decoded %+v", r)
	}
	r.A = "" // absent
	*r.C = "[1.0,\"<&>\\u003c\u2028\"]"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		t.Fatal(err)
	}
	if want := "{\"a\":null,\"c\":[1.0,\"<&>\\u003c\u2028\"]}\n"; out.String() != want {
		t.Errorf("encoded %s, want %s", out.String(), want)
	}

	r.A = "1"
	err := json.Unmarshal([]byte("{\"a\":\"\xff\"}"), &r)
	if !errors.Is(err, ErrInvalid) || r.A != "1" {
		t.Errorf("invalid UTF-8: %v, and the field is %s", err, r.A)
	}
	deep := `{"a":` + strings.Repeat("[", MaxJSONDepth+1) + strings.Repeat("]", MaxJSONDepth+1) + `}`
	if err := json.Unmarshal([]byte(deep), &r); !errors.Is(err, ErrTooLarge) {
		t.Errorf("deep nesting: %v", err)
	}
}

// agentMessage is about what one assistant message of a coding agent looks like:
// 3 KB, most of it strings, a good part of it code full of escapes.
func agentMessage() string {
	return `{"role":"assistant","content":[{"type":"thinking","thinking":"` +
		strings.Repeat("The test fails because the scanner keeps its state between two documents. ", 9) +
		`","thinkingSignature":"` + strings.Repeat("EqQBCkgIARABGAIiQL8x", 12) +
		`"},{"type":"text","text":"` +
		strings.Repeat(`I found it: \"reset\" is never called.\nLet me fix it \u2014 now.`, 5) +
		strings.Repeat("für die größte Übersicht — ", 6) +
		`"},{"type":"toolCall","id":"toolu_01A09q90qw90lq917835lq9","name":"edit","arguments":` +
		`{"path":"internal/scanner/scanner.go","edits":[{"oldText":"` +
		strings.Repeat(`\tif s.pos >= len(s.text) {\n\t\treturn io.EOF\n\t}\n`, 8) +
		`","newText":"` +
		strings.Repeat(`\ts.reset()\n\tif s.pos >= len(s.text) {\n\t\treturn io.EOF\n\t}\n`, 8) +
		`"}]}}],"api":"anthropic-messages","provider":"anthropic","model":"claude-sonnet-4-5",` +
		`"usage":{"input":1523,"output":412,"cacheRead":20480,"cacheWrite":0,"totalTokens":22415,` +
		`"cost":{"input":0.004569,"output":0.00618,"cacheRead":0.006144,"cacheWrite":0,"total":0.016893}},` +
		`"stopReason":"toolUse","timestamp":1750000000000}`
}

func BenchmarkCompactJSON(b *testing.B) {
	message := agentMessage()
	for _, input := range []struct{ name, text string }{
		{"message", message},
		{"usage", message[strings.Index(message, `{"input":1523`):strings.Index(message, `,"stopReason"`)]},
		{"longtext", string(QuoteJSON(strings.Repeat("A long text without escapes. ", 3000)))},
	} {
		buffer := []byte(input.text)
		for _, judge := range []struct {
			name string
			ok   func() bool
		}{
			{"CompactJSON", func() bool { _, err := CompactJSON(input.text); return err == nil }},
			{"CompactJSONBytes", func() bool { _, err := CompactJSONBytes(buffer); return err == nil }},
			{"encoding-json.Valid", func() bool { return json.Valid(buffer) }},
		} {
			b.Run(input.name+"/"+judge.name, func(b *testing.B) {
				b.SetBytes(int64(len(buffer)))
				b.ReportAllocs()
				for b.Loop() {
					if !judge.ok() {
						b.Fatal("refused")
					}
				}
			})
		}
	}
}
