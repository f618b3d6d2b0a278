package conformance

import (
	"errors"
	"fmt"
	"strings"

	"pistore"
)

func limitRows() []row {
	const admit = "call Tx.Admit before anything else: it keeps the limits, the same in every backend"
	return []row{
		{id: "LIM-01", title: "any valid id of 1 to 128 bytes is accepted and kept",
			advice: "ids are not only UUIDs: escape them wherever they become keys, paths or SQL, and compare them exactly", check: idsAccepted},
		{id: "LIM-02", title: "other ids are refused", advice: admit, check: idsRefused},
		{id: "LIM-03", title: "namespaces are 1 to 128 bytes", advice: admit, check: namespaceLimit},
		{id: "LIM-04", title: "keys are up to 1,024 bytes", advice: admit, check: keyLimit},
		{id: "LIM-05", title: "NUL and invalid UTF-8 are refused in addresses", advice: admit, check: addressText},
		{id: "LIM-06", title: "custom entries have a customType of 1 to 128 bytes, others none; types are known ones", advice: admit, check: typeRules},
		{id: "LIM-07", title: "preconditions name valid addresses and seqs", advice: admit, check: preconditionLimits},
		{id: "LIM-08", title: "a payload beyond 64 MiB is refused", advice: admit, needs: []Capability{NoLarge}, check: payloadLimit},
		{id: "LIM-09", title: "a payload of 64 MiB is accepted and read back",
			advice: "what can be committed can be read back, at the limit too", needs: []Capability{NoLarge}, check: payloadAtLimit},
		{id: "LIM-10", title: "a transaction beyond 256 MiB is refused", advice: admit, needs: []Capability{NoLarge}, check: txLimit},
	}
}

// checkLimit ends the row unless err holds a *LimitError of these numbers.
func (p *probe) checkLimit(what string, err error, got, limit int64) {
	if p.cfg.lacks(NoErrorDetails) {
		p.wantError(what, err, pistore.ErrTooLarge)
		return
	}
	var exceeded *pistore.LimitError
	p.check(errors.As(err, &exceeded), "%s: the error is a %T, not a *LimitError", what, err)
	p.check(exceeded.Got == got && exceeded.Max == limit && exceeded.Limit != "",
		"%s: LimitError %+v, want Got %d, Max %d and the limit named", what, *exceeded, got, limit)
}

// oddIDs are valid ids that go wrong where ids become parts of something else.
var oddIDs = []pistore.ID{
	"a", "A", "0", " ", "a ", ".", "..", "a/b", "/", "\\", "a#b", "#1", "'", "\"", "`", "%", "%00", "$", "{}", "null", "é", "e\u0301",
	"\u2028", "\ufffd", "\ufeff", "\uffff", "\U00010000", "\U0010ffff", "entry", "u:a", "a:b", "a|b", "id with spaces",
	pistore.ID(strings.Repeat("x", pistore.MaxIDBytes)), pistore.ID(strings.Repeat("é", pistore.MaxIDBytes/2)),
}

func idsAccepted(p *probe) {
	s := p.session()
	parent := pistore.ID("")
	for _, id := range oddIDs {
		s.commit(message(id, parent))
		parent = id
	}
	s.commit(usage("ledger row", `{}`), pistore.InsertUsage{ID: "second ledger row", Usage: `{}`, EntryID: parent})
	for _, reopened := range []bool{false, true} {
		if reopened && p.cfg.reopens() {
			s.reopen()
		}
		equal(p, "ids in a scan", entryIDs(s.scanEntries(pistore.ScanQuery{})), oddIDs)
		equal(p, "ids on the branch", entryIDs(s.branch(pistore.BranchQuery{Start: parent, Order: pistore.Reversed})), oddIDs)
		equal(p, "entries by id", entryIDs(s.entries(oddIDs...)), oddIDs)
		equal(p, "the entry that a usage row names", s.scanUsage(pistore.ScanQuery{})[1].EntryID, parent)
	}
}

