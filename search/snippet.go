package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A snippet shows so many bytes before the first match, and in all.
const (
	snippetBefore = 30
	snippetBytes  = 240
)

// snippet is a piece of a text around what was found in it, on one line.
func snippet(text string, terms []string) []Part {
	first := -1
	for _, t := range terms {
		if at, _ := index(text, t); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	begin := max(first-snippetBefore, 0)
	for begin > 0 && !utf8.RuneStart(text[begin]) {
		begin++
	}
	end := min(begin+snippetBytes, len(text))
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	parts := takeApart(text[begin:end], terms)
	if begin > 0 {
		parts = slices.Insert(parts, 0, Part{Text: "…"})
	}
	if end < len(text) {
		parts = append(parts, Part{Text: "…"})
	}
	return parts
}

// takeApart takes a text apart at what was found.
func takeApart(text string, terms []string) []Part {
	type span struct{ begin, end int }
	var spans []span
	for _, t := range terms {
		for at := 0; at < len(text); {
			begin, end := index(text[at:], t)
			if begin < 0 {
				break
			}
			spans = append(spans, span{at + begin, at + end})
			at += end
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end)) })
	var parts []Part
	at := 0
	add := func(text string, match bool) {
		if text = oneLine(text); text != "" {
			parts = append(parts, Part{text, match})
		}
	}
	for _, s := range spans {
		if s.begin < at {
			continue // inside another
		}
		add(text[at:s.begin], false)
		add(text[s.begin:s.end], true)
		at = s.end
	}
	add(text[at:], false)
	return parts
}

// oneLine makes each run of white space one space.
func oneLine(text string) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		if r == ' ' || r == '\n' || r == '\t' || r == '\r' {
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}
