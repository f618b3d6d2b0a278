package pistore

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Stored JSON keeps every escape as it was written, that of half a surrogate
// pair included, which no text in UTF-8 can hold (the terms are those of
// String.prototype.isWellFormed and toWellFormed of ECMAScript).

// IsWellFormed reports whether no string of j has an escape of half a surrogate
// pair. Such a half decodes to U+FFFD, which makes different strings one.
func (j JSON) IsWellFormed() bool {
	_, after := cutHalf(string(j))
	return after == ""
}

// ToWellFormed returns j with the escape of U+FFFD for each that is half a
// surrogate pair: j itself if there is none.
func (j JSON) ToWellFormed() JSON {
	before, after := cutHalf(string(j))
	if after == "" {
		return j
	}
	var b strings.Builder
	for after != "" {
		b.WriteString(before)
		b.WriteString(`\ufffd`)
		before, after = cutHalf(after[len(`\ufffd`):])
	}
	b.WriteString(before)
	return JSON(b.String())
}

// cutHalf cuts text in front of its first escape of half a surrogate pair. After
// is empty if there is none.
func cutHalf(text string) (before, after string) {
	for i := 0; ; {
		next := strings.IndexByte(text[i:], '\\')
		if next < 0 {
			return text, ""
		}
		i += next
		switch unit := hexEscape(text[i:]); {
		case unit < 0:
			i += min(2, len(text)-i)
		case !utf16.IsSurrogate(unit):
			i += 6
		case utf16.DecodeRune(unit, hexEscape(text[i+6:])) == utf8.RuneError:
			return text[:i], text[i:]
		default:
			i += 12
		}
	}
}
