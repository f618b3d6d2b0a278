package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"pistore"
)

func loadRows() []row {
	needs := []Capability{NoLoad, NoReopen}
	const absent = "check each row in front of storing it, and make the session appear only when the last one is stored"
	return []row{
		{id: "LOD-01", title: "an export loads into a session of the same digest", needs: []Capability{NoLoad, NoReopen, NoExport}, inv: []int{4},
			advice: "keep ids, seqs, timestamps and texts of every row", check: loadRoundTrip},
		{id: "LOD-02", title: "a loaded session keeps the description of its header, its generation too", needs: needs,
			advice: "only Format is the backend's own; an empty generation is minted", check: loadInfo},
		{id: "LOD-03", title: "a loaded session keeps nextSeq", needs: needs, inv: []int{2},
			advice: "store the header's NextSeq: the seqs below it may have been given to registers that are gone", check: loadNextSeq},
		{id: "LOD-04", title: "a loaded session goes on like any other", needs: needs, inv: []int{1, 10},
			advice: "ids, parents, register seqs and statistics come from the loaded rows", check: loadGoesOn},
		{id: "LOD-05", title: "seqs may have gaps, and JSON is brought into stored form", needs: needs,
			advice: "take seqs as they come, and admit texts as a commit would", check: loadGaps},
		{id: "LOD-06", title: "a parent that is missing or comes later is refused, and nothing is left", needs: needs, inv: []int{10}, advice: absent, check: loadParents},
		{id: "LOD-07", title: "an id or a register twice is refused, and nothing is left", needs: needs, inv: []int{1}, advice: absent, check: loadDuplicates},
		{id: "LOD-08", title: "seqs that do not rise are refused, and nothing is left", needs: needs, inv: []int{2}, advice: absent, check: loadSeqs},
		{id: "LOD-09", title: "a header that is missing, late or second is refused, and nothing is left", needs: needs, advice: absent, check: loadHeaders},
		{id: "LOD-10", title: "rows that could not be committed are refused, and nothing is left", needs: needs, advice: absent, check: loadBadRows},
		{id: "LOD-11", title: "an error of the stream is returned, and nothing is left", needs: needs, advice: absent, check: loadStreamError},
		{id: "LOD-12", title: "a session id in use is ErrDuplicateID, and that session is untouched", needs: needs,
			advice: "Load makes new sessions only", check: loadDuplicateSession},
		{id: "LOD-13", title: "a load whose context ended leaves all or nothing", needs: needs, advice: absent, check: loadCancelled},
	}
}

func loadRoundTrip(p *probe) {
	s := p.modelled()
	s.rich()
	header, rows := s.export()
	to := p.place()
	info, err := to.backend.Load(p.ctx, onceOnly(p, append([]pistore.Row{header}, rows...)))
	p.noError("Load", err)
	equal(p, "id of the loaded session", info.ID, s.id)
	loaded := to.openSession(s.id, pistore.ReadWrite)
	loaded.wantModel(s.m, "loaded from an export")
	again, _ := loaded.export()
	equal(p, "nextSeq of the loaded session", again.NextSeq, header.NextSeq)
	loaded.reopen()
	loaded.wantModel(s.m, "loaded from an export and reopened")
}

// onceOnly is a sequence that ends the row when it is ranged over twice.
func onceOnly(p *probe, rows []pistore.Row) iter.Seq2[pistore.Row, error] {
	ranged := 0
	return func(yield func(pistore.Row, error) bool) {
		ranged++
		p.check(ranged == 1, "Load read its rows twice, but a stream can be read only once")
		sequence(rows)(yield)
	}
}

// header opens an export of the session that the load rows use.
func header() pistore.Header {
	return pistore.Header{NextSeq: 50, Info: pistore.Info{ID: "loaded", CreatedAt: 1_700_000_000_000, StorageVersion: pistore.StorageVersion}}
}

func loadedEntry(id, parent pistore.ID, seq pistore.Seq) pistore.Entry {
	return pistore.Entry{ID: id, ParentID: parent, Seq: seq, Timestamp: 1_700_000_000_000 + pistore.UnixMS(seq), Type: pistore.TypeMessage, Payload: `{}`}
}

func loadedRegister(key string, seq pistore.Seq) pistore.Register {
	return pistore.Register{Namespace: "ns", Key: key, Value: `1`, Seq: seq}
}

