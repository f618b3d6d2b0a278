package session

import (
	"context"
	"fmt"
	"slices"

	"pistore"
)

// Tree is the shape of the conversation at one moment, without payloads.
type Tree struct {
	nodes    map[pistore.ID]pistore.Entry
	children map[pistore.ID][]pistore.ID // under the empty id: the roots
	order    []pistore.ID                // by seq
	labels   map[pistore.ID]string
}

// Tree reads the shape of the whole conversation and its labels. An entry whose
// parent is missing is ErrCorrupt.
func (s *Session) Tree(ctx context.Context) (*Tree, error) {
	t := &Tree{nodes: map[pistore.ID]pistore.Entry{}, children: map[pistore.ID][]pistore.ID{}}
	for e, err := range s.storage.ScanEntries(ctx, pistore.ScanQuery{StructureOnly: true}) {
		if err != nil {
			return nil, wrap("tree", err)
		}
		if _, ok := t.nodes[e.ParentID]; !ok && e.ParentID != "" {
			info := s.storage.Info()
			return nil, &pistore.CorruptError{
				Backend: info.Format, Session: info.ID, Place: fmt.Sprintf("entry %s", e.ID), Invariant: 6,
				Problem: fmt.Sprintf("parent %s is no earlier entry", e.ParentID),
			}
		}
		t.nodes[e.ID] = e
		t.order = append(t.order, e.ID)
		t.children[e.ParentID] = append(t.children[e.ParentID], e.ID)
	}
	var err error
	t.labels, err = s.Labels(ctx)
	return t, err
}

// Entry returns an entry without its payload, and whether it is there.
func (t *Tree) Entry(id pistore.ID) (pistore.Entry, bool) {
	e, ok := t.nodes[id]
	return e, ok
}

// Label returns the label of an entry, empty if it has none.
func (t *Tree) Label(id pistore.ID) string { return t.labels[id] }

// Roots returns the entries without parent, oldest first.
func (t *Tree) Roots() []pistore.ID { return t.Children("") }

// Children returns the children of an entry, oldest first; those of the empty
// id are the roots.
func (t *Tree) Children(id pistore.ID) []pistore.ID { return slices.Clone(t.children[id]) }

// Tips returns the entries without children, oldest first.
func (t *Tree) Tips() []pistore.ID {
	var tips []pistore.ID
	for _, id := range t.order {
		if len(t.children[id]) == 0 {
			tips = append(tips, id)
		}
	}
	return tips
}

// Path returns the entries from the root to an entry, both included; nil if the
// entry is not there.
func (t *Tree) Path(id pistore.ID) []pistore.Entry {
	var path []pistore.Entry
	for id != "" {
		e, ok := t.nodes[id]
		if !ok {
			return nil
		}
		path = append(path, e)
		id = e.ParentID
	}
	slices.Reverse(path)
	return path
}
