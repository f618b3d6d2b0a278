package page

import (
	"iter"
	"slices"
	"strconv"

	"pistore"
)

// row is one line of the outline.
type row struct {
	Href  string
	Class string // user, summary, shell …
	Depth int
	First bool // a branch begins
	Text  string
	At    string
	Full  string
	Label string
	Lanes []string
}

// maxDepth bounds how far branches of branches are moved to the right.
const maxDepth = 5

// outline lists prompts, summaries, labels, branches and where lanes stand.
// Entries that are not in the page are counted.
func (d *document) outline() (rows []row, left int) {
	most := 4 * d.limits.Rows
	for k := range d.byFork() {
		g := &d.segments[k]
		for i, at := range g.nodes {
			n := &d.nodes[at]
			begins := i == 0 && g.depth > 0 || n.parent < 0
			if !begins && n.kind != user && n.kind != summary && d.labels[n.id] == "" && len(d.lanesAt[at]) == 0 {
				continue
			}
			if !n.kept || len(rows) == most {
				left++
				continue
			}
			rows = append(rows, row{
				Href: d.href(at), Class: string(n.kind), Depth: min(g.depth, maxDepth), First: begins && g.depth > 0,
				Text: d.title(at), At: n.at.Time().UTC().Format("15:04"), Full: instant(n.at), Label: oneLine(d.labels[n.id], 60), Lanes: d.laneNames(at),
			})
		}
	}
	return rows, left
}

// byFork yields segments as a tree is read: from each fork first the branches
// that leave, then what goes on.
func (d *document) byFork() iter.Seq[int] {
	return func(yield func(int) bool) {
		var open []int
		for k := len(d.segments) - 1; k >= 0; k-- {
			if d.segments[k].parent < 0 {
				open = append(open, k)
			}
		}
		for len(open) > 0 {
			k := open[len(open)-1]
			open = open[:len(open)-1]
			if !yield(k) {
				return
			}
			children := d.segments[k].children // the one that goes on stands first
			if len(children) > 0 {
				open = append(open, children[0])
				for _, child := range slices.Backward(children[1:]) {
					open = append(open, child)
				}
			}
		}
	}
}

// title names an entry in a list.
func (d *document) title(at int) string {
	n := &d.nodes[at]
	switch {
	case n.compacts:
		return "Compaction: " + n.preview
	case n.kind == summary:
		return "Branch summary: " + n.preview
	case n.preview == "":
		return whoOf[n.kind]
	default:
		return n.preview
	}
}

func (d *document) laneNames(at int) []string {
	var names []string
	for _, l := range d.lanesAt[at] {
		names = append(names, oneLine(d.src.Lanes[l].Name, 60))
	}
	return names
}

// way is a path that can be shown: to a lane, or to the end of a branch.
type way struct {
	Segment int
	Name    string
}

func (d *document) ways() (ways []way, left int) {
	var ends []way
	for k := range d.segments {
		g := &d.segments[k]
		last := g.nodes[len(g.nodes)-1]
		lanes := d.laneNames(last)
		if g.kept == 0 || len(lanes) == 0 && len(g.children) > 0 {
			continue
		}
		if len(lanes) == 0 {
			ends = append(ends, way{k, "branch: " + oneLine(d.title(g.nodes[0]), 60)})
		}
		for _, name := range lanes {
			ways = append(ways, way{k, "lane " + name})
		}
	}
	ways = append(ways, ends...)
	if most := d.limits.Rows; len(ways) > most {
		return ways[:most], len(ways) - most
	}
	return ways, 0
}

// fork is a way on from the end of a segment.
type fork struct {
	Segment int
	Href    string
	Text    string
	Entries string
}

// forks lists the ways on from a segment, those in the page.
func (d *document) forks(g *segment) []fork {
	if len(g.children) < 2 {
		return nil
	}
	var forks []fork
	for _, k := range g.children {
		c := &d.segments[k]
		if c.kept == 0 || len(forks) == d.limits.Rows {
			continue
		}
		for _, at := range c.nodes {
			if d.nodes[at].kept {
				forks = append(forks, fork{k, d.href(at), oneLine(d.title(at), 90), counted(len(c.nodes), "entry", "entries")})
				break
			}
		}
	}
	return forks
}

// overview is the head of the page.
type overview struct {
	Title   string
	Session pistore.SessionID
	Format  string
	Facts   []fact
	Tiles   []fact
	Lanes   []laneView
	Faults  []Fault
	Errors  int
	// OmittedFaults, Incomplete, Left: what the page does not show.
	OmittedFaults string
	Incomplete    bool
	Notes         []string

	Outline     []row
	OutlineLeft string
	Ways        []way
	WaysLeft    string
	Charts      *charts
	Models      []modelRow
	ModelsLeft  string
	Total       *total
	Turns       []turnRow
	TurnsLeft   string
	Forks       int
	Empty       bool
	Made        string
}

// total is what was used in all, to the last digit.
type total struct{ Input, Cached, Output, Cost string }

type fact struct{ Name, Value, Beside string }

type laneView struct {
	Name, Doing, Model, Result, Href string
	Busy                             bool
}

func leftWords(n int, what string) string {
	if n == 0 {
		return ""
	}
	return grouped(strconv.Itoa(n)) + " more " + what + " not in this page"
}
