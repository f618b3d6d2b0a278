package conformance

import (
	"errors"

	"pistore"
)

func preconditionRows() []row {
	return []row{
		{id: "TX-20", title: "a transaction whose preconditions hold is committed",
			advice: "compare each precondition with the seq of the write that last set the register", check: preHold},
		{id: "TX-21", title: "a precondition that does not hold is a conflict, and nothing is written",
			advice: "test every precondition before any write, and refuse with a *ConflictError", check: preFail},
		{id: "TX-22", title: "the conflict names the first failing precondition in the given order",
			advice: "test preconditions in the order of Tx.Expect; Want is the seq asked for, Got the register's, 0 if absent", check: preFirst},
		{id: "TX-23", title: "precondition 0 means absent, after a delete too",
			advice: "an absent register is at seq 0; a deleted one leaves no trace behind", inv: []int{3}, check: preAbsent},
		{id: "TX-24", title: "preconditions are tested against committed state only",
			advice: "a transaction's own writes never count for its preconditions", check: preOwnWrites},
		{id: "TX-25", title: "preconditions are tested before duplicates and parents",
			advice: "a transaction with a conflict and a duplicate id is a conflict", check: preBeforeIDs},
		{id: "TX-26", title: "a transaction without writes tests its preconditions",
			advice: "do not return early for an empty transaction that has preconditions", check: preOnly},
		{id: "TX-27", title: "a conflict does not fault the store",
			advice: "a refusal before admission leaves the store usable", check: preUsable},
	}
}

func preHold(p *probe) {
	s := p.session()
	first := s.commit(set("a", `1`), set("b", `1`)).Seqs
	s.commitTx(pistore.Tx{
		Writes: []pistore.Write{set("a", `2`)},
		Expect: []pistore.Precondition{expect("b", first[1]), expect("a", first[0]), expect("c", 0), expect("a", first[0])},
	})
	p.check(s.register("ns", "a").Value == `2`, "the write behind preconditions that hold is missing")
}

func preFail(p *probe) {
	s := p.session()
	old := s.commit(set("a", `1`)).FirstSeq
	s.commit(set("a", `2`))
	now := s.register("ns", "a")
	for _, seq := range []pistore.Seq{old, now.Seq + 1, 0} {
		s.refuse(pistore.ErrConflict, pistore.Tx{
			Writes: []pistore.Write{message("e", ""), usage("u", `{}`)},
			Expect: []pistore.Precondition{expect("a", seq)},
		})
	}
	// Same key, other namespace: the address is the pair.
	s.refuse(pistore.ErrConflict, pistore.Tx{Expect: []pistore.Precondition{{Namespace: "other", Key: "a", Seq: now.Seq}},
		Writes: []pistore.Write{message("e", "")}})
	equal(p, "entries after the conflicts", len(s.scanEntries(pistore.ScanQuery{})), 0)
	equal(p, "usage rows after the conflicts", len(s.scanUsage(pistore.ScanQuery{})), 0)
}

func preFirst(p *probe) {
	s := p.session()
	a := s.commit(set("a", `1`)).FirstSeq
	b := s.commit(set("b", `1`)).FirstSeq
	for _, c := range []struct {
		expect []pistore.Precondition
		want   pistore.ConflictError
	}{
		{[]pistore.Precondition{expect("a", a), expect("b", a), expect("a", 0)}, pistore.ConflictError{Namespace: "ns", Key: "b", Want: a, Got: b}},
		{[]pistore.Precondition{expect("z", 7), expect("b", a)}, pistore.ConflictError{Namespace: "ns", Key: "z", Want: 7, Got: 0}},
		{[]pistore.Precondition{expect("b", b), expect("b", 0), expect("a", b)}, pistore.ConflictError{Namespace: "ns", Key: "b", Want: 0, Got: b}},
	} {
		err := s.refuse(pistore.ErrConflict, pistore.Tx{Expect: c.expect, Writes: []pistore.Write{message("e", "")}})
		if p.cfg.lacks(NoErrorDetails) {
			continue
		}
		var conflict *pistore.ConflictError
		p.check(errors.As(err, &conflict), "the error is a %T, not a *ConflictError", err)
		equal(p, "conflict", *conflict, c.want)
	}
}

func preAbsent(p *probe) {
	s := p.session()
	absent := pistore.Tx{Writes: []pistore.Write{set("k", `1`)}, Expect: []pistore.Precondition{expect("k", 0)}}
	first := s.commitTx(absent).FirstSeq
	s.refuse(pistore.ErrConflict, absent)
	s.commit(del("k"))
	s.refuse(pistore.ErrConflict, pistore.Tx{Expect: []pistore.Precondition{expect("k", first)}, Writes: absent.Writes})
	second := s.commitTx(absent).FirstSeq
	s.refuse(pistore.ErrConflict, pistore.Tx{Expect: []pistore.Precondition{expect("k", first)}, Writes: absent.Writes})
	s.commitTx(pistore.Tx{Expect: []pistore.Precondition{expect("k", second)}, Writes: absent.Writes})
}

func preOwnWrites(p *probe) {
	s := p.session()
	at := s.commit(set("k", `1`)).FirstSeq
	// Holds before the transaction, would not hold behind its own writes.
	next := s.commitTx(pistore.Tx{
		Expect: []pistore.Precondition{expect("k", at), expect("new", 0)},
		Writes: []pistore.Write{set("k", `2`), set("new", `1`), del("k"), set("k", `3`)},
	}).Seqs[3]
	// Does not hold before the transaction, would hold behind its own writes.
	s.refuse(pistore.ErrConflict, pistore.Tx{
		Expect: []pistore.Precondition{expect("k", 0)},
		Writes: []pistore.Write{del("k"), message("e", "")},
	})
	s.refuse(pistore.ErrConflict, pistore.Tx{
		Expect: []pistore.Precondition{expect("k", next+1)},
		Writes: []pistore.Write{set("k", `4`), message("e", "")},
	})
}

func preBeforeIDs(p *probe) {
	s := p.session()
	s.commit(message("e", ""))
	conflict := []pistore.Precondition{expect("absent", 1)}
	s.refuse(pistore.ErrConflict, pistore.Tx{Expect: conflict, Writes: []pistore.Write{message("e", "")}})
	s.refuse(pistore.ErrConflict, pistore.Tx{Expect: conflict, Writes: []pistore.Write{message("f", "nobody")}})
}

func preOnly(p *probe) {
	s := p.session()
	at := s.commit(set("k", `1`)).FirstSeq
	r, err := s.try(pistore.Tx{Expect: []pistore.Precondition{expect("k", at)}})
	p.noError("transaction of a precondition that holds", err)
	p.check(len(r.Seqs) == 0 && r.FirstSeq == 0, "a transaction without writes got seqs %v from %d", r.Seqs, r.FirstSeq)
	s.refuse(pistore.ErrConflict, pistore.Tx{Expect: []pistore.Precondition{expect("k", at+1)}})
}

func preUsable(p *probe) {
	s := p.session()
	for i := range 20 {
		s.refuse(pistore.ErrConflict, pistore.Tx{Expect: []pistore.Precondition{expect("k", pistore.Seq(i+1))},
			Writes: []pistore.Write{message("e", "")}})
	}
	_, err := s.try(txOf(message("e", "")))
	p.noError("commit after conflicts", err)
}
