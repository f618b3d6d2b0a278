package page

import (
	"fmt"
	"math"
	"slices"

	"pistore"
)

// The activity of a session is read from the times at which entries were stored:
// what lies between an entry and its parent is the time of what the entry holds.
// An answer's is that of the model, a result's that of the tool, anything else
// is waiting for somebody. What took longer than longestRun counts as waiting
// too: more likely the program was not there.
const longestRun = 3600_000 // ms

// axis maps instants to places across a chart. Time in which nothing ran is drawn
// short, so that a night does not flatten a minute of work.
type axis struct {
	at    []pistore.UnixMS // rising
	x     []float64        // of each, from 0 to width
	gaps  []gap
	total map[kind]int64 // of model, toolResult and other, in ms
}

type gap struct {
	x, width float64
	ms       int64
}

// chartWidth is how wide charts are, in their own units.
const chartWidth = 1000

// idleShare is the part of an axis that waiting may take.
const idleShare = 0.18

// newAxis makes the axis of a session; nil if it has fewer than two instants.
func (d *document) newAxis() *axis {
	order := make([]int, 0, len(d.nodes))
	for i := range d.nodes {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(max(d.nodes[a].at-d.nodes[b].at, -1), 1)) })
	a := &axis{total: map[kind]int64{}}
	var busy []bool
	for _, i := range order {
		n := d.nodes[i]
		runs := n.kind == model || n.kind == toolResult
		if k := len(a.at); k > 0 && n.at-a.at[k-1] > longestRun {
			runs = false
		}
		if len(a.at) > 0 && a.at[len(a.at)-1] == n.at {
			continue
		}
		if k := len(a.at); k > 0 {
			ms := int64(n.at - a.at[k-1])
			if !runs {
				a.total[other] += ms
			} else {
				a.total[n.kind] += ms
			}
		}
		a.at, busy = append(a.at, n.at), append(busy, runs)
	}
	if len(a.at) < 2 {
		return nil
	}
	a.place(busy)
	return a
}

// place lays the instants out. busy says of each whether something ran before it.
func (a *axis) place(busy []bool) {
	work, waits := 0.0, 0
	for i := 1; i < len(a.at); i++ {
		if busy[i] {
			work += float64(a.at[i] - a.at[i-1])
		} else {
			waits++
		}
	}
	longest := math.Inf(1)
	if work > 0 && waits > 0 {
		longest = work * idleShare / (1 - idleShare) / float64(waits)
	}
	a.x = make([]float64, len(a.at))
	for i := 1; i < len(a.at); i++ {
		ms := float64(a.at[i] - a.at[i-1])
		if !busy[i] {
			ms = min(ms, longest)
		}
		a.x[i] = a.x[i-1] + ms
	}
	scale := chartWidth / a.x[len(a.x)-1]
	for i := range a.x {
		a.x[i] *= scale
	}
	for i := 1; i < len(a.at); i++ {
		if ms := a.at[i] - a.at[i-1]; !busy[i] && float64(ms) > 2*longest {
			a.gaps = append(a.gaps, gap{a.x[i-1], a.x[i] - a.x[i-1], int64(ms)})
		}
	}
}

// of returns the place of an instant.
func (a *axis) of(t pistore.UnixMS) float64 {
	i, found := slices.BinarySearch(a.at, t)
	switch {
	case found:
		return a.x[i]
	case i == 0:
		return 0
	case i == len(a.at):
		return chartWidth
	}
	part := float64(t-a.at[i-1]) / float64(a.at[i]-a.at[i-1])
	return a.x[i-1] + part*(a.x[i]-a.x[i-1])
}

// when returns the instant at a place.
func (a *axis) when(x float64) pistore.UnixMS {
	i, _ := slices.BinarySearch(a.x, x)
	switch {
	case i == 0:
		return a.at[0]
	case i == len(a.x):
		return a.at[i-1]
	}
	if a.x[i] == a.x[i-1] {
		return a.at[i]
	}
	part := (x - a.x[i-1]) / (a.x[i] - a.x[i-1])
	return a.at[i-1] + pistore.UnixMS(part*float64(a.at[i]-a.at[i-1]))
}

