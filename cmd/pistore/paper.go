package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
)

// columns is what every line fits in, as far as it can be broken or cut.
const columns = 80

// paper is what a command writes on. Text goes to it in spans, each of which is
// made safe here, so that nothing of a store gets around it.
type paper struct {
	w      *bufio.Writer
	colour bool
	err    error       // the first of writing
	failed func(error) // is told of it; nil: nobody
}

func newPaper(f *os.File) *paper { return &paper{w: bufio.NewWriter(f), colour: wantsColour(f)} }

// wantsColour: only on a terminal, and never with NO_COLOR (no-color.org).
func wantsColour(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(f)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// discard throws away what is written from now on.
func (p *paper) discard() { p.w.Reset(io.Discard) }

// flush writes what is buffered and returns the first error of writing.
func (p *paper) flush() error {
	p.note(p.w.Flush())
	return p.err
}

func (p *paper) note(err error) {
	if err == nil || p.err != nil {
		return
	}
	p.err = err
	if p.failed != nil {
		p.failed(err)
	}
}

// span is a piece of a line in one style, an ANSI attribute; empty: plain.
type span struct{ style, text string }

func plain(s string) span  { return span{"", s} }
func bold(s string) span   { return span{"1", s} }
func dim(s string) span    { return span{"2", s} }
func red(s string) span    { return span{"31", s} }
func green(s string) span  { return span{"32", s} }
func yellow(s string) span { return span{"33", s} }
func cyan(s string) span   { return span{"36", s} }

// line writes one line, and cuts what does not fit.
func (p *paper) line(spans ...span) {
	for i, room := 0, columns; i < len(spans) && room > 0; i++ {
		text := brief(spans[i].text, room)
		room -= width(text)
		p.span(spans[i].style, text)
	}
	p.raw("\n")
}

// whole writes one line as long as it is.
func (p *paper) whole(text string) {
	p.raw(safe(text))
	p.raw("\n")
}

// span writes safe text.
func (p *paper) span(style, text string) {
	if p.colour && style != "" && text != "" {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	p.raw(text)
}

func (p *paper) blank() { p.raw("\n") }

// raw writes what is safe already.
func (p *paper) raw(text string) {
	_, err := p.w.WriteString(text)
	p.note(err)
}

// block writes text of many lines, broken at words, behind an indentation.
func (p *paper) block(style func(string) span, indent, text string) {
	for _, line := range safeLines(text) {
		for _, row := range breakLine(line, columns-width(indent)) {
			if row == "" {
				p.blank()
				continue
			}
			p.line(plain(indent), style(row))
		}
	}
}

// maxRows bounds the rows that text in one piece takes: a name, a message.
const maxRows = 12

// labelled writes text in one piece behind a label, and what does not fit below
// it.
func (p *paper) labelled(label string, style func(string) span, text string) {
	room := columns - width(label)
	for _, row := range breakLine(brief(text, maxRows*room), room) {
		p.line(dim(label), style(row))
		label = strings.Repeat(" ", width(label))
	}
}

// object writes a value as indented JSON.
func (p *paper) object(v any) error {
	text, err := jsonText(v, "  ")
	p.raw(text)
	return err
}

// row writes a value as JSON on the line that was begun.
func (p *paper) row(v any) error {
	text, err := jsonText(v, "")
	p.raw(strings.TrimSuffix(text, "\n"))
	return err
}

func jsonText(v any, indent string) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return string(safeJSON(b.Bytes())), err
}

// width is how many columns safe text takes on a terminal.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth follows the East Asian width of the common blocks; a precise table
// is not worth its size here.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r <= 0x36f, r == 0x200b, r == 0x200d, 0xfe00 <= r && r <= 0xfe0f, r == 0xfeff:
		return 0
	case 0x1100 <= r && r <= 0x115f, 0x2e80 <= r && r <= 0xa4cf, 0xac00 <= r && r <= 0xd7a3, 0xf900 <= r && r <= 0xfaff,
		0xfe30 <= r && r <= 0xfe6f, 0xff00 <= r && r <= 0xff60, 0xffe0 <= r && r <= 0xffe6, 0x1f300 <= r && r <= 0x1faff,
		0x20000 <= r && r <= 0x3fffd:
		return 2
	default:
		return 1
	}
}

// cut shortens safe text to a width, with an ellipsis if something is missing.
func cut(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > columns-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// brief shows text of a store on a part of a line. It looks at no more of it
// than can be shown.
func brief(s string, columns int) string {
	columns = max(columns, 1)
	if most := 16 * columns; len(s) > most {
		s = s[:most] + strings.Repeat("…", columns)
	}
	return cut(safe(s), columns)
}

// pad fills text with spaces up to a width.
func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-width(s)))
}

// padLeft is pad with the spaces in front.
func padLeft(s string, columns int) string {
	return strings.Repeat(" ", max(0, columns-width(s))) + s
}

// breakLine breaks a safe line between words, and inside words that are too
// long; what stands in front of the first word is kept.
func breakLine(line string, columns int) []string {
	var rows []string
	for {
		at, next := breakAt(line, columns)
		rows = append(rows, strings.TrimRight(line[:at], " "))
		if next == len(line) {
			return rows
		}
		line = line[next:]
	}
}

// breakAt returns where the first row of a line ends and where the next one
// starts. It looks no further than the row is long.
func breakAt(line string, columns int) (at, next int) {
	n, space, word := 0, -1, false
	for i, r := range line {
		n += runeWidth(r)
		switch {
		case n > columns && r == ' ' && word:
			return i, i + 1
		case n > columns && space > 0:
			return space, space + 1
		case n > columns && i > 0:
			return i, i
		case r != ' ':
			word = true
		case word:
			space = i
		}
	}
	return len(line), len(line)
}
