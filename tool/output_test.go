package tool_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"pistore/tool"
)

func TestOutput(t *testing.T) {
	o := tool.NewOutput(4, 3)
	for _, s := range []string{"ab", "cdefghij", "klm"} {
		if text := o.Write([]byte(s)); text != s {
			t.Errorf("progress %q, want %q", text, s)
		}
	}
	if head, tail, dropped := o.Parts(); head != "abcd" || tail != "klm" || dropped != 6 {
		t.Errorf("%q %q %d", head, tail, dropped)
	}
	if want := "abcd\n[… 6 bytes left out …]\nklm"; o.String() != want {
		t.Errorf("got %q", o.String())
	}
}

func TestOutputCutsOnRunes(t *testing.T) {
	o := tool.NewOutput(4, 4)
	if text := o.Write([]byte("a世\xe7")); text != "a世" {
		t.Errorf("progress %q", text)
	}
	if text := o.Write([]byte("\x95\x8c界€")); text != "界界€" {
		t.Errorf("progress %q", text)
	}
	if head, tail, dropped := o.Parts(); head != "a世" || tail != "€" || dropped != 6 {
		t.Errorf("%q %q %d", head, tail, dropped)
	}
	if o.Write([]byte("\xe7\x95")) != "" || o.Close() != "\uFFFD" || o.Close() != "" {
		t.Error("a character that never became whole")
	}
	if text := o.Write([]byte("x\xffy\x80")); text != "x\uFFFDy\uFFFD" {
		t.Errorf("progress %q", text)
	}
}

// TestOutputProperty holds the bounds and the count for any stream in any
// pieces, against keeping it all.
func TestOutputProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		headBytes, tailBytes := rapid.IntRange(0, 9).Draw(t, "head"), rapid.IntRange(0, 9).Draw(t, "tail")
		o := tool.NewOutput(headBytes, tailBytes)
		all := ""
		for _, p := range rapid.SliceOf(rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 5),
			rapid.Map(rapid.StringN(0, 5, -1), func(s string) []byte { return []byte(s) }))).Draw(t, "writes") {
			all += o.Write(p)
		}
		all += o.Close()
		head, tail, dropped := o.Parts()
		switch {
		case !utf8.ValidString(all) || !utf8.ValidString(head) || !utf8.ValidString(tail):
			t.Fatalf("ill-formed: %q %q %q", all, head, tail)
		case !strings.HasPrefix(all, head) || !strings.HasSuffix(all, tail) || len(head) > headBytes || len(tail) > tailBytes:
			t.Fatalf("%q: head %q, tail %q", all, head, tail)
		case int64(len(head)+len(tail))+dropped != int64(len(all)):
			t.Fatalf("%q: head %q, tail %q, dropped %d", all, head, tail, dropped)
		case dropped > 0 && len(head)+len(tail)+2*utf8.UTFMax < headBytes+tailBytes:
			t.Fatalf("%q: dropped %d with room left: head %q, tail %q", all, dropped, head, tail)
		}
	})
}
