package jsonl

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"pistore"
)

// tree is the shape of the records, by their index. Nothing here recurses: a
// chain may be as long as the file.
type tree struct {
	order []int32 // parents before children; nil: the order of the file
	depth []int32 // of the record in the tree of all records
	// jump is an ancestor far enough away that any other is found in a logarithm
	// of steps: the jump pointers of Myers, "An applicative random-access stack",
	// Information Processing Letters 17 (1983).
	jump   []int32
	mapped []int32      // the nearest ancestor, or the record itself, that is retained
	shown  []int32      // likewise, that matters to a context
	ids    []pistore.ID // of retained records and usage records
}

// resolve finds the parents that are still open: standing later in the file, or
// nowhere.
func (im *importer) resolve() {
	forward := false
	for _, ref := range im.unresolved {
		l := im.at(ref.record)
		parent, known := im.byID[ref.id]
		switch {
		case ref.id == "":
			im.failAt(kindMissingParent, 6, l, ref.record, "a record without a parent id: it starts an island")
		case !known:
			im.failAt(kindMissingParent, 6, l, ref.record, fmt.Sprintf("the parent %s is nowhere in the file: the record starts an island", show(ref.id)))
		default:
			forward = true
			im.records[ref.record].parent = parent
			if parent != ref.record {
				im.warnAt(kindForward, l, ref.record, fmt.Sprintf("the parent %s stands later in the file, in line %d", show(ref.id), im.records[parent].line))
			}
		}
	}
	im.unresolved = nil
	if forward {
		im.cutCycles()
		im.sort()
	}
}

// cutCycles makes the first record of each cycle a root.
func (im *importer) cutCycles() {
	const open, done = 1, 2
	state := make([]uint8, len(im.records))
	var path []int32
	for i := range im.records {
		path = path[:0]
		at := int32(i)
		for at >= 0 && state[at] == 0 {
			state[at] = open
			path = append(path, at)
			at = im.records[at].parent
		}
		if at >= 0 && state[at] == open {
			cycle := path[slices.Index(path, at):]
			first := slices.Min(cycle)
			im.records[first].parent = -1
			im.failAt(kindCycle, 6, im.at(first), first, cycleOf(len(cycle))+"; it is cut at this record, which starts an island")
		}
		for _, v := range path {
			state[v] = done
		}
	}
}

func cycleOf(n int) string {
	if n == 1 {
		return "the record is its own parent"
	}
	return fmt.Sprintf("%d records are parents of each other in a cycle", n)
}

// sort orders the records: as in the file, but one that stands before its
// parent comes directly behind it, with all that waited for it.
func (im *importer) sort() {
	im.order = make([]int32, 0, len(im.records))
	placed := make([]bool, len(im.records))
	waiting := map[int32][]int32{}
	var stack []int32
	for i := range im.records {
		if parent := im.records[i].parent; parent >= 0 && !placed[parent] {
			waiting[parent] = append(waiting[parent], int32(i))
			continue
		}
		stack = append(stack, int32(i))
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			placed[at] = true
			im.order = append(im.order, at)
			behind := waiting[at]
			delete(waiting, at)
			slices.Reverse(behind)
			stack = append(stack, behind...)
		}
	}
}

// inOrder yields the index of every record, parents before children.
func (im *importer) inOrder(yield func(int32) bool) {
	for n := range im.records {
		i := int32(n)
		if im.order != nil {
			i = im.order[n]
		}
		if !yield(i) {
			return
		}
	}
}

// shape computes times, depths, ancestors and ids.
func (im *importer) shape() {
	n := len(im.records)
	im.depth, im.jump, im.mapped, im.shown = make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
	im.ids = make([]pistore.ID, n)
	for i := range im.inOrder {
		r := &im.records[i]
		up, upTime := r.parent, im.header.time
		im.mapped[i], im.shown[i], im.jump[i] = -1, -1, -1
		if up >= 0 {
			upTime = im.records[up].time
			im.depth[i] = im.depth[up] + 1
			im.mapped[i], im.shown[i] = im.mapped[up], im.shown[up]
			im.jump[i] = up
			if j := im.jump[up]; j >= 0 && im.jump[j] >= 0 && im.depth[up]-im.depth[j] == im.depth[j]-im.depth[im.jump[j]] {
				im.jump[i] = im.jump[j]
			}
		}
		if r.time < 0 {
			r.time = max(upTime, 0)
		}
		if r.typ.retained() {
			im.mapped[i] = i
		}
		switch r.typ {
		case typeMessage, typeCustomMessage, typeBranchSummary, typeContextEdit:
			im.shown[i] = i
		}
		if r.typ.retained() || r.typ == typeUsage {
			im.ids[i] = im.deriveID(r.time, r.legacy)
		}
	}
}

// ancestor returns the nearest retained ancestor of a record, -1 if it has none.
func (im *importer) ancestor(index int32) int32 {
	up := im.records[index].parent
	if up < 0 {
		return -1
	}
	return im.mapped[up]
}

// entryID returns the id of a retained record, empty for -1.
func (im *importer) entryID(index int32) pistore.ID {
	if index < 0 {
		return ""
	}
	return im.ids[index]
}

// isAncestor reports whether a stands on the path from the root to b, b included.
func (im *importer) isAncestor(a, b int32) bool {
	for b >= 0 && im.depth[b] > im.depth[a] {
		if j := im.jump[b]; j >= 0 && im.depth[j] >= im.depth[a] {
			b = j
		} else {
			b = im.records[b].parent
		}
	}
	return a == b
}

// deriveID returns the id of what a record becomes: its time, and a hash of
// what names it, so that every opening gives the same.
func (im *importer) deriveID(t int64, legacy string) pistore.ID {
	text := make([]byte, 0, 192)
	text = append(text, "pistore-import-1"...)
	text = append(text, im.header.id...)
	text = append(text, 0)
	text = append(text, legacy...)
	hash := sha256.Sum256(text)
	return pistore.UUIDv7(pistore.UnixMS(t), hash[:10])
}
