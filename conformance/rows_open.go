package conformance

import (
	"errors"
	"fmt"

	"pistore"
)

func readOnlyRows() []row {
	needs := []Capability{NoReadOnly}
	return []row{
		{id: "RO-01", title: "a session opened read-only shows its content", needs: []Capability{NoReadOnly, NoReopen},
			advice: "every read works on a read-only handle", check: readOnlyContent},
		{id: "RO-02", title: "a commit to a read-only session is ErrReadOnly and writes nothing", needs: []Capability{NoReadOnly, NoReopen},
			advice: "refuse every transaction of a read-only handle before admission", check: readOnlyCommit},
		{id: "RO-03", title: "read-only handles take no ownership", needs: []Capability{NoReadOnly, NoReopen},
			advice: "a read-only handle takes no lock: neither another one nor a writer is kept out by it", check: readOnlyOwnership},
		{id: "RO-04", title: "beside a writer a read-only handle shows whole transactions", needs: needs, inv: []int{2},
			advice: "open on a consistent snapshot; ErrBusy is legal while the writer is very busy", check: readOnlyBesideWriter},
		{id: "RO-05", title: "an unknown session is ErrNotFound read-only too, and is not created", needs: needs,
			advice: "opening read-only creates nothing", check: readOnlyUnknown},
	}
}

func readOnlyContent(p *probe) {
	s := p.modelled()
	s.rich()
	p.noError("Close", s.st.Close())
	s.pl.reopen()
	ro := s.pl.openSession(s.id, pistore.ReadOnly)
	ro.wantModel(s.m, "opened read-only")
	equal(p, "info", ro.st.Info().ID, s.id)
	equal(p, "branch", entryIDs(ro.branch(pistore.BranchQuery{Start: "e3"})), []pistore.ID{"e3", "e2", "e1"})
	equal(p, "register", ro.register("ns", "c").Value, `[]`)
	p.check(len(ro.entries("e1", "e4")) == 2, "entries by id are missing")
	p.noError("Close of a read-only handle", ro.st.Close())
}

func readOnlyCommit(p *probe) {
	s := p.session()
	s.commit(message("e", ""), set("k", `1`))
	before := s.state("ns")
	p.noError("Close", s.st.Close())
	s.pl.reopen()
	ro := s.pl.openSession(s.id, pistore.ReadOnly)
	for _, w := range []pistore.Write{message("f", ""), set("k", `2`), del("k"), usage("u", `{}`)} {
		ro.refuse(pistore.ErrReadOnly, txOf(w))
	}
	equal(p, "state after refused commits", ro.state("ns"), before)
	p.noError("Close", ro.st.Close())
	equal(p, "state opened for writing", s.pl.openSession(s.id, pistore.ReadWrite).state("ns"), before)
}

func readOnlyOwnership(p *probe) {
	s := p.session()
	s.commit(message("e", ""))
	p.noError("Close", s.st.Close())
	s.pl.reopen()
	first, second := s.pl.openSession(s.id, pistore.ReadOnly), s.pl.openSession(s.id, pistore.ReadOnly)
	writer, err := s.pl.backend.Open(p.ctx, s.id, pistore.ReadWrite)
	p.noError("opening for writing beside read-only handles", err)
	p.noError("Close of the writer", writer.Close())
	for _, ro := range []*session{first, second} {
		p.check(len(ro.entries("e")) == 1, "a read-only handle lost its content")
		p.noError("Close of a read-only handle", ro.st.Close())
	}
}

func readOnlyBesideWriter(p *probe) {
	s := p.session()
	seen := 0
	for i := range 20 {
		id := pistore.ID(fmt.Sprint(i))
		s.commit(message("e"+id, ""), usage("u"+id, `{}`), set("k"+string(id), `1`))
		st, err := s.pl.backend.Open(p.ctx, s.id, pistore.ReadOnly)
		if errors.Is(err, pistore.ErrBusy) {
			continue
		}
		p.noError("opening read-only beside a writer", err)
		ro := &session{p: p, pl: s.pl, st: st, id: s.id}
		s.commit(message("f"+id, ""), usage("v"+id, `{}`), set("l"+string(id), `1`))
		got := ro.state("ns")
		n := len(got.Entries)
		p.check(n == len(got.Usage) || n == len(got.Usage)+1, "read-only beside a writer: %d entries, %d usage rows: part of a transaction", n, len(got.Usage))
		p.check(n >= seen, "read-only beside a writer: %d entries, an earlier handle showed %d", n, seen)
		seen = n
		ro.refuse(pistore.ErrReadOnly, txOf(set("k", `2`)))
		p.noError("Close of a read-only handle", st.Close())
	}
	_, err := s.try(txOf(message("last", "")))
	p.noError("commit after read-only handles came and went", err)
}

