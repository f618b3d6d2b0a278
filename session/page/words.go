package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"pistore"
	"pistore/internal/visible"
)

// counted says how many there are of something.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(strconv.Itoa(n)) + " " + many
}

// grouped puts commas into the whole part of a number.
func grouped(number string) string {
	sign := ""
	if strings.HasPrefix(number, "-") {
		sign, number = "−", number[1:]
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

// compact shows a count in three digits: 950, 12.4k, 3.1M.
func compact(f float64) string {
	sign := ""
	if f < 0 {
		sign, f = "−", -f
	}
	for _, unit := range []string{"", "k", "M", "G"} {
		switch {
		case f < 9.995 && unit != "":
			return sign + strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + unit
		case f < 999.5:
			return sign + fmt.Sprintf("%.0f", f) + unit
		}
		f /= 1000
	}
	return sign + fmt.Sprintf("%.0fT", f)
}

// money shows dollars to the precision that their size asks for.
func money(f float64) string {
	sign := ""
	if f < 0 {
		sign, f = "−", -f
	}
	switch {
	case f == 0:
		return "$0"
	case f < 0.0001:
		return sign + "< $0.0001"
	case f < 0.1:
		return sign + "$" + strings.TrimRight(strconv.FormatFloat(f, 'f', 4, 64), "0")
	default:
		return sign + "$" + grouped(strconv.FormatFloat(f, 'f', 2, 64))
	}
}

// moneyOf shows an exact sum.
func moneyOf(d pistore.Decimal) string {
	f, err := strconv.ParseFloat(string(d), 64)
	if err != nil || math.IsInf(f, 0) {
		return "$" + string(d)
	}
	return money(f)
}

func compactOf(d pistore.Decimal) string {
	f, err := strconv.ParseFloat(string(d), 64)
	if err != nil || math.IsInf(f, 0) {
		return string(d)
	}
	return compact(f)
}

func groupedOf(d pistore.Decimal) string { return grouped(string(d)) }

// sizeWords shows a size in decimal units.
func sizeWords(n int64) string {
	if n < 1000 {
		return counted(int(n), "byte", "bytes")
	}
	f := float64(n)
	for _, unit := range []string{"kB", "MB", "GB"} {
		if f /= 1000; f < 1000 {
			return fmt.Sprintf("%.1f %s", f, unit)
		}
	}
	return fmt.Sprintf("%.1f TB", f/1000)
}

// duration shows a time span in the two units that matter.
func duration(ms int64) string {
	switch s := ms / 1000; {
	case ms < 0:
		return "0 s"
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %02d min", s/3600, s%3600/60)
	default:
		return fmt.Sprintf("%d d %02d h", s/86400, s%86400/3600)
	}
}

func instant(t pistore.UnixMS) string { return t.Time().UTC().Format("2 Jan 2006, 15:04:05") }
func minute(t pistore.UnixMS) string  { return t.Time().UTC().Format("2 Jan 2006, 15:04") }
func clock(t pistore.UnixMS) string   { return t.Time().UTC().Format("15:04:05") }
func machine(t pistore.UnixMS) string { return t.Time().UTC().Format(time.RFC3339) }

// oneLine is the first line of a text that has anything on it, cut to about n
// bytes, without characters that act.
func oneLine(text string, n int) string {
	if len(text) > 64<<10 {
		text = text[:64<<10]
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "```") {
			continue
		}
		if len(line) > n {
			line = strings.ToValidUTF8(line[:n], "") + "…"
		}
		return visible.Text(line, "\t")
	}
	return ""
}

func (d *document) legacyID(id pistore.ID) string {
	if d.src.LegacyID == nil {
		return ""
	}
	return d.src.LegacyID(id)
}
