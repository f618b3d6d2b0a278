package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pistore"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// maxBranchDepth bounds how far branches of branches are moved to the right.
const maxBranchDepth = 8

// printTree prints the tree as one column: what goes on stays where it is, and
// each branch that leaves it comes before, one step to the right. The way to
// where lane main stands, else to the newest entry, is what goes on. A free line
// parts what no parent connects.
func printTree(p *paper, v *survey, lanes []laneView) {
	standing := map[pistore.ID][]string{}
	for _, l := range lanes {
		if l.LeafID != "" {
			standing[l.LeafID] = append(standing[l.LeafID], l.Name)
		}
	}
	newest := v.newestBelow(lanes)
	type branch struct{ at, depth int }
	var open []branch // the last comes first
	firstRoot := 0
	for i, n := range slices.Backward(v.nodes) {
		if n.parent < 0 {
			firstRoot = i
			open = append(open, branch{i, 0})
		}
	}
	if len(open) == 0 {
		p.line(dim("  no entries"))
	}
	for len(open) > 0 {
		b := open[len(open)-1]
		open = open[:len(open)-1]
		n := v.nodes[b.at]
		if n.parent < 0 && b.at != firstRoot {
			p.blank()
		}
		first := n.parent >= 0 && newest[n.parent] != b.at
		printTreeRow(p, v, n, b.depth, first, standing[n.entry.ID])
		// Pushed in the order opposite to printing: what goes on is printed last.
		if on, ok := newest[b.at]; ok {
			open = append(open, branch{on, b.depth})
			for _, child := range slices.Backward(v.childrenOf(n)) {
				if child != on {
					open = append(open, branch{child, b.depth + 1})
				}
			}
		}
	}
}

// newestBelow returns, for each entry with children, the child that goes on.
func (v *survey) newestBelow(lanes []laneView) map[int]int {
	reach := make([]int, len(v.nodes)) // newest entry below each
	on := map[int]int{}
	for i := len(v.nodes) - 1; i >= 0; i-- {
		reach[i] = max(reach[i], i)
		parent := v.nodes[i].parent
		if parent < 0 {
			continue
		}
		if best, ok := on[parent]; !ok || reach[i] > reach[best] {
			on[parent] = i
		}
		reach[parent] = max(reach[parent], reach[i])
	}
	if len(lanes) > 0 && lanes[0].Name == "main" {
		if i, ok := v.byID[lanes[0].LeafID]; ok {
			for ; v.nodes[i].parent >= 0; i = v.nodes[i].parent {
				on[v.nodes[i].parent] = i
			}
		}
	}
	return on
}

func printTreeRow(p *paper, v *survey, n node, depth int, first bool, lanes []string) {
	e := n.entry
	rails := strings.Repeat("│ ", min(depth, maxBranchDepth))
	if first {
		rails = strings.Repeat("│ ", min(depth, maxBranchDepth)-1) + "├─"
	}
	if depth > maxBranchDepth {
		rails += fmt.Sprintf("+%d ", depth-maxBranchDepth)
	}
	kind, style := kindOf(n), plain
	switch {
	case n.bad:
		style = red
	case e.Type != pistore.TypeMessage:
		style = yellow
	}
	id := pad(safe(v.short(e.ID)), 8)
	marks := ""
	for _, lane := range lanes {
		marks += " [" + brief(lane, 20) + "]"
	}
	if label := v.label(e.ID); label != "" {
		marks += " #" + brief(label, 20)
	}
	text := n.preview
	if e.ParentID != "" && n.parent < 0 {
		text = "its parent " + shortID(e.ParentID) + " is missing; " + text
		style = red
	}
	room := columns - 2 - width(rails) - 2 - width(id) - 12
	marks = cut(marks, max(room, 1))
	text = brief(firstLine(text), max(room-width(marks), 1))
	p.line(plain("  "), dim(rails), plain("• "), dim(id), plain(" "), style(pad(brief(kind, 10), 10)), plain(" "), plain(text), cyan(marks))
}

// kindOf is the word for an entry in a tree.
func kindOf(n node) string {
	switch n.entry.Type {
	case pistore.TypeMessage:
		switch n.role {
		case "toolResult":
			return "result"
		case "bashExecution":
			return "bash"
		default:
			return n.role
		}
	case pistore.TypeBranchSummary:
		return "summary"
	case pistore.TypeCustom:
		return n.entry.CustomType
	default:
		return string(n.entry.Type)
	}
}
