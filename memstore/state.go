package memstore

import (
	"fmt"
	"sync"

	"pistore"
	"pistore/ledger"
)

// State is the content of one session. One writer at a time may call [State.Apply]
// and [State.RaiseNextSeq]; reads run beside it, never wait for more than the
// copying of slice headers, and see whole transactions only.
//
// Rows are trusted: a writer admits them first ([pistore.Tx.Admit] and a check
// against the state, which tells of what is there by HasID, HasEntry and
// RegisterSeq). Payloads are shared with the writer and may be empty, for a
// backend that keeps them elsewhere.
type State struct {
	info pistore.Info

	// mu guards everything below. It is held to look up and to copy, never
	// while a caller's code runs. A frozen state shares it with its origin,
	// because they share byID.
	mu *sync.RWMutex
	// entries and usage stand by rising seq.
	entries list[node]
	usage   list[pistore.UsageRow]
	// byID holds i for entry i and ^i for usage row i.
	byID     map[pistore.ID]int
	highest  pistore.ID // in byID; ids rise as a rule, being UUIDv7
	spaces   map[string]space
	last     pistore.Seq // of the newest write
	next     pistore.Seq // above last
	messages int64
	sum      ledger.Sum
	totals   pistore.Totals // of sum
}

// node is an entry of the tree.
type node struct {
	pistore.Entry
	parent int // index of the parent, -1: a root
}

// NewState returns a session without rows.
func NewState(info pistore.Info) *State {
	return &State{
		info:   info,
		mu:     new(sync.RWMutex),
		byID:   make(map[pistore.ID]int),
		spaces: make(map[string]space),
		next:   1,
		totals: ledger.Zero(),
	}
}

// Info returns what NewState was given.
func (s *State) Info() pistore.Info { return s.info }

