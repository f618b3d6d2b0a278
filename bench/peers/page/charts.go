package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"pistore/bench"
	"pistore/bench/peers/rows"
	"pistore/bench/stores"
)

// chart is a picture of a row.
type chart struct {
	File
	alt string
}

// chartsOf are the pictures of a row, the last first.
func chartsOf(row rows.Row, r rows.Result) []chart {
	var all []chart
	name := row.Name
	if name != rows.Levels {
		name = fmt.Sprintf("row-%02s", name)
	} else if text, ok := latencyChart(row, r); ok {
		all = append(all, chart{File{charts + name + "-latency.svg", text}, "How long does a commit take?"})
	}
	if text, ok := barChart(row, r); ok {
		all = append(all, chart{File{charts + name + ".svg", text}, row.Question})
	}
	return all
}

// classOf tells ours from theirs.
func classOf(s rows.Side) string {
	if slices.Contains(stores.Names, s.Store.Name) {
		return "ours"
	}
	return "peer"
}

// drawn is what was measured of the tables of a row that can be drawn.
func drawn(row rows.Row, r rows.Result, each func(rows.Table, rows.Measured)) {
	for _, t := range row.In(r.Form).Tables {
		if m, ok := r.Of(t); ok && m.Rounds() > 0 {
			each(t, m)
		}
	}
}

// barChart has a bar for each side that measured what the row shows, and over it
// from the least round to the most.
func barChart(row rows.Row, r rows.Result) ([]byte, bool) {
	if row.Chart == "" {
		return nil, false
	}
	most := 0.
	drawn(row, r, func(_ rows.Table, m rows.Measured) {
		for _, s := range m.Sides {
			if _, high, ok := extremes(s.Reports, row.Chart); ok {
				most = max(most, high)
			}
		}
	})
	if most <= 0 {
		return nil, false
	}
	d := newDrawing(230, 600)
	d.caption(row.Question, wordsOf(row.Chart)+", medians; the thin line is from the least round to the most")
	x := func(v float64) float64 { return d.left + (d.right-d.left)*max(v, 0)/most }
	var said []string
	drawn(row, r, func(t rows.Table, m rows.Measured) {
		d.group(t.Name)
		for i, s := range t.Sides {
			low, high, ok := extremes(m.Sides[i].Reports, row.Chart)
			if !ok {
				continue
			}
			v, _ := bench.Median(m.Sides[i].Reports, row.Chart)
			y := d.height
			d.text(d.left-8, y+16, "end", "", fit(s.Label, d.left-12))
			d.rect(d.left, y+5, max(1, x(v)-d.left), 14, classOf(s))
			if high > low {
				d.line(x(low), y+12, x(high), y+12, "mark")
			}
			d.text(x(high)+6, y+16, "start", "s", measurement(v, row.Chart))
			said = append(said, s.Label+" "+measurement(v, row.Chart))
			d.height += line
		}
	})
	d.height += 8
	return d.svg(row.Question, strings.Join(said, "; ")), true
}

// caption begins a picture.
func (d *drawing) caption(title, below string) {
	d.text(12, d.height+14, "start", "t", title)
	d.text(12, d.height+32, "start", "s", below)
	d.height += 44
}

// group is a heading within a picture.
func (d *drawing) group(name string) {
	if name == "" {
		return
	}
	d.text(12, d.height+16, "start", "s", fit(upper(name), width-24))
	d.height += line
}

// scale maps values to places, so that each factor of ten takes the same room.
type scale struct{ from, to float64 } // decades

// at is the place of a value.
func (d *drawing) at(s scale, v float64) float64 {
	return d.left + (d.right-d.left)*(math.Log10(v)-s.from)/(s.to-s.from)
}

// axis draws a line for each decade, from the current height to the bottom.
func (d *drawing) axis(s scale, bottom float64, name func(float64) string) {
	for e := s.from; e <= s.to; e++ {
		x := d.at(s, math.Pow(10, e))
		d.line(x, d.height+line, x, bottom, "grid")
		d.text(x, d.height+16, "middle", "s", name(math.Pow(10, e)))
	}
	d.height += line
}

var latencies = []bench.Unit{bench.P50, bench.P99, bench.P999}

