package conformance

import "pistore"

func branchRows() []row {
	const steps = "walk from Start, end at the stop, then filter, then order, then cursor, then limit"
	return []row{
		{id: "QRY-01", title: "a branch is the path from its start to the root, newest first",
			advice: "follow ParentID from Start to the entry without a parent, Start included", inv: []int{10}, check: branchPath},
		{id: "QRY-02", title: "branches share their prefix and nothing else",
			advice: "an index over branches has to yield exactly the chain of parents, siblings left out", inv: []int{10}, check: branchFork},
		{id: "QRY-03", title: "the stop is inclusive and sought from Start itself",
			advice: steps, check: branchStopInclusive},
		{id: "QRY-04", title: "the stop comes before the filter",
			advice: "seek the stop among all entries of the path, not among those that pass the filter", check: branchStopBeforeFilter},
		{id: "QRY-05", title: "a stop entry that does not pass the filter is left out",
			advice: "filter the stop entry like any other", check: branchStopFiltered},
		{id: "QRY-06", title: "the first of two stops ends the path; a stop that is not on it does not",
			advice: "StopAtType and StopAtID are alternatives, and only entries of the path count", check: branchTwoStops},
		{id: "QRY-07", title: "filters are type, customType, or both",
			advice: "an empty filter keeps every entry", check: branchFilter},
		{id: "QRY-08", title: "the filter comes before the limit",
			advice: "count only entries that pass the filter against the limit", check: branchFilterBeforeLimit},
		{id: "QRY-09", title: "oldest first turns the path that the stop left",
			advice: "seek the stop from Start in both orders, and apply the limit after turning", check: branchOldestFirst},
		{id: "QRY-10", title: "the cursor is exclusive and comes before the limit",
			advice: "newest first keeps seq < Cursor, oldest first seq > Cursor; only then count the limit", check: branchCursor},
		{id: "QRY-11", title: "the cursor does not move the stop",
			advice: "seek the stop from Start whatever the cursor is", check: branchCursorAndStop},
		{id: "QRY-12", title: "an unknown start is ErrNotFound",
			advice: "an empty start, an unknown id and the id of a usage row are no entries to start at", check: branchUnknown},
		{id: "QRY-13", title: "structure only leaves payloads empty and the rest whole",
			advice: "Payload is the empty text in a structure query, all other fields and the order stay", check: branchStructure},
		{id: "QRY-14", title: "a malformed branch query is ErrInvalid",
			advice: "call BranchQuery.Check first", check: branchMalformed},
	}
}

// tree commits this tree, one entry each, and returns the seqs by id:
//
//	m1 - c1 - x2(a) - m3 - s4 - m5 - x6(b) - m7
//	            \- f1 - f2
//
// where m are messages, c a compaction, s a branch summary, x custom entries
// with their customType, and f messages of a fork.
func (s *session) tree() map[pistore.ID]pistore.Seq {
	seqs := map[pistore.ID]pistore.Seq{}
	for _, e := range []pistore.InsertEntry{
		entryOf("m1", "", pistore.TypeMessage, ""),
		entryOf("c1", "m1", pistore.TypeCompaction, ""),
		entryOf("x2", "c1", pistore.TypeCustom, "a"),
		entryOf("f1", "x2", pistore.TypeMessage, ""),
		entryOf("m3", "x2", pistore.TypeMessage, ""),
		entryOf("s4", "m3", pistore.TypeBranchSummary, ""),
		entryOf("f2", "f1", pistore.TypeMessage, ""),
		entryOf("m5", "s4", pistore.TypeMessage, ""),
		entryOf("x6", "m5", pistore.TypeCustom, "b"),
		entryOf("m7", "x6", pistore.TypeMessage, ""),
	} {
		seqs[e.ID] = s.commit(e).FirstSeq
	}
	return seqs
}

