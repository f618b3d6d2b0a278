package page

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// drawing writes an SVG picture: no script, nothing from outside, colours that
// follow the reader's preference for light or dark.
type drawing struct {
	body        bytes.Buffer
	height      float64
	left, right float64 // where the longest bar begins and ends: labels stand before it, values behind it
}

const (
	width = 760.
	line  = 24. // height of a bar with its room
)

func newDrawing(left, right float64) *drawing { return &drawing{height: 8, left: left, right: right} }

const style = `.bg{fill:#fff}text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-weight:600}.s{fill:#57606a;font-size:12px}
.ours{fill:#2f6fdb}.peer{fill:#9aa4b2}.miss{fill:#c4532d}.grid{stroke:#d0d7de}.mark{stroke:#24292f;fill:none}.hole{fill:#fff;stroke:#2f6fdb;stroke-width:2}.span{stroke:#2f6fdb;stroke-width:3;opacity:.45}
@media(prefers-color-scheme:dark){.bg{fill:#0d1117}text{fill:#e6edf3}.s{fill:#9da7b3}.ours{fill:#5b9cff}.peer{fill:#6e7b8b}.miss{fill:#f0784f}.grid{stroke:#3d444d}.mark{stroke:#e6edf3}.hole{fill:#0d1117;stroke:#5b9cff}.span{stroke:#5b9cff}}`

// text writes a text; its anchor is start, middle or end.
func (d *drawing) text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(&d.body, `<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`+"\n", number(x), number(y), anchor, class, escaped(s))
}

func (d *drawing) rect(x, y, w, h float64, class string) {
	fmt.Fprintf(&d.body, `<rect x="%s" y="%s" width="%s" height="%s" rx="2" class="%s"/>`+"\n", number(x), number(y), number(w), number(h), class)
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&d.body, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`+"\n", number(x1), number(y1), number(x2), number(y2), class)
}

func (d *drawing) dot(x, y, r float64, class string) {
	fmt.Fprintf(&d.body, `<circle cx="%s" cy="%s" r="%s" class="%s"/>`+"\n", number(x), number(y), number(r), class)
}

// svg is the picture. Its title and description are what one hears who does not
// see it.
func (d *drawing) svg(title, description string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" role="img" aria-labelledby="title desc">`+"\n", number(width), number(d.height), number(width))
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n<style>%s</style>\n", escaped(title), escaped(description), style)
	fmt.Fprintf(&b, `<rect width="%s" height="%s" class="bg"/>`+"\n", number(width), number(d.height))
	b.Write(d.body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// number is a coordinate, to a tenth.
func number(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // which a Builder takes
	return b.String()
}

// fit shortens a text to what stands in so many units of width.
func fit(s string, room float64) string {
	const perRune = 6.9
	most := int(room / perRune)
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
