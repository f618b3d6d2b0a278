package conformance

import (
	"slices"
	"strings"

	"pistore"
)

func backendRows() []row {
	several := []Capability{NoSessions}
	return []row{
		{id: "BAK-01", title: "a session keeps the Info it was created with",
			advice: "take every field of the Info but Generation, StorageVersion and Format, which the backend sets", check: createInfo},
		{id: "BAK-02", title: "what the Info leaves open is minted", needs: several,
			advice: "an empty id becomes a new UUIDv7, CreatedAt 0 the present; each session has a random generation of its own", check: createMinted},
		{id: "BAK-03", title: "a session id in use is ErrDuplicateID, and that session is untouched",
			advice: "Create makes new sessions only", check: createDuplicate},
		{id: "BAK-04", title: "an Info that cannot be stored is refused",
			advice: "call Info.Check in Create", check: createInvalid},
		{id: "BAK-05", title: "any valid session id works", needs: several,
			advice: "session ids are not only UUIDs: escape them where they become file names, and tell a from A on any file system", check: oddSessionIDs},
		{id: "BAK-06", title: "sessions share nothing", needs: several,
			advice: "ids, registers, seqs and statistics are per session", check: sessionsApart},
		{id: "BAK-07", title: "the list is every session by id", needs: append(several, NoList),
			advice: "yield each session once, with its Info, in bytewise order of the ids, open ones too", check: listSessions},
		{id: "BAK-08", title: "a deleted session is gone, and only that", needs: append(several, NoDelete),
			advice: "remove the session and everything in it: Open, Delete and List no longer know it", check: deleteSession},
		{id: "BAK-09", title: "the id of a deleted session is free, and nothing of the old one shows", needs: []Capability{NoDelete}, inv: []int{4},
			advice: "remove every row of a deleted session, so that a new one under its id starts empty", check: deleteAndCreate},
	}
}

func createInfo(p *probe) {
	want := pistore.Info{ID: "session", CreatedAt: 1, CWD: "/work\u2028 \"x\"", ParentSessionID: "other session"}
	if !p.cfg.lacks(NoLoad) { // an import is what brings one
		want.LegacyParentPath = "../old.jsonl"
	}
	got := p.place().session(want).st.Info()
	p.check((got.Generation != "" || p.cfg.lacks(NoGeneration)) && got.Format != "" && got.StorageVersion == pistore.StorageVersion,
		"generation %q, format %q, storage version %d: want a mark, a name, and %d", got.Generation, got.Format, got.StorageVersion, pistore.StorageVersion)
	got.Generation, got.Format, got.StorageVersion = "", "", 0
	equal(p, "info", got, want)
}

func createMinted(p *probe) {
	pl := p.place()
	a, b := pl.session(pistore.Info{}).st.Info(), pl.session(pistore.Info{}).st.Info()
	for _, info := range []pistore.Info{a, b} {
		p.noError("check of the minted id", info.ID.Check())
		_, uuid := pistore.ID(info.ID).Time()
		p.check(uuid, "minted session id %q is no UUIDv7", info.ID)
		p.check(info.CreatedAt >= 0 && info.CreatedAt <= pistore.MaxSeq, "created at %d", info.CreatedAt)
	}
	p.check(a.ID != b.ID, "two sessions were given the id %s", a.ID)
	p.check(a.Generation != b.Generation || p.cfg.lacks(NoGeneration), "two sessions have the generation %s", a.Generation)
}

func createDuplicate(p *probe) {
	pl := p.place()
	s := pl.session(pistore.Info{ID: "session", CWD: "/first"})
	s.commit(message("e", ""))
	create := func(when string) {
		_, err := pl.backend.Create(p.ctx, pistore.Info{ID: "session", CWD: "/second"})
		p.wantError("creating a session whose id is in use"+when, err, pistore.ErrDuplicateID)
	}
	create("")
	p.check(len(s.entries("e")) == 1, "the session lost its content")
	if p.cfg.reopens() {
		p.noError("Close", s.st.Close())
		create(", closed")
		pl.reopen()
		create(", after reopening the backend")
		s.st = pl.openSession("session", pistore.ReadWrite).st
		equal(p, "working directory", s.st.Info().CWD, "/first")
		p.check(len(s.entries("e")) == 1, "the session lost its content")
	}
}

func createInvalid(p *probe) {
	pl := p.place()
	for _, c := range []struct {
		info pistore.Info
		want error
	}{
		{pistore.Info{ID: "a\n"}, pistore.ErrInvalid},
		{pistore.Info{ID: "\xff"}, pistore.ErrInvalid},
		{pistore.Info{ID: pistore.SessionID(strings.Repeat("x", pistore.MaxIDBytes+1))}, pistore.ErrTooLarge},
		{pistore.Info{ID: "s", ParentSessionID: "\x00"}, pistore.ErrInvalid},
		{pistore.Info{ID: "s", CreatedAt: -1}, pistore.ErrInvalid},
		{pistore.Info{ID: "s", CreatedAt: pistore.MaxSeq + 1}, pistore.ErrInvalid},
		{pistore.Info{ID: "s", CWD: "/\xff"}, pistore.ErrInvalid},
		{pistore.Info{ID: "s", CWD: strings.Repeat("x", pistore.MaxPathBytes+1)}, pistore.ErrTooLarge},
		{pistore.Info{ID: "s", LegacyParentPath: "\x00"}, pistore.ErrInvalid},
	} {
		_, err := pl.backend.Create(p.ctx, c.info)
		p.wantError("creating a session of info "+short(c.info.ID)+" "+short(c.info.CWD), err, c.want)
	}
	_, err := pl.backend.Open(p.ctx, "s", pistore.ReadWrite)
	p.wantError("opening the session that was refused", err, pistore.ErrNotFound)
}

