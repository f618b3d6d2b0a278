package tool

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Output gathers a stream of text in bounded memory: its head and its tail. What
// is dropped between them is counted. Bytes that are not UTF-8 become U+FFFD,
// and no character is cut. It is not safe for concurrent use.
type Output struct {
	headBytes, tailBytes int // bounds

	partial []byte // the beginning of a character that is not all there
	head    []byte
	full    bool // nothing is added to head any more
	tail    []byte
	written int64 // bytes of text, whole characters only
}

// NewOutput returns an output that keeps at most so many bytes of head and tail.
func NewOutput(headBytes, tailBytes int) *Output {
	return &Output{headBytes: headBytes, tailBytes: tailBytes}
}

// Write adds bytes and returns the text that they complete, which is what to
// report as progress.
func (o *Output) Write(p []byte) (text string) {
	p = append(o.partial, p...)
	whole := len(p) - partialLen(p)
	text = strings.ToValidUTF8(string(p[:whole]), "\uFFFD")
	o.partial = append([]byte(nil), p[whole:]...)
	o.add(text)
	return text
}

// Close adds what is left of a character that never became whole, and returns
// the text of it.
func (o *Output) Close() (text string) {
	if len(o.partial) == 0 {
		return ""
	}
	o.partial = nil
	o.add("\uFFFD")
	return "\uFFFD"
}

// partialLen returns how many bytes at the end of p may begin a character.
func partialLen(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

func (o *Output) add(text string) {
	o.written += int64(len(text))
	if !o.full {
		n := min(len(text), o.headBytes-len(o.head))
		for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		o.head = append(o.head, text[:n]...)
		text = text[n:]
		o.full = text != ""
	}
	o.tail = append(o.tail, text...)
	if len(o.tail) > 2*o.tailBytes { // so that each byte moves once or twice
		o.tail = append([]byte(nil), o.cutTail()...)
	}
}

// cutTail returns the end of the tail that is within the bound.
func (o *Output) cutTail() []byte {
	start := max(0, len(o.tail)-o.tailBytes)
	for start < len(o.tail) && !utf8.RuneStart(o.tail[start]) {
		start++
	}
	return o.tail[start:]
}

// Parts returns head and tail, and how many bytes of text were dropped between
// them. If none were, head and tail joined are the whole text.
func (o *Output) Parts() (head, tail string, droppedBytes int64) {
	t := o.cutTail()
	return string(o.head), string(t), o.written - int64(len(o.head)+len(t))
}

// String returns the text, with a line in place of what was dropped.
func (o *Output) String() string {
	head, tail, dropped := o.Parts()
	if dropped == 0 {
		return head + tail
	}
	return strings.TrimSuffix(head, "\n") + "\n[… " + strconv.FormatInt(dropped, 10) + " bytes left out …]\n" + tail
}
