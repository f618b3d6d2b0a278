package page

import (
	"fmt"
	"slices"
	"strings"

	"pistore/bench"
	"pistore/bench/peers/rows"
)

// Section is what the page says of a row that was measured.
func Section(r rows.Result) string {
	row, ok := rows.Find(r.Row)
	if !ok {
		return ""
	}
	var b strings.Builder
	heading(&b, row)
	b.WriteString(provenance(row, r))
	tables(&b, row, r)
	b.WriteString(shortfall(row, r))
	fmt.Fprintf(&b, "Not shown: %s\n", lower(row.Not))
	return b.String()
}

func heading(b *strings.Builder, row rows.Row) {
	if row.Name == rows.Levels {
		fmt.Fprintf(b, "## %s\n\n%s\n\n", row.Question, row.Work)
		return
	}
	fmt.Fprintf(b, "## %s. %s\n\n%s\n\n", row.Name, row.Question, row.Work)
}

// command repeats a row.
func command(row rows.Row, f rows.Form) string {
	flag := map[rows.Form]string{rows.Quick: " --quick", rows.GiB: " --gib"}[f]
	return "cd bench/peers && go run ./cmd/peers page --row " + row.Name + flag + " --dir DIR"
}

// provenance says how a row was measured.
func provenance(row rows.Row, r rows.Result) string {
	text := "    " + command(row, r.Form) + "\n\nLevel: " + levelsOf(row) + ". Measured on " + r.Measured.UTC().Format("2 January 2006")
	if r.Revision != "" {
		text += " at revision " + cell(r.Revision)
	}
	if r.Form == rows.Quick {
		text += ", quickly: the figures say nothing"
	}
	return text + ".\n\n"
}

// tables writes what was measured, and the comparisons.
func tables(b *strings.Builder, row rows.Row, r rows.Result) {
	for _, t := range row.In(r.Form).Tables {
		if t.Name != "" {
			fmt.Fprintf(b, "%s:\n\n", upper(t.Name))
		}
		m, ok := r.Of(t)
		if !ok {
			b.WriteString("Not measured since this table has changed.\n\n")
			continue
		}
		if m.Failed != "" {
			fmt.Fprintf(b, "Failed: %s\n\n", cell(m.Failed))
		}
		if m.Rounds() == 0 {
			continue
		}
		figures(b, t, m)
		comparisons(b, t, m)
	}
}

