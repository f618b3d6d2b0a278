package conformance

import (
	"fmt"

	"pistore"
)

func reopenRows() []row {
	reopens := []Capability{NoReopen}
	exports := []Capability{NoExport}
	return []row{
		{id: "REO-01", title: "a reopened session shows the same rows", needs: reopens, inv: []int{1, 2, 3, 4},
			advice: "what was acknowledged is stored with every field; rebuild indexes and statistics from the rows", check: reopenSame},
		{id: "REO-02", title: "reopening after every commit changes nothing", needs: reopens, inv: []int{1, 2, 3, 4},
			advice: "the state read from the store equals the state in memory after each commit, whatever its last write was", check: reopenEach},
		{id: "REO-03", title: "the next seq never falls, even when the registers with the highest seqs are gone", needs: reopens, inv: []int{2},
			advice: "store nextSeq: the largest seq of the rows that are left is not enough", check: reopenNextSeq},
		{id: "REO-04", title: "the description of a session is kept, its generation too", needs: reopens,
			advice: "store the Info; only rewrite, repair and restore replace the generation", check: reopenInfo},
		{id: "REO-05", title: "refused transactions leave nothing behind that reopening brings up", needs: reopens, inv: []int{2},
			advice: "write nothing before the transaction is certain to be admitted", check: reopenRefused},
		{id: "REO-06", title: "preconditions and parents hold across reopening", needs: reopens,
			advice: "the seqs of registers and the ids of entries are part of the stored state", check: reopenPreconditions},
		{id: "REO-07", title: "a session that its backend closed reopens like any other", needs: append(reopens, NoSessions),
			advice: "Backend.Close closes sessions in the same way as Storage.Close", check: reopenAfterBackend},
		{id: "EXP-01", title: "an export is a header and every live row by rising seq", needs: exports, inv: []int{3},
			advice: "merge the three forms by seq; deleted registers leave no row", check: exportRows},
		{id: "EXP-02", title: "the digest is that of the rows", needs: exports, inv: []int{4},
			advice: "export what was committed, byte for byte, and nothing else", check: exportDigest},
		{id: "EXP-03", title: "the digest is the same after reopening", needs: []Capability{NoExport, NoReopen},
			advice: "no field of a row may change between two openings", check: exportDigestReopened},
	}
}

func reopenSame(p *probe) {
	s := p.modelled()
	s.rich()
	s.session.reopen()
	s.wantModel(s.m, "after reopening")
	s.session.reopen()
	s.wantModel(s.m, "after reopening twice, without a commit between")
}

func reopenEach(p *probe) {
	s := p.modelled()
	parent := pistore.ID("")
	for i := range 6 {
		id := pistore.ID(fmt.Sprint("e", i))
		for _, writes := range [][]pistore.Write{
			{message(id, parent), set("k", pistore.QuoteJSON(string(id)))},
			{set("l", `1`), usage("u"+id, `{"input":0.1}`)},
			{set("m", `1`), del("l")},
			{del("k"), entryOf("x"+id, id, pistore.TypeCustom, "c")},
			{del("k"), del("m")},
			{set("alone", pistore.QuoteJSON(string(id)))},
			{usage("a"+id, `{"output":1}`)},
			{message("m"+id, id)},
			{del("alone")},
		} {
			s.commit(writes...)
			s.session.reopen()
			s.wantModel(s.m, fmt.Sprintf("reopened after %d commits", s.commits))
		}
		parent = id
	}
}

func reopenNextSeq(p *probe) {
	s := p.session()
	s.commit(message("e", ""), set("a", `1`))
	s.commit(set("b", `1`), set("c", `1`))
	last := s.commit(del("a"), del("c"), del("b")).Seqs[2]
	for range 3 {
		s.reopen()
		if !p.cfg.lacks(NoExport) {
			header, _ := s.export()
			p.check(header.NextSeq > last, "nextSeq is %d after reopening, but seq %d was acknowledged", header.NextSeq, last)
		}
		r := s.commit(set("d", `1`), del("d"))
		p.check(r.FirstSeq > last, "seq %d was given after reopening, but seq %d was acknowledged before", r.FirstSeq, last)
		last = r.Seqs[1]
	}
}

