package jsonl

import (
	"fmt"
	"strings"
	"testing"

	"pistore"
)

func userLine(id, parent string) string {
	return `{'type':'message','id':'` + id + `','parentId':'` + parent + `',@,'message':{'role':'user','content':'` + id + `'}}`
}

func compactionLine(id, parent, rest string) string {
	return `{'type':'compaction','id':'` + id + `','parentId':'` + parent + `',@,'summary':'S'` + rest + `}`
}

// TestRetainedTails shows what a compaction keeps of what stands before it: the
// roles, or the whole messages where it matters.
func TestRetainedTails(t *testing.T) {
	first := `{'type':'message','id':'a','parentId':null,@,'message':{'role':'user','content':'a'}}`
	user := func(id string) string { return `{'role':'user','content':'` + id + `'}` }
	// A path of one of each: what gives nothing stands between what gives something.
	mixed := []string{
		first,
		compactionLine("old", "a", `,'firstKeptEntryId':'a'`),
		`{'type':'label','id':'l','parentId':'old',@,'targetId':'a'}`,
		`{'type':'message','id':'err','parentId':'l',@,'message':{'role':'assistant','stopReason':'error'}}`,
		`{'type':'message','id':'abo','parentId':'err',@,'message':{'role':'assistant','stopReason':'aborted'}}`,
		`{'type':'message','id':'def','parentId':'abo',@,'message':{'role':'assistant','stopReason':'deferred'}}`,
		`{'type':'message','id':'len','parentId':'def',@,'message':{ 'n':1.0, 'role':'assistant','stopReason':'length'}}`,
		`{'type':'custom','id':'c','parentId':'len',@,'customType':'c'}`,
		`{'type':'custom_message','id':'cm','parentId':'c',@,'customType':'t','content':'x'}`,
		`{'type':'branch_summary','id':'bs','parentId':'cm',@,'summary':'B','fromId':'l'}`,
		`{'type':'branch_summary','id':'bt','parentId':'bs',@,'summary':'','fromId':'root'}`,
		`{'type':'usage','id':'u','parentId':'bt',@,'usage':{}}`,
	}
	tail := []string{
		user("a"), `{'n':1.0,'role':'assistant','stopReason':'length'}`,
		`{'role':'custom','customType':'t','content':'x','timestamp':1767225601000}`,
		`{'role':'branchSummary','summary':'B','fromId':'<old>'}`,
	}
	sources := []string{"a", "len", "cm", "bs"}
	edit := func(id, parent, target, replacement string) string {
		return `{'type':'context_edit','id':'` + id + `','parentId':'` + parent + `',@,'targetId':'` + target + `','replacement':` + replacement + `}`
	}
	for _, tt := range []struct {
		name          string
		lines         []string
		tail, sources []string
		faults        []string
	}{
		{"from the root", append(mixed, compactionLine("k", "u", `,'firstKeptEntryId':'a'`)), tail, sources, nil},
		{"from a discarded record on", append(mixed, compactionLine("k", "u", `,'firstKeptEntryId':'l'`)), tail[1:], sources[1:], nil},
		{"from an older compaction on", append(mixed, compactionLine("k", "u", `,'firstKeptEntryId':'old'`)), tail[1:], sources[1:], nil},
		{"an edit that leaves a call without an id changes nothing", []string{
			first, edit("e", "a", "a", `{'content':[{'type':'toolCall','name':'n'}]}`), compactionLine("k", "e", `,'firstKeptEntryId':'a'`),
		}, tail[:1], sources[:1], []string{"unusable-value@3"}},
		{"from itself", append(mixed, compactionLine("k", "u", `,'firstKeptEntryId':'k'`)), nil, nil, nil},
		{"from nowhere", append(mixed, compactionLine("k", "u", `,'firstKeptEntryId':'x'`)), nil, nil, []string{"dangling-reference@14"}},
		{"from no id", append(mixed, compactionLine("k", "u", `,'firstKeptEntryId':3`)), nil, nil, []string{"dangling-reference@14"}},
		{"from nothing", append(mixed, compactionLine("k", "u", ``)), nil, nil, []string{"dangling-reference@14"}},
		{"from another branch", append(mixed, userLine("side", "a"), compactionLine("k", "u", `,'firstKeptEntryId':'side'`)), nil, nil, []string{"dangling-reference@15"}},
		{"from later", append(mixed, compactionLine("k", "u", `,'firstKeptEntryId':'late'`), userLine("late", "k")), nil, nil, []string{"dangling-reference@14"}},
		{"edits in force", []string{
			first, userLine("b", "a"), userLine("c", "b"), userLine("d", "c"),
			edit("e1", "d", "a", `null`), edit("e2", "e1", "a", `{'content':[]}`), edit("e3", "e2", "b", `null`),
			edit("e4", "e3", "c", `{}`), edit("e5", "e4", "zz", `null`),
			compactionLine("k", "e5", `,'firstKeptEntryId':'a'`), edit("e6", "k", "d", `null`),
		}, []string{`{'role':'user','content':[]}`, user("c"), user("d")}, []string{"a", "c", "d"}, []string{"unusable-value@9", "dangling-reference@10"}},
		{"edits before what is kept do not count", []string{
			first, edit("e1", "a", "b", `null`), userLine("b", "e1"), compactionLine("k", "b", `,'firstKeptEntryId':'b'`),
		}, []string{user("b")}, []string{"b"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, _ := importText(t, v3(tt.lines...))
			found := false
			for _, row := range rows(t, f) {
				if !strings.HasPrefix(row, "<k> after") {
					continue
				}
				found = true
				wantTail := `'retainedTail':[` + strings.Join(tt.tail, ",") + `]`
				if len(tt.sources) > 0 {
					wantTail += `,'retainedSources':['<` + strings.Join(tt.sources, `>','<`) + `>']`
				}
				if !strings.HasSuffix(row, `{'summary':'S',`+wantTail+`}`) {
					t.Errorf("row %s\nwithout %s", row, wantTail)
				}
			}
			if !found {
				t.Fatal("no compaction")
			}
			if got := fmt.Sprint(faultsOf(f.Report())); got != fmt.Sprint(tt.faults) {
				t.Errorf("faults %v instead of %v", got, tt.faults)
			}
		})
	}
}

