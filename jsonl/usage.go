package jsonl

import (
	"strconv"
	"strings"

	"pistore"
	"pistore/ledger"
)

// addUsage adds the usage of a compaction or a branch summary to what the
// adjustment row will carry.
func (im *importer) addUsage(record pistore.JSON) {
	usage, _ := record.Member("usage")
	im.addUsageValue(usage)
}

func (im *importer) addUsageValue(usage pistore.JSON) {
	if usage == "" || usage == "null" {
		return
	}
	im.sum.AddUsage(usage, false)
	im.summed = true
}

// absurd reports whether a usage has a value that no total can take in.
func absurd(usage pistore.JSON) bool {
	var s ledger.Sum
	s.AddUsage(usage, false)
	return s.Totals().Unusable > 0
}

// checkUsages names the records whose usage is absurd. It is run only when the
// sum tells that there are some.
func (im *importer) checkUsages() {
	for i := range im.records {
		r := &im.records[i]
		var usage pistore.JSON
		switch r.typ {
		case typeMessage:
			message, _ := r.body.Member("message")
			if f := factsOf(message); f.counts() {
				usage = f.usage
			}
		case typeCompaction, typeBranchSummary:
			usage, _ = r.body.Member("usage")
		default:
			continue
		}
		if usage != "" && usage != "null" && absurd(usage) {
			im.absurdUsage(int32(i))
		}
	}
}

func (im *importer) absurdUsage(index int32) {
	im.warnAt(kindUsage, im.at(index), index, "a usage with a value that is no number in range; it adds nothing")
}

// usageRow makes a ledger row of a usage record: its model and its kind go by
// the names that the ledger groups by, everything else stays as it stands.
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
			row.Usage, usable = pistore.JSON(m.value), true
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
	if !usable || absurd(row.Usage) {
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
	im.putSum(o, "input", t.Input)
	im.putSum(o, "output", t.Output)
	im.putSum(o, "cacheRead", t.CacheRead)
	im.putSum(o, "cacheWrite", t.CacheWrite)
	if t.CacheWrite1h != "0" {
		im.putSum(o, "cacheWrite1h", t.CacheWrite1h)
	}
	if t.Reasoning != "0" {
		im.putSum(o, "reasoning", t.Reasoning)
	}
	im.putSum(o, "totalTokens", t.TotalTokens)
	cost := newObject(128)
	im.putSum(cost, "input", t.Cost.Input)
	im.putSum(cost, "output", t.Cost.Output)
	im.putSum(cost, "cacheRead", t.Cost.CacheRead)
	im.putSum(cost, "cacheWrite", t.Cost.CacheWrite)
	im.putSum(cost, "total", t.Cost.Total)
	return o.put(`"cost"`, string(cost.end())).end()
}

// putSum writes a sum that one number can hold. Sums of numbers of very
// different size may not fit in what the ledger takes as usable.
func (im *importer) putSum(o *object, name string, d pistore.Decimal) {
	text := literal(string(d))
	if absurd(pistore.JSON(`{"input":` + strings.TrimPrefix(text, "-") + `}`)) {
		im.warnAt(kindUsage, line{number: 1}, -1, "the sum of "+name+" has more digits than a number may have; it is left out")
		return
	}
	o.put(`"`+name+`"`, text)
}

// literal writes a canonical decimal with an exponent if it would have very
// many digits without.
func literal(d string) string {
	const most = 64
	if len(d) <= most {
		return d
	}
	whole, fraction, _ := strings.Cut(d, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exp := -len(fraction)
	short := strings.TrimRight(digits, "0")
	return short + "e" + strconv.Itoa(exp+len(digits)-len(short))
}