func reopenInfo(p *probe) {
	pl := p.place()
	info := pistore.Info{ID: "session", CreatedAt: 1_700_000_000_123, CWD: "/a dir/\u00fc", ParentSessionID: "parent"}
	if !p.cfg.lacks(NoLoad) { // an import is what brings one
		info.LegacyParentPath = `C:\old "path"`
	}
	s := pl.session(info)
	want := s.st.Info()
	for range 2 {
		s.commit(set("k", `1`))
		equal(p, "info after a commit", s.st.Info(), want)
		s.reopen()
		equal(p, "info after reopening", s.st.Info(), want)
	}
}

func reopenRefused(p *probe) {
	s := p.session()
	s.commit(set("kept", `1`), usage("u", `{}`))
	s.eachRefusal(func(n int) []pistore.Write {
		id := pistore.ID(fmt.Sprint(n))
		return []pistore.Write{message("m"+id, ""), set("kept", `2`), usage("u"+id, `{}`), set("added", `1`)}
	}, func(name string) {
		before := s.state("ns")
		s.reopen()
		equal(p, "the session reopened "+name, s.state("ns"), before)
	})
}

func reopenPreconditions(p *probe) {
	s := p.session()
	at := s.commit(set("k", `1`), message("e", ""), set("gone", `1`), del("gone")).FirstSeq
	s.reopen()
	for _, seq := range []pistore.Seq{at + 1, 0} {
		s.refuse(pistore.ErrConflict, pistore.Tx{Expect: []pistore.Precondition{expect("k", seq)}, Writes: []pistore.Write{set("k", `3`)}})
	}
	s.refuse(pistore.ErrMissingParent, txOf(message("f", "nobody")))
	s.commitTx(pistore.Tx{
		Expect: []pistore.Precondition{expect("k", at), expect("gone", 0)},
		Writes: []pistore.Write{message("f", "e"), set("k", `2`)},
	})
	equal(p, "path across the reopening", entryIDs(s.branch(pistore.BranchQuery{Start: "f"})), []pistore.ID{"f", "e"})
}

func reopenAfterBackend(p *probe) {
	if p.cfg.Volatile {
		p.skipf("the backend is volatile")
	}
	pl := p.place()
	a, b := modelled{pl.session(pistore.Info{}), newModel()}, modelled{pl.session(pistore.Info{}), newModel()}
	a.rich()
	b.rich()
	pl.reopen()
	for _, s := range []modelled{a, b} {
		s.session.st = pl.openSession(s.id, pistore.ReadWrite).st
		s.wantModel(s.m, "after its backend was closed and opened")
	}
}

func exportRows(p *probe) {
	s := p.modelled()
	empty, rows := s.export()
	p.check(len(rows) == 0 && empty.NextSeq >= 1, "export of an empty session: %d rows, nextSeq %d", len(rows), empty.NextSeq)
	s.rich()
	header, rows := s.export()
	equal(p, "info of the header", header.Info, s.st.Info())
	p.check(header.NextSeq > s.m.last, "nextSeq %d, but seq %d was given", header.NextSeq, s.m.last)
	last := pistore.Seq(0)
	for _, r := range rows {
		_, second := r.(pistore.Header)
		p.check(!second && seqOf(r) > last, "a %T of seq %d behind seq %d", r, seqOf(r), last)
		last = seqOf(r)
	}
	p.check(len(rows) == len(s.m.rows()), "%d rows, want %d: no deleted register, and every live row", len(rows), len(s.m.rows()))
}

func exportDigest(p *probe) {
	s := p.modelled()
	s.rich()
	_, rows := s.export()
	equal(p, "exported rows", rows, s.m.rows())
	equal(p, "digest", s.digest(), s.m.digest())
}

func exportDigestReopened(p *probe) {
	s := p.modelled()
	s.rich()
	before := s.digest()
	s.session.reopen()
	equal(p, "digest after reopening", s.digest(), before)
}