// wantBranch compares the ids of a branch.
func (s *session) wantBranch(q pistore.BranchQuery, want ...pistore.ID) {
	equal(s.p, "branch "+describeBranch(q), entryIDs(s.branch(q)), want)
}

func branchPath(p *probe) {
	s := p.session()
	seqs := s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "m7"}, "m7", "x6", "m5", "s4", "m3", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "m1"}, "m1")
	got := s.branch(pistore.BranchQuery{Start: "x2"})
	want := []pistore.Entry{
		{ID: "x2", ParentID: "c1", Seq: seqs["x2"], Type: pistore.TypeCustom, CustomType: "a", Payload: `{"n":1}`},
		{ID: "c1", ParentID: "m1", Seq: seqs["c1"], Type: pistore.TypeCompaction, Payload: `{"n":1}`},
		{ID: "m1", Seq: seqs["m1"], Type: pistore.TypeMessage, Payload: `{"n":1}`},
	}
	for i := range want {
		want[i].Timestamp = got[min(i, len(got)-1)].Timestamp // judged by the timestamp row
	}
	equal(p, "entries of the path", got, want)
}

func branchFork(p *probe) {
	s := p.session()
	s.tree()
	s.commit(message("other root", ""))
	s.wantBranch(pistore.BranchQuery{Start: "f2"}, "f2", "f1", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "m3"}, "m3", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "other root"}, "other root")
	s.commit(message("f3", "f2"), message("g", "f1"), message("m8", "m7"))
	s.wantBranch(pistore.BranchQuery{Start: "f3"}, "f3", "f2", "f1", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "g"}, "g", "f1", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "m8"}, "m8", "m7", "x6", "m5", "s4", "m3", "x2", "c1", "m1")
}

func branchStopInclusive(p *probe) {
	s := p.session()
	s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "s4"}, "m7", "x6", "m5", "s4")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtType: pistore.TypeBranchSummary}, "m7", "x6", "m5", "s4")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "m7"}, "m7")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtType: pistore.TypeMessage}, "m7")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtType: pistore.TypeCustom}, "m7", "x6")
}

func branchStopBeforeFilter(p *probe) {
	s := p.session()
	s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtType: pistore.TypeBranchSummary, Type: pistore.TypeMessage}, "m7", "m5")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "m3", Type: pistore.TypeCustom}, "x6")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtType: pistore.TypeCustom, Type: pistore.TypeCustom, CustomType: "a"})
}

func branchStopFiltered(p *probe) {
	s := p.session()
	s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "s4", StopAtID: "s4", Type: pistore.TypeMessage})
	s.wantBranch(pistore.BranchQuery{Start: "m5", StopAtID: "s4", Type: pistore.TypeMessage}, "m5")
	s.wantBranch(pistore.BranchQuery{Start: "m5", StopAtID: "s4", Type: pistore.TypeBranchSummary}, "s4")
}

func branchTwoStops(p *probe) {
	s := p.session()
	s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "m5", StopAtType: pistore.TypeCompaction}, "m7", "x6", "m5")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "c1", StopAtType: pistore.TypeCustom}, "m7", "x6")
	s.wantBranch(pistore.BranchQuery{Start: "m3", StopAtID: "m5"}, "m3", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "m3", StopAtID: "nobody"}, "m3", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "m3", StopAtType: pistore.TypeBranchSummary}, "m3", "x2", "c1", "m1")
}

func branchFilter(p *probe) {
	s := p.session()
	s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "m7", Type: pistore.TypeMessage}, "m7", "m5", "m3", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Type: pistore.TypeCustom}, "x6", "x2")
	s.wantBranch(pistore.BranchQuery{Start: "m7", CustomType: "a"}, "x2")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Type: pistore.TypeCustom, CustomType: "b"}, "x6")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Type: pistore.TypeMessage, CustomType: "b"})
}

