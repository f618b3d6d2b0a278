package jsonl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/ledger"
	"pistore/verify"
)

// TestAbsurdUsage puts one value that cannot be counted at every place where a
// file tells of usage: it is named with its line, and every other value counts.
func TestAbsurdUsage(t *testing.T) {
	places := []struct{ name, record string }{
		{"answer", `{'type':'message','id':'x','parentId':null,@,'message':{'role':'assistant','content':[],'usage':%s}}`},
		{"result", `{'type':'message','id':'x','parentId':null,@,'message':{'role':'toolResult','toolCallId':'t','content':[],'usage':%s}}`},
		{"compaction", `{'type':'compaction','id':'x','parentId':null,@,'summary':'s','firstKeptEntryId':'x','usage':%s}`},
		{"summary", `{'type':'branch_summary','id':'x','parentId':null,@,'fromId':'root','summary':'s','usage':%s}`},
		{"usage record", `{'type':'usage','id':'x','parentId':null,@,'usage':%s}`},
	}
	values := []string{
		"1e300", "1e400", "1e401", "1e-400", "1e-35", "1e20", "100000000000000000000", "-1", "null", "true", "'7'", "[]",
		"0." + strings.Repeat("1", 35), strings.Repeat("1", 65), "1e99999999999999999999",
	}
	for _, place := range places {
		for _, value := range values {
			for _, usage := range []string{
				`{'input':5,'output':` + value + `,'cost':{'total':0.25}}`,
				`{'input':5,'cost':{'input':` + value + `,'total':0.25}}`,
			} {
				text := v3(
					`{'type':'message','id':'a','parentId':null,@,'message':{'role':'assistant','content':[],'usage':{'input':0.1,'output':3,'totalTokens':1e2,'cost':{'total':1e-30}}}}`,
					fmt.Sprintf(place.record, usage),
					`{'type':'usage','id':'u','parentId':null,@,'usage':{'input':1,'x':1e300}}`)
				f, r := importText(t, text)
				if diff := cmp.Diff([]string{"absurd-usage@3"}, faultsOf(r)); diff != "" {
					t.Fatalf("%s %s: %s", place.name, usage, diff)
				}
				stats, err := f.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				u := stats.Usage
				got := []string{string(u.Input), string(u.Output), string(u.TotalTokens), string(u.Cost.Input), string(u.Cost.Total)}
				want := []string{"6.1", "3", "100", "0", "0.25" + strings.Repeat("0", 27) + "1"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s %s: %s", place.name, usage, diff)
				}
				if report, err := verify.Check(t.Context(), f, verify.Options{Deep: true}); err != nil || len(report.Faults) > 0 {
					t.Errorf("%s %s: %v, %v", place.name, usage, report.Faults, err)
				}
			}
		}
	}
}

// TestUsageRecordKeepsWhatItSaid keeps a usage that is counted in another form.
func TestUsageRecordKeepsWhatItSaid(t *testing.T) {
	run(t, []rule{{"a number out of range", v3(
		`{'type':'usage','id':'u','parentId':null,@,'usage':{'input':1e300,'output':2,'cost':{'total':1e-300,'x':1}}}`), []string{
		`lane.leaf/main = null`,
		`usage of : {'input':null,'output':2,'cost':{'total':null,'x':1}} {'legacy.usage':{'input':1e300,'output':2,'cost':{'total':1e-300,'x':1}}}`,
	}, []string{"absurd-usage@2"}}})
}

// TestSumsFit adds up the largest and the finest numbers that count, as often as
// a file can hold records: the sum is one number that the ledger takes.
func TestSumsFit(t *testing.T) {
	const whole, fine = "99999999999999999999", "0.0000000000000000000000000000000001"
	for _, value := range []string{whole, fine, "1e19", "1e-34", "9.9e18"} {
		usage := pistore.JSON(`{"input":` + value + `}`)
		if got := ImportedUsage(usage); got != usage {
			t.Errorf("%s is counted as %s", usage, got)
		}
	}
	var sum ledger.Sum
	sum.AddUsage(`{"input":`+whole+`}`, false)
	sum.AddUsage(`{"input":`+fine+`}`, false)
	for range 31 { // 2^31 records, which are numbered by 32 bits
		if err := sum.AddTotals(sum.Totals()); err != nil {
			t.Fatal(err)
		}
	}
	im := &importer{sum: sum}
	var again ledger.Sum
	again.AddUsage(im.adjustment(), true)
	if got, want := again.Totals(), sum.Totals(); again.Unusable() != 0 || got.Input != want.Input {
		t.Errorf("%s instead of %s", got.Input, want.Input)
	}
}
