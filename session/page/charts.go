package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"pistore"
	"pistore/ledger"
)

// charts are what is drawn over time, on one axis.
type charts struct {
	Ticks    []tick
	Gaps     []gapView
	Rows     []barRow
	Breaks   []float64 // where context was summarized
	Cost     *costChart
	Requests *requestChart
	Model    string // time of the models, of the tools, and between
	Tools    string
	Waiting  string
	Shares   []share
}

type gapView struct {
	X, W  float64
	Title string
}

type barRow struct {
	Name string
	Bars []bar
}

// share is a part of a whole, out of chartWidth.
type share struct {
	X, W        float64
	Class, Name string
	Value       string
}

// height of a chart in its own units, which a browser stretches.
const chartHeight = 100

type costChart struct {
	Line, Area string // of an SVG path
	Steps      []step
	Top, Half  string
	Total      string
	Unplaced   string // what of the total has no time; empty: nothing
}

// step is one request on a chart.
type step struct {
	X, W  float64
	Title string
	Href  string
	Parts []part
}

// part is one of the values that stand on top of each other in a column.
type part struct {
	Y, H  float64
	Class string
}

type requestChart struct {
	Columns   []step
	Top, Half string
	Largest   string
}

// draw makes the charts; nil if there is no time to draw over.
func (d *document) draw() *charts {
	a := d.newAxis()
	if a == nil {
		return nil
	}
	c := &charts{Ticks: a.ticks(), Model: duration(a.total[model]), Tools: duration(a.total[toolResult]), Waiting: duration(a.total[other])}
	for _, g := range a.gaps {
		if g.width > 3 {
			c.Gaps = append(c.Gaps, gapView{g.x, g.width, "nothing ran for " + duration(g.ms)})
		}
	}
	for _, r := range []struct {
		name string
		kind kind
	}{{"Prompts", user}, {"Model", model}, {"Tools", toolResult}} {
		c.Rows = append(c.Rows, barRow{r.name, d.bars(a, r.kind)})
	}
	for i := range d.nodes {
		if d.nodes[i].compacts && len(c.Breaks) < d.limits.Rows {
			c.Breaks = append(c.Breaks, a.of(d.nodes[i].at))
		}
	}
	c.Shares = sharesOf(a)
	c.Cost, c.Requests = d.costs(a), d.requests(a)
	return c
}

func sharesOf(a *axis) []share {
	all := float64(a.total[model] + a.total[toolResult] + a.total[other])
	var shares []share
	x := 0.0
	for _, s := range []struct {
		kind kind
		name string
	}{{model, "Model"}, {toolResult, "Tools"}, {other, "Waiting"}} {
		w := float64(a.total[s.kind]) / max(all, 1) * chartWidth
		percent := strconv.Itoa(int(math.Round(w/chartWidth*100))) + "%"
		shares = append(shares, share{x, w, "b-" + string(s.kind), s.name, duration(a.total[s.kind]) + " · " + percent})
		x += w
	}
	return shares
}