func branchFilterBeforeLimit(p *probe) {
	s := p.session()
	s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "m7", Type: pistore.TypeCustom, Limit: 2}, "x6", "x2")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Type: pistore.TypeMessage, Limit: 3}, "m7", "m5", "m3")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Type: pistore.TypeMessage, Limit: 99}, "m7", "m5", "m3", "m1")
}

func branchOldestFirst(p *probe) {
	s := p.session()
	s.tree()
	oldest := pistore.Reversed
	s.wantBranch(pistore.BranchQuery{Start: "f2", Order: oldest}, "m1", "c1", "x2", "f1", "f2")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Order: oldest, StopAtType: pistore.TypeCustom}, "x6", "m7")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Order: oldest, Limit: 3}, "m1", "c1", "x2")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Order: oldest, StopAtID: "m3", Limit: 2}, "m3", "s4")
}

func branchCursor(p *probe) {
	s := p.session()
	at := s.tree()
	oldest := pistore.Reversed
	s.wantBranch(pistore.BranchQuery{Start: "m7", Cursor: at["m5"]}, "s4", "m3", "x2", "c1", "m1")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Cursor: at["m5"], Limit: 2}, "s4", "m3")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Order: oldest, Cursor: at["m5"]}, "x6", "m7")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Order: oldest, Cursor: at["c1"], Limit: 2}, "x2", "m3")
	s.wantBranch(pistore.BranchQuery{Start: "m7", Cursor: at["f1"]}, "x2", "c1", "m1") // not on the path: a seq all the same
	s.wantBranch(pistore.BranchQuery{Start: "m7", Cursor: at["m1"]})
	s.wantBranch(pistore.BranchQuery{Start: "m7", Order: oldest, Cursor: at["m7"]})
	s.wantBranch(pistore.BranchQuery{Start: "m3", Cursor: pistore.MaxSeq}, "m3", "x2", "c1", "m1")
}

func branchCursorAndStop(p *probe) {
	s := p.session()
	at := s.tree()
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtType: pistore.TypeCustom, Cursor: at["x6"]})
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "x6", Cursor: at["m5"]})
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "m3", Cursor: at["m5"]}, "s4", "m3")
	s.wantBranch(pistore.BranchQuery{Start: "m7", StopAtID: "m3", Cursor: at["m3"], Order: pistore.Reversed}, "s4", "m5", "x6", "m7")
}

func branchUnknown(p *probe) {
	s := p.session()
	unknown := func(start pistore.ID) {
		got, err := drain(s.st.Branch(p.ctx, pistore.BranchQuery{Start: start}))
		p.wantError("branch from "+string(pistore.QuoteJSON(string(start))), err, pistore.ErrNotFound)
		p.check(len(got) == 0, "branch from %q: %d entries in front of the error", start, len(got))
	}
	unknown("nobody")
	s.commit(message("e", ""), usage("u", `{}`), set("k", `1`))
	for _, start := range []pistore.ID{"nobody", "u", "k", "", "E", "e "} {
		unknown(start)
	}
}

func branchStructure(p *probe) {
	s := p.session()
	s.tree()
	for _, q := range []pistore.BranchQuery{
		{Start: "m7"}, {Start: "m7", Order: pistore.Reversed, Limit: 3}, {Start: "m7", CustomType: "a"}, {Start: "m7", StopAtType: pistore.TypeBranchSummary},
	} {
		want := s.branch(q)
		for i := range want {
			want[i].Payload = ""
		}
		q.StructureOnly = true
		equal(p, "structure of "+describeBranch(q), s.branch(q), want)
	}
}

func branchMalformed(p *probe) {
	s := p.session()
	s.commit(message("e", ""))
	for _, q := range []pistore.BranchQuery{
		{Start: "e", Limit: -1}, {Start: "e", Cursor: -1}, {Start: "e", Order: 2}, {Start: "e", Order: -1},
	} {
		_, err := drain(s.st.Branch(p.ctx, q))
		p.wantError("branch "+describeBranch(q), err, pistore.ErrInvalid)
	}
}
