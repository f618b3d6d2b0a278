// Package visible makes characters visible that act instead of being seen. It
// imports the standard library only.
package visible

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Acts reports whether a terminal or a browser may act on a character instead of
// showing it: C0, DEL and C1 controls; marks, embeddings, overrides and isolates
// of direction; the line and paragraph separators.
func Acts(r rune) bool {
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

// Clean reports whether a text is UTF-8 without characters that act.
func Clean(s string) bool {
	for _, r := range s {
		if Acts(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// Text shows characters that act, and bytes that are not UTF-8, as Go escapes;
// the characters of keep stay as they are.
func Text(s, keep string) string {
	if Clean(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !Acts(r) || strings.ContainsRune(keep, r):
			b.WriteString(s[:size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[size:]
	}
	return b.String()
}