// spenders are the entries that used something, by time.
func (d *document) spenders() []int {
	var at []int
	for i := range d.nodes {
		if d.nodes[i].spend.there {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int { return int(min(max(d.nodes[a].at-d.nodes[b].at, -1), 1)) })
	return at
}

// costs draws what was spent up to each moment.
func (d *document) costs(a *axis) *costChart {
	sum, top := 0.0, 0.0
	type point struct {
		x, sum, cost float64
		at           pistore.UnixMS
		node, count  int
	}
	var points []point
	for _, i := range d.spenders() {
		n := d.nodes[i]
		if n.spend.cost == 0 {
			continue
		}
		sum += n.spend.cost
		top = max(top, sum)
		x := a.of(n.at)
		if k := len(points) - 1; k >= 0 && x-points[k].x < 2 {
			p := &points[k]
			p.sum, p.cost, p.count, p.node, p.at = sum, p.cost+n.spend.cost, p.count+1, i, n.at
			continue
		}
		points = append(points, point{x, sum, n.spend.cost, n.at, i, 1})
	}
	if len(points) == 0 {
		return nil
	}
	top = niceTop(top)
	c := &costChart{Top: moneyTick(top), Half: moneyTick(top / 2), Total: money(sum)}
	if d.unplaced != 0 {
		c.Unplaced = money(d.unplaced)
	}
	var line strings.Builder
	for i, p := range points {
		end := float64(chartWidth)
		if i+1 < len(points) {
			end = points[i+1].x
		}
		y := chartHeight - max(p.sum, 0)/top*chartHeight
		if i == 0 {
			fmt.Fprintf(&line, "M%.1f %d", p.x, chartHeight)
		}
		fmt.Fprintf(&line, "V%.2fH%.1f", y, end)
		title := fmt.Sprintf("%s  %s so far, + %s", clock(p.at), money(p.sum), money(p.cost))
		if p.count > 1 {
			title += " in " + counted(p.count, "request", "requests")
		}
		c.Steps = append(c.Steps, step{X: p.x, W: max(end-p.x, 1), Title: title, Href: d.href(p.node)})
	}
	c.Line = line.String()
	c.Area = c.Line + fmt.Sprintf("V%dZ", chartHeight)
	return c
}

// requestBins is how many columns of requests stand beside each other at most.
const requestBins = 160

// requests draws what each request sent and got. Of requests that would stand on
// each other the largest is drawn.
func (d *document) requests(a *axis) *requestChart {
	const width = float64(chartWidth) / requestBins
	best := map[int]int{}
	counts := map[int]int{}
	top := 0.0
	for _, i := range d.spenders() {
		s := d.nodes[i].spend
		size := s.sent() + s.output
		if size <= 0 || d.nodes[i].kind != model && d.nodes[i].kind != summary {
			continue
		}
		bin := min(int(a.of(d.nodes[i].at)/width), requestBins-1)
		counts[bin]++
		if has, ok := best[bin]; !ok || size > d.nodes[has].spend.sent()+d.nodes[has].spend.output {
			best[bin] = i
		}
		top = max(top, size)
	}
	if len(best) == 0 {
		return nil
	}
	c := &requestChart{Largest: compact(top)}
	top = niceTop(top)
	c.Top, c.Half = compact(top), compact(top/2)
	for bin := range requestBins {
		i, ok := best[bin]
		if !ok {
			continue
		}
		s := d.nodes[i].spend
		col := step{X: float64(bin)*width + 0.5, W: width - 1, Href: d.href(i)}
		y := float64(chartHeight)
		for _, p := range []struct {
			value float64
			class string
		}{{s.cacheRead, "t-cached"}, {s.input + s.cacheWrite, "t-input"}, {s.output, "t-output"}} {
			h := max(p.value, 0) / top * chartHeight
			if h > 0 {
				y -= h
				col.Parts = append(col.Parts, part{y, h, p.class})
			}
		}
		col.Title = fmt.Sprintf("%s  %s from cache, %s new, %s out", clock(d.nodes[i].at), compact(s.cacheRead), compact(s.input+s.cacheWrite), compact(s.output))
		if n := counts[bin]; n > 1 {
			col.Title += fmt.Sprintf(" (the largest of %d)", n)
		}
		c.Columns = append(c.Columns, col)
	}
	return c
}

// niceTop is the least round number that is not below f.
func niceTop(f float64) float64 {
	if f <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(f)))
	for _, n := range []float64{1, 2, 4, 6, 8, 10} {
		if f <= n*unit {
			return n * unit
		}
	}
	return 10 * unit
}

// moneyTick shows a round sum of dollars.
func moneyTick(f float64) string { return "$" + strconv.FormatFloat(f, 'f', -1, 64) }

// modelRow is one model in the table of what models used.
type modelRow struct {
	Name                        string
	Requests                    string
	Input, Cached, Output, Cost string
	Share                       float64 // of the dearest, out of chartWidth
	Percent                     string
}

