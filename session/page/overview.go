package page

import (
	"fmt"
	"strconv"

	"pistore"
)

// overview sums the session up.
func (d *document) overview() overview {
	info := d.header.Info
	o := overview{
		Title: firstOf(oneLine(d.name, 200), d.firstPrompt(), "Session "+oneLine(string(info.ID), 80)), Session: info.ID, Format: info.Format,
		Incomplete: d.broken || d.src.Incomplete, Charts: d.draw(), Empty: len(d.nodes) == 0,
		Made: instant(d.src.MadeAt) + " UTC by " + d.src.MadeBy,
	}
	left := 0
	o.Outline, left = d.outline()
	o.OutlineLeft = leftWords(left, "rows are")
	o.Ways, left = d.ways()
	o.WaysLeft = leftWords(left, "branches are")
	o.Models, left = d.modelRows()
	o.ModelsLeft = leftWords(left, "models are")
	o.Turns, left = d.turnRows()
	o.TurnsLeft = leftWords(left, "turns, older ones, are")
	o.Facts, o.Tiles, o.Lanes = d.facts(), d.tiles(len(o.Turns)+left), d.lanes()
	if s := d.src.Spent; s != nil {
		t := s.Totals()
		o.Total = &total{groupedOf(t.Input), groupedOf(t.CacheRead), groupedOf(t.Output), "$" + groupedOf(t.Cost.Total)}
	}
	for _, f := range d.src.Faults {
		f.Name, f.Place, f.ID, f.Message = oneLine(f.Name, 80), oneLine(f.Place, 200), oneLine(f.ID, 80), oneLine(f.Message, 2000)
		o.Faults = append(o.Faults, f)
		if !f.Warning {
			o.Errors++
		}
	}
	if most := d.limits.Rows; len(o.Faults) > most {
		d.src.OmittedFaults += int64(len(o.Faults) - most)
		o.Faults = o.Faults[:most]
	}
	o.OmittedFaults = leftWords(int(d.src.OmittedFaults), "faults are")
	if n := len(d.nodes) - d.keptEntries; n > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%s of %s are not in this page, which holds the newest of each branch. \"pistore show\" and \"pistore inspect --entry\" show them.",
			grouped(strconv.Itoa(n)), counted(len(d.nodes), "entry", "entries")))
	}
	return o
}

// firstPrompt stands for the name of a session that has none.
func (d *document) firstPrompt() string {
	for i := range d.nodes {
		if n := &d.nodes[i]; n.kind == user && n.preview != "" {
			return oneLine(n.preview, 90)
		}
	}
	return ""
}

func (d *document) facts() []fact {
	info := d.header.Info
	facts := []fact{{"Session", oneLine(string(info.ID), 200), ""}, {"Format", info.Format, ""}, {"Begun", instant(info.CreatedAt) + " UTC", ""}}
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, fact{name, value, ""})
		}
	}
	if n := len(d.nodes); n > 0 {
		newest := d.nodes[0].at
		for i := range d.nodes {
			newest = max(newest, d.nodes[i].at)
		}
		add("Newest entry", instant(newest)+" UTC")
	}
	add("Directory", oneLine(info.CWD, 400))
	add("Forked from", firstOf(oneLine(string(info.ParentSessionID), 200), oneLine(info.LegacyParentPath, 400)))
	if d.src.Bytes > 0 {
		add("Size", sizeWords(d.src.Bytes))
	}
	if d.src.TornBytes > 0 {
		add("Torn", sizeWords(d.src.TornBytes)+" at the end, set aside")
	}
	return facts
}

func (d *document) tiles(turns int) []fact {
	calls, failed, tips := 0, 0, 0
	for i := range d.nodes {
		n := &d.nodes[i]
		calls += len(n.calls)
		if n.failed {
			failed++
		}
		if len(n.children) == 0 {
			tips++
		}
	}
	tiles := []fact{
		{"Turns", grouped(strconv.Itoa(turns)), counted(len(d.nodes), "entry", "entries") + branchWords(tips)},
		{"Tool calls", grouped(strconv.Itoa(calls)), failedWords(failed)},
	}
	if d.src.Spent != nil {
		t := d.src.Spent.Totals()
		tiles = append(tiles,
			fact{"Cost", moneyOf(t.Cost.Total), aTurn(numberOf(pistore.JSON(t.Cost.Total)), turns)},
			fact{"Tokens", compactOf(t.TotalTokens), compactOf(t.CacheRead) + " of them from cache"})
	}
	return tiles
}

func aTurn(cost float64, turns int) string {
	if turns == 0 || cost <= 0 {
		return ""
	}
	return money(cost/float64(turns)) + " a turn"
}

func branchWords(tips int) string {
	if tips < 2 {
		return ""
	}
	return ", " + strconv.Itoa(tips) + " branch ends"
}

func failedWords(n int) string {
	if n == 0 {
		return "nothing failed"
	}
	return counted(n, "entry", "entries") + " marked failed"
}

func (d *document) lanes() []laneView {
	var lanes []laneView
	for _, l := range d.src.Lanes {
		v := laneView{Name: oneLine(l.Name, 200), Doing: oneLine(l.Doing, 400), Model: oneLine(l.Model, 200), Result: oneLine(l.Result, 400), Busy: l.Busy}
		if at, ok := d.byID[l.Leaf]; ok {
			v.Href = d.href(at)
		}
		lanes = append(lanes, v)
		if len(lanes) == d.limits.Rows {
			break
		}
	}
	return lanes
}