// tick is a mark below a chart.
type tick struct {
	X      float64
	Anchor string
	Label  string
}

// ticks name instants across the axis, with the day where it changes.
func (a *axis) ticks() []tick {
	const n = 5
	var ticks []tick
	day := ""
	for i := range n {
		x := float64(i) * chartWidth / (n - 1)
		t := a.when(x).Time().UTC()
		label := t.Format("15:04:05")
		switch span := a.at[len(a.at)-1] - a.at[0]; {
		case span > 3600_000:
			label = t.Format("15:04")
		case span < 10_000:
			label = t.Format("15:04:05.000")
		}
		if today := t.Format("2 Jan"); today != day {
			day = today
			label = today + ", " + label
		}
		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case n - 1:
			anchor = "end"
		}
		ticks = append(ticks, tick{x, anchor, label})
	}
	return ticks
}

// bar is a stretch in which somebody was busy.
type bar struct {
	X, W   float64
	Class  string
	Title  string
	from   pistore.UnixMS
	to     pistore.UnixMS
	ms     int64
	count  int
	failed int
	what   string
	Href   string
}

// took is how long an answer or a result took, 0 if that is not known.
func (d *document) took(i int) int64 {
	n := &d.nodes[i]
	if n.parent < 0 || n.kind != model && n.kind != toolResult {
		return 0
	}
	ms := int64(n.at - d.nodes[n.parent].at)
	if ms < 0 || ms > longestRun {
		return 0
	}
	return ms
}

// bars returns the stretches of one kind. Those that stand closer together than
// can be seen are one.
func (d *document) bars(a *axis, k kind) []bar {
	var bars []bar
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.kind != k {
			continue
		}
		b := bar{from: n.at, to: n.at, count: 1, what: oneLine(n.preview, 80), Href: d.href(i)}
		if n.failed {
			b.failed = 1
		}
		if b.ms = d.took(i); k != user {
			b.from = n.at - pistore.UnixMS(b.ms)
		}
		b.X = a.of(b.from)
		b.W = max(a.of(b.to)-b.X, 0)
		bars = append(bars, b)
	}
	slices.SortStableFunc(bars, func(p, q bar) int { return int(min(max(p.from-q.from, -1), 1)) })
	merged := bars[:0]
	for _, b := range bars {
		if k := len(merged) - 1; k >= 0 && b.X-(merged[k].X+merged[k].W) < 0.4 && (b.W < 3 || merged[k].W < 3) && (b.failed > 0) == (merged[k].failed > 0) {
			m := &merged[k]
			m.W = max(m.X+m.W, b.X+b.W) - m.X
			m.to, m.ms, m.count, m.failed, m.what = max(m.to, b.to), m.ms+b.ms, m.count+b.count, m.failed+b.failed, ""
			continue
		}
		merged = append(merged, b)
	}
	for i := range merged {
		merged[i].finish(k)
	}
	return merged
}

func (b *bar) finish(k kind) {
	b.W = min(max(b.W, 2), chartWidth)
	b.X = max(min(b.X, chartWidth-b.W), 0)
	b.Class = "b-" + string(k)
	names := map[kind][2]string{user: {"prompt", "prompts"}, model: {"answer", "answers"}, toolResult: {"tool result", "tool results"}}[k]
	b.Title = clock(b.from) + "  " + counted(b.count, names[0], names[1])
	if b.ms > 0 {
		b.Title += ", " + duration(b.ms)
	}
	if b.failed > 0 {
		b.Class += " b-failed"
		b.Title += fmt.Sprintf(", %d failed", b.failed)
	}
	if b.what != "" {
		b.Title += ": " + b.what
	}
}