func readOnlyUnknown(p *probe) {
	pl := p.place()
	for _, mode := range []pistore.Mode{pistore.ReadOnly, pistore.ReadWrite} {
		_, err := pl.backend.Open(p.ctx, "nobody", mode)
		p.wantError(fmt.Sprintf("opening an unknown session in mode %d", mode), err, pistore.ErrNotFound)
	}
}

func ownershipRows() []row {
	needs := []Capability{NoOwnership}
	return []row{
		{id: "OWN-01", title: "a second opening for writing is ErrLocked", needs: needs,
			advice: "one owner per session, within one process too", check: secondOwner},
		{id: "OWN-02", title: "closing releases ownership", needs: []Capability{NoOwnership, NoReopen},
			advice: "release the lock in Close, after the last admitted commit", check: ownerReleased},
		{id: "OWN-03", title: "a refused opener does not disturb the owner", needs: needs,
			advice: "touch nothing of the session before the lock is taken", check: ownerUndisturbed},
		{id: "OWN-04", title: "a second backend at the same place does not get in", needs: needs,
			advice: "lock the place or the session on disk; opening the backend or opening the session is ErrLocked", check: secondBackend},
		{id: "OWN-05", title: "sessions are owned one by one", needs: []Capability{NoOwnership, NoSessions},
			advice: "a session that is open does not keep others of the backend from being opened", check: ownedOneByOne},
		{id: "OWN-06", title: "a session that is open for writing cannot be deleted", needs: []Capability{NoOwnership, NoDelete},
			advice: "deleting takes ownership first: ErrLocked", check: deleteOwned},
	}
}

func secondOwner(p *probe) {
	s := p.session()
	_, err := s.pl.backend.Open(p.ctx, s.id, pistore.ReadWrite)
	p.wantError("opening for writing what Create has open", err, pistore.ErrLocked)
	if p.cfg.reopens() {
		s.reopen()
		_, err = s.pl.backend.Open(p.ctx, s.id, pistore.ReadWrite)
		p.wantError("opening for writing what Open has open", err, pistore.ErrLocked)
	}
}

func ownerReleased(p *probe) {
	s := p.session()
	for range 3 {
		p.noError("Close", s.st.Close())
		s.st = s.pl.openSession(s.id, pistore.ReadWrite).st
	}
	_, err := s.try(txOf(set("k", `1`)))
	p.noError("commit of the last owner", err)
}

func ownerUndisturbed(p *probe) {
	s := p.session()
	s.commit(message("e", ""))
	for range 3 {
		_, err := s.pl.backend.Open(p.ctx, s.id, pistore.ReadWrite)
		p.check(err != nil, "a second owner was let in")
	}
	s.commit(message("f", "e"))
	p.check(len(s.entries("e", "f")) == 2, "the owner's entries are missing")
	if p.cfg.reopens() {
		s.reopen()
		p.check(len(s.entries("e", "f")) == 2, "the owner's entries are missing after reopening")
	}
}

func secondBackend(p *probe) {
	if p.cfg.Volatile {
		p.skipf("the backend is volatile: nothing is shared between two of them")
	}
	s := p.session()
	second, err := p.open(s.pl.dir)
	if err == nil {
		_, err = second.Open(p.ctx, s.id, pistore.ReadWrite)
		p.noError("closing the second backend", second.Close())
	}
	p.wantError("opening the session in a second backend", err, pistore.ErrLocked)
	_, err = s.try(txOf(set("k", `1`)))
	p.noError("commit of the owner", err)
}

func ownedOneByOne(p *probe) {
	pl := p.place()
	a, b := pl.session(pistore.Info{}), pl.session(pistore.Info{})
	p.noError("Close", b.st.Close())
	if p.cfg.reopens() {
		b.st = pl.openSession(b.id, pistore.ReadWrite).st
		_, err := b.try(txOf(set("k", `1`)))
		p.noError("commit to the second session", err)
	}
	_, err := a.try(txOf(set("k", `1`)))
	p.noError("commit to the first session", err)
}

func deleteOwned(p *probe) {
	s := p.session()
	s.commit(message("e", ""))
	p.wantError("deleting a session that is open for writing", s.pl.backend.Delete(p.ctx, s.id), pistore.ErrLocked)
	p.check(len(s.entries("e")) == 1, "the session lost its content")
	_, err := s.try(txOf(message("f", "e")))
	p.noError("commit after the refused delete", err)
	p.noError("Close", s.st.Close())
	p.noError("deleting the closed session", s.pl.backend.Delete(p.ctx, s.id))
}
