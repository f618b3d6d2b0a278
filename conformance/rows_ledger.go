package conformance

import (
	"fmt"
	"strings"

	"pistore"
)

func ledgerRows() []row {
	const exact = "add decimals exactly, never as binary floating point, and print them without exponent, trailing zeros or -0"
	return []row{
		{id: "LED-01", title: "an empty ledger sums up to zeros", advice: "a sum of nothing is the decimal 0, not an empty text", check: ledgerEmpty},
		{id: "LED-02", title: "sums are exact", advice: exact, check: ledgerExact},
		{id: "LED-03", title: "huge and tiny numbers add up without loss", advice: exact, check: ledgerRange},
		{id: "LED-04", title: "adjustments may be negative",
			advice: "negative numbers count in adjustments only, and a sum may fall below zero", check: ledgerAdjustments},
		{id: "LED-05", title: "unusable values add nothing and are counted by row",
			advice: "null, strings, other non-numbers, negative numbers outside adjustments, more than 64 digits and exponents beyond 400 are unknown", check: ledgerUnusable},
		{id: "LED-06", title: "only known fields in exact case count; extra ones are kept",
			advice: "match the names of fields exactly, and store the whole object", check: ledgerExtra},
		{id: "LED-07", title: "totalTokens and cost.total are summed as given",
			advice: "derive no total from its parts; reasoning is part of output already", check: ledgerAsGiven},
		{id: "LED-08", title: "statistics of the receipt, of Stats and of the rows agree after every commit",
			advice: "update statistics in the same transaction as the rows", check: ledgerAgree},
		{id: "LED-09", title: "sums do not depend on the order of rows", advice: exact, check: ledgerOrder},
		{id: "LED-10", title: "a usage row keeps all of its fields",
			advice: "keep EntryID (which is not checked), Adjustment, and details, absent or null, as given", inv: []int{1}, check: ledgerFields},
		{id: "LED-11", title: "entries are counted, and those of type message",
			advice: "Stats.Messages counts the type message only", check: ledgerCounts},
	}
}

func zeroTotals() pistore.Totals { return totals(nil) }

func ledgerEmpty(p *probe) {
	s := p.session()
	equal(p, "statistics of an empty session", s.stats(), pistore.Stats{Usage: zeroTotals()})
	s.commit(set("k", `{"input":1}`), entryOf("e", "", pistore.TypeCompaction, ""))
	equal(p, "statistics without usage rows", s.stats(), pistore.Stats{Entries: 1, Usage: zeroTotals()})
}

// ledger commits usage objects, one row each, and returns the totals.
func (s *session) ledger(adjustment bool, objects ...pistore.JSON) pistore.Totals {
	var receipt pistore.Receipt
	for _, object := range objects {
		id := pistore.ID(fmt.Sprint("row after commit ", s.commits))
		receipt = s.commit(pistore.InsertUsage{ID: id, Usage: object, Adjustment: adjustment})
	}
	got := s.stats().Usage
	equal(s.p, "totals of the receipt", receipt.Stats.Usage, got)
	return got
}

func ledgerExact(p *probe) {
	s := p.session()
	want := zeroTotals()
	want.Rows, want.Input, want.Cost.Total = 2, "0.3", "0.3"
	equal(p, "0.1 + 0.2", s.ledger(false, `{"input":0.1,"cost":{"total":0.1}}`, `{"input":0.2,"cost":{"total":0.2}}`), want)
	want.Rows, want.Input, want.CacheRead = 5, "100.3", "9007199254740993"
	equal(p, "1e2, 9007199254740992 + 1 and -0", s.ledger(false, `{"input":1e2}`, `{"cacheRead":9007199254740992}`, `{"cacheRead":1.0}`), want)
	want.Rows, want.Output = 105, "1"
	hundredths := make([]pistore.JSON, 100)
	for i := range hundredths {
		hundredths[i] = `{"output":0.010}`
	}
	equal(p, "a hundred times 0.010", s.ledger(false, hundredths...), want)
}

func ledgerRange(p *probe) {
	s := p.session()
	digits := strings.Repeat("9", 64)
	got := s.ledger(false,
		`{"input":1e400,"output":1e-400,"cost":{"input":`+pistore.JSON(digits)+`}}`,
		`{"input":1E-400,"output":3E+10,"cost":{"input":1}}`)
	want := zeroTotals()
	want.Rows = 2
	want.Input = pistore.Decimal("1" + strings.Repeat("0", 400) + "." + strings.Repeat("0", 399) + "1")
	want.Output = pistore.Decimal("30000000000." + strings.Repeat("0", 399) + "1")
	want.Cost.Input = pistore.Decimal("1" + strings.Repeat("0", 64))
	equal(p, "totals", got, want)
}

func ledgerAdjustments(p *probe) {
	s := p.session()
	s.ledger(false, `{"input":5,"cost":{"total":0.25}}`)
	want := zeroTotals()
	want.Rows, want.Input, want.Output, want.Cost.Total = 2, "-2", "-0.5", "0"
	equal(p, "totals", s.ledger(true, `{"input":-7,"output":-5e-1,"cost":{"total":-0.250}}`), want)
	want.Rows, want.Input = 3, "0"
	equal(p, "totals", s.ledger(true, `{"input":2,"output":-0}`), want)
}