// load loads rows behind the usual header and opens the session.
func (pl *place) load(rows ...pistore.Row) *session {
	return pl.loadBehind(header(), rows...)
}

func (pl *place) loadBehind(h pistore.Header, rows ...pistore.Row) *session {
	info, err := pl.backend.Load(pl.p.ctx, onceOnly(pl.p, append([]pistore.Row{h}, rows...)))
	pl.p.noError("Load", err)
	return pl.openSession(info.ID, pistore.ReadWrite)
}

// refuseLoad loads rows that have to be refused, and looks for what is left.
func (pl *place) refuseLoad(what string, want error, rows iter.Seq2[pistore.Row, error]) {
	p := pl.p
	_, err := pl.backend.Load(p.ctx, rows)
	p.wantError("Load of "+what, err, want)
	pl.nothingLoaded("after the refused load of " + what)
}

func (pl *place) nothingLoaded(when string) {
	p := pl.p
	_, err := pl.backend.Open(p.ctx, header().Info.ID, pistore.ReadWrite)
	p.wantError("opening the session "+when, err, pistore.ErrNotFound)
	if !p.cfg.lacks(NoList) {
		p.check(len(read(p, "List", pl.backend.List(p.ctx))) == 0, "a session is listed %s", when)
	}
}

// wantStillLoads loads a good export where bad ones were refused.
func (pl *place) wantStillLoads() {
	pl.reopen()
	pl.nothingLoaded("after reopening")
	pl.p.check(len(pl.load(loadedEntry("e", "", 1)).entries("e")) == 1, "a good export, loaded after bad ones, shows nothing")
}

func loadInfo(p *probe) {
	pl := p.place()
	h := header()
	h.Info.CWD, h.Info.ParentSessionID, h.Info.LegacyParentPath, h.Info.Generation = "/work", "parent", "../x", "a mark"
	s := pl.loadBehind(h)
	got := s.st.Info()
	p.check(got.Format != "", "the format of a loaded session is empty")
	h.Info.Format = got.Format
	equal(p, "info of the loaded session", got, h.Info)
	h.Info.ID, h.Info.Generation = "second", ""
	p.check(pl.loadBehind(h).st.Info().Generation != "", "an empty generation was not minted")
}

func loadNextSeq(p *probe) {
	s := p.place().load(loadedEntry("e", "", 3), loadedRegister("k", 7))
	if !p.cfg.lacks(NoExport) {
		h, _ := s.export()
		p.check(h.NextSeq >= 50, "nextSeq is %d after a load with 50", h.NextSeq)
	}
	s.reopen()
	r := s.commit(set("k", `2`))
	p.check(r.FirstSeq >= 50, "seq %d was given after a load with nextSeq 50", r.FirstSeq)
}

func loadGoesOn(p *probe) {
	s := p.place().load(
		loadedEntry("a", "", 1), pistore.UsageRow{ID: "u", Seq: 2, Usage: `{"input":0.1}`, EntryID: "a"}, loadedRegister("k", 5), loadedEntry("b", "a", 6))
	for _, when := range []string{"", " after reopening"} {
		if when != "" {
			s.reopen()
		}
		s.refuse(pistore.ErrDuplicateID, txOf(message("u", "")))
		s.refuse(pistore.ErrDuplicateID, txOf(usage("b", `{}`)))
		s.refuse(pistore.ErrMissingParent, txOf(message("c", "u")))
		s.refuse(pistore.ErrConflict, pistore.Tx{Expect: []pistore.Precondition{expect("k", 6)}, Writes: []pistore.Write{set("k", `3`)}})
		equal(p, "path"+when, entryIDs(s.branch(pistore.BranchQuery{Start: "b"})), []pistore.ID{"b", "a"})
		equal(p, "sum of input"+when, s.stats().Usage.Input, "0.1")
		equal(p, "entries counted"+when, s.stats().Messages, 2)
	}
	s.commitTx(pistore.Tx{Expect: []pistore.Precondition{expect("k", 5)}, Writes: []pistore.Write{message("c", "b"), usage("v", `{"input":0.2}`), del("k")}})
	equal(p, "path from the new entry", entryIDs(s.branch(pistore.BranchQuery{Start: "c"})), []pistore.ID{"c", "b", "a"})
	equal(p, "sum of input with the new row", s.stats().Usage.Input, "0.3")
}

