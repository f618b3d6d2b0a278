package conformance

import (
	"slices"
	"strings"

	"pistore"
)

func registerRows() []row {
	return []row{
		{id: "REG-01", title: "a register that was set is read with its value and the seq of its write",
			advice: "store the seq of the write that last set the register beside its value", check: regSet},
		{id: "REG-02", title: "setting replaces value and seq",
			advice: "a set overwrites the cell, with no history and no merging", inv: []int{3}, check: regReplace},
		{id: "REG-03", title: "a deleted register is absent in every read",
			advice: "delete removes the cell from batches and listings; no tombstone shows", inv: []int{3}, check: regDelete},
		{id: "REG-04", title: "a deleted register can be set again",
			advice: "a set after a delete creates the cell anew under its own seq", inv: []int{3}, check: regRecreate},
		{id: "REG-05", title: "deleting an absent register is legal and takes a seq",
			advice: "accept the delete as a write without effect", check: regDeleteAbsent},
		{id: "REG-06", title: "null is a value",
			advice: "do not take the JSON value null for absence or for a delete", inv: []int{3}, check: regNull},
		{id: "REG-07", title: "every kind of JSON is a value",
			advice: "a register holds any JSON value, scalars and the empty string included", check: regKinds},
		{id: "REG-08", title: "a listing is in bytewise key order, beyond the BMP too",
			advice: "compare the UTF-8 bytes of keys; comparing UTF-16 code units, or by a locale, puts U+10000 in front of U+FFFF", check: regOrder},
		{id: "REG-09", title: "a listing keeps to its namespace",
			advice: "separate namespace and key so that ns/ab + c, ns/a + bc, and a namespace that another one starts with do not mix", check: regNamespaces},
		{id: "REG-10", title: "the empty prefix lists the whole namespace",
			advice: "treat an empty prefix as no filter", check: regEmptyPrefix},
		{id: "REG-11", title: "the empty key is a key",
			advice: "accept, list, find and delete the register with key \"\"", check: regEmptyKey},
		{id: "REG-12", title: "a prefix that is a whole key lists that key too",
			advice: "the range of a prefix starts at the prefix itself, inclusive", check: regWholeKey},
		{id: "REG-13", title: "a prefix ends where its bytes end, high bytes included",
			advice: "the upper bound of a prefix is not prefix+1 in its last character: U+10FFFF has a last byte that carries, and longer keys go on", check: regHighBytes},
		{id: "REG-14", title: "a prefix may be any part of a key",
			advice: "wildcards of a query language (%, _, *, [) and case mean nothing in a prefix", check: regWildcards},
		{id: "REG-15", title: "a batch returns the registers that exist",
			advice: "leave absent addresses out without an error", check: regBatch},
		{id: "REG-16", title: "keys are exact",
			advice: "do not fold case, trim, or normalize Unicode in keys and namespaces", check: regExactKeys},
	}
}

func regSet(p *probe) {
	s := p.session()
	r := s.commit(set("a", `1`), set("b", `{"x":[true]}`))
	equal(p, "register a", s.register("ns", "a"), pistore.Register{Namespace: "ns", Key: "a", Value: `1`, Seq: r.Seqs[0]})
	equal(p, "register b", s.register("ns", "b"), pistore.Register{Namespace: "ns", Key: "b", Value: `{"x":[true]}`, Seq: r.Seqs[1]})
}

func regReplace(p *probe) {
	s := p.session()
	s.commit(set("a", `{"long":"value"}`))
	r := s.commit(set("a", `2`))
	want := pistore.Register{Namespace: "ns", Key: "a", Value: `2`, Seq: r.FirstSeq}
	equal(p, "register by address", s.register("ns", "a"), want)
	equal(p, "listing", s.prefix("ns", ""), []pistore.Register{want})
}

func regDelete(p *probe) {
	s := p.session()
	s.commit(set("a", `1`), set("b", `1`), set("c", `1`))
	s.commit(del("b"))
	equal(p, "deleted register by address", s.register("ns", "b"), pistore.Register{})
	equal(p, "keys by prefix", keys(s.prefix("ns", "")), []string{"a", "c"})
	equal(p, "keys by the prefix of the deleted one", keys(s.prefix("ns", "b")), nil)
}

