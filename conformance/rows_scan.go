package conformance

import (
	"fmt"

	"pistore"
)

func scanRows() []row {
	return []row{
		{id: "QRY-20", title: "a scan without bounds yields every row by rising seq",
			advice: "scan the whole session, all branches, in seq order", check: scanAll},
		{id: "QRY-21", title: "the seq range of a scan is inclusive at both ends",
			advice: "keep FromSeq <= seq <= ToSeq; 0 is no bound", check: scanRange},
		{id: "QRY-22", title: "a reversed scan yields falling seqs",
			advice: "turn the order before the limit counts", check: scanReversed},
		{id: "QRY-23", title: "the filters of a scan come before its limit",
			advice: "count only rows that pass range and filters against the limit", check: scanFilterBeforeLimit},
		{id: "QRY-24", title: "a scan of usage keeps range, order and limit",
			advice: "scan usage like entries; rows of other forms between them do not count", check: scanUsageRows},
		{id: "QRY-25", title: "a malformed scan is ErrInvalid",
			advice: "call ScanQuery.Check first", check: scanMalformed},
		{id: "QRY-26", title: "entries by id are those that exist, each once",
			advice: "leave absent ids and ids of usage rows out without an error, and return a repeated id once", check: entriesByID},
		{id: "QRY-27", title: "an empty session answers every query",
			advice: "no rows are no error", check: emptySession},
		{id: "QRY-28", title: "a scan of the structure has no payloads and all else",
			advice: "with StructureOnly yield the same entries, in the same order, each with an empty Payload", check: scanStructure},
	}
}

// wantScan compares the ids of a scan.
func (s *session) wantScan(q pistore.ScanQuery, want ...pistore.ID) {
	equal(s.p, fmt.Sprintf("scan of entries %+v", q), entryIDs(s.scanEntries(q)), want)
}

func scanAll(p *probe) {
	s := p.session()
	s.tree()
	s.wantScan(pistore.ScanQuery{}, "m1", "c1", "x2", "f1", "m3", "s4", "f2", "m5", "x6", "m7")
}

func scanRange(p *probe) {
	s := p.session()
	at := s.tree()
	s.wantScan(pistore.ScanQuery{FromSeq: at["s4"]}, "s4", "f2", "m5", "x6", "m7")
	s.wantScan(pistore.ScanQuery{ToSeq: at["x2"]}, "m1", "c1", "x2")
	s.wantScan(pistore.ScanQuery{FromSeq: at["x2"], ToSeq: at["m3"]}, "x2", "f1", "m3")
	s.wantScan(pistore.ScanQuery{FromSeq: at["m3"], ToSeq: at["m3"]}, "m3")
	s.wantScan(pistore.ScanQuery{FromSeq: at["m3"], ToSeq: at["x2"]})
	s.wantScan(pistore.ScanQuery{FromSeq: at["m7"] + 1})
	s.wantScan(pistore.ScanQuery{FromSeq: at["x6"], ToSeq: pistore.MaxSeq}, "x6", "m7")
}

func scanReversed(p *probe) {
	s := p.session()
	at := s.tree()
	s.wantScan(pistore.ScanQuery{Order: pistore.Reversed, FromSeq: at["m5"]}, "m7", "x6", "m5")
	s.wantScan(pistore.ScanQuery{Order: pistore.Reversed, ToSeq: at["x2"]}, "x2", "c1", "m1")
	s.wantScan(pistore.ScanQuery{Order: pistore.Reversed, Limit: 2}, "m7", "x6")
	s.wantScan(pistore.ScanQuery{Order: pistore.Reversed, ToSeq: at["m3"], Limit: 2}, "m3", "f1")
}

func scanFilterBeforeLimit(p *probe) {
	s := p.session()
	at := s.tree()
	s.wantScan(pistore.ScanQuery{Type: pistore.TypeMessage, Limit: 3}, "m1", "f1", "m3")
	s.wantScan(pistore.ScanQuery{Type: pistore.TypeCustom}, "x2", "x6")
	s.wantScan(pistore.ScanQuery{CustomType: "b", Limit: 1}, "x6")
	s.wantScan(pistore.ScanQuery{Type: pistore.TypeCustom, CustomType: "a"}, "x2")
	s.wantScan(pistore.ScanQuery{Type: pistore.TypeMessage, CustomType: "a"})
	s.wantScan(pistore.ScanQuery{Type: pistore.TypeMessage, FromSeq: at["s4"], Limit: 2}, "f2", "m5")
	s.wantScan(pistore.ScanQuery{Type: pistore.TypeCompaction, Order: pistore.Reversed, Limit: 1}, "c1")
	s.wantScan(pistore.ScanQuery{Limit: 99, Type: pistore.TypeBranchSummary}, "s4")
}

