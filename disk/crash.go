package disk

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// Crash returns the file system as a power cut may leave it, by the choices of
// rng. What was synced is there. Of the rest each change of names is done or
// undone, and each file has its old content, its new content, or some sectors of
// either; a sector that was never written reads as NULs, and the length may be
// any in between. The file system itself is left as it is, like the memory of a
// machine that is gone.
func (m *Memory) Crash(rng *rand.Rand) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := &Memory{last: m.last}
	after.root = after.survive(m.root, rng, map[*node]*node{})
	return after
}

// Die returns the file system as the death of all its users leaves it: everything
// that was written is there, synced or not as it was, and nobody has a file open
// or locked. The file system itself is left to those who do not know yet.
func (m *Memory) Die() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := &Memory{last: m.last}
	after.root = m.root.inherit(map[*node]*node{})
	return after
}

// inherit copies a node and what it holds, or held.
func (n *node) inherit(known map[*node]*node) *node {
	if left := known[n]; left != nil {
		return left
	}
	left := &node{inode: n.inode, mode: n.mode, data: slices.Clone(n.data), durable: slices.Clone(n.durable)}
	known[n] = left
	if n.names == nil {
		return left
	}
	left.names, left.durableNames, left.lock = map[string]*node{}, map[string]*node{}, make(chan struct{}, 1)
	for name, held := range n.names {
		left.names[name] = held.inherit(known)
	}
	for name, held := range n.durableNames {
		left.durableNames[name] = held.inherit(known)
	}
	for _, c := range n.pending {
		if c.node != nil {
			c.node = c.node.inherit(known)
		}
		left.pending = append(left.pending, c)
	}
	return left
}

// survive returns what is left of a node. One file of several names is one file
// still.
func (m *Memory) survive(n *node, rng *rand.Rand, known map[*node]*node) *node {
	if left := known[n]; left != nil {
		return left
	}
	left := &node{inode: n.inode, mode: n.mode}
	known[n] = left
	if n.names == nil {
		left.data = tear(n.durable, n.data, rng)
		left.durable = slices.Clone(left.data)
		return left
	}
	left.names, left.lock = map[string]*node{}, make(chan struct{}, 1)
	names := maps.Clone(n.durableNames)
	inOrder := rng.IntN(2) == 0 // as a journal would have it
	upTo := rng.IntN(len(n.pending) + 1)
	for i, c := range n.pending {
		if inOrder && i >= upTo || !inOrder && rng.IntN(2) == 0 {
			continue
		}
		delete(names, c.gone)
		if c.name != "" {
			names[c.name] = c.node
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		left.names[name] = m.survive(names[name], rng, known)
	}
	left.durableNames = maps.Clone(left.names)
	return left
}

// tear mixes the old and the new content of a file.
func tear(old, now []byte, rng *rand.Rand) []byte {
	if len(old) == len(now) && string(old) == string(now) {
		return slices.Clone(now)
	}
	switch rng.IntN(4) {
	case 0:
		return slices.Clone(old)
	case 1:
		return slices.Clone(now)
	}
	size := len(now)
	switch shorter, longer := min(len(old), len(now)), max(len(old), len(now)); rng.IntN(3) {
	case 0:
		size = shorter + rng.IntN(longer-shorter+1)
	case 1:
		size = len(old)
	}
	mixed := make([]byte, size)
	for at := 0; at < size; at += sector {
		from := old
		if rng.IntN(2) == 0 {
			from = now
		}
		end := min(at+sector, size)
		if at < len(from) {
			copy(mixed[at:end], from[at:])
		}
	}
	return mixed
}
