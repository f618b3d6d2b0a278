package jsonl

import (
	"strings"

	"pistore"
	"pistore/ledger"
)

// Numbers that an import counts are below 10^20 and have at most 34 decimals.
// A file has fewer than 10^10 records, so that any sum fits in the 64 digits
// that the ledger takes of one number.
const (
	maxWholeDigits = 20
	maxDecimals    = 34
)

// addUsage adds what a record used to what the adjustment row will carry.
func (im *importer) addUsage(index int32, usage pistore.JSON) {
	if usage == "" || usage == "null" {
		return
	}
	before := im.sum.Unusable()
	im.sum.AddUsage(ImportedUsage(usage), false)
	im.summed = true
	if im.sum.Unusable() > before {
		im.absurdUsage(index)
	}
}

func (im *importer) absurdUsage(index int32) {
	im.warnAt(kindUsage, im.at(index), index, "a usage with a value that is no number in range; that value adds nothing")
}

// ImportedUsage returns a usage as an import counts it: null takes the place of
// a known number that is so large or so fine that sums of such could outgrow
// what one number may hold. All else stays as it stands.
func ImportedUsage(usage pistore.JSON) pistore.JSON {
	if !longNumbers(usage) || summable(usage) {
		return usage
	}
	o := newObject(len(usage))
	for m := range members(usage) {
		switch {
		case summable(newObject(len(m.name)+len(m.value)+3).put(m.name, m.value).end()):
		case m.text() == "cost":
			m.value = string(importedCost(pistore.JSON(m.value)))
		default:
			m.value = "null"
		}
		o.put(m.name, m.value)
	}
	return o.end()
}

func importedCost(cost pistore.JSON) pistore.JSON {
	o := newObject(len(cost))
	for m := range members(cost) {
		one := newObject(len(m.name)+len(m.value)+3).put(m.name, m.value).end()
		if !summable(newObject(len(one)+10).put(`"cost"`, string(one)).end()) {
			m.value = "null"
		}
		o.put(m.name, m.value)
	}
	return o.end()
}

// longNumbers reports whether a text may hold a number of more than
// maxWholeDigits characters, or one with an exponent. Most have none, and are
// not looked at any closer.
func longNumbers(text pistore.JSON) bool {
	run := 0
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9' || c == '.':
			if run++; run > maxWholeDigits {
				return true
			}
		case (c == 'e' || c == 'E') && run > 0:
			return true
		default:
			run = 0
		}
	}
	return false
}

// summable reports whether every number that the ledger takes from a usage is
// one that an import counts.
func summable(usage pistore.JSON) bool {
	var s ledger.Sum
	s.AddUsage(usage, true)
	t := s.Totals()
	for _, d := range []pistore.Decimal{
		t.Input, t.Output, t.CacheRead, t.CacheWrite, t.CacheWrite1h, t.Reasoning, t.TotalTokens,
		t.Cost.Input, t.Cost.Output, t.Cost.CacheRead, t.Cost.CacheWrite, t.Cost.Total,
	} {
		whole, decimals, _ := strings.Cut(strings.TrimPrefix(string(d), "-"), ".")
		if len(whole) > maxWholeDigits || len(decimals) > maxDecimals {
			return false
		}
	}
	return true
}

// usageRow makes a ledger row of a usage record: its model and its kind go by
// the names that the ledger groups by, everything else stays as it stands. A
// usage that is not counted as it stands is kept beside the one that is.
func (im *importer) usageRow(index int32) pistore.InsertUsage {
	r := &im.records[index]
	row := pistore.InsertUsage{ID: im.ids[index], EntryID: im.entryID(im.ancestor(index)), Usage: "{}"}
	names := map[string]bool{}
	for m := range members(r.body) {
		names[m.text()] = true
	}
	usable := false
	details := newObject(len(r.body))
	for m := range members(r.body) {
		switch name := m.text(); {
		case name == "type", name == "id", name == "parentId", name == "timestamp":
		case name == "usage" && pistore.JSON(m.value).IsObject():
			row.Usage, usable = ImportedUsage(pistore.JSON(m.value)), true
			if string(row.Usage) != m.value {
				details.put(`"`+legacyPrefix+`usage"`, m.value)
			}
		case name == "model" && !names["modelId"]:
			details.put(`"modelId"`, m.value)
		case name == "kind" && !names["purpose"]:
			details.put(`"purpose"`, m.value)
		default:
			details.put(m.name, m.value)
		}
	}
	if details.Len() > 1 {
		row.Details = details.end()
	}
	var sum ledger.Sum
	sum.AddUsage(row.Usage, false)
	if !usable || sum.Unusable() > 0 {
		im.absurdUsage(index)
	}
	r.body = "" // the rest of the line is not needed any more
	return row
}

// adjustment returns the usage of the row that carries what messages, tool
// results, compactions and summaries used.
func (im *importer) adjustment() pistore.JSON {
	t := im.sum.Totals()
	o := newObject(256)
	put := func(o *object, name string, sum pistore.Decimal) { o.put(`"`+name+`"`, string(sum)) }
	put(o, "input", t.Input)
	put(o, "output", t.Output)
	put(o, "cacheRead", t.CacheRead)
	put(o, "cacheWrite", t.CacheWrite)
	if t.CacheWrite1h != "0" {
		put(o, "cacheWrite1h", t.CacheWrite1h)
	}
	if t.Reasoning != "0" {
		put(o, "reasoning", t.Reasoning)
	}
	put(o, "totalTokens", t.TotalTokens)
	cost := newObject(128)
	put(cost, "input", t.Cost.Input)
	put(cost, "output", t.Cost.Output)
	put(cost, "cacheRead", t.Cost.CacheRead)
	put(cost, "cacheWrite", t.Cost.CacheWrite)
	put(cost, "total", t.Cost.Total)
	return o.put(`"cost"`, string(cost.end())).end()
}