// modelRows lists models by cost, the dearest first.
func (d *document) modelRows() (rows []modelRow, left int) {
	if d.src.Spent == nil {
		return nil, 0
	}
	groups := d.src.Spent.By(ledger.ByModel)
	all := numberOf(pistore.JSON(d.src.Spent.Totals().Cost.Total))
	cost := func(g ledger.Group) float64 { return numberOf(pistore.JSON(g.Totals.Cost.Total)) }
	slices.SortStableFunc(groups, func(a, b ledger.Group) int {
		switch x, y := cost(a), cost(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		default:
			return 0
		}
	})
	for _, g := range groups {
		if len(rows) == 40 {
			return rows, len(groups) - len(rows)
		}
		t := g.Totals
		r := modelRow{
			Name: oneLine(firstOf(modelName(g.Provider, g.Name), "Without a model"), 100), Requests: grouped(strconv.FormatInt(t.Rows, 10)),
			Input: compactOf(t.Input), Cached: compactOf(t.CacheRead), Output: compactOf(t.Output), Cost: moneyOf(t.Cost.Total),
		}
		if dearest := cost(groups[0]); dearest > 0 {
			r.Share = max(cost(g), 0) / dearest * chartWidth
		}
		if all > 0 {
			r.Percent = strconv.Itoa(int(math.Round(cost(g)/all*100))) + "%"
		}
		rows = append(rows, r)
	}
	return rows, 0
}

// turnRow is one turn in the table beside the charts.
type turnRow struct {
	N                                          int
	Href, Prompt, At                           string
	Model, Tools, Answers, Calls, Tokens, Cost string
	Failed                                     int
}

// turn sums up what followed from a prompt.
type turn struct {
	model, tools   int64 // ms
	answers, calls int
	failed         int
	tokens, cost   float64
}

// sumTurns sums up every turn, by the entry of its prompt.
func (d *document) sumTurns() map[int]*turn {
	turns := map[int]*turn{}
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.kind == user {
			turns[i] = &turn{}
		}
		t := turns[n.turn]
		if t == nil {
			continue
		}
		switch n.kind {
		case model:
			t.model += d.took(i)
			t.answers++
			t.calls += len(n.calls)
		case toolResult:
			t.tools += d.took(i)
		}
		if n.failed {
			t.failed++
		}
		t.tokens += n.spend.sent() + n.spend.output
		t.cost += n.spend.cost
	}
	return turns
}

// words are a turn in short.
func (t *turn) words() string {
	var words []string
	if t.calls > 0 {
		words = append(words, counted(t.calls, "tool call", "tool calls"))
	}
	if t.cost != 0 {
		words = append(words, money(t.cost))
	}
	if ms := t.model + t.tools; ms > 0 {
		words = append(words, duration(ms))
	}
	if t.failed > 0 {
		words = append(words, strconv.Itoa(t.failed)+" failed")
	}
	return strings.Join(words, " · ")
}

// turnRows lists the newest turns.
func (d *document) turnRows() (rows []turnRow, left int) {
	var order []int
	for i := range d.nodes {
		if d.nodes[i].kind == user {
			order = append(order, i)
		}
	}
	left = max(0, len(order)-d.limits.Rows)
	for k, i := range order[left:] {
		n, t := &d.nodes[i], d.turns[i]
		rows = append(rows, turnRow{
			N: left + k + 1, Href: d.href(i), Prompt: firstOf(n.preview, "an empty prompt"), At: minute(n.at),
			Model: duration(t.model), Tools: duration(t.tools), Answers: grouped(strconv.Itoa(t.answers)), Calls: grouped(strconv.Itoa(t.calls)),
			Tokens: compact(t.tokens), Cost: money(t.cost), Failed: t.failed,
		})
	}
	return rows, left
}

// href is the place of an entry in the page, empty if it is not in it.
func (d *document) href(i int) string {
	if !d.nodes[i].kept {
		return ""
	}
	return "#e" + strconv.Itoa(i)
}
