package conformance

import (
	"fmt"

	"pistore"
)

func txRows() []row {
	return []row{
		{id: "TX-01", title: "one transaction writes any mix of the three forms",
			advice: "apply every write of a transaction, whatever its form, before Commit returns",
			inv:    []int{2, 4}, check: txMixed},
		{id: "TX-02", title: "each write has its own seq, rising in the order given and across commits",
			advice: "number the writes one by one in the order of Tx.Writes; deletes take a seq too, and all forms share one counter",
			inv:    []int{2}, check: txSeqs},
		{id: "TX-03", title: "one commit has one timestamp, that of its receipt",
			advice: "read the clock once per commit and store that instant with every entry of it",
			check:  txTimestamp},
		{id: "TX-04", title: "an entry may name a parent created earlier in the same transaction",
			advice: "let the ids of a transaction count as parents for the writes behind them",
			check:  txParentEarlier},
		{id: "TX-05", title: "an empty transaction is legal and writes nothing",
			advice: "return a receipt with FirstSeq 0, no seqs and the present statistics",
			check:  txEmpty},
		{id: "TX-06", title: "a transaction of a thousand writes is whole",
			advice: "do not split a transaction, and do not bound the number of its writes",
			inv:    []int{2}, check: txThousand},
		{id: "TX-07", title: "writes of one transaction apply in order",
			advice: "apply register writes in the order given: the last one of an address decides",
			check:  txOrder},
	}
}

func txMixed(p *probe) {
	s := p.session()
	s.commit(set("gone", `1`))
	r := s.commit(
		message("e1", ""), usage("u1", `{"input":3}`), set("k", `{"a":[1]}`), del("gone"), message("e2", "e1"),
	)
	equal(p, "entries by id", s.entries("e1", "e2"), []pistore.Entry{
		{ID: "e1", Seq: r.Seqs[0], Timestamp: r.Timestamp, Type: pistore.TypeMessage, Payload: `{"role":"user"}`},
		{ID: "e2", ParentID: "e1", Seq: r.Seqs[4], Timestamp: r.Timestamp, Type: pistore.TypeMessage, Payload: `{"role":"user"}`},
	})
	equal(p, "usage rows", s.scanUsage(pistore.ScanQuery{}), []pistore.UsageRow{{ID: "u1", Seq: r.Seqs[1], Usage: `{"input":3}`}})
	equal(p, "registers", s.prefix("ns", ""), []pistore.Register{
		{Namespace: "ns", Key: "k", Value: `{"a":[1]}`, Seq: r.Seqs[2]},
	})
}

func txSeqs(p *probe) {
	s := p.session()
	last := pistore.Seq(0)
	for i := range 5 {
		id := pistore.ID(fmt.Sprint("n", i))
		r := s.commit(set("k", `1`), message(id, ""), del("k"), del("absent"), usage(id+"u", `{}`))
		p.check(r.FirstSeq == r.Seqs[0], "commit %d: FirstSeq is %d, the first of Seqs %d", i, r.FirstSeq, r.Seqs[0])
		for _, seq := range r.Seqs {
			p.check(seq > last && seq <= pistore.MaxSeq, "commit %d: seqs %v do not rise above %d, the largest given before", i, r.Seqs, last)
			last = seq
		}
		p.check(s.entry(id).Seq == r.Seqs[1], "entry %s is stored at seq %d, its receipt says %d", id, s.entry(id).Seq, r.Seqs[1])
	}
}

func txTimestamp(p *probe) {
	s := p.session()
	for i := range 3 {
		a, b := pistore.ID(fmt.Sprint("a", i)), pistore.ID(fmt.Sprint("b", i))
		r := s.commit(message(a, ""), set("k", `1`), message(b, a))
		p.check(r.Timestamp >= 0 && r.Timestamp <= pistore.MaxSeq, "timestamp %d is out of range", r.Timestamp)
		for _, e := range s.entries(a, b) {
			p.check(e.Timestamp == r.Timestamp, "entry %s has timestamp %d, its receipt %d", e.ID, e.Timestamp, r.Timestamp)
		}
	}
}

func txParentEarlier(p *probe) {
	s := p.session()
	s.commit(message("root", ""))
	s.commit(message("a", "root"), usage("u", `{}`), message("b", "a"), set("k", `1`), message("c", "b"))
	equal(p, "path from the last entry", entryIDs(s.branch(pistore.BranchQuery{Start: "c"})), []pistore.ID{"c", "b", "a", "root"})
}

func txEmpty(p *probe) {
	s := p.session()
	for _, stage := range []string{"in an empty session", "after a commit"} {
		before := s.stats()
		r, err := s.try(pistore.Tx{})
		p.noError("empty transaction "+stage, err)
		p.check(r.FirstSeq == 0 && len(r.Seqs) == 0, "empty transaction %s: seqs %v from %d, want none", stage, r.Seqs, r.FirstSeq)
		equal(p, "statistics of its receipt "+stage, r.Stats, before)
		equal(p, "statistics behind it "+stage, s.stats(), before)
		s.commit(message(pistore.ID("e "+stage), ""))
	}
}

func txThousand(p *probe) {
	s := p.session()
	const n = 1000
	var writes []pistore.Write
	parent := pistore.ID("")
	for i := range n {
		switch i % 4 {
		case 0:
			id := pistore.ID(fmt.Sprint("e", i))
			writes = append(writes, message(id, parent))
			parent = id
		case 1:
			writes = append(writes, usage(pistore.ID(fmt.Sprint("u", i)), `{"input":1}`))
		default:
			writes = append(writes, set(fmt.Sprint("k", i), `1`))
		}
	}
	s.commit(writes...)
	p.check(len(s.scanEntries(pistore.ScanQuery{})) == n/4, "entries are missing")
	p.check(len(s.scanUsage(pistore.ScanQuery{})) == n/4, "usage rows are missing")
	p.check(len(s.prefix("ns", "")) == n/2, "registers are missing")
	p.check(len(s.branch(pistore.BranchQuery{Start: parent})) == n/4, "the path is cut short")
}

func txOrder(p *probe) {
	s := p.session()
	s.commit(set("c", `"old"`), set("d", `"old"`))
	r := s.commit(
		set("a", `1`), set("a", `2`), // twice: the last value
		set("b", `1`), del("b"), // absent
		del("c"), set("c", `3`), // there
		set("d", `4`), del("d"), set("d", `5`),
	)
	equal(p, "registers", s.prefix("ns", ""), []pistore.Register{
		{Namespace: "ns", Key: "a", Value: `2`, Seq: r.Seqs[1]},
		{Namespace: "ns", Key: "c", Value: `3`, Seq: r.Seqs[5]},
		{Namespace: "ns", Key: "d", Value: `5`, Seq: r.Seqs[8]},
	})
}