// latencyChart has the latencies of each side on one axis.
func latencyChart(row rows.Row, r rows.Result) ([]byte, bool) {
	low, high, lines := math.Inf(1), 0., 0
	drawn(row, r, func(t rows.Table, m rows.Measured) {
		lines += 1 + len(t.Sides)
		for _, s := range m.Sides {
			for _, u := range latencies {
				if v, ok := bench.Median(s.Reports, u); ok && v > 0 {
					low, high = min(low, v), max(high, v)
				}
			}
		}
	})
	if high <= 0 {
		return nil, false
	}
	d := newDrawing(230, 600)
	d.caption("How long does a commit take?", "full dot: p50; ring: p99; bar: p99.9; each line of the grid is ten times the one before")
	s := scale{math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))}
	if s.to == s.from {
		s.to++
	}
	d.axis(s, d.height+line*float64(lines+1), duration)
	var said []string
	drawn(row, r, func(t rows.Table, m rows.Measured) {
		d.group(t.Name)
		for i := range t.Sides {
			said = append(said, d.latency(t.Sides[i].Label, m.Sides[i].Reports, s))
		}
	})
	d.height += 8
	return d.svg("How long does a commit take?", strings.Join(said, "; ")), true
}

// latency draws one side and says what it drew.
func (d *drawing) latency(label string, reports []bench.Report, s scale) string {
	y, text := d.height+12, label
	d.text(d.left-8, d.height+16, "end", "", fit(label, d.left-12))
	d.height += line
	var at []float64
	for _, u := range latencies {
		v, ok := bench.Median(reports, u)
		if !ok || v <= 0 {
			return text
		}
		at = append(at, d.at(s, v))
		text += " " + wordsOf(u) + " " + duration(v)
	}
	d.line(at[0], y, at[2], y, "span")
	d.rect(at[2]-2, y-8, 4, 16, "ours")
	d.dot(at[1], y, 5, "hole")
	d.dot(at[0], y, 6, "ours")
	return text
}

// target is a check of which something is asked, and how far it is reached: at 1
// just so, at 2 twice.
type target struct {
	name            string
	factor, stretch float64
	reached         bool
}

func targets(full map[string]rows.Result) []target {
	var all []target
	for _, row := range rows.All() {
		r, ok := full[row.Name]
		if !ok {
			continue
		}
		drawn(row, r, func(t rows.Table, m rows.Measured) {
			for _, c := range t.Checks {
				v, ok := m.Judge(c)
				if !ok || c.Must == 0 || v.Median <= 0 {
					continue
				}
				one := target{name: row.Name + ", " + shortly(t, c), factor: v.Median / c.Must, stretch: c.Stretch / c.Must, reached: v.Reached}
				if c.AtMost {
					one.factor = 1 / one.factor
					if c.Stretch != 0 {
						one.stretch = 1 / one.stretch
					}
				}
				all = append(all, one)
			}
		})
	}
	return all
}

// shortly says what a check compares, in few words.
func shortly(t rows.Table, c rows.Check) string {
	text := t.Sides[c.A].Label
	if t.Name != "" {
		text = t.Name + ": " + text
	}
	if c.A != c.B && c.B >= 0 {
		text += " by " + t.Sides[c.B].Label
	}
	if c.Unit != bench.PerSecond {
		text += ", " + wordsOf(c.Unit)
	}
	return text
}

// targetsChart shows how far each target is reached.
func targetsChart(full map[string]rows.Result) ([]byte, bool) {
	all := targets(full)
	if len(all) == 0 {
		return nil, false
	}
	s := scale{-1, 1}
	for _, t := range all {
		s.from, s.to = min(s.from, math.Floor(math.Log10(t.factor))), max(s.to, math.Ceil(math.Log10(t.factor)))
	}
	s.from, s.to = max(s.from, -3), min(s.to, 3)
	d := newDrawing(370, 660)
	d.caption("How far is each target reached?", "at 1 just so, to the right more; the stroke is the stretch target; the number is the row")
	bottom := d.height + line*float64(len(all)+1)
	d.axis(s, bottom, func(v float64) string { return "×" + short(v) })
	one := d.at(s, 1)
	d.line(one, d.height, one, bottom, "mark")
	var said []string
	for _, t := range all {
		x := min(max(d.at(s, t.factor), d.left), d.right)
		class := "ours"
		if !t.reached {
			class = "miss"
		}
		d.text(d.left-8, d.height+16, "end", "", fit(t.name, d.left-12))
		d.rect(min(one, x), d.height+6, max(1, math.Abs(x-one)), 12, class)
		if t.stretch > 0 {
			if at := d.at(s, t.stretch); at <= d.right {
				d.line(at, d.height+4, at, d.height+20, "mark")
			}
		}
		d.text(width-12, d.height+16, "end", "s", "×"+short(t.factor))
		said = append(said, t.name+" "+short(t.factor))
		d.height += line
	}
	d.height += 8
	return d.svg("How far is each target reached?", strings.Join(said, "; ")), true
}