func ledgerUnusable(p *probe) {
	s := p.session()
	want := zeroTotals()
	for _, unusable := range []pistore.JSON{
		`null`, `"1"`, `true`, `[]`, `{}`, `-1`, `-0.5`, pistore.JSON(strings.Repeat("1", 65)), `1e401`, `1e-401`, `1e99999999999999999999`,
	} {
		want.Rows++
		want.Unusable++
		want.Output = pistore.Decimal(fmt.Sprint(want.Rows))
		equal(p, "totals after input "+string(unusable), s.ledger(false, `{"output":1,"input":`+unusable+`}`), want)
	}
	want.Rows++
	want.Unusable++
	equal(p, "totals after three unusable values in one row", s.ledger(false, `{"input":null,"cacheRead":"x","cost":{"total":null}}`), want)
	want.Rows++
	want.Unusable++
	equal(p, "totals after an unusable value in an adjustment", s.ledger(true, `{"input":"-1"}`), want)
}

func ledgerExtra(p *probe) {
	s := p.session()
	object := pistore.JSON(`{"Input":5,"INPUT":"x","input":1,"extra":-7,"cost":{"Total":9,"total":0.5,"other":"x"},"server":{"input":3}}`)
	want := zeroTotals()
	want.Rows, want.Input, want.Cost.Total = 1, "1", "0.5"
	equal(p, "totals", s.ledger(false, object), want)
	equal(p, "stored object", s.scanUsage(pistore.ScanQuery{})[0].Usage, object)
}

func ledgerAsGiven(p *probe) {
	s := p.session()
	want := zeroTotals()
	want.Rows = 2
	want.Input, want.Output, want.CacheRead, want.CacheWrite, want.CacheWrite1h, want.Reasoning, want.TotalTokens = "1", "20", "3", "4", "5", "6", "7"
	want.Cost = pistore.CostTotals{Input: "0.1", Output: "0.2", CacheRead: "0.3", CacheWrite: "0.4", Total: "5"}
	equal(p, "totals", s.ledger(false,
		`{"input":1,"output":20,"cacheRead":3,"cacheWrite":4,"cacheWrite1h":5,"reasoning":6,"totalTokens":7,`+
			`"cost":{"input":0.1,"output":0.2,"cacheRead":0.3,"cacheWrite":0.4,"total":5}}`,
		`{}`), want)
}

func ledgerAgree(p *probe) {
	s := p.session()
	m := newModel()
	for i := range 20 {
		id := pistore.ID(fmt.Sprint(i))
		tx := txOf(
			usage("a"+id, pistore.JSON(fmt.Sprintf(`{"input":%d.%d,"cost":{"total":0.0%d}}`, i, i, i+1))),
			message("e"+id, ""),
			usage("b"+id, `{"input":null,"output":1e2}`),
		)
		if i%3 == 0 {
			tx = txOf(set("k", `1`))
		}
		r := s.commitTx(tx)
		p.noError("receipt", m.apply(tx, r))
		what := fmt.Sprintf("after commit %d", i+1)
		equal(p, "statistics of the receipt "+what, r.Stats, m.stats())
		equal(p, "Stats "+what, s.stats(), m.stats())
	}
}

func ledgerOrder(p *probe) {
	objects := []pistore.JSON{`{"input":1e40}`, `{"input":0.1}`, `{"input":-1e40}`, `{"input":1e-40}`, `{"input":0.2}`, `{"input":7}`}
	want := zeroTotals()
	want.Rows, want.Input = 6, "7.3000000000000000000000000000000000000001"
	for turn := range objects {
		turned := append(append([]pistore.JSON{}, objects[turn:]...), objects[:turn]...)
		equal(p, fmt.Sprintf("totals of the rows turned by %d", turn), p.session().ledger(true, turned...), want)
	}
}

func ledgerFields(p *probe) {
	s := p.session()
	r := s.commit(
		pistore.InsertUsage{ID: "plain", Usage: `{"input":1}`},
		pistore.InsertUsage{ID: "full", Usage: `{}`, EntryID: "no such entry", Adjustment: true, Details: `{"id":[1.0]}`},
		pistore.InsertUsage{ID: "null", Usage: `{"kind":1,"id":2,"seq":3}`, Details: `null`},
	)
	want := []pistore.UsageRow{
		{ID: "plain", Seq: r.Seqs[0], Usage: `{"input":1}`},
		{ID: "full", Seq: r.Seqs[1], Usage: `{}`, EntryID: "no such entry", Adjustment: true, Details: `{"id":[1.0]}`},
		{ID: "null", Seq: r.Seqs[2], Usage: `{"kind":1,"id":2,"seq":3}`, Details: `null`},
	}
	equal(p, "usage rows", s.scanUsage(pistore.ScanQuery{}), want)
	if p.cfg.reopens() {
		s.reopen()
		equal(p, "usage rows after reopening", s.scanUsage(pistore.ScanQuery{}), want)
	}
}

func ledgerCounts(p *probe) {
	s := p.session()
	want := pistore.Stats{Usage: zeroTotals()}
	for _, t := range []pistore.EntryType{
		pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary, pistore.TypeCustom, pistore.TypeMessage,
	} {
		custom := ""
		if t == pistore.TypeCustom {
			custom = "message"
		}
		want.Entries++
		if t == pistore.TypeMessage {
			want.Messages++
		}
		s.commit(entryOf(pistore.ID(fmt.Sprint(want.Entries)), "", t, custom))
		equal(p, "statistics after an entry of type "+string(t), s.stats(), want)
	}
}
