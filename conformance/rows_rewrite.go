package conformance

import (
	"context"
	"errors"
	"iter"

	"pistore"
)

func rewriteRows() []row {
	needs := []Capability{NoRewrite, NoReopen, NoExport}
	return []row{
		{id: "RWR-01", title: "a rewrite replaces what a session holds, seqs and times kept", needs: needs, inv: []int{4, 10},
			advice: "build the new rows beside the old as a load does, indexes and statistics too, and put them in their place in one step", check: rewriteReplaces},
		{id: "RWR-02", title: "a rewrite keeps nextSeq and replaces the generation", needs: needs, inv: []int{2},
			advice: "store the header's NextSeq, and mint a generation whatever the header says", check: rewriteHeader},
		{id: "RWR-03", title: "a rewrite that is refused or broken off leaves the session as it was", needs: needs,
			advice: "touch the old rows in the last step only", check: rewriteRefused},
		{id: "RWR-04", title: "only a session that nobody writes is rewritten, and nobody writes it meanwhile", needs: append(needs, NoOwnership),
			advice: "take ownership before the old rows are read and keep it until the new ones are in their place", check: rewriteOwned},
		{id: "RWR-05", title: "a handle that was open shows the old rows or ErrNotFound, never both", needs: append(needs, NoReadOnly),
			advice: "a reader stays with the rows that it was opened on, or is cut off", check: rewriteReaders},
	}
}

// beforeRewrite makes the session that the rewrite rows rewrite, closes it, and
// returns its export.
func (pl *place) beforeRewrite() (id pistore.SessionID, all []pistore.Row) {
	s := pl.session(pistore.Info{CWD: "/work"})
	s.commit(message("a", ""), set("kept", `1`), set("gone", `2`))
	s.commit(message("b", "a"), usage("u", `{"input":0.1}`), usage("v", `{"input":0.2}`))
	s.commit(message("side", "a"), message("c", "b"), set("kept", `3`))
	s.commit(set("over", `1`), del("over"))
	h, rows := s.export()
	s.pl.p.noError("Close", s.st.Close())
	return s.id, append([]pistore.Row{h}, rows...)
}

// rewritten is what the rewrite rows make of a row; keep is false where it goes.
func rewritten(row pistore.Row) (out pistore.Row, keep bool) {
	switch r := row.(type) {
	case pistore.Entry:
		if r.ID == "b" {
			r.Payload = `{"role":"user","content":"[erased]"}`
		}
		return r, r.ID != "side"
	case pistore.Register:
		return r, r.Key != "gone"
	case pistore.UsageRow:
		return r, r.ID != "v"
	}
	return row, true
}

// rewriting reads the old rows as they are asked for.
func rewriting(ctx context.Context) func(pistore.Storage) iter.Seq2[pistore.Row, error] {
	return func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
		return func(yield func(pistore.Row, error) bool) {
			for row, err := range old.Export(ctx) {
				keep := true
				if err == nil {
					row, keep = rewritten(row)
				}
				if keep && !yield(row, err) {
					return
				}
			}
		}
	}
}

func (pl *place) rewrite(id pistore.SessionID) pistore.Info {
	info, err := pl.backend.Rewrite(pl.p.ctx, id, rewriting(pl.p.ctx))
	pl.p.noError("Rewrite", err)
	return info
}

func rewriteReplaces(p *probe) {
	pl := p.place()
	id, before := pl.beforeRewrite()
	var want []pistore.Row
	for _, row := range before[1:] {
		if row, keep := rewritten(row); keep {
			want = append(want, row)
		}
	}
	equal(p, "id of the rewritten session", pl.rewrite(id).ID, id)
	for _, when := range []string{"", " after reopening"} {
		if when != "" {
			pl.reopen()
		}
		s := pl.openSession(id, pistore.ReadWrite)
		_, got := s.export()
		equal(p, "rows of the rewritten session"+when, got, want)
		equal(p, "path"+when, entryIDs(s.branch(pistore.BranchQuery{Start: "c"})), []pistore.ID{"c", "b", "a"})
		equal(p, "structure"+when, entryIDs(s.scanEntries(pistore.ScanQuery{StructureOnly: true})), []pistore.ID{"a", "b", "c"})
		equal(p, "entries by the id of one that went"+when, len(s.entries("side")), 0)
		equal(p, "messages"+when, s.stats().Messages, 3)
		equal(p, "sum of input"+when, s.stats().Usage.Input, "0.1")
		p.noError("Close", s.st.Close())
	}
	s := pl.openSession(id, pistore.ReadWrite)
	s.commit(message("side", "c"), usage("v", `{"input":0.3}`))
	equal(p, "sum of input with a new row", s.stats().Usage.Input, "0.4")
}

