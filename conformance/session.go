package conformance

import (
	"fmt"

	"pistore"
)

// session is one session under test, open for writing.
type session struct {
	p       *probe
	pl      *place
	st      pistore.Storage
	id      pistore.SessionID
	commits int
}

// session creates a session at a new place.
func (p *probe) session() *session { return p.place().session(pistore.Info{CWD: "/work"}) }

func (pl *place) session(info pistore.Info) *session {
	st, err := pl.backend.Create(pl.p.ctx, info)
	pl.p.noError("creating a session", err)
	return &session{p: pl.p, pl: pl, st: st, id: st.Info().ID}
}

// open opens an existing session.
func (pl *place) openSession(id pistore.SessionID, mode pistore.Mode) *session {
	st, err := pl.backend.Open(pl.p.ctx, id, mode)
	pl.p.noError(fmt.Sprintf("opening session %s", id), err)
	return &session{p: pl.p, pl: pl, st: st, id: id}
}

// reopen closes the session and its backend and opens both again.
func (s *session) reopen() {
	s.p.noError("closing the session", s.st.Close())
	s.pl.reopen()
	s.st = s.pl.openSession(s.id, pistore.ReadWrite).st
}

func (s *session) reopenHandle() {
	s.p.noError("closing the session", s.st.Close())
	s.st = s.pl.openSession(s.id, pistore.ReadWrite).st
}

// try commits and returns what the backend says.
func (s *session) try(tx pistore.Tx) (pistore.Receipt, error) {
	s.p.commits.Add(1)
	return s.st.Commit(s.p.ctx, tx)
}

// commit makes a transaction of writes that has to succeed.
func (s *session) commit(writes ...pistore.Write) pistore.Receipt {
	return s.commitTx(pistore.Tx{Writes: writes})
}

func (s *session) commitTx(tx pistore.Tx) pistore.Receipt {
	r, err := s.try(tx)
	s.p.noError("commit of "+describe(tx), err)
	if len(r.Seqs) != len(tx.Writes) {
		s.p.failf("commit of %d writes: the receipt has %d seqs", len(tx.Writes), len(r.Seqs))
	}
	s.commits++
	if n := s.p.cfg.ReopenEvery; n > 0 && s.commits%n == 0 && s.p.cfg.reopens() {
		s.reopenHandle() // not the backend: the row may have other sessions of it open
	}
	return r
}

// refuse makes a transaction that has to fail with an error that matches target.
func (s *session) refuse(target error, tx pistore.Tx) error {
	_, err := s.try(tx)
	s.p.wantError("commit of "+describe(tx), err, target)
	return err
}

// refuseLimit makes a transaction of one write that has to fail with a
// *LimitError of these numbers.
func (s *session) refuseLimit(what string, w pistore.Write, got, limit int64) {
	s.p.checkLimit(what, s.refuse(pistore.ErrTooLarge, pistore.Tx{Writes: []pistore.Write{w}}), got, limit)
}

func (s *session) entries(ids ...pistore.ID) []pistore.Entry {
	got, err := s.st.Entries(s.p.ctx, ids)
	s.p.noError("entries by id", err)
	sortBySeq(got)
	return got
}

// entry returns one entry that has to exist.
func (s *session) entry(id pistore.ID) pistore.Entry {
	got := s.entries(id)
	if len(got) != 1 {
		s.p.failf("entry %q: %d entries returned, want it", id, len(got))
	}
	return got[0]
}

func (s *session) registers(at ...pistore.Address) []pistore.Register {
	got, err := s.st.Registers(s.p.ctx, at)
	s.p.noError("registers by address", err)
	sortBySeq(got)
	return got
}

// register returns one register, the zero one if it is absent.
func (s *session) register(namespace, key string) pistore.Register {
	got := s.registers(pistore.Address{Namespace: namespace, Key: key})
	switch len(got) {
	case 0:
		return pistore.Register{}
	case 1:
		return got[0]
	default:
		s.p.failf("register %q/%q: %d registers returned for one address", namespace, key, len(got))
		return pistore.Register{}
	}
}

func (s *session) prefix(namespace, prefix string) []pistore.Register {
	return read(s.p, fmt.Sprintf("registers of %q by prefix %q", namespace, prefix),
		s.st.RegistersByPrefix(s.p.ctx, namespace, prefix))
}

func (s *session) branch(q pistore.BranchQuery) []pistore.Entry {
	return read(s.p, fmt.Sprintf("branch %+v", q), s.st.Branch(s.p.ctx, q))
}

func (s *session) scanEntries(q pistore.ScanQuery) []pistore.Entry {
	return read(s.p, fmt.Sprintf("scan of entries %+v", q), s.st.ScanEntries(s.p.ctx, q))
}

func (s *session) scanUsage(q pistore.ScanQuery) []pistore.UsageRow {
	return read(s.p, fmt.Sprintf("scan of usage %+v", q), s.st.ScanUsage(s.p.ctx, q))
}

func (s *session) stats() pistore.Stats {
	stats, err := s.st.Stats(s.p.ctx)
	s.p.noError("stats", err)
	return stats
}

// export returns the header and the rows behind it.
func (s *session) export() (pistore.Header, []pistore.Row) {
	all := read(s.p, "export", s.st.Export(s.p.ctx))
	if len(all) == 0 {
		s.p.failf("export: no rows, want a header at least")
	}
	h, ok := all[0].(pistore.Header)
	if !ok {
		s.p.failf("export: starts with %T, not with a header", all[0])
	}
	return h, all[1:]
}

func (s *session) digest() string {
	d, err := pistore.Digest(s.p.ctx, s.st)
	s.p.noError("digest", err)
	return d
}

// state is everything that reads show of a session, without needing Export.
type state struct {
	Entries   []pistore.Entry
	Usage     []pistore.UsageRow
	Registers []pistore.Register
	Stats     pistore.Stats
}

// state reads the session; registers are those of the namespaces, in turn.
func (s *session) state(namespaces ...string) state {
	st := state{
		Entries: s.scanEntries(pistore.ScanQuery{}),
		Usage:   s.scanUsage(pistore.ScanQuery{}),
		Stats:   s.stats(),
	}
	for _, ns := range namespaces {
		st.Registers = append(st.Registers, s.prefix(ns, "")...)
	}
	return st
}

// Short forms, since rows are made of writes.

func message(id, parent pistore.ID) pistore.InsertEntry {
	return pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: `{"role":"user"}`}
}

func entryOf(id, parent pistore.ID, t pistore.EntryType, customType string) pistore.InsertEntry {
	return pistore.InsertEntry{ID: id, ParentID: parent, Type: t, CustomType: customType, Payload: `{"n":1}`}
}

func usage(id pistore.ID, usage pistore.JSON) pistore.InsertUsage {
	return pistore.InsertUsage{ID: id, Usage: usage}
}

func set(key string, value pistore.JSON) pistore.SetRegister {
	return pistore.SetRegister{Namespace: "ns", Key: key, Value: value}
}

func del(key string) pistore.DeleteRegister {
	return pistore.DeleteRegister{Namespace: "ns", Key: key}
}

func expect(key string, seq pistore.Seq) pistore.Precondition {
	return pistore.Precondition{Namespace: "ns", Key: key, Seq: seq}
}

func txOf(writes ...pistore.Write) pistore.Tx { return pistore.Tx{Writes: writes} }

func entryIDs(entries []pistore.Entry) []pistore.ID {
	ids := make([]pistore.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

func keys(registers []pistore.Register) []string {
	keys := make([]string, len(registers))
	for i, r := range registers {
		keys[i] = r.Key
	}
	return keys
}
