package page

import (
	"fmt"
	"strings"

	"pistore/internal/visible"
)

// piece is a stretch of text: prose, code between fences, or the words that stand
// for what was left out.
type piece struct {
	Code bool
	Cut  bool
	Text string
}

// room is how much content of an entry still goes into the page, in bytes.
type room struct{ left int }

// pieces returns text as it is shown: without characters that act, cut to the
// room that is left, its fenced code apart.
func (r *room) pieces(text string) []piece {
	text = strings.TrimRight(text, " \t\r\n")
	head, cut, tail := r.cut(text)
	pieces := fences(shown(head))
	if cut != "" {
		pieces = append(pieces, piece{Cut: true, Text: cut})
		if tail != "" {
			pieces = append(pieces, piece{Text: shown(tail)})
		}
	}
	return pieces
}

// code returns text of which nothing is prose.
func (r *room) code(text string) []piece {
	head, cut, tail := r.cut(strings.TrimRight(text, " \t\r\n"))
	var pieces []piece
	if head != "" {
		pieces = append(pieces, piece{Code: true, Text: shown(head)})
	}
	if cut != "" {
		pieces = append(pieces, piece{Cut: true, Text: cut})
		if tail != "" {
			pieces = append(pieces, piece{Code: true, Text: shown(tail)})
		}
	}
	return pieces
}

// blockBytes is what one text shows at most; the rest of an entry has room too.
const blockBytes = 20 << 10

// cut keeps the beginning and the end of a text that is too long.
func (r *room) cut(text string) (head, cut, tail string) {
	most := min(blockBytes, r.left)
	if len(text) <= most {
		r.left -= len(text)
		return text, "", ""
	}
	r.left -= most
	h, t := most*3/4, most/4
	head, tail = strings.ToValidUTF8(text[:h], ""), strings.ToValidUTF8(text[len(text)-t:], "")
	return head, fmt.Sprintf("%s of %s left out here", sizeWords(int64(len(text)-h-t)), sizeWords(int64(len(text)))), tail
}

func shown(text string) string {
	return visible.Text(strings.ReplaceAll(text, "\r\n", "\n"), "\n\t")
}

// fences separates code between lines of ``` from prose.
func fences(text string) []piece {
	if !strings.Contains(text, "```") {
		if text == "" {
			return nil
		}
		return []piece{{Text: text}}
	}
	var pieces []piece
	var b strings.Builder
	inside := false
	end := func() {
		if t := strings.Trim(b.String(), "\n"); t != "" {
			pieces = append(pieces, piece{Code: inside, Text: t})
		}
		b.Reset()
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			end()
			inside = !inside
			continue
		}
		b.WriteString(line)
	}
	end()
	return pieces
}