func scanUsageRows(p *probe) {
	s := p.session()
	var at []pistore.Seq
	for i := range 6 {
		at = append(at, s.commit(usage(pistore.ID(fmt.Sprint("u", i)), `{"input":1}`), set("k", `1`), message(pistore.ID(fmt.Sprint("e", i)), "")).Seqs[0])
	}
	for _, c := range []struct {
		q    pistore.ScanQuery
		want []pistore.ID
	}{
		{pistore.ScanQuery{}, []pistore.ID{"u0", "u1", "u2", "u3", "u4", "u5"}},
		{pistore.ScanQuery{FromSeq: at[1], ToSeq: at[3]}, []pistore.ID{"u1", "u2", "u3"}},
		{pistore.ScanQuery{FromSeq: at[1] + 1, ToSeq: at[3] - 1}, []pistore.ID{"u2"}},
		{pistore.ScanQuery{Limit: 2}, []pistore.ID{"u0", "u1"}},
		{pistore.ScanQuery{Order: pistore.Reversed, Limit: 2}, []pistore.ID{"u5", "u4"}},
		{pistore.ScanQuery{Order: pistore.Reversed, ToSeq: at[1]}, []pistore.ID{"u1", "u0"}},
		{pistore.ScanQuery{FromSeq: at[5] + 1}, nil},
	} {
		var got []pistore.ID
		for _, u := range s.scanUsage(c.q) {
			got = append(got, u.ID)
		}
		equal(p, fmt.Sprintf("scan of usage %+v", c.q), got, c.want)
	}
}

func scanStructure(p *probe) {
	s := p.session()
	at := s.tree()
	for _, q := range []pistore.ScanQuery{
		{}, {Order: pistore.Reversed, Limit: 3}, {CustomType: "a"}, {FromSeq: at["x2"], ToSeq: at["m5"], Type: pistore.TypeMessage},
	} {
		want := s.scanEntries(q)
		for i := range want {
			want[i].Payload = ""
		}
		q.StructureOnly = true
		equal(p, fmt.Sprintf("structure of the entries %+v", q), s.scanEntries(q), want)
	}
}

func scanMalformed(p *probe) {
	s := p.session()
	for _, q := range []pistore.ScanQuery{{Limit: -1}, {FromSeq: -1}, {ToSeq: -1}, {Order: 2}, {Order: -1}} {
		_, err := drain(s.st.ScanEntries(p.ctx, q))
		p.wantError(fmt.Sprintf("scan of entries %+v", q), err, pistore.ErrInvalid)
		_, err = drain(s.st.ScanUsage(p.ctx, q))
		p.wantError(fmt.Sprintf("scan of usage %+v", q), err, pistore.ErrInvalid)
	}
}

func entriesByID(p *probe) {
	s := p.session()
	s.tree()
	s.commit(usage("u", `{}`))
	equal(p, "no ids", len(s.entries()), 0)
	equal(p, "absent ids", len(s.entries("nobody", "", "u", "M1")), 0)
	equal(p, "ids in any order, absent and repeated ones among them",
		entryIDs(s.entries("m7", "nobody", "m1", "m7", "u", "x2", "m1")), []pistore.ID{"m1", "x2", "m7"})
	all := s.scanEntries(pistore.ScanQuery{})
	equal(p, "all entries by id", s.entries(entryIDs(all)...), all)
}

func emptySession(p *probe) {
	s := p.session()
	equal(p, "reads of an empty session", s.state("ns"), state{Stats: pistore.Stats{Usage: zeroTotals()}})
	equal(p, "entries by id", len(s.entries("x")), 0)
	equal(p, "registers by address", len(s.registers(pistore.Address{Namespace: "ns", Key: "k"})), 0)
}