// figures are the medians of each side, and of the first column the spread.
func figures(b *strings.Builder, t rows.Table, m rows.Measured) {
	shown := slices.DeleteFunc(slices.Clone(t.Show), func(u bench.Unit) bool {
		return !slices.ContainsFunc(m.Sides, func(s rows.Reported) bool { _, ok := bench.Median(s.Reports, u); return ok })
	})
	rounds := m.Rounds()
	head, line := "| "+count(rounds, "round", "rounds"), "|---"
	for i, u := range shown {
		head += " | " + wordsOf(u)
		line += "|---:"
		if i == 0 && rounds > 1 {
			head += " | spread"
			line += "|---:"
		}
	}
	fmt.Fprintf(b, "%s |\n%s|\n", head, line)
	for _, s := range m.Sides {
		fmt.Fprintf(b, "| %s", cell(s.Label))
		for i, u := range shown {
			v, ok := bench.Median(s.Reports, u)
			if !ok {
				b.WriteString(" | –")
			} else {
				b.WriteString(" | " + measurement(v, u))
			}
			if i == 0 && rounds > 1 {
				b.WriteString(" | " + spread(s.Reports, u))
			}
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
}

func spread(reports []bench.Report, u bench.Unit) string {
	low, high, ok := extremes(reports, u)
	if !ok {
		return "–"
	}
	return measurement(low, u) + " to " + measurement(high, u)
}

// extremes are the least and the most of what reports have; false if one lacks
// it.
func extremes(reports []bench.Report, u bench.Unit) (low, high float64, ok bool) {
	for i, r := range reports {
		v, has := r.Metrics[u]
		if !has {
			return 0, 0, false
		}
		if i == 0 {
			low, high = v, v
		}
		low, high = min(low, v), max(high, v)
	}
	return low, high, len(reports) > 0
}

// comparisons are what is asked, and what came of it.
func comparisons(b *strings.Builder, t rows.Table, m rows.Measured) {
	if len(t.Checks) == 0 {
		return
	}
	b.WriteString("| compared | ours | theirs | ratio | pairs | asked | stretch | |\n|---|---:|---:|---:|---:|---:|---:|---|\n")
	for _, c := range t.Checks {
		v, ok := m.Judge(c)
		if !ok {
			fmt.Fprintf(b, "| %s | – | – | – | – | %s | %s | not measured |\n", compared(t, c), limit(c, c.Must), limit(c, c.Stretch))
			continue
		}
		theirs, ratio := "–", "–"
		between := measurement(v.Min, c.Unit) + " to " + measurement(v.Max, c.Unit)
		if c.B >= 0 {
			theirs, ratio = measurement(v.ValueB, c.Unit), short(v.Median)
			between = short(v.Min) + " to " + short(v.Max)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", compared(t, c),
			measurement(v.ValueA, c.Unit), theirs, ratio, between, limit(c, c.Must), limit(c, c.Stretch), verdict(v))
	}
	b.WriteString("\n")
}

// compared says what a check compares.
func compared(t rows.Table, c rows.Check) string {
	a := t.Sides[c.A].Label
	switch {
	case c.B < 0:
		return cell(a + ": " + wordsOf(c.Unit))
	case c.A == c.B:
		return cell(a + ": " + wordsOf(c.Unit) + " by " + wordsOf(c.UnitB))
	case c.UnitB != "" && c.UnitB != c.Unit:
		return cell(a + ", " + wordsOf(c.Unit) + ", by " + t.Sides[c.B].Label + ", " + wordsOf(c.UnitB))
	default:
		return cell(a + " by " + t.Sides[c.B].Label + ": " + wordsOf(c.Unit))
	}
}

func verdict(v rows.Verdict) string {
	switch {
	case v.Must == 0 && v.Stretch == 0:
		return "shown"
	case !v.Reached:
		return "**not reached**"
	case v.Stretch == 0:
		return "reached"
	case v.Stretched:
		return "reached, stretch too"
	case v.Must == 0:
		return "stretch not reached"
	default:
		return "reached, stretch not"
	}
}

// shortfall is the reason where something asked is not reached.
func shortfall(row rows.Row, r rows.Result) string {
	s := scoreOf(row, r)
	if s.reached == s.asked || r.Form != rows.Full {
		return ""
	}
	text := "Not reached. "
	if reason := reasons[row.Name]; reason != "" {
		text = "Not reached: " + reason + " "
	}
	return text + fmt.Sprintf("What takes the time, and what was tried, is in [docs/performance.md](docs/performance.md#row-%s).\n\n", row.Name)
}

// score counts what is asked of a row and what of it was reached. What was not
// measured was not reached.
type score struct{ asked, reached, wished, stretched int }

func scoreOf(row rows.Row, r rows.Result) score {
	var s score
	for _, t := range row.In(r.Form).Tables {
		m, ok := r.Of(t)
		for _, c := range t.Checks {
			var v rows.Verdict
			measured := false
			if ok {
				v, measured = m.Judge(c)
			}
			if c.Must != 0 {
				s.asked++
				if measured && v.Reached {
					s.reached++
				}
			}
			if c.Stretch != 0 {
				s.wished++
				if measured && v.Stretched {
					s.stretched++
				}
			}
		}
	}
	return s
}

func (s score) String() string {
	text := "nothing is asked"
	if s.asked > 0 {
		text = fmt.Sprintf("%d of %d reached", s.reached, s.asked)
	}
	if s.wished > 0 {
		text += fmt.Sprintf(", stretch %d of %d", s.stretched, s.wished)
	}
	return text
}

// Summary is a row in one line, for a terminal.
func Summary(r rows.Result) string {
	row, ok := rows.Find(r.Row)
	if !ok {
		return ""
	}
	text := "row " + r.Row + ": " + scoreOf(row, r).String()
	for _, t := range r.Tables {
		if t.Failed != "" {
			text += "; failed: " + cell(t.Failed)
		}
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// MissingReason says whether something that is asked of a row is not reached and
// the page has no words for why.
func MissingReason(r rows.Result) bool {
	row, ok := rows.Find(r.Row)
	s := scoreOf(row, r)
	return ok && r.Form == rows.Full && s.reached < s.asked && reasons[r.Row] == ""
}