func rewriteHeader(p *probe) {
	pl := p.place()
	id, before := pl.beforeRewrite()
	old := before[0].(pistore.Header)
	info := pl.rewrite(id)
	p.check(info.Generation != "" && info.Generation != old.Info.Generation, "the generation is %q, as it was", info.Generation)
	pl.reopen()
	s := pl.openSession(id, pistore.ReadWrite)
	want := old.Info
	want.Generation = info.Generation
	equal(p, "info of the rewritten session", s.st.Info(), want)
	if !p.cfg.lacks(NoList) {
		equal(p, "sessions listed", read(p, "List", pl.backend.List(p.ctx)), []pistore.Info{want})
	}
	r := s.commit(set("k", `1`))
	p.check(r.FirstSeq >= old.NextSeq, "seq %d was given where nextSeq was %d", r.FirstSeq, old.NextSeq)
}

func rewriteRefused(p *probe) {
	pl := p.place()
	id, before := pl.beforeRewrite()
	h, broken := before[0].(pistore.Header), errors.New("the source broke")
	other := h
	other.Info.ID = "other"
	for _, c := range []struct {
		what string
		rows []pistore.Row
		fail error // of the stream
		want error
	}{
		{"an entry whose parent went", []pistore.Row{h, loadedEntry("b", "a", 5)}, nil, pistore.ErrMissingParent},
		{"rows without a header", before[1:], nil, pistore.ErrInvalid},
		{"rows of another session", []pistore.Row{other, loadedEntry("a", "", 1)}, nil, pistore.ErrInvalid},
		{"no rows", nil, nil, pistore.ErrInvalid},
		{"a stream that breaks", before[:3], broken, broken},
	} {
		_, err := pl.backend.Rewrite(p.ctx, id, func(pistore.Storage) iter.Seq2[pistore.Row, error] {
			return func(yield func(pistore.Row, error) bool) {
				for _, row := range c.rows {
					if !yield(row, nil) {
						return
					}
				}
				if c.fail != nil {
					yield(nil, c.fail)
				}
			}
		})
		p.wantError("Rewrite with "+c.what, err, c.want)
	}
	_, err := pl.backend.Rewrite(p.ctx, "nobody", rewriting(p.ctx))
	p.wantError("Rewrite of a session that is not there", err, pistore.ErrNotFound)
	for _, when := range []string{"", " and reopening"} {
		if when != "" {
			pl.reopen()
		}
		s := pl.openSession(id, pistore.ReadWrite)
		got, rows := s.export()
		equal(p, "session after refused rewrites"+when, append([]pistore.Row{got}, rows...), before)
		p.noError("Close", s.st.Close())
	}
}

func rewriteOwned(p *probe) {
	pl := p.place()
	id, _ := pl.beforeRewrite()
	s := pl.openSession(id, pistore.ReadWrite)
	_, err := pl.backend.Rewrite(p.ctx, id, rewriting(p.ctx))
	p.wantError("Rewrite of a session that is open for writing", err, pistore.ErrLocked)
	p.noError("Close", s.st.Close())
	_, err = pl.backend.Rewrite(p.ctx, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
		_, err := pl.backend.Open(p.ctx, id, pistore.ReadWrite)
		p.wantError("opening a session for writing that is being rewritten", err, pistore.ErrLocked)
		if !p.cfg.lacks(NoDelete) {
			p.wantError("deleting a session that is being rewritten", pl.backend.Delete(p.ctx, id), pistore.ErrLocked)
		}
		_, err = old.Commit(p.ctx, txOf(set("k", `1`)))
		const want = "the session that Rewrite gives to make is for reading, and its Commit is ErrReadOnly"
		p.check(err != nil, "%s; it took one", want)
		p.wantError(want+": its commit", err, pistore.ErrReadOnly)
		return rewriting(p.ctx)(old)
	})
	p.noError("Rewrite", err)
	p.noError("Close", pl.openSession(id, pistore.ReadWrite).st.Close())
}

func rewriteReaders(p *probe) {
	pl := p.place()
	id, before := pl.beforeRewrite()
	reader := pl.openSession(id, pistore.ReadOnly)
	pl.rewrite(id)
	if got, err := drain(reader.st.Export(p.ctx)); err == nil {
		equal(p, "what a reader from before shows", got, before)
	} else {
		p.wantError("a reader from before", err, pistore.ErrNotFound)
	}
	if got, err := reader.st.Entries(p.ctx, []pistore.ID{"side"}); err == nil {
		p.check(len(got) == 1, "a reader from before has lost an entry")
	} else {
		p.wantError("a reader from before, by id", err, pistore.ErrNotFound)
	}
	p.noError("Close", reader.st.Close())
}
