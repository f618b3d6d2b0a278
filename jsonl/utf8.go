package jsonl

import "unicode/utf8"

// mendUTF8 replaces what is no UTF-8 with U+FFFD, one for each maximal part of
// a sequence that could have been one, as the Unicode Standard recommends
// (section 3.9) and as decoders of the web do, so that other readers of the
// same file see the same text.
func mendUTF8(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			size = subpart(text[i:])
			out = utf8.AppendRune(out, utf8.RuneError)
		} else {
			out = append(out, text[i:i+size]...)
		}
		i += size
	}
	return out
}

// subpart returns the length of the longest start of text that begins a
// well-formed sequence, at least 1. The text does not begin with a whole one.
func subpart(text []byte) int {
	lead := text[0]
	need, low, high := 0, byte(0x80), byte(0xbf) // continuations, and the range of the first
	switch {
	case 0xc2 <= lead && lead <= 0xdf:
		need = 1
	case 0xe0 <= lead && lead <= 0xef:
		need = 2
		if lead == 0xe0 {
			low = 0xa0
		} else if lead == 0xed {
			high = 0x9f
		}
	case 0xf0 <= lead && lead <= 0xf4:
		need = 3
		if lead == 0xf0 {
			low = 0x90
		} else if lead == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for ; n <= need && n < len(text) && low <= text[n] && text[n] <= high; n++ {
		low, high = 0x80, 0xbf
	}
	return n
}
