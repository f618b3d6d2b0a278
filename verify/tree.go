package verify

import (
	"errors"
	"slices"

	"pistore"
)

// checkParents checks that every parent exists and stands before its child.
func (c *checker) checkParents() {
	for i := range c.rows.nodes {
		n := &c.rows.nodes[i]
		if n.parent != lostParent {
			continue
		}
		parent := c.rows.parentID(i)
		if later := c.rows.entry(parent); later != nil {
			c.row(6, n.id, n.seq, "its parent %.140q was written after it, at seq %d", string(parent), later.seq)
		} else {
			c.row(6, n.id, n.seq, "its parent %.140q does not exist", string(parent))
		}
	}
}

// checkBranches compares what the store yields for branches with the chain of
// parents. Every entry is reached from a tip; a walk stops where an earlier one
// has been, so that the work is that of the entries, however many branches
// there are.
func (c *checker) checkBranches() error {
	seen := make([]bool, len(c.rows.nodes))
	for i := len(seen) - 1; i >= 0; i-- {
		n := &c.rows.nodes[i]
		if n.inner || n.repeated {
			continue
		}
		chain, whole := c.chain(i, seen)
		if err := c.checkBranch(chain, whole); err != nil {
			return err
		}
	}
	return nil
}

// chain returns the entries from a tip down to the root or to the first that was
// seen, inclusive, and whether it ends there and not at a parent that is lost.
func (c *checker) chain(tip int, seen []bool) (chain []int32, whole bool) {
	for i := int32(tip); ; i = c.rows.nodes[i].parent {
		if i == lostParent {
			return chain, false
		}
		if i == noParent {
			return chain, true
		}
		chain = append(chain, i)
		if seen[i] {
			return chain, true
		}
		seen[i] = true
	}
}

func (c *checker) checkBranch(chain []int32, whole bool) error {
	nodes := c.rows.nodes
	tip, end := &nodes[chain[0]], &nodes[chain[len(chain)-1]]
	i := 0
	for e, err := range c.storage.Branch(c.ctx, pistore.BranchQuery{Start: tip.id, StopAtID: end.id, StructureOnly: true}) {
		switch {
		case errors.Is(err, pistore.ErrNotFound):
			c.row(10, tip.id, tip.seq, "the branch index does not know the entry")
			return nil
		case errors.Is(err, pistore.ErrCorrupt) && !whole:
			return nil // the lost parent, which is reported
		case err != nil:
			return err
		}
		if i == len(chain) {
			c.row(10, tip.id, tip.seq, "the branch goes on at %.140q behind its end, %.140q", string(e.ID), string(end.id))
			return nil
		}
		if want := int(chain[i]); !c.rows.same(want, e) {
			n := &nodes[want]
			c.row(10, n.id, n.seq, "on the branch of %.140q: %s", string(tip.id), c.rows.difference(want, e))
			return nil
		}
		i++
	}
	if i < len(chain) {
		c.row(10, nodes[chain[i]].id, nodes[chain[i]].seq, "the branch of %.140q ends before this entry", string(tip.id))
	}
	return nil
}

// same reports whether an entry read elsewhere has the structure of entry i.
func (r *rows) same(i int, e pistore.Entry) bool {
	n := &r.nodes[i]
	return n.id == e.ID && r.parentID(i) == e.ParentID && n.seq == e.Seq && n.timestamp == e.Timestamp &&
		n.kind == e.Type && n.customType == e.CustomType
}

// difference says how an entry read elsewhere differs from entry i.
func (r *rows) difference(i int, e pistore.Entry) string {
	switch n, parent := &r.nodes[i], r.parentID(i); {
	case n.id != e.ID:
		return quoted(e.ID) + " is found instead"
	case parent != e.ParentID:
		return "its parent is found to be " + quoted(e.ParentID) + " instead of " + quoted(parent)
	case n.seq != e.Seq:
		return "its seq is found to be another"
	case n.timestamp != e.Timestamp:
		return "its timestamp is found to be another"
	default:
		return "its type is found to be another"
	}
}

// missingOn reports which of the wanted entries are missing on the way from a leaf to
// the root. Entries are older than their children, so the walk ends behind the
// oldest that is wanted.
func (r *rows) missingOn(leaf pistore.ID, wanted []pistore.ID) []pistore.ID {
	i, ok := r.byID[leaf]
	if !ok || i < 0 {
		return nil
	}
	missing := slices.Clone(wanted)
	oldest := r.nodes[i].seq
	for _, id := range wanted {
		if n := r.entry(id); n != nil {
			oldest = min(oldest, n.seq)
		}
	}
	for ; i >= 0 && r.nodes[i].seq >= oldest && len(missing) > 0; i = r.nodes[i].parent {
		if at := slices.Index(missing, r.nodes[i].id); at >= 0 {
			missing = slices.Delete(missing, at, at+1)
		}
	}
	return missing
}
