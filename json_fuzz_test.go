package pistore

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pistore/internal/allocs"
)

// jsonCorpus is what mutants and the fuzzer start from.
var jsonCorpus = []string{
	`null`, `true`, `[false]`, `0`, `-0`, `-12.50e+07`, `1E400`, `""`, `" "`, `{}`, `[]`, ` [ ] `,
	`{"a":1,"A":2,"a":3,"\u0061":4}`,
	"{\n\t\"id\": \"0197a6c4\",\r\n\t\"parentId\": null,\n\t\"seq\": 9007199254740991\n}\n",
	`["\ud83d\ude00","\ud800","\udc00x","\u0000","\"\\\/\b\f\n\r\t"]`,
	`"a\\b \ud83d\uDE00\ud83d \"\u00e9\u0000\n"`,
	"[\"h\u00e9llo \u2028\u65e5\u672c\U0001f600\",\"\u0080\x7f\"]",
	`{"":{"":[[[{"x":[0,-1.5,1e9]}]]]}}`,
	`{"role":"user","content":[{"type":"text","text":"line one\nline \"two\" \\ and more"}],"timestamp":1750000000000}`,
	`{"input":12,"output":3,"cost":{"input":0.0001,"output":1e-7,"total":0.0001001},"extra":[true,false,null]}`,
	`{"kind" : "entry" , "type" : "custom", "payload": { "x" : "}]\",:" } , "sum":"deadbeef"}`,
}

// checkCompactJSON holds CompactJSON and the methods of JSON against
// encoding/json, for any text whatsoever.
func checkCompactJSON(t testing.TB, text string) {
	got, err := CompactJSON(text)
	bytesGot, bytesErr := CompactJSONBytes([]byte(text))
	if got != bytesGot || (err == nil) != (bytesErr == nil) {
		t.Fatalf("%q: CompactJSON and CompactJSONBytes differ: %q, %v; %q, %v", text, got, err, bytesGot, bytesErr)
	}
	// No text may make these panic or loop, as JSON(text) compiles for any.
	for _, value := range JSON(text).Members() {
		value.Text()
	}
	JSON(text).Text()

	valid := json.Valid([]byte(text)) && utf8.ValidString(text)
	if want := valid && nesting(text) <= MaxJSONDepth; want != (err == nil) {
		t.Fatalf("%q: got error %v, want ok %v", text, err, want)
	}
	if err != nil {
		checkJSONRefusal(t, text, valid, err)
		return
	}
	var want bytes.Buffer
	if err := json.Compact(&want, []byte(text)); err != nil || string(got) != want.String() {
		t.Fatalf("%q: compacted to %q, want %q", text, got, want.String())
	}
	if again, err := CompactJSON(string(got)); err != nil || again != got {
		t.Fatalf("%q: compacted again to %q, %v", text, again, err)
	}
	checkJSONMethods(t, got)
}

func checkJSONRefusal(t testing.TB, text string, valid bool, err error) {
	var syntax *SyntaxError
	switch {
	case errors.Is(err, ErrTooLarge):
		if strings.Count(text, "[")+strings.Count(text, "{") <= MaxJSONDepth {
			t.Fatalf("%q: %v", text, err)
		}
	case !errors.Is(err, ErrInvalid) || !errors.As(err, &syntax) || valid:
		t.Fatalf("%q: refused with %v", text, err)
	case syntax.Offset < 0 || syntax.Offset > int64(len(text)):
		t.Fatalf("%q: offset outside the text: %v", text, err)
	}
}

// checkJSONMethods compares the decoding of a valid text with encoding/json's.
func checkJSONMethods(t testing.TB, j JSON) {
	var want any
	if err := json.Unmarshal([]byte(j), &want); err != nil {
		want = nil // a number beyond float64
	}
	wantText, wantOK := want.(string)
	text, ok := j.Text()
	if text != wantText || ok != wantOK {
		t.Fatalf("%q: text %q, %v; want %q, %v", j, text, ok, wantText, wantOK)
	}
	if ok {
		if back, ok := QuoteJSON(text).Text(); !ok || back != text || !json.Valid([]byte(QuoteJSON(text))) {
			t.Fatalf("%q: quoted again as %s", j, QuoteJSON(text))
		}
	}

	var wantMembers map[string]json.RawMessage
	if j.IsObject() {
		if err := json.Unmarshal([]byte(j), &wantMembers); err != nil {
			t.Fatal(err)
		}
	}
	got := maps.Collect(j.Members())
	if !maps.EqualFunc(got, wantMembers, func(a JSON, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Fatalf("%q: members %q, want %q", j, got, wantMembers)
	}
	for name, value := range got {
		if v, ok := j.Member(name); !ok || v != value {
			t.Fatalf("%q: member %q: %q, %v; want %q", j, name, v, ok, value)
		}
	}
}

// nesting returns the depth of a valid text.
func nesting(text string) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '[' || c == '{'):
			depth++
			deepest = max(deepest, depth)
		case !inString && (c == ']' || c == '}'):
			depth--
		}
	}
	return deepest
}

// TestCompactJSONMutants judges 300,000 damaged documents. It is deterministic,
// and names the text that failed.
func TestCompactJSONMutants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	valid, refused := 0, 0
	for valid+refused < 300_000 {
		text := mutateJSON(r, jsonCorpus[r.IntN(len(jsonCorpus))])
		checkCompactJSON(t, text)
		switch {
		case !utf8.ValidString(text): // not comparable, hence not counted
		case json.Valid([]byte(text)):
			valid++
		default:
			refused++
		}
	}
	if valid < 50_000 || refused < 50_000 {
		t.Errorf("the mutants show little: %d valid, %d refused", valid, refused)
	}
}

// mutateJSON changes text in one to three places.
func mutateJSON(r *rand.Rand, text string) string {
	const alphabet = "{}[]\",:\\/ \t\n\r\x00\x1fu0019aAfFdDeE+-.xtrulsn"
	b := []byte(text)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b) + 1)
		end := min(at+r.IntN(4), len(b))
		switch r.IntN(6) {
		case 0: // flip a bit
			if at < len(b) {
				b[at] ^= 1 << r.IntN(8)
			}
		case 1: // replace by a significant byte
			if at < len(b) {
				b[at] = alphabet[r.IntN(len(alphabet))]
			}
		case 2: // insert
			b = append(b[:at:at], append([]byte{alphabet[r.IntN(len(alphabet))]}, b[at:]...)...)
		case 3: // delete
			b = append(b[:at:at], b[end:]...)
		case 4: // cut off
			if r.IntN(4) == 0 {
				b = b[:at]
			}
		case 5: // splice a piece of another document in
			other := jsonCorpus[r.IntN(len(jsonCorpus))]
			from := r.IntN(len(other))
			to := from + r.IntN(len(other)-from) + 1
			b = append(b[:at:at], append([]byte(other[from:to]), b[at:]...)...)
		}
	}
	return string(b)
}

func FuzzCompactJSON(f *testing.F) {
	for _, text := range jsonCorpus {
		f.Add(text)
	}
	f.Add(agentMessage())
	f.Add("")
	f.Add("\"\xff\"")
	f.Add(strings.Repeat("[", MaxJSONDepth) + strings.Repeat("]", MaxJSONDepth))
	f.Add(strings.Repeat(`{"a":`, MaxJSONDepth+1) + "1" + strings.Repeat("}", MaxJSONDepth+1))
	f.Fuzz(func(t *testing.T, text string) {
		allocs.Within(t, len(text), 4, 1<<20, func() { _, _ = CompactJSON(text) })
		checkCompactJSON(t, text)
	})
}
