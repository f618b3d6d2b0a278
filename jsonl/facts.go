package jsonl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
)

// writeFacts writes the name and the labels: the latest in the order of the
// file, on whatever branch they stand.
func (im *importer) writeFacts(w *writer) {
	name := pistore.JSON("")
	labels := map[int32]pistore.JSON{} // by record
	for n := range im.records {
		i := int32(n)
		switch im.records[i].typ {
		case typeSessionInfo:
			if value, ok := im.factText(i, "name"); ok {
				name = value
			}
		case typeLabel:
			target := im.labelTarget(i)
			value, ok := im.factText(i, "label")
			switch {
			case target < 0 || !ok:
			case value == "":
				delete(labels, target)
			default:
				labels[target] = value
			}
		}
	}
	if name != "" {
		w.write(pistore.SetRegister{Namespace: registers.FactNameNS, Value: name}, 0)
	}
	targets := make([]int32, 0, len(labels))
	for target := range labels {
		targets = append(targets, target)
	}
	// By key, which is the order in which registers are cheapest to set.
	slices.SortFunc(targets, func(a, b int32) int { return cmp.Compare(im.ids[a], im.ids[b]) })
	for _, target := range targets {
		w.write(pistore.SetRegister{Namespace: registers.FactLabelNS, Key: string(im.ids[target]), Value: labels[target]}, 0)
	}
}

// factText returns a name or a label as it stands, empty if it clears what was
// there before. ok is false for one that is no text, which changes nothing.
func (im *importer) factText(index int32, memberName string) (value pistore.JSON, ok bool) {
	value, ok = nameValue(im.records[index].body, memberName)
	if !ok {
		im.warnAt(kindUnusable, im.at(index), index, fmt.Sprintf("the %s is %s instead of a text; it changes nothing", memberName, kindOf(string(value))))
	}
	return value, ok
}

// nameValue reads a name or a label; blank, null and absent ones clear.
func nameValue(text pistore.JSON, memberName string) (value pistore.JSON, ok bool) {
	value, _ = text.Member(memberName)
	if value == "" || value == "null" {
		return "", true
	}
	s, ok := value.Text()
	if ok && (s == "" || memberName == "name" && strings.TrimSpace(s) == "") {
		return "", true
	}
	return value, ok
}

// labelTarget returns the entry that a label belongs to: its target, or the
// nearest retained ancestor of that, -1 if there is none.
func (im *importer) labelTarget(index int32) int32 {
	value, _ := im.records[index].body.Member("targetId")
	id, ok := value.Text()
	target, known := im.byID[id]
	switch {
	case !ok:
		im.dangling(index, "a label without targetId")
		return -1
	case !known:
		im.dangling(index, fmt.Sprintf("a label of %s, which is nowhere in the file", show(id)))
		return -1
	case im.mapped[target] < 0:
		im.dangling(index, fmt.Sprintf("a label of %s, which leaves the tree and has no entry above it", show(id)))
	}
	return im.mapped[target]
}

// settings reads the changes that the leaf stands under. The nearest one counts
// even where it cannot be read: an older value is not in force.
func (im *importer) settings(r *Report) {
	var model, thinking, tools bool
	for at := im.last; at >= 0 && !(model && thinking && tools); at = im.records[at].parent {
		body := im.records[at].body
		switch typ := im.records[at].typ; {
		case typ == typeModelChange && !model:
			model = true
			provider, _ := body.Member("provider")
			modelID, _ := body.Member("modelId")
			p, okP := provider.Text()
			m, okM := modelID.Text()
			if okP && okM {
				r.Model = &Model{strings.Clone(p), strings.Clone(m)}
			}
		case typ == typeThinkingChange && !thinking:
			thinking = true
			level, _ := body.Member("thinkingLevel")
			s, _ := level.Text()
			r.ThinkingLevel = strings.Clone(s)
		case typ == typeToolsChange && !tools:
			tools = true
			names, _ := body.Member("activeToolNames")
			for e := range names.Elements() {
				if s, ok := e.Text(); ok {
					r.ActiveTools = append(r.ActiveTools, strings.Clone(s))
				}
			}
		}
	}
}

// leaf reports where the file ends, and whether metadata at its end hides that
// a branch goes on below.
func (im *importer) leaf(r *Report) {
	if im.last < 0 {
		return
	}
	r.LeafID = im.records[im.last].legacy
	leaf := im.mapped[im.last]
	if leaf < 0 {
		return
	}
	r.LegacyLeafID = im.records[leaf].legacy
	if leaf == im.last {
		return
	}
	below := make([]int32, len(im.records)) // retained records below the leaf, on the path
	tip := leaf
	for i := range im.inOrder {
		up := im.ancestor(i)
		if im.mapped[i] != i || up < 0 || up != leaf && below[up] == 0 {
			continue
		}
		if below[i] = below[up] + 1; below[i] > below[tip] {
			tip = i
		}
	}
	if tip == leaf {
		return
	}
	r.LongerBranch = &LongerBranch{LegacyTipID: im.records[tip].legacy, TipID: im.ids[tip], Entries: int(below[tip])}
	entries := "entries"
	if below[tip] == 1 {
		entries = "entry"
	}
	im.warnAt(kindLongerBranch, im.at(im.last), im.last, fmt.Sprintf(
		"the file ends in metadata that points back to %s; a longer branch goes on below it, %d %s to %s",
		show(r.LegacyLeafID), below[tip], entries, show(r.LongerBranch.LegacyTipID)))
}
