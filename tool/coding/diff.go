package coding

import (
	"fmt"
	"sort"
	"strings"
)

// Bounds of a diff.
const (
	contextLines = 3
	maxDiffBytes = 32 << 10
)

// change replaces the old lines [from, to) by others. Every line has its
// newline, but for the last of a file.
type change struct {
	from, to int
	lines    []string
}

// unified shows a replacement in the form of diff -u, without file names and cut
// to maxDiffBytes, and returns the number of the first line that changed. places
// are where before is in content, none overlapping another.
func unified(content, before, after string, places []int) (diff string, firstLine int) {
	old := strings.SplitAfter(content, "\n")
	if old[len(old)-1] == "" {
		old = old[:len(old)-1]
	}
	changes := lineChanges(content, old, before, after, places)
	if len(changes) == 0 {
		return "", 1 // a replacement by the same text
	}
	var b strings.Builder
	shift := 0 // how many lines longer the new file is so far
	for len(changes) > 0 && b.Len() < maxDiffBytes {
		n := 1
		for n < len(changes) && changes[n].from-changes[n-1].to <= 2*contextLines {
			n++
		}
		shift += hunk(&b, old, changes[:n], shift)
		if firstLine == 0 {
			firstLine = changes[0].from + 1
		}
		changes = changes[n:]
	}
	if len(changes) > 0 || b.Len() > maxDiffBytes {
		cut := string(cutRune([]byte(b.String()), min(b.Len(), maxDiffBytes)))
		return cut[:strings.LastIndexByte(cut, '\n')+1] + "[the diff goes on]\n", firstLine
	}
	return b.String(), firstLine
}

// lineChanges turns replacements of text into changes of whole lines, in order
// and apart from each other.
func lineChanges(content string, old []string, before, after string, places []int) []change {
	starts := make([]int, len(old)+1) // where each line starts, and the end
	for i, line := range old {
		starts[i+1] = starts[i] + len(line)
	}
	lineOf := func(at int) int { return sort.SearchInts(starts, at+1) - 1 }
	var changes []change
	for len(places) > 0 {
		from := lineOf(places[0])
		to, at := from, starts[from]
		var text strings.Builder
		for {
			for len(places) > 0 && (places[0] < starts[to] || to == from) {
				text.WriteString(content[at:places[0]] + after)
				at = places[0] + len(before)
				to = max(to, lineOf(at-1)+1)
				places = places[1:]
			}
			text.WriteString(content[at:starts[to]])
			at = starts[to]
			if s := text.String(); s == "" || strings.HasSuffix(s, "\n") || to == len(old) {
				break
			}
			to++ // the next line is joined to this one
		}
		c := change{from, to, strings.SplitAfter(text.String(), "\n")}
		if c.lines[len(c.lines)-1] == "" {
			c.lines = c.lines[:len(c.lines)-1]
		}
		if c = c.trim(old); c.from < c.to || len(c.lines) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

// trim takes off lines at both ends that do not change.
func (c change) trim(old []string) change {
	for c.from < c.to && len(c.lines) > 0 && old[c.from] == c.lines[0] {
		c.from, c.lines = c.from+1, c.lines[1:]
	}
	for c.from < c.to && len(c.lines) > 0 && old[c.to-1] == c.lines[len(c.lines)-1] {
		c.to, c.lines = c.to-1, c.lines[:len(c.lines)-1]
	}
	return c
}

// hunk writes changes that are near each other, and returns by how many lines
// they make the file longer.
func hunk(b *strings.Builder, old []string, changes []change, shift int) (longer int) {
	first := max(0, changes[0].from-contextLines)
	last := min(len(old), changes[len(changes)-1].to+contextLines)
	for _, c := range changes {
		longer += len(c.lines) - (c.to - c.from)
	}
	start := func(line, count int) int { // of no lines: the one before
		if count == 0 {
			return line
		}
		return line + 1
	}
	oldCount, newCount := last-first, last-first+longer
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", start(first, oldCount), oldCount, start(first+shift, newCount), newCount)
	at := first
	for _, c := range changes {
		write(b, ' ', old[at:c.from])
		write(b, '-', old[c.from:c.to])
		write(b, '+', c.lines)
		at = c.to
	}
	write(b, ' ', old[at:last])
	return longer
}

func write(b *strings.Builder, mark byte, lines []string) {
	for _, line := range lines {
		b.WriteByte(mark)
		b.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
