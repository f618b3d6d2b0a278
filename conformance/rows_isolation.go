package conformance

import (
	"slices"

	"pistore"
)

func isolationRows() []row {
	return []row{
		{id: "TX-30", title: "the caller may reuse the slices of a transaction",
			advice: "copy what is kept of Tx.Writes and Tx.Expect before Commit returns", check: isolateInputs},
		{id: "TX-31", title: "the caller owns the seqs of a receipt",
			advice: "return a slice that the store does not keep", check: isolateReceipt},
		{id: "TX-32", title: "the caller owns the slices that reads return",
			advice: "return fresh slices of rows, not those that the store or another reader holds", check: isolateOutputs},
		{id: "TX-33", title: "Commit does not change the transaction it is given",
			advice: "work on a copy of Tx.Writes and Tx.Expect: the caller may commit the same value to two stores", check: keepInputs},
	}
}

func isolateInputs(p *probe) {
	s := p.session()
	writes := []pistore.Write{message("e", ""), set("k", `1`), usage("u", `{"input":1}`)}
	want := s.commit(writes...)
	writes[0], writes[1], writes[2] = message("x", ""), set("k", `2`), usage("y", `{"input":2}`)
	equal(p, "entries after the caller reused its slice", entryIDs(s.scanEntries(pistore.ScanQuery{})), []pistore.ID{"e"})
	equal(p, "registers after the caller reused its slice", s.prefix("ns", ""),
		[]pistore.Register{{Namespace: "ns", Key: "k", Value: `1`, Seq: want.Seqs[1]}})
	equal(p, "usage rows after the caller reused its slice", s.scanUsage(pistore.ScanQuery{}),
		[]pistore.UsageRow{{ID: "u", Seq: want.Seqs[2], Usage: `{"input":1}`}})
}

func isolateReceipt(p *probe) {
	s := p.session()
	r := s.commit(message("a", ""), set("k", `1`))
	kept := slices.Clone(r.Seqs)
	clear(r.Seqs)
	next := s.commit(message("b", "a"), set("l", `1`))
	p.check(next.FirstSeq > kept[1], "seq %d after %d: the receipt's slice is the store's own", next.FirstSeq, kept[1])
	p.check(s.entry("a").Seq == kept[0], "entry a moved to seq %d when the caller changed its receipt", s.entry("a").Seq)
	equal(p, "seqs of the first receipt after another commit", r.Seqs, []pistore.Seq{0, 0})
}

func isolateOutputs(p *probe) {
	s := p.session()
	s.commit(message("a", ""), set("k", `1`))
	s.commit(message("b", "a"), set("l", `1`))
	ids := []pistore.ID{"a", "b"}
	at := []pistore.Address{{Namespace: "ns", Key: "k"}, {Namespace: "ns", Key: "l"}}
	entries, registers := s.entries(ids...), s.registers(at...)
	wantEntries, wantRegisters := slices.Clone(entries), slices.Clone(registers)
	clear(entries)
	clear(registers)
	equal(p, "entries after the caller cleared its result", s.entries(ids...), wantEntries)
	equal(p, "registers after the caller cleared its result", s.registers(at...), wantRegisters)
	equal(p, "the ids that the caller asked for", ids, []pistore.ID{"a", "b"})
}

func keepInputs(p *probe) {
	s := p.session()
	tx := pistore.Tx{
		Writes: []pistore.Write{
			pistore.InsertEntry{ID: "e", Type: pistore.TypeCustom, CustomType: "c"},
			pistore.SetRegister{Namespace: "ns", Key: "k", Value: ` [ 1 ] `},
		},
		Expect: []pistore.Precondition{expect("k", 0), expect("a", 0)},
	}
	want := pistore.Tx{Writes: slices.Clone(tx.Writes), Expect: slices.Clone(tx.Expect)}
	s.commitTx(tx)
	equal(p, "transaction after Commit", tx, want)
}
