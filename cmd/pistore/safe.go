package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// safe shows text of a store, or any other that is not ours, on one line: no
// control character, no character that turns the direction of what follows, and
// no invalid byte of it reaches a terminal. They are shown as Go escapes.
func safe(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80 && unsafeRune(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case unsafeRune(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

func clean(s string) bool {
	for _, r := range s {
		if unsafeRune(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// unsafeRune reports whether a terminal may act on a character: C0, DEL and C1
// controls; marks, embeddings, overrides and isolates of direction; the line and
// paragraph separators.
func unsafeRune(r rune) bool {
	switch {
	case r < 0x20, 0x7f <= r && r <= 0x9f:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f:
		return true
	case 0x2028 <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return true
	default:
		return false
	}
}

// safeLines shows text of several lines: newlines are kept and tabs become
// spaces; each line is safe.
func safeLines(s string) []string {
	s = strings.ReplaceAll(strings.TrimRight(s, "\r\n"), "\r\n", "\n")
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = safe(strings.ReplaceAll(line, "\t", "    "))
	}
	return lines
}

// safeJSON makes JSON text safe without changing what it means: all that could
// act on a terminal stands within strings, where it has an escape. White space
// between the tokens is our own, or gone.
func safeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\ufffd`...)
		case r == '\n' || !unsafeRune(r):
			out = append(out, text[:size]...)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}
