package main

import (
	"fmt"
	"strconv"
	"strings"

	"pistore"
)

// count says how many there are of something.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(strconv.FormatInt(n, 10)) + " " + many
}

// grouped puts commas into the whole part of a decimal number.
func grouped(number string) string {
	sign := ""
	if strings.HasPrefix(number, "-") {
		sign, number = "-", number[1:]
	}
	whole, rest, point := strings.Cut(number, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + rest
	}
	return sign + whole
}

// bytesOf shows a size in decimal units.
func bytesOf(n int64) string {
	if n < 1000 {
		return count(n, "byte", "bytes")
	}
	f := float64(n)
	for _, unit := range []string{"kB", "MB", "GB"} {
		if f /= 1000; f < 1000 {
			return fmt.Sprintf("%.1f %s", f, unit)
		}
	}
	return fmt.Sprintf("%.1f TB", f/1000)
}

// instant shows an instant in UTC, to the second.
func instant(t pistore.UnixMS) string { return t.Time().UTC().Format("2006-01-02 15:04:05 UTC") }

// instantMS is instant to the millisecond.
func instantMS(t pistore.UnixMS) string {
	return t.Time().UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// minute shows an instant in UTC, to the minute and without the zone.
func minute(t pistore.UnixMS) string { return t.Time().UTC().Format("2006-01-02 15:04") }

// shortID is how an id is shown where there is little room: the random end of a
// UUIDv7, any other id as far as it fits. inspect --entry takes it again.
func shortID(id pistore.ID) string {
	if _, ok := id.Time(); ok {
		return string(id[28:])
	}
	return brief(string(id), 12)
}

// flat is a text on one line: white space, line breaks too, becomes single
// spaces. Of a long text it is the beginning.
func flat(text string) string {
	return strings.Join(strings.Fields(cutBytes(text, 4096)), " ")
}

// firstLine is the first line of a text that has anything on it.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// lineCount counts the lines of a text.
func lineCount(text string) int64 {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return 0
	}
	return int64(strings.Count(text, "\n")) + 1
}

// joined lists words: "a", "a and b", "a, b and c".
func joined(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
