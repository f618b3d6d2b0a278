package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"pistore/internal/visible"
)

// safe shows text of a store, or any other that is not ours, on one line: no
// control character, no character that turns the direction of what follows, and
// no invalid byte of it reaches a terminal. They are shown as Go escapes.
func safe(s string) string { return visible.Text(s, "") }

func clean(s string) bool { return visible.Clean(s) }

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
		case r == '\n' || !visible.Acts(r):
			out = append(out, text[:size]...)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}
