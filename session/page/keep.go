package page

import "slices"

// keep decides which entries are in the page with their content: the path of the
// first lane from its tip backwards, with the larger part of what there is room
// for, then those of the other lanes, then whatever else is newest.
func (d *document) keep() {
	entries, bytes := d.limits.Entries, d.limits.Bytes
	tips := d.tips()
	for i, tip := range tips {
		spareEntries, spareBytes := 0, int64(0)
		if i == 0 && len(tips) > 1 {
			spareEntries, spareBytes = d.limits.Entries/4, d.limits.Bytes/4
		}
		for at := tip; at >= 0 && !d.nodes[at].kept; at = d.nodes[at].parent {
			n := &d.nodes[at]
			if entries <= spareEntries || bytes-int64(n.bytes) < spareBytes {
				break
			}
			n.kept = true
			d.keptEntries++
			entries--
			bytes -= int64(n.bytes)
		}
	}
}

// tips are where lanes stand, in the order of the lanes, then the other ends of
// branches, newest first.
func (d *document) tips() []int {
	var tips []int
	for _, l := range d.src.Lanes {
		if at, ok := d.byID[l.Leaf]; ok {
			tips = append(tips, at)
		}
	}
	lanes := len(tips)
	for i, n := range slices.Backward(d.nodes) {
		if len(n.children) == 0 && !slices.Contains(tips[:lanes], i) {
			tips = append(tips, i)
		}
	}
	return tips
}

// segment is a stretch of entries without a fork in it, and without a lane
// standing anywhere but at its end.
type segment struct {
	nodes    []int
	parent   int // segment; -1: none
	children []int
	depth    int // how many forks it lies off the main path
	kept     int // entries with content
}

// split makes segments, in an order in which every path from a root to a tip
// reads from top to bottom, and the main path comes in one piece.
func (d *document) split() {
	on := d.mainChildren()
	type start struct{ at, parent, depth int }
	var open []start
	first := d.firstRoot()
	for i := len(d.nodes) - 1; i >= 0; i-- {
		if d.nodes[i].parent < 0 && i != first {
			open = append(open, start{i, -1, 0})
		}
	}
	if first >= 0 {
		open = append(open, start{first, -1, 0})
	}
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		number := len(d.segments)
		g := segment{parent: s.parent, depth: s.depth}
		at := s.at
		for {
			n := &d.nodes[at]
			n.seg = number
			g.nodes = append(g.nodes, at)
			if n.kept {
				g.kept++
			}
			if len(n.children) != 1 || len(d.lanesAt[at]) > 0 {
				break
			}
			at = n.children[0]
		}
		d.segments = append(d.segments, g)
		if g.parent >= 0 {
			d.segments[g.parent].children = append(d.segments[g.parent].children, number)
		}
		// The main child is taken first, so it is pushed last.
		for _, child := range slices.Backward(d.nodes[at].children) {
			if child != on[at] {
				open = append(open, start{child, number, s.depth + 1})
			}
		}
		if main, ok := on[at]; ok {
			open = append(open, start{main, number, s.depth})
		}
	}
}

// mainChildren returns, for each entry with children, the one that goes on: to
// where the first lane stands, else to what is newest.
func (d *document) mainChildren() map[int]int {
	reach := make([]int, len(d.nodes))
	on := map[int]int{}
	for i := len(d.nodes) - 1; i >= 0; i-- {
		reach[i] = max(reach[i], i)
		parent := d.nodes[i].parent
		if parent < 0 {
			continue
		}
		if best, ok := on[parent]; !ok || reach[i] > reach[best] {
			on[parent] = i
		}
		reach[parent] = max(reach[parent], reach[i])
	}
	for at := d.firstLeaf(); at >= 0; at = d.nodes[at].parent {
		if p := d.nodes[at].parent; p >= 0 {
			on[p] = at
		}
	}
	return on
}

// firstLeaf is where the first lane stands, -1 if nowhere.
func (d *document) firstLeaf() int {
	if len(d.src.Lanes) > 0 {
		if at, ok := d.byID[d.src.Lanes[0].Leaf]; ok {
			return at
		}
	}
	return -1
}

// firstRoot is where the path of the first lane begins, -1 if there is none.
func (d *document) firstRoot() int {
	at := d.firstLeaf()
	for at >= 0 && d.nodes[at].parent >= 0 {
		at = d.nodes[at].parent
	}
	return at
}

// unit is what is shown as one piece: an entry, and with an answer the results
// of its calls.
type unit struct {
	node    int
	results []int // one for each call; -1: not here
}

// units returns what a segment shows. A result belongs to its call where only
// results stand between them; any other is shown by itself.
func (d *document) units(g segment) []unit {
	var units []unit
	taken := map[int]bool{}
	for i, at := range g.nodes {
		n := &d.nodes[at]
		if !n.kept || taken[at] {
			continue
		}
		u := unit{node: at}
		if len(n.calls) > 0 {
			byCall := map[string]int{}
			for _, next := range g.nodes[i+1:] {
				if r := &d.nodes[next]; r.kind != toolResult {
					break
				} else if _, twice := byCall[r.callOf]; r.kept && !twice {
					byCall[r.callOf] = next
				}
			}
			for _, call := range n.calls {
				result, ok := byCall[call]
				if !ok || taken[result] {
					result = -1
				} else {
					taken[result] = true
				}
				u.results = append(u.results, result)
			}
		}
		units = append(units, u)
	}
	return units
}