// Apply makes the writes of a transaction, with the seqs and the timestamp it
// carries, visible all at once, and returns the statistics after it. The writes
// are admitted ones and the seqs rise above those of all writes before; anything
// else panics. A commit takes its seqs from NextSeq on, a replay may stay below
// it. The slices of t are not kept.
func (s *State) Apply(t pistore.Transaction) pistore.Stats {
	if len(t.Seqs) != len(t.Writes) {
		panic(fmt.Sprintf("memstore: %d writes with %d seqs", len(t.Writes), len(t.Seqs)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	usage := s.usage.len
	for i, w := range t.Writes {
		seq := t.Seqs[i]
		if seq <= s.last {
			panic(fmt.Sprintf("memstore: seq %d after %d", seq, s.last))
		}
		s.last, s.next = seq, max(s.next, seq+1)
		switch w := w.(type) {
		case pistore.InsertEntry:
			s.insertEntry(w, seq, t.Timestamp)
		case pistore.InsertUsage:
			s.insertUsage(w, seq)
		case pistore.SetRegister:
			s.spaces[w.Namespace] = s.spaces[w.Namespace].set(&pistore.Register{
				Namespace: w.Namespace, Key: w.Key, Value: w.Value, Seq: seq,
			})
		case pistore.DeleteRegister:
			s.deleteRegister(w)
		default:
			panic(fmt.Sprintf("memstore: write %T", w))
		}
	}
	if s.usage.len > usage {
		s.totals = s.sum.Totals()
	}
	return s.stats()
}

// load makes one admitted row of an export visible.
func (s *State) load(row pistore.Row) {
	t := pistore.Transaction{}
	var seq pistore.Seq
	var w pistore.Write
	switch r := row.(type) {
	case pistore.Entry:
		seq, t.Timestamp = r.Seq, r.Timestamp
		w = pistore.InsertEntry{ID: r.ID, ParentID: r.ParentID, Type: r.Type, CustomType: r.CustomType, Payload: r.Payload}
	case pistore.UsageRow:
		seq = r.Seq
		w = pistore.InsertUsage{ID: r.ID, Usage: r.Usage, EntryID: r.EntryID, Adjustment: r.Adjustment, Details: r.Details}
	case pistore.Register:
		seq = r.Seq
		w = pistore.SetRegister{Namespace: r.Namespace, Key: r.Key, Value: r.Value}
	default:
		panic(fmt.Sprintf("memstore: row %T", row))
	}
	t.Seqs, t.Writes = []pistore.Seq{seq}, []pistore.Write{w}
	s.Apply(t)
}

func (s *State) insertEntry(w pistore.InsertEntry, seq pistore.Seq, at pistore.UnixMS) {
	parent := -1
	if w.ParentID != "" {
		i, ok := s.find(w.ParentID)
		if !ok || i < 0 {
			panic(fmt.Sprintf("memstore: entry %s has no parent %s", w.ID, w.ParentID))
		}
		parent = i
		w.ParentID = s.entries.at(i).ID // one copy of the text is enough
	}
	s.claim(w.ID, s.entries.len)
	s.entries.append(node{parent: parent, Entry: pistore.Entry{
		ID: w.ID, ParentID: w.ParentID, Seq: seq, Timestamp: at,
		Type: w.Type, CustomType: w.CustomType, Payload: w.Payload,
	}})
	if w.Type == pistore.TypeMessage {
		s.messages++
	}
}

func (s *State) insertUsage(w pistore.InsertUsage, seq pistore.Seq) {
	s.claim(w.ID, ^s.usage.len)
	if i, ok := s.find(w.EntryID); ok && i >= 0 {
		w.EntryID = s.entries.at(i).ID // one copy of the text is enough
	}
	row := pistore.UsageRow{
		ID: w.ID, Seq: seq, Usage: w.Usage, EntryID: w.EntryID, Adjustment: w.Adjustment, Details: w.Details,
	}
	s.usage.append(row)
	s.sum.Add(row)
}

func (s *State) deleteRegister(w pistore.DeleteRegister) {
	sp := s.spaces[w.Namespace].remove(w.Key)
	if len(sp) == 0 {
		delete(s.spaces, w.Namespace)
		return
	}
	s.spaces[w.Namespace] = sp
}

func (s *State) claim(id pistore.ID, index int) {
	before := len(s.byID)
	if s.byID[id] = index; len(s.byID) == before {
		panic(fmt.Sprintf("memstore: id %s twice", id))
	}
	s.highest = max(s.highest, id)
}

// find looks an id up in byID. Most ask for a new one, or for the newest entry,
// which is the parent of the next one. The caller holds mu.
func (s *State) find(id pistore.ID) (int, bool) {
	if id > s.highest {
		return 0, false
	}
	if n := s.entries.len - 1; n >= 0 && s.entries.at(n).ID == id {
		return n, true
	}
	i, ok := s.byID[id]
	return i, ok
}

// NextSeq returns the seq of the next write.
func (s *State) NextSeq() pistore.Seq {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.next
}

// RaiseNextSeq makes next the seq of the next write, unless it is higher already.
func (s *State) RaiseNextSeq(next pistore.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, next)
}

// HasID reports whether an entry or a usage row has the id. The error is nil.
func (s *State) HasID(id pistore.ID) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.find(id)
	return ok, nil
}

// HasEntry reports whether an entry has the id. The error is nil.
func (s *State) HasEntry(id pistore.ID) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, ok := s.find(id)
	return ok && i >= 0, nil
}

// RegisterSeq returns the seq of the write that set the register, 0 if it is
// absent. The error is nil.
func (s *State) RegisterSeq(at pistore.Address) (pistore.Seq, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r, ok := s.spaces[at.Namespace].get(at.Key); ok {
		return r.Seq, nil
	}
	return 0, nil
}

// freeze returns the state as it is now, to be read only.
func (s *State) freeze() *State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	frozen := *s
	frozen.spaces = make(map[string]space, len(s.spaces))
	for name, sp := range s.spaces {
		frozen.spaces[name] = sp.clone()
	}
	return &frozen
}

// entryIndex returns the index of an entry. The bound leaves out what came into
// byID after a freeze. The caller holds mu.
func (s *State) entryIndex(id pistore.ID) (int, bool) {
	i, ok := s.find(id)
	return i, ok && i >= 0 && i < s.entries.len
}

// stats returns the statistics. The caller holds mu.
func (s *State) stats() pistore.Stats {
	return pistore.Stats{Entries: int64(s.entries.len), Messages: s.messages, Usage: s.totals}
}