func idsRefused(p *probe) {
	s := p.session()
	s.commit(message("root", ""))
	for _, id := range []pistore.ID{"\x00", "a\n", "\x1f", "\x7f", "\u0080", "\u009f", "\xff", "a\xc3", "\xed\xa0\x80"} {
		s.refuse(pistore.ErrInvalid, txOf(message(id, "")))
		s.refuse(pistore.ErrInvalid, txOf(message("e", id)))
		s.refuse(pistore.ErrInvalid, txOf(usage(id, `{}`)))
		s.refuse(pistore.ErrInvalid, txOf(pistore.InsertUsage{ID: "u", Usage: `{}`, EntryID: id}))
	}
	s.refuse(pistore.ErrInvalid, txOf(message("", "")))
	s.refuse(pistore.ErrInvalid, txOf(usage("", `{}`)))
	long := pistore.ID(strings.Repeat("x", pistore.MaxIDBytes+1))
	for _, w := range []pistore.Write{message(long, ""), message("e", long), usage(long, `{}`), pistore.InsertUsage{ID: "u", Usage: `{}`, EntryID: long}} {
		s.refuseLimit("id", w, pistore.MaxIDBytes+1, pistore.MaxIDBytes)
	}
}

func namespaceLimit(p *probe) {
	s := p.session()
	longest := strings.Repeat("n", pistore.MaxNamespaceBytes)
	r := s.commit(pistore.SetRegister{Namespace: longest, Key: "k", Value: `1`})
	equal(p, "register of the longest namespace", s.prefix(longest, ""), []pistore.Register{{Namespace: longest, Key: "k", Value: `1`, Seq: r.FirstSeq}})
	for _, w := range []pistore.Write{pistore.SetRegister{Namespace: longest + "n", Value: `1`}, pistore.DeleteRegister{Namespace: longest + "n"}} {
		s.refuseLimit("namespace", w, pistore.MaxNamespaceBytes+1, pistore.MaxNamespaceBytes)
	}
	s.refuse(pistore.ErrInvalid, txOf(pistore.SetRegister{Key: "k", Value: `1`}))
	s.refuse(pistore.ErrInvalid, txOf(pistore.DeleteRegister{Key: "k"}))
}

func keyLimit(p *probe) {
	s := p.session()
	longest := strings.Repeat("k", pistore.MaxKeyBytes-4) + "\U0010ffff"
	r := s.commit(set(longest, `1`))
	want := pistore.Register{Namespace: "ns", Key: longest, Value: `1`, Seq: r.FirstSeq}
	equal(p, "register of the longest key", s.register("ns", longest), want)
	equal(p, "listing by the longest prefix", s.prefix("ns", longest), []pistore.Register{want})
	for _, w := range []pistore.Write{set(longest+"k", `1`), del(longest + "k")} {
		s.refuseLimit("key", w, pistore.MaxKeyBytes+1, pistore.MaxKeyBytes)
	}
}

func addressText(p *probe) {
	s := p.session()
	for _, bad := range []string{"\x00", "a\x00b", "\xff", "\xc3", "\xed\xa0\x80"} {
		s.refuse(pistore.ErrInvalid, txOf(set(bad, `1`)))
		s.refuse(pistore.ErrInvalid, txOf(del(bad)))
		s.refuse(pistore.ErrInvalid, txOf(pistore.SetRegister{Namespace: bad, Key: "k", Value: `1`}))
		s.refuse(pistore.ErrInvalid, txOf(pistore.DeleteRegister{Namespace: bad, Key: "k"}))
	}
	// Control characters other than NUL are legal in addresses.
	s.commit(pistore.SetRegister{Namespace: "a\x01\n", Key: "\x1f\t\x7f", Value: `1`})
	equal(p, "key of control characters", keys(s.prefix("a\x01\n", "\x1f")), []string{"\x1f\t\x7f"})
}

