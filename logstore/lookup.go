package logstore

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// lookup answers what admission asks about one session's committed state, and
// remembers the seqs of the parents that it found. It is an admit.State.
type lookup struct {
	view view
	// idTimeEnd is above the time of every UUIDv7 of the session.
	idTimeEnd pistore.UnixMS
	// newest is the entry that was inserted last: the usual parent.
	newest idAt
	// found are other parents that were looked up; made when needed.
	found map[pistore.ID]pistore.Seq
}

type idAt struct {
	id  pistore.ID
	seq pistore.Seq
}

// isNew reports whether an id is new by its time alone.
func (l *lookup) isNew(id pistore.ID) bool {
	t, ok := id.Time()
	return ok && t >= l.idTimeEnd
}

// HasID implements admit.Ids. Most ids are new, so it asks the filters first,
// those of the last level too, which a plain get leaves out.
func (l *lookup) HasID(id pistore.ID) (found bool, err error) {
	if l.isNew(id) {
		return false, nil
	}
	key := idKey(l.view.ord, id)
	err = l.view.eng.call("read", func() (err error) {
		it, err := l.view.src.NewIter(&pebble.IterOptions{UseL6Filters: true})
		if err != nil {
			return l.view.readError(key, err)
		}
		defer func() { err = l.view.closed(it, key, err) }()
		found = it.SeekPrefixGE(key) && bytes.Equal(it.Key(), key)
		return nil
	})
	return found, err
}

// HasEntry implements admit.Ids.
func (l *lookup) HasEntry(id pistore.ID) (bool, error) {
	if id == l.newest.id {
		return true, nil
	}
	if l.isNew(id) {
		return false, nil
	}
	if _, ok := l.found[id]; ok {
		return true, nil
	}
	row, found, err := l.view.idRow(id)
	if err != nil || !found || row.usage {
		return false, err
	}
	l.remember(id, row.seq)
	return true, nil
}

// remember keeps where an entry is for as long as the transaction lasts.
func (l *lookup) remember(id pistore.ID, seq pistore.Seq) {
	if l.found == nil {
		l.found = make(map[pistore.ID]pistore.Seq)
	}
	l.found[id] = seq
}

// RegisterSeq implements admit.State.
func (l *lookup) RegisterSeq(at pistore.Address) (seq pistore.Seq, err error) {
	_, err = l.view.get(registerKey(l.view.ord, at.Namespace, at.Key), func(value []byte) (err error) {
		seq, _, err = l.view.codec.register(value, false)
		return err
	})
	return seq, err
}

// parentSeq returns the seq of a parent that admission found, 0 for none.
func (l *lookup) parentSeq(parent pistore.ID) pistore.Seq {
	switch parent {
	case "":
		return 0
	case l.newest.id:
		return l.newest.seq
	default:
		return l.found[parent]
	}
}

// inserted takes note of an entry, for those that name it as their parent.
func (l *lookup) inserted(id pistore.ID, seq pistore.Seq) {
	if l.newest.id != "" {
		l.remember(l.newest.id, l.newest.seq)
	}
	l.newest = idAt{id, seq}
	l.note(id)
}

// note keeps idTimeEnd above an id that was inserted.
func (l *lookup) note(id pistore.ID) {
	if t, ok := id.Time(); ok {
		l.idTimeEnd = max(l.idTimeEnd, t+1)
	}
}