// oddSessionIDs has a session with a plain id beside the others: what that one
// loses is not lost for its id.
func oddSessionIDs(p *probe) {
	pl := p.place()
	ids := append([]pistore.ID{"plain"}, oddIDs...)
	for _, id := range ids {
		s := pl.session(pistore.Info{ID: pistore.SessionID(id)})
		s.commit(set("id", pistore.QuoteJSON(string(id))))
		p.noError("Close", s.st.Close())
	}
	if !p.cfg.reopens() {
		return
	}
	pl.reopen()
	for _, id := range ids {
		s := pl.openSession(pistore.SessionID(id), pistore.ReadWrite)
		value := s.register("ns", "id").Value
		if id == "plain" && value == "" {
			panic(verdict{outcome: Fail, why: "the one register that session " + short(id) + " held is gone after reopening",
				advice: "this is not about ids: a commit of one register has to be stored, by Close at the latest"})
		}
		equal(p, "register of session "+short(id), value, pistore.QuoteJSON(string(id)))
		equal(p, "id of session "+short(id), s.st.Info().ID, pistore.SessionID(id))
	}
}

func sessionsApart(p *probe) {
	pl := p.place()
	a, b := pl.session(pistore.Info{ID: "a"}), pl.session(pistore.Info{ID: "ab"})
	a.commit(message("e", ""), usage("u", `{"input":1}`), set("k", `"a"`))
	equal(p, "the other session", b.state("ns"), state{Stats: pistore.Stats{Usage: zeroTotals()}})
	b.refuse(pistore.ErrMissingParent, txOf(message("f", "e")))
	b.commit(entryOf("e", "", pistore.TypeCompaction, ""), usage("u", `{"input":2}`), set("k", `"b"`), del("k"))
	p.check(a.entry("e").Type == pistore.TypeMessage, "an entry of one session replaced that of another")
	p.check(a.register("ns", "k").Value == `"a"`, "a register of one session replaced that of another")
	p.check(a.stats().Usage.Input == "1" && b.stats().Usage.Input == "2", "usage of two sessions was mixed")
}

func listSessions(p *probe) {
	pl := p.place()
	equal(p, "list of an empty backend", len(read(p, "List", pl.backend.List(p.ctx))), 0)
	var want []pistore.Info
	for _, id := range []pistore.SessionID{"b", "a", "\U00010000", "\uffff", "B", "c"} {
		s := pl.session(pistore.Info{ID: id, CWD: "/" + string(id), CreatedAt: 5})
		s.commit(message("e", ""))
		want = append(want, s.st.Info())
		if id != "c" { // one stays open
			p.noError("Close", s.st.Close())
		}
	}
	slices.SortFunc(want, func(a, b pistore.Info) int { return strings.Compare(string(a.ID), string(b.ID)) })
	equal(p, "list", read(p, "List", pl.backend.List(p.ctx)), want)
	if p.cfg.reopens() {
		pl.reopen()
		equal(p, "list after reopening", read(p, "List", pl.backend.List(p.ctx)), want)
	}
	for info, err := range pl.backend.List(p.ctx) {
		p.noError("List", err)
		equal(p, "first of the list", info.ID, "B")
		break
	}
}

func deleteSession(p *probe) {
	pl := p.place()
	p.wantError("deleting an unknown session", pl.backend.Delete(p.ctx, "nobody"), pistore.ErrNotFound)
	for _, id := range []pistore.SessionID{"a", "aa", "b"} {
		s := pl.session(pistore.Info{ID: id})
		s.commit(message("e", ""), set("k", `1`))
		p.noError("Close", s.st.Close())
	}
	p.noError("Delete", pl.backend.Delete(p.ctx, "a"))
	gone := func(when string) {
		_, err := pl.backend.Open(p.ctx, "a", pistore.ReadWrite)
		p.wantError("opening a deleted session"+when, err, pistore.ErrNotFound)
		p.wantError("deleting a deleted session"+when, pl.backend.Delete(p.ctx, "a"), pistore.ErrNotFound)
	}
	gone("")
	if p.cfg.reopens() {
		pl.reopen()
		gone(" after reopening the backend")
		for _, id := range []pistore.SessionID{"aa", "b"} {
			p.check(len(pl.openSession(id, pistore.ReadWrite).entries("e")) == 1, "session %s lost its content", id)
		}
	}
	if !p.cfg.lacks(NoList) {
		p.check(len(read(p, "List", pl.backend.List(p.ctx))) == 2, "the list is not that of the two sessions that are left")
	}
}

func deleteAndCreate(p *probe) {
	pl := p.place()
	s := pl.session(pistore.Info{ID: "a"})
	s.commit(message("e", ""), set("k", `1`), usage("u", `{"input":1}`))
	old := s.st.Info().Generation
	p.noError("Close", s.st.Close())
	p.noError("Delete", pl.backend.Delete(p.ctx, "a"))
	s = pl.session(pistore.Info{ID: "a"})
	p.check(s.st.Info().Generation != old || p.cfg.lacks(NoGeneration), "the new session has the generation of the old one")
	equal(p, "the new session", s.state("ns"), state{Stats: pistore.Stats{Usage: zeroTotals()}})
	s.commit(message("e", ""), usage("u", `{}`))
	if p.cfg.reopens() {
		s.reopen()
		p.check(len(s.prefix("ns", "")) == 0 && len(s.entries("e")) == 1, "rows of the old session came back")
	}
}
