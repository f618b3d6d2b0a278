// Package admit holds the part of admission that looks at stored state, so that
// every backend refuses the same transactions and the same exports. It imports
// the root only.
package admit

import (
	"fmt"
	"iter"

	"pistore"
)

// Ids tells which ids a session holds. Errors are those of looking.
type Ids interface {
	// HasID reports whether an entry or a usage row has the id.
	HasID(id pistore.ID) (bool, error)
	// HasEntry reports whether an entry has the id.
	HasEntry(id pistore.ID) (bool, error)
}

// State is the committed state that a transaction is checked against.
type State interface {
	Ids
	// RegisterSeq returns the seq of the write that set the register, 0 if it
	// is absent.
	RegisterSeq(at pistore.Address) (pistore.Seq, error)
}

// Check tests an admitted transaction (see [pistore.Tx.Admit]) against state:
// preconditions in their order, then ids and parents in the order of the
// writes, which count for those after them. It returns a *ConflictError,
// ErrDuplicateID, ErrMissingParent, or an error of looking.
func Check(tx pistore.Tx, state State) error {
	for _, p := range tx.Expect {
		got, err := state.RegisterSeq(pistore.Address{Namespace: p.Namespace, Key: p.Key})
		if err != nil {
			return err
		}
		if got != p.Seq {
			return &pistore.ConflictError{Namespace: p.Namespace, Key: p.Key, Want: p.Seq, Got: got}
		}
	}
	own := newIDs{state: state}
	for i, w := range tx.Writes {
		var err error
		switch w := w.(type) {
		case pistore.InsertEntry:
			err = own.insert(w.ID, w.ParentID, true)
		case pistore.InsertUsage:
			err = own.insert(w.ID, "", false)
		}
		if err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	return nil
}

// newIDs are the ids of a session and those that a transaction adds to them.
type newIDs struct {
	state Ids
	// The first n of few are looked through; if there are more, all are in many
	// too. true: an entry.
	few  [fewIDs]newID
	n    int
	many map[pistore.ID]bool
}

type newID struct {
	id    pistore.ID
	entry bool
}

// fewIDs is up to how many ids it is faster to look through them.
const fewIDs = 8

func (n *newIDs) find(id pistore.ID) (entry, ok bool) {
	if n.many != nil {
		entry, ok = n.many[id]
		return entry, ok
	}
	for _, a := range n.few[:n.n] {
		if a.id == id {
			return a.entry, true
		}
	}
	return false, false
}

func (n *newIDs) add(id pistore.ID, entry bool) {
	if n.n < fewIDs {
		n.few[n.n] = newID{id, entry}
		n.n++
		return
	}
	if n.many == nil {
		n.many = make(map[pistore.ID]bool, 4*fewIDs)
		for _, a := range n.few[:n.n] {
			n.many[a.id] = a.entry
		}
	}
	n.many[id] = entry
}

func (n *newIDs) insert(id, parent pistore.ID, entry bool) error {
	if parent != "" {
		there, _ := n.find(parent)
		if !there {
			var err error
			if there, err = n.state.HasEntry(parent); err != nil {
				return err
			}
		}
		if !there {
			return fmt.Errorf("%w: entry %s names %s", pistore.ErrMissingParent, id, parent)
		}
	}
	_, there := n.find(id)
	if !there {
		var err error
		if there, err = n.state.HasID(id); err != nil {
			return err
		}
	}
	if there {
		return fmt.Errorf("%w: %s", pistore.ErrDuplicateID, id)
	}
	n.add(id, entry)
	return nil
}

// Rows checks an export while it is loaded: a Header first and only first, then
// rows of storable shape by strictly rising seq, unique ids, parents before
// children, each register once. JSON is brought into stored form. loaded tells
// of the rows yielded before; the backend keeps it up to date. The first fault
// ends the stream as ErrInvalid, ErrTooLarge, ErrDuplicateID or
// ErrMissingParent; an error of the source is passed on as it is.
func Rows(source iter.Seq2[pistore.Row, error], loaded State) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		last, n := pistore.Seq(-1), 0
		for row, err := range source {
			if err == nil {
				if row, last, err = checkRow(row, last, loaded); err != nil {
					err = fmt.Errorf("row %d: %w", n, err)
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
			n++
		}
		if n == 0 {
			yield(nil, fmt.Errorf("%w: an export without a header", pistore.ErrInvalid))
		}
	}
}

// checkRow checks one row behind the seq of the one before it, -1 at the start,
// and returns its stored form and its seq.
func checkRow(row pistore.Row, last pistore.Seq, loaded State) (pistore.Row, pistore.Seq, error) {
	if h, ok := row.(pistore.Header); ok {
		if last >= 0 {
			return nil, 0, fmt.Errorf("%w: a second header", pistore.ErrInvalid)
		}
		if h.NextSeq < 0 || h.NextSeq > pistore.MaxSeq+1 {
			return nil, 0, fmt.Errorf("%w: nextSeq %d", pistore.ErrInvalid, h.NextSeq)
		}
		return h, 0, h.Info.Check()
	}
	if last < 0 {
		return nil, 0, fmt.Errorf("%w: an export that starts with %T, not with a header", pistore.ErrInvalid, row)
	}
	var seq pistore.Seq
	var write pistore.Write
	ids := newIDs{state: loaded}
	switch r := row.(type) {
	case pistore.Entry:
		seq = r.Seq
		if r.Timestamp < 0 || r.Timestamp > pistore.MaxSeq {
			return nil, 0, fmt.Errorf("%w: entry %s at %d ms", pistore.ErrInvalid, r.ID, r.Timestamp)
		}
		write = pistore.InsertEntry{ID: r.ID, ParentID: r.ParentID, Type: r.Type, CustomType: r.CustomType, Payload: r.Payload}
	case pistore.UsageRow:
		seq = r.Seq
		write = pistore.InsertUsage{ID: r.ID, Usage: r.Usage, EntryID: r.EntryID, Adjustment: r.Adjustment, Details: r.Details}
	case pistore.Register:
		seq = r.Seq
		write = pistore.SetRegister{Namespace: r.Namespace, Key: r.Key, Value: r.Value}
	default:
		return nil, 0, fmt.Errorf("%w: unknown kind of row %T", pistore.ErrInvalid, row)
	}
	if seq <= last || seq > pistore.MaxSeq {
		return nil, 0, fmt.Errorf("%w: seq %d after %d", pistore.ErrInvalid, seq, last)
	}
	tx, err := pistore.Tx{Writes: []pistore.Write{write}}.Admit()
	if err != nil {
		return nil, 0, err
	}
	switch w := tx.Writes[0].(type) {
	case pistore.InsertEntry:
		e := row.(pistore.Entry)
		e.Payload = w.Payload
		return e, seq, ids.insert(e.ID, e.ParentID, true)
	case pistore.InsertUsage:
		u := row.(pistore.UsageRow)
		u.Usage, u.Details = w.Usage, w.Details
		return u, seq, ids.insert(u.ID, "", false)
	case pistore.SetRegister:
		r := row.(pistore.Register)
		r.Value = w.Value
		at, err := loaded.RegisterSeq(r.Address())
		if err == nil && at != 0 {
			err = fmt.Errorf("%w: register %s/%s twice", pistore.ErrInvalid, r.Namespace, r.Key)
		}
		return r, seq, err
	default:
		panic(fmt.Sprintf("admit: write %T from a row", w))
	}
}