func loadGaps(p *probe) {
	h := header()
	h.NextSeq = 1 << 41
	white := loadedEntry("b", "a", 1_000_000)
	white.Payload = "{ \"x\" : [ 1.0 , \"\u2028\" ] }"
	s := p.place().loadBehind(h, loadedEntry("a", "", 17), loadedRegister("k", 400), white, loadedRegister("l", 1<<40))
	for _, when := range []string{"", " after reopening"} {
		if when != "" {
			s.reopen()
		}
		want := []pistore.Entry{loadedEntry("a", "", 17), white}
		want[1].Payload = "{\"x\":[1.0,\"\u2028\"]}"
		equal(p, "entries"+when, s.scanEntries(pistore.ScanQuery{}), want)
		equal(p, "registers"+when, s.prefix("ns", ""), []pistore.Register{loadedRegister("k", 400), loadedRegister("l", 1<<40)})
		equal(p, "scan of a range"+when, entryIDs(s.scanEntries(pistore.ScanQuery{FromSeq: 18, ToSeq: 1_000_000})), []pistore.ID{"b"})
	}
}

func behindHeader(rows ...pistore.Row) iter.Seq2[pistore.Row, error] {
	return sequence(append([]pistore.Row{header()}, rows...))
}

func loadParents(p *probe) {
	pl := p.place()
	pl.refuseLoad("a parent that comes later", pistore.ErrMissingParent, behindHeader(loadedEntry("a", "b", 1), loadedEntry("b", "", 2)))
	pl.refuseLoad("a parent that is missing", pistore.ErrMissingParent, behindHeader(loadedEntry("a", "", 1), loadedEntry("b", "nobody", 2)))
	pl.refuseLoad("an entry that is its own parent", pistore.ErrMissingParent, behindHeader(loadedEntry("a", "a", 1)))
	pl.refuseLoad("a usage row as parent", pistore.ErrMissingParent,
		behindHeader(pistore.UsageRow{ID: "u", Seq: 1, Usage: `{}`}, loadedEntry("a", "u", 2)))
	pl.wantStillLoads()
}

func loadDuplicates(p *probe) {
	pl := p.place()
	u := pistore.UsageRow{ID: "a", Seq: 2, Usage: `{}`}
	pl.refuseLoad("two entries of one id", pistore.ErrDuplicateID, behindHeader(loadedEntry("a", "", 1), loadedEntry("a", "", 2)))
	pl.refuseLoad("an entry and a usage row of one id", pistore.ErrDuplicateID, behindHeader(loadedEntry("a", "", 1), u))
	pl.refuseLoad("a usage row and an entry of one id", pistore.ErrDuplicateID, behindHeader(u, loadedEntry("a", "", 3)))
	pl.refuseLoad("one register twice", pistore.ErrInvalid, behindHeader(loadedRegister("k", 1), loadedRegister("k", 2)))
	pl.wantStillLoads()
}

func loadSeqs(p *probe) {
	pl := p.place()
	for _, c := range []struct {
		what   string
		of, to pistore.Seq
	}{
		{"seqs that fall", 5, 4}, {"a seq twice", 5, 5}, {"seq 0", 0, 1}, {"a negative seq", -1, 1}, {"a seq beyond 2^53-1", 1, pistore.MaxSeq + 1},
	} {
		pl.refuseLoad(c.what, pistore.ErrInvalid, behindHeader(loadedEntry("a", "", c.of), loadedRegister("k", c.to)))
	}
	pl.wantStillLoads()
}

func loadHeaders(p *probe) {
	pl := p.place()
	bad := header()
	bad.Info.CWD = "\xff"
	for _, c := range []struct {
		what string
		rows []pistore.Row
	}{
		{"nothing", nil},
		{"rows without a header", []pistore.Row{loadedEntry("a", "", 1)}},
		{"a header behind rows", []pistore.Row{loadedEntry("a", "", 1), header()}},
		{"a second header", []pistore.Row{header(), header()}},
		{"a second header behind rows", []pistore.Row{header(), loadedEntry("a", "", 1), header()}},
		{"a header of an invalid Info", []pistore.Row{bad}},
		{"a header of a negative seq", []pistore.Row{pistore.Header{Info: header().Info, NextSeq: -1}}},
		{"a header with nextSeq beyond", []pistore.Row{pistore.Header{Info: header().Info, NextSeq: pistore.MaxSeq + 2}}},
	} {
		pl.refuseLoad(c.what, pistore.ErrInvalid, sequence(c.rows))
	}
	pl.wantStillLoads()
}