func TestCompactionMembers(t *testing.T) {
	run(t, []rule{
		{"carry over", v3(`{'type':'compaction','id':'k','parentId':null,@,'firstKeptEntryId':'k','summary':'S','tokensBefore':1e3,'details':{},` +
			`'usage':{'input':1},'fromHook':false,'systemMessage':{'role':'system','content':'x'},'retainedTail':1,'sum':2}`), []string{
			`<k> after root: compaction {'summary':'S','tokensBefore':1e3,'details':{},'usage':{'input':1},'fromHook':false,` +
				`'systemMessage':{'role':'system','content':'x'},'legacy.retainedTail':1,'legacy.sum':2,'retainedTail':[]}`,
			`lane.leaf/main = '<k>'`,
			`adjusting usage of : {'input':1,'output':0,'cacheRead':0,'cacheWrite':0,'totalTokens':0,` +
				`'cost':{'input':0,'output':0,'cacheRead':0,'cacheWrite':0,'total':0}} {'source':'v3-import'}`,
		}, nil},
	})
}

func TestIndexOfVersion1(t *testing.T) {
	const header = `{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}`
	message := func(text string) string {
		return `{'type':'message',@,'message':{'role':'user','content':'` + text + `'}}`
	}
	for _, tt := range []struct {
		index, kept string
		faults      int
	}{
		{"1", "ab", 0}, {"2", "b", 0}, {"3", "", 0}, {"0", "", 1}, {"4", "", 1}, {"-1", "", 1}, {"99999999999", "", 1}, {"'x'", "", 1}, {"1.5", "", 1},
	} {
		text := fileOf(header, message("a"), message("b"), `{'type':'compaction',@,'summary':'S','firstKeptEntryIndex':`+tt.index+`}`, message("c"))
		f, r := importText(t, text)
		got := ""
		for e := range f.ScanEntries(t.Context(), pistore.ScanQuery{Type: pistore.TypeCompaction}) {
			for _, kept := range []string{"a", "b", "c"} {
				if strings.Contains(string(e.Payload), `"content":"`+kept+`"`) {
					got += kept
				}
			}
		}
		if got != tt.kept || len(r.Faults) != tt.faults {
			t.Errorf("index %s keeps %q with faults %v", tt.index, got, r.Faults)
		}
	}
}

// TestTailsStayInProportion has every compaction retain everything before it.
func TestTailsStayInProportion(t *testing.T) {
	lines := []string{`{'type':'message','id':'0','parentId':null,@,'message':{'role':'user','content':'` + strings.Repeat("x", 1<<20) + `'}}`}
	for i := range 40 {
		lines = append(lines, compactionLine(fmt.Sprint(i+1), fmt.Sprint(i), `,'firstKeptEntryId':'0'`))
	}
	f, r := importText(t, v3(lines...))
	if r.Errors < 20 || r.Errors > 35 || r.Faults[0].Kind != kindTooLarge {
		t.Errorf("%d errors", r.Errors)
	}
	if stats, err := f.Stats(t.Context()); err != nil || stats.Entries != 41 {
		t.Errorf("%d entries, %v", stats.Entries, err)
	}
}