func regRecreate(p *probe) {
	s := p.session()
	s.commit(set("a", `1`))
	s.commit(del("a"))
	r := s.commit(set("a", `2`))
	equal(p, "register", s.prefix("ns", ""), []pistore.Register{{Namespace: "ns", Key: "a", Value: `2`, Seq: r.FirstSeq}})
}

func regDeleteAbsent(p *probe) {
	s := p.session()
	a := s.commit(del("absent"))
	b := s.commit(set("k", `1`), del("absent"), del("absent"))
	p.check(a.FirstSeq > 0 && b.FirstSeq > a.FirstSeq, "deletes of an absent register: seq %d, then %d", a.FirstSeq, b.FirstSeq)
	p.check(b.Seqs[0] < b.Seqs[1] && b.Seqs[1] < b.Seqs[2], "seqs %v do not rise", b.Seqs)
	equal(p, "keys", keys(s.prefix("ns", "")), []string{"k"})
}

func regNull(p *probe) {
	s := p.session()
	r := s.commit(set("a", `null`))
	want := pistore.Register{Namespace: "ns", Key: "a", Value: `null`, Seq: r.FirstSeq}
	equal(p, "register by address", s.register("ns", "a"), want)
	equal(p, "listing", s.prefix("ns", ""), []pistore.Register{want})
}

func regKinds(p *probe) {
	s := p.session()
	for _, value := range []pistore.JSON{`true`, `false`, `0`, `-1.5`, `""`, `"x"`, `[]`, `{}`, `[[],{}]`, `{"id":1,"kind":"x","seq":[]}`} {
		s.commit(set("k", value))
		equal(p, "value", s.register("ns", "k").Value, value)
	}
}

// orderedKeys are keys in bytewise order that other orders mix up.
var orderedKeys = []string{
	"", "\x01", " ", "A", "B", "a", "a\x01", "a!", "a/", "aa", "a\U0010ffff", "b", "z", "\x7f", "\u0080", "é", "ÿ", "Ā",
	"\ud7ff", "\ue000", "\ufffd", "\uffff", "\U00010000", "\U0001f600", "\U0010fffe", "\U0010ffff", "\U0010ffff\x01", "\U0010ffff\U0010ffff",
}

func regOrder(p *probe) {
	s := p.session()
	shuffled := slices.Clone(orderedKeys)
	newRand(uint64(p.cfg.Seed)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, k := range shuffled {
		s.commit(set(k, `1`))
	}
	equal(p, "keys of the namespace", keys(s.prefix("ns", "")), orderedKeys)
}

func regNamespaces(p *probe) {
	s := p.session()
	names := []string{"a", "ab", "a/b", "a.b", "a\x01", "A", "b", "a\U0010ffff"}
	for _, ns := range names {
		for _, key := range []string{"", "b", "b/c", "/b"} {
			s.commit(pistore.SetRegister{Namespace: ns, Key: key, Value: pistore.QuoteJSON(ns + "|" + key)})
		}
	}
	for _, ns := range names {
		want := []string{}
		for _, key := range []string{"", "/b", "b", "b/c"} {
			want = append(want, string(pistore.QuoteJSON(ns+"|"+key)))
		}
		var got []string
		for _, r := range s.prefix(ns, "") {
			got = append(got, string(r.Value))
			p.check(r.Namespace == ns, "listing of namespace %q: a register of %q", ns, r.Namespace)
		}
		equal(p, "values of namespace "+string(pistore.QuoteJSON(ns)), got, want)
	}
	equal(p, "a namespace that nobody used", s.prefix("a/", ""), nil)
}

func regEmptyPrefix(p *probe) {
	s := p.session()
	equal(p, "listing of an empty session", s.prefix("ns", ""), nil)
	s.commit(set("a", `1`), set("b", `1`), set("ü", `1`))
	equal(p, "keys", keys(s.prefix("ns", "")), []string{"a", "b", "ü"})
}

func regEmptyKey(p *probe) {
	s := p.session()
	r := s.commit(set("", `1`))
	want := pistore.Register{Namespace: "ns", Key: "", Value: `1`, Seq: r.FirstSeq}
	equal(p, "register by address", s.register("ns", ""), want)
	equal(p, "listing", s.prefix("ns", ""), []pistore.Register{want})
	s.commit(del(""))
	equal(p, "listing after the delete", s.prefix("ns", ""), nil)
}

func regWholeKey(p *probe) {
	s := p.session()
	s.commit(set("a", `1`), set("ab", `1`), set("abc", `1`), set("ac", `1`), set("b", `1`))
	equal(p, "keys by prefix ab", keys(s.prefix("ns", "ab")), []string{"ab", "abc"})
	equal(p, "keys by prefix abc", keys(s.prefix("ns", "abc")), []string{"abc"})
	equal(p, "keys by prefix abcd", keys(s.prefix("ns", "abcd")), nil)
}

func regHighBytes(p *probe) {
	s := p.session()
	top := "\U0010ffff"
	for _, k := range []string{"a", "a\x7f", "a\u0080", "aÿ", "a" + top, "a" + top + top, "b", "\x7f", "\x7fz", "ÿ", "ÿ" + top, top, top + "a", top + top} {
		s.commit(set(k, `1`))
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"a", []string{"a", "a\x7f", "a\u0080", "aÿ", "a" + top, "a" + top + top}},
		{"a" + top, []string{"a" + top, "a" + top + top}},
		{"\x7f", []string{"\x7f", "\x7fz"}},
		{"ÿ", []string{"ÿ", "ÿ" + top}},
		{top, []string{top, top + "a", top + top}},
		{top + top, []string{top + top}},
	} {
		equal(p, "keys by prefix "+string(pistore.QuoteJSON(c.prefix)), keys(s.prefix("ns", c.prefix)), c.want)
	}
}

