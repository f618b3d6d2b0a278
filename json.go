package pistore

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON is the text of one JSON value without insignificant white space.
// Everything else stands as it was given: number literals, the order and
// duplicates of members, escapes. It is immutable, so results may share it. The
// empty JSON is no value and means "absent".
//
// [CompactJSON], [CompactJSONBytes] and [QuoteJSON] make such texts. A plain
// conversion does not check; what the methods make of any other text is
// unspecified, except that they do not panic.
type JSON string

// SyntaxError says where a text stops being JSON. It matches [ErrInvalid].
type SyntaxError struct {
	Offset  int64 // of the first byte that is wrong, or the length of a text that ends too early
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Problem)
}

// Is reports whether target is ErrInvalid.
func (e *SyntaxError) Is(target error) bool { return target == ErrInvalid }

// CompactJSON checks that text is one JSON value (RFC 8259), and removes the
// white space outside its strings. A text without any is returned itself, at the
// cost of one scan and no allocation.
//
// It accepts what [encoding/json.Valid] accepts, escapes of lone surrogates
// included, with two exceptions: invalid UTF-8 is a [*SyntaxError] like any other
// fault, and more than [MaxJSONDepth] nested arrays and objects are a
// [*LimitError]. It sets no limit to the length.
func CompactJSON(text string) (JSON, error) {
	// These conversions copy nothing, because the compiler sees that the slice is
	// neither written to nor kept; a test watches that it does.
	white, err := scanJSON([]byte(text))
	switch {
	case err != nil:
		return "", err
	case white == 0:
		return JSON(text), nil
	}
	return stripWhite([]byte(text), white), nil
}

// CompactJSONBytes is [CompactJSON] for a buffer, which it copies once and does
// not keep.
func CompactJSONBytes(text []byte) (JSON, error) {
	white, err := scanJSON(text)
	switch {
	case err != nil:
		return "", err
	case white == 0:
		return JSON(text), nil
	}
	return stripWhite(text, white), nil
}

// QuoteJSON encodes a Go string in the way of JSON.stringify, hence without the
// HTML escapes of encoding/json. Each byte of invalid UTF-8 becomes U+FFFD.
func QuoteJSON(s string) JSON {
	if plainEnd([]byte(s), 0) == len(s) && utf8.ValidString(s) {
		return JSON(`"` + s + `"`)
	}
	return JSON(AppendQuoteJSON(make([]byte, 0, len(s)+len(s)/16+2), s))
}