func typeRules(p *probe) {
	s := p.session()
	longest := strings.Repeat("c", pistore.MaxCustomTypeBytes)
	s.commit(entryOf("longest", "", pistore.TypeCustom, longest))
	equal(p, "longest customType", s.entry("longest").CustomType, longest)
	s.refuseLimit("customType", entryOf("e", "", pistore.TypeCustom, longest+"c"), pistore.MaxCustomTypeBytes+1, pistore.MaxCustomTypeBytes)
	for _, custom := range []string{"", "\n", "\x00", "\xff", "\u0080"} {
		s.refuse(pistore.ErrInvalid, txOf(entryOf("e", "", pistore.TypeCustom, custom)))
	}
	for _, t := range []pistore.EntryType{pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary} {
		s.refuse(pistore.ErrInvalid, txOf(entryOf("e", "", t, "c")))
	}
	for _, t := range []pistore.EntryType{"", "Message", "label", "message ", "\xff"} {
		s.refuse(pistore.ErrInvalid, txOf(entryOf("e", "", t, "")))
	}
}

func preconditionLimits(p *probe) {
	s := p.session()
	for _, bad := range []pistore.Precondition{
		{Namespace: "", Key: "k"}, {Namespace: "n\x00", Key: "k"}, {Namespace: "ns", Key: "\xff"},
		{Namespace: "ns", Key: "k", Seq: -1}, {Namespace: "ns", Key: "k", Seq: pistore.MaxSeq + 1},
	} {
		s.refuse(pistore.ErrInvalid, pistore.Tx{Expect: []pistore.Precondition{bad}, Writes: []pistore.Write{set("k", `1`)}})
	}
	for _, long := range []pistore.Precondition{
		{Namespace: strings.Repeat("n", pistore.MaxNamespaceBytes+1)}, {Namespace: "ns", Key: strings.Repeat("k", pistore.MaxKeyBytes+1)},
	} {
		s.refuse(pistore.ErrTooLarge, pistore.Tx{Expect: []pistore.Precondition{long}, Writes: []pistore.Write{set("k", `1`)}})
	}
}

// stringOf returns a JSON string of exactly n bytes.
func stringOf(n int) pistore.JSON {
	var b strings.Builder
	b.Grow(n)
	b.WriteByte('"')
	for b.Len() < n-1 {
		const chunk = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		b.WriteString(chunk[:min(len(chunk), n-1-b.Len())])
	}
	b.WriteByte('"')
	return pistore.JSON(b.String())
}

func payloadLimit(p *probe) {
	s := p.session()
	over := stringOf(pistore.MaxPayloadBytes + 1)
	object := `{"v":` + stringOf(pistore.MaxPayloadBytes+1-len(`{"v":}`)) + `}`
	for _, w := range []pistore.Write{
		set("k", over),
		pistore.InsertEntry{ID: "e", Type: pistore.TypeMessage, Payload: object},
		usage("u", object),
		pistore.InsertUsage{ID: "u", Usage: `{}`, Details: over},
	} {
		s.refuseLimit("payload", w, pistore.MaxPayloadBytes+1, pistore.MaxPayloadBytes)
	}
}

func payloadAtLimit(p *probe) {
	s := p.session()
	largest := stringOf(pistore.MaxPayloadBytes)
	s.commit(set("k", largest))
	if p.cfg.reopens() {
		s.reopen()
	}
	s.sameText("the largest value", s.register("ns", "k").Value, largest)
}

func txLimit(p *probe) {
	s := p.session()
	part := stringOf(pistore.MaxPayloadBytes)
	var writes []pistore.Write
	for i := range pistore.MaxTxBytes / pistore.MaxPayloadBytes {
		writes = append(writes, set(fmt.Sprint(i), part))
	}
	err := s.refuse(pistore.ErrTooLarge, txOf(writes...)) // the names are what is too much
	p.check(len(s.prefix("ns", "")) == 0, "registers of the refused transaction are there")
	if p.cfg.lacks(NoErrorDetails) {
		return
	}
	var exceeded *pistore.LimitError
	p.check(errors.As(err, &exceeded), "the error is a %T, not a *LimitError", err)
	p.check(exceeded.Got > pistore.MaxTxBytes && exceeded.Max == pistore.MaxTxBytes, "LimitError %+v, want more than %d of %d", *exceeded, exceeded.Max, pistore.MaxTxBytes)
}