func regWildcards(p *probe) {
	s := p.session()
	for _, k := range []string{"%", "%a", "_", "_a", "*", "[a", "\\", "'", "\"", "a", "A", "ab", "?"} {
		s.commit(set(k, `1`))
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"%", []string{"%", "%a"}}, {"_", []string{"_", "_a"}}, {"*", []string{"*"}}, {"[", []string{"[a"}},
		{"\\", []string{"\\"}}, {"'", []string{"'"}}, {"\"", []string{"\""}},
		{"a", []string{"a", "ab"}}, {"A", []string{"A"}}, {"?", []string{"?"}}, {"a%", nil}, {"^", nil},
	} {
		equal(p, "keys by prefix "+c.prefix, keys(s.prefix("ns", c.prefix)), c.want)
	}
}

func regBatch(p *probe) {
	s := p.session()
	r := s.commit(set("a", `1`), set("b", `2`), pistore.SetRegister{Namespace: "other", Key: "a", Value: `3`})
	equal(p, "empty batch", s.registers(), nil)
	equal(p, "batch of absent registers", s.registers(pistore.Address{Namespace: "ns", Key: "x"}, pistore.Address{Namespace: "x", Key: "a"}), nil)
	equal(p, "batch", s.registers(
		pistore.Address{Namespace: "other", Key: "a"}, pistore.Address{Namespace: "ns", Key: "x"},
		pistore.Address{Namespace: "ns", Key: "b"}, pistore.Address{Namespace: "ns", Key: "a"},
	), []pistore.Register{
		{Namespace: "ns", Key: "a", Value: `1`, Seq: r.Seqs[0]},
		{Namespace: "ns", Key: "b", Value: `2`, Seq: r.Seqs[1]},
		{Namespace: "other", Key: "a", Value: `3`, Seq: r.Seqs[2]},
	})
}

func regExactKeys(p *probe) {
	s := p.session()
	exact := []string{"key", "Key", "key ", " key", "é", "e\u0301", "ß", "ss", "K", "\u212a", strings.Repeat("k", 1000)}
	for _, k := range exact {
		s.commit(set(k, pistore.QuoteJSON(k)))
	}
	for _, k := range exact {
		equal(p, "value of key "+k, s.register("ns", k).Value, pistore.QuoteJSON(k))
	}
	p.check(len(s.prefix("ns", "")) == len(exact), "%d registers, want %d: keys were taken for one another", len(s.prefix("ns", "")), len(exact))
}