// AppendQuoteJSON appends what [QuoteJSON] returns.
func AppendQuoteJSON(out []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for {
		n := plainEnd([]byte(s), 0)
		out = append(out, s[:n]...)
		if n == len(s) {
			return append(out, '"')
		}
		out = append(out, '\\')
		switch c := s[n]; {
		case c == '"', c == '\\':
			out = append(out, c)
		case c >= '\b' && c <= '\r' && c != '\v':
			out = append(out, "btn fr"[c-'\b'])
		default:
			out = append(out, 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		s = s[n+1:]
	}
}

// IsObject reports whether j is an object.
func (j JSON) IsObject() bool { return j != "" && j[0] == '{' }

// Members yields the members of an object in the order of the text, duplicates
// included, and nothing for any other value. Names are decoded, as by
// [JSON.Text], and are to be compared exactly, never in any other case. A name
// without escapes costs no allocation.
func (j JSON) Members() iter.Seq2[string, JSON] {
	return func(yield func(string, JSON) bool) { j.members(yield) }
}

func (j JSON) members(yield func(string, JSON) bool) {
	j.rawMembers(func(name, value JSON) bool {
		text, ok := name.Text()
		return ok && yield(text, value)
	})
}

// RawMembers is [JSON.Members] with the names as they stand in the text, quotes
// and escapes included, so that members can be written elsewhere byte for byte.
func (j JSON) RawMembers() iter.Seq2[JSON, JSON] {
	return func(yield func(JSON, JSON) bool) { j.rawMembers(yield) }
}

func (j JSON) rawMembers(yield func(name, value JSON) bool) {
	if !j.IsObject() {
		return
	}
	for i := 1; i < len(j) && j[i] == '"'; i++ { // i++ passes a comma
		colon := valueEnd(string(j), i)
		if colon >= len(j) {
			return
		}
		name := j[i:colon]
		i = valueEnd(string(j), colon+1)
		if !yield(name, j[colon+1:i]) {
			return
		}
	}
}

// Elements yields the elements of an array in order, and nothing for any other
// value.
func (j JSON) Elements() iter.Seq[JSON] {
	return func(yield func(JSON) bool) {
		if len(j) < len("[0]") || j[0] != '[' {
			return
		}
		for i := 1; i < len(j); i++ { // i++ passes a comma
			start := i
			i = valueEnd(string(j), i)
			if i <= start || !yield(j[start:i]) {
				return
			}
		}
	}
}

// Member returns the value of the member with exactly this name. Of duplicates
// the last one wins, as in JSON.parse, so every call scans the whole object.
func (j JSON) Member(name string) (value JSON, ok bool) {
	for n, v := range j.Members() {
		if n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// Text decodes a JSON string, and reports false for any other value. The escape
// of a lone surrogate becomes U+FFFD, for a Go string cannot hold it as UTF-8. A
// string without escapes is shared, not copied.
func (j JSON) Text() (string, bool) {
	if len(j) < 2 || j[0] != '"' || j[len(j)-1] != '"' {
		return "", false
	}
	s := string(j[1 : len(j)-1])
	n := strings.IndexByte(s, '\\')
	if n < 0 {
		return s, true
	}
	var out strings.Builder
	out.Grow(len(s)) // no escape decodes to more bytes than it has
	for ; n >= 0; n = strings.IndexByte(s, '\\') {
		out.WriteString(s[:n])
		r, size := unescape([]byte(s[n:]))
		if size == 0 {
			return "", false
		}
		out.WriteRune(r)
		s = s[n+size:]
	}
	out.WriteString(s)
	return out.String(), true
}

// MarshalJSON returns the text, or null for the empty JSON. Beware: encoding/json
// escapes <, >, &, U+2028 and U+2029 in what it gets here; only an Encoder with
// SetEscapeHTML(false) keeps the text byte for byte.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j == "" {
		return []byte("null"), nil
	}
	return []byte(j), nil
}

// UnmarshalJSON is [CompactJSONBytes] with its errors; on one, j is unchanged. A
// null is kept as the value null.
func (j *JSON) UnmarshalJSON(text []byte) error {
	v, err := CompactJSONBytes(text)
	if err != nil {
		return err
	}
	*j = v
	return nil
}

// jsonToken says what scanJSON accepts next.
type jsonToken int

const (
	wantValue jsonToken = iota
	wantValueOrEnd
	wantName
	wantNameOrEnd
	wantColon
	wantCommaOrEnd
)

// scanJSON checks a text for CompactJSON, token by token, and counts the bytes of
// insignificant white space. The input chooses the nesting, so a bit per level
// stands in for recursion.
func scanJSON(text []byte) (white int, err error) {
	// Only strings can hold bytes beyond ASCII, so one check does for all of them.
	if !utf8.Valid(text) {
		return 0, invalidUTF8(text)
	}
	var objects [MaxJSONDepth/64 + 1]uint64 // bit d: the container at depth d is an object
	depth, want := 0, wantValue
	for i := 0; ; {
		start := i
		i = skipWhite(text, i)
		white += i - start
		c := byteAt(text, i)
		switch {
		case want == wantCommaOrEnd && depth == 0:
			if i < len(text) {
				return 0, unexpected(text, i, "the end of the text")
			}
			return white, nil
		case want == wantCommaOrEnd:
			object := objects[depth/64]>>(depth%64)&1 != 0
			switch {
			case c == ',' && object:
				want = wantName
			case c == ',':
				want = wantValue
			case c == '}' && object, c == ']' && !object:
				depth--
			default:
				return 0, unexpected(text, i, "a comma or the end of the container")
			}
			i++
		case want == wantColon:
			if c != ':' {
				return 0, unexpected(text, i, "a colon")
			}
			want = wantValue
			i++
		case c == '}' && want == wantNameOrEnd, c == ']' && want == wantValueOrEnd:
			depth--
			want = wantCommaOrEnd
			i++
		case want == wantName, want == wantNameOrEnd:
			if c != '"' {
				return 0, unexpected(text, i, "a member name")
			}
			if i, err = scanString(text, i); err != nil {
				return 0, err
			}
			want = wantColon
		case c == '{', c == '[':
			if depth++; depth > MaxJSONDepth {
				return 0, &LimitError{Limit: "json nesting", Got: int64(depth), Max: MaxJSONDepth}
			}
			bit := uint64(1) << (depth % 64)
			objects[depth/64] |= bit
			want = wantNameOrEnd
			if c == '[' {
				objects[depth/64] ^= bit
				want = wantValueOrEnd
			}
			i++
		default:
			if i, err = scanScalar(text, i); err != nil {
				return 0, err
			}
			want = wantCommaOrEnd
		}
	}
}

// scanScalar returns the index after the string, literal or number at text[i].
func scanScalar(text []byte, i int) (int, error) {
	switch byteAt(text, i) {
	case '"':
		return scanString(text, i)
	case 't':
		return scanLiteral(text, i, "true")
	case 'f':
		return scanLiteral(text, i, "false")
	case 'n':
		return scanLiteral(text, i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return scanNumber(text, i)
	}
	return i, unexpected(text, i, "a value")
}

func scanString(text []byte, i int) (int, error) {
	i++
	for {
		i = plainEnd(text, i)
		switch byteAt(text, i) {
		case '"':
			return i + 1, nil
		case '\\':
			_, size := unescape(text[i:])
			if size == 0 {
				return i, &SyntaxError{Offset: int64(i), Problem: "no valid escape"}
			}
			i += size
		default:
			return i, unexpected(text, i, "more of the string")
		}
	}
}

func scanLiteral(text []byte, i int, word string) (int, error) {
	for k := range len(word) {
		if byteAt(text, i) != word[k] {
			return i, unexpected(text, i, word)
		}
		i++
	}
	return i, nil
}

func scanNumber(text []byte, i int) (int, error) {
	if text[i] == '-' {
		i++
	}
	first := i
	if byteAt(text, i) == '0' {
		i++ // and a digit after it is refused as what follows a value
	} else {
		i = digitsEnd(text, i)
	}
	ok := i > first
	if ok && byteAt(text, i) == '.' {
		first = i + 1
		i = digitsEnd(text, first)
		ok = i > first
	}
	if ok && (byteAt(text, i) == 'e' || byteAt(text, i) == 'E') {
		first = i + 1
		if c := byteAt(text, first); c == '+' || c == '-' {
			first++
		}
		i = digitsEnd(text, first)
		ok = i > first
	}
	if !ok {
		return i, unexpected(text, i, "a digit")
	}
	return i, nil
}

func digitsEnd(text []byte, i int) int {
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	return i
}

func skipWhite(text []byte, i int) int {
	for i < len(text) && isWhite(text[i]) {
		i++
	}
	return i
}

func isWhite(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}

// byteAt returns text[i], or at the end of the text 0, which is no token.
func byteAt(text []byte, i int) byte {
	if i < len(text) {
		return text[i]
	}
	return 0
}

func unexpected(text []byte, i int, want string) error {
	got := "end of text"
	if i < len(text) {
		r, _ := utf8.DecodeRune(text[i:])
		got = strconv.QuoteRune(r)
	}
	return &SyntaxError{Offset: int64(i), Problem: got + " instead of " + want}
}

func invalidUTF8(text []byte) error {
	i := 0
	for i < len(text) {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return &SyntaxError{Offset: int64(i), Problem: "invalid UTF-8"}
}

// stripWhite copies a valid text without its insignificant white space, which has
// white bytes.
func stripWhite(text []byte, white int) JSON {
	var out strings.Builder
	out.Grow(len(text) - white)
	start := 0 // of what is not copied yet
	for i := 0; i < len(text); {
		switch {
		case text[i] == '"':
			i, _ = scanString(text, i)
		case isWhite(text[i]):
			out.Write(text[start:i])
			i = skipWhite(text, i)
			start = i
		default:
			i++
		}
	}
	out.Write(text[start:])
	return JSON(out.String())
}

// valueEnd returns the index after the value or the name at text[i], which must
// be inside an object.
func valueEnd(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// stringEnd returns the index after the string at text[i]. The quote that ends it
// is sought as a single byte, which is much faster than to look for backslashes
// as well: one that an odd number of them escapes is rare.
func stringEnd(text string, i int) int {
	for i++; i < len(text); {
		n := strings.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		quote := i + n
		first := quote
		for first > i && text[first-1] == '\\' {
			first--
		}
		if i = quote + 1; (quote-first)%2 == 0 {
			return i
		}
	}
	return len(text)
}

// plainEnd returns the index of the first quote, backslash or control character
// from text[i] on, or the length of the text. It looks at eight bytes at a time.
func plainEnd(text []byte, i int) int {
	const ones = 0x0101010101010101
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		// A subtraction sets the top bit of each byte that is too small for it.
		// Flipping bit 1 first takes the quote from 0x22 to 0x20, next to the control
		// characters, which it keeps together. Bytes beyond ASCII, with the top bit set
		// from the start, are masked out. A borrow spoils only bytes after a hit.
		quote := (w ^ 0x02*ones) - 0x21*ones
		backslash := (w ^ '\\'*ones) - ones
		if hit := (quote | backslash) &^ w & (0x80 * ones); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for i < len(text) && text[i] >= ' ' && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}

// unescape decodes the escape that text starts with, both halves of a surrogate
// pair together. The size is 0 if there is no valid escape.
func unescape(text []byte) (r rune, size int) {
	if len(text) < 2 {
		return 0, 0
	}
	if text[1] != 'u' {
		k := strings.IndexByte(`"\/bfnrt`, text[1])
		if k < 0 {
			return 0, 0
		}
		return rune("\"\\/\b\f\n\r\t"[k]), 2
	}
	r = hexEscape(text)
	switch {
	case r < 0:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if pair := utf16.DecodeRune(r, hexEscape(text[6:])); pair != utf8.RuneError {
		return pair, 12
	}
	return utf8.RuneError, 6
}

// hexEscape decodes the \uXXXX that text starts with, or returns -1.
func hexEscape[T string | []byte](text T) (r rune) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	for i := 2; i < 6; i++ {
		c := text[i]
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = (c | 0x20) - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