func loadBadRows(p *probe) {
	pl := p.place()
	entry := func(change func(*pistore.Entry)) pistore.Row {
		e := loadedEntry("e", "", 2)
		change(&e)
		return e
	}
	for _, c := range []struct {
		what string
		row  pistore.Row
		want error
	}{
		{"a payload that is no JSON", entry(func(e *pistore.Entry) { e.Payload = `{` }), pistore.ErrInvalid},
		{"a payload with a structural member", entry(func(e *pistore.Entry) { e.Payload = `{"seq":1}` }), pistore.ErrInvalid},
		{"an entry of an unknown type", entry(func(e *pistore.Entry) { e.Type = "label" }), pistore.ErrInvalid},
		{"a negative timestamp", entry(func(e *pistore.Entry) { e.Timestamp = -1 }), pistore.ErrInvalid},
		{"an overlong id", entry(func(e *pistore.Entry) { e.ID = pistore.ID(strings.Repeat("x", pistore.MaxIDBytes+1)) }), pistore.ErrTooLarge},
		{"usage that is no object", pistore.UsageRow{ID: "u", Seq: 2, Usage: `[]`}, pistore.ErrInvalid},
		{"a register without a value", pistore.Register{Namespace: "ns", Key: "k", Seq: 2}, pistore.ErrInvalid},
		{"a register without a namespace", pistore.Register{Key: "k", Value: `1`, Seq: 2}, pistore.ErrInvalid},
		{"a value nested too deep", pistore.Register{Namespace: "ns", Key: "k", Value: nested(pistore.MaxJSONDepth + 1), Seq: 2}, pistore.ErrTooLarge},
		{"a row that is none", nil, pistore.ErrInvalid},
	} {
		pl.refuseLoad(c.what, c.want, behindHeader(loadedEntry("first", "", 1), c.row))
	}
	pl.wantStillLoads()
}

func loadStreamError(p *probe) {
	pl := p.place()
	broken := errors.New("the source broke")
	for n := range 4 {
		rows := []pistore.Row{header(), loadedEntry("a", "", 1), loadedRegister("k", 2), loadedEntry("b", "a", 3)}[:n]
		pl.refuseLoad(fmt.Sprintf("a stream that breaks after %d rows", n), broken, func(yield func(pistore.Row, error) bool) {
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
			yield(nil, broken)
		})
	}
	pl.wantStillLoads()
}

func loadDuplicateSession(p *probe) {
	pl := p.place()
	s := pl.session(pistore.Info{ID: header().Info.ID, CWD: "/first"})
	s.commit(message("mine", ""))
	load := func(when string) {
		_, err := pl.backend.Load(p.ctx, behindHeader(loadedEntry("other", "", 1)))
		p.wantError("loading a session whose id is in use"+when, err, pistore.ErrDuplicateID)
	}
	load("")
	s.commit(message("more", "mine"))
	p.noError("Close", s.st.Close())
	load(", closed")
	pl.reopen()
	s.st = pl.openSession(s.id, pistore.ReadWrite).st
	equal(p, "working directory", s.st.Info().CWD, "/first")
	equal(p, "entries", entryIDs(s.scanEntries(pistore.ScanQuery{})), []pistore.ID{"mine", "more"})
}

func loadCancelled(p *probe) {
	pl := p.place()
	rows := []pistore.Row{header()}
	for i := range 20 {
		rows = append(rows, loadedEntry(pistore.ID(fmt.Sprint(i)), "", pistore.Seq(i+1)))
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	_, err := pl.backend.Load(ctx, func(yield func(pistore.Row, error) bool) {
		for i, r := range rows {
			if i == len(rows)/2 {
				cancel()
			}
			if !yield(r, nil) {
				return
			}
		}
	})
	if err == nil {
		got := pl.openSession(header().Info.ID, pistore.ReadWrite).scanEntries(pistore.ScanQuery{})
		p.check(len(got) == 20, "a load that succeeded although its context ended shows %d of 20 entries", len(got))
		return
	}
	p.wantError("Load whose context ends", err, context.Canceled)
	pl.nothingLoaded("after a load whose context ended")
	pl.wantStillLoads()
}
