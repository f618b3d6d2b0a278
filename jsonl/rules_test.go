package jsonl

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const idle = `lane.state/main = {'currentOperationId':null,'pendingNextRun':[]}`

// rule is a small file that shows one rule of the format.
type rule struct {
	name   string
	text   string
	rows   []string // without lane.state, which is the same in all
	faults []string
}

func (r rule) check(t *testing.T) {
	f, report := importText(t, r.text)
	var got []string
	for _, row := range rows(t, f) {
		if row != idle {
			got = append(got, row)
		}
	}
	if diff := cmp.Diff(r.rows, got); diff != "" {
		t.Errorf("rows: %s", diff)
	}
	if diff := cmp.Diff(r.faults, faultsOf(report)); diff != "" {
		t.Errorf("faults: %s\n%v", diff, report.Faults)
	}
}

func run(t *testing.T, rules []rule) {
	for _, r := range rules {
		t.Run(r.name, r.check)
	}
}

func TestVersionRules(t *testing.T) {
	const v1, v2 = `{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}`,
		`{"type":"session","version":2,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}`
	hook := `{'type':'message','id':'a','parentId':null,@,'message':{'x':1.0,'role':'hookMessage','y' : '\u0041'}}`
	run(t, []rule{
		{"version 1 is a list", fileOf(v1,
			`{'type':'message',@,'message':{'role':'user','content':'a'}}`,
			`{'type':'thinking_level_change',@,'thinkingLevel':'high'}`,
			`{'type':'custom',@,'customType':'c'}`), []string{
			`<#0> after root: message {'message':{'role':'user','content':'a'}}`,
			`<#2> after <#0>: custom/c {}`,
			`lane.leaf/main = '<#2>'`,
		}, nil},
		{"version 2 renames a role and nothing else", fileOf(v2, hook), []string{
			`<a> after root: message {'message':{'x':1.0,'role':'custom','y':'\u0041'}}`, `lane.leaf/main = '<a>'`,
		}, nil},
		{"version 1 does as well", fileOf(v1, `{'type':'message',@,'message':{'role':'hookMessage'}}`), []string{
			`<#0> after root: message {'message':{'role':'custom'}}`, `lane.leaf/main = '<#0>'`,
		}, nil},
		{"version 3 does not", v3(hook), []string{
			`<a> after root: message {'message':{'x':1.0,'role':'hookMessage','y':'\u0041'}}`, `lane.leaf/main = '<a>'`,
		}, nil},
		{"a missing version over records with ids", fileOf(v1,
			`{'type':'custom','id':'a','parentId':null,@,'customType':'c'}`,
			`{'type':'custom','id':'b','parentId':null,@,'customType':'c'}`), []string{
			`<a> after root: custom/c {}`, `<b> after root: custom/c {}`, `lane.leaf/main = '<b>'`,
		}, []string{"odd-version@1"}},
		{"an odd version over records without", fileOf(`{"type":"session","version":0,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":""}`,
			`{'type':'custom',@,'customType':'c'}`, `{'type':'custom',@,'customType':'c'}`), []string{
			`<#0> after root: custom/c {}`, `<#1> after <#0>: custom/c {}`, `lane.leaf/main = '<#1>'`,
		}, []string{"odd-version@1"}},
		{"names are matched in exact case", v3(
			`{'type':'custom','id':'a','ID':'b','parentId':null,'PARENTID':'x',@,'customType':'c','CustomType':'d'}`), []string{
			`<a> after root: custom/c {'ID':'b','PARENTID':'x','CustomType':'d'}`, `lane.leaf/main = '<a>'`,
		}, nil},
	})
}

func TestOrderRules(t *testing.T) {
	entry := func(id, parent string) string {
		return `{'type':'custom','id':'` + id + `','parentId':` + parent + `,@,'customType':'c'}`
	}
	run(t, []rule{
		{"an entry before its parent moves behind it", v3(
			entry("c", "'b'"), entry("x", "null"), entry("b", "'a'"), entry("a", "null"), entry("d", "'c'")), []string{
			`<x> after root: custom/c {}`, `<a> after root: custom/c {}`, `<b> after <a>: custom/c {}`,
			`<c> after <b>: custom/c {}`, `<d> after <c>: custom/c {}`, `lane.leaf/main = '<d>'`,
		}, []string{"parent-later@2", "parent-later@4"}},
		{"several keep their order, each with what waits for it", v3(
			entry("p", "'a'"), entry("q", "'p'"), entry("r", "'a'"), entry("a", "null"), entry("z", "'a'")), []string{
			`<a> after root: custom/c {}`, `<p> after <a>: custom/c {}`, `<q> after <p>: custom/c {}`,
			`<r> after <a>: custom/c {}`, `<z> after <a>: custom/c {}`, `lane.leaf/main = '<z>'`,
		}, []string{"parent-later@2", "parent-later@4"}},
		{"facts, lane, usage rows and the adjustment follow", v3(
			`{'type':'usage','id':'u','parentId':null,@,'kind':'title','provider':'p','model':'m','usage':{'input':5},'note':'n'}`,
			`{'type':'message','id':'a','parentId':'u',@,'message':{'role':'assistant','usage':{'input':0.1,'cost':{'total':1e-3}}}}`,
			`{'type':'message','id':'b','parentId':'a',@,'message':{'role':'toolResult','toolCallId':'t','usage':{'input':0.2}}}`,
			`{'type':'message','id':'c','parentId':'b',@,'message':{'role':'user','usage':{'input':100}}}`,
			`{'type':'label','id':'l','parentId':'c',@,'targetId':'a','label':'L'}`,
			`{'type':'session_info','id':'n','parentId':'l',@,'name':'N'}`,
			`{'type':'usage','id':'v','parentId':'n',@,'usage':{'output':7}}`), []string{
			`<a> after root: message {'message':{'role':'assistant','usage':{'input':0.1,'cost':{'total':1e-3}}}}`,
			`<b> after <a>: message {'message':{'role':'toolResult','toolCallId':'t','usage':{'input':0.2}}}`,
			`<c> after <b>: message {'message':{'role':'user','usage':{'input':100}}}`,
			`fact.name/ = 'N'`, `fact.label/<a> = 'L'`, `lane.leaf/main = '<c>'`,
			`usage of : {'input':5} {'purpose':'title','provider':'p','modelId':'m','note':'n'}`,
			`usage of <c>: {'output':7} `,
			`adjusting usage of : {'input':0.3,'output':0,'cacheRead':0,'cacheWrite':0,'totalTokens':0,` +
				`'cost':{'input':0,'output':0,'cacheRead':0,'cacheWrite':0,'total':0.001}} {'source':'v3-import'}`,
		}, nil},
		{"a cycle is cut at its first record", v3(
			entry("a", "null"), entry("b", "'d'"), entry("c", "'b'"), entry("d", "'c'"), entry("e", "'c'")), []string{
			`<a> after root: custom/c {}`, `<b> after root: custom/c {}`, `<c> after <b>: custom/c {}`,
			`<d> after <c>: custom/c {}`, `<e> after <c>: custom/c {}`, `lane.leaf/main = '<e>'`,
		}, []string{"parent-cycle@3", "parent-later@3"}},
		{"a missing parent roots an island", v3(
			entry("a", "null"), entry("b", "'nowhere'"), entry("c", "7"), entry("d", "'c'")), []string{
			`<a> after root: custom/c {}`, `<b> after root: custom/c {}`, `<c> after root: custom/c {}`,
			`<d> after <c>: custom/c {}`, `lane.leaf/main = '<d>'`,
		}, []string{"missing-parent@3", "missing-parent@4"}},
		{"a second use of an id", v3(
			entry("a", "null"), entry("b", "'a'"), entry("a", "'b'"), entry("a#2", "'a'"), entry("a", "'a'"), entry("c", "'a'")), []string{
			`<a> after root: custom/c {}`, `<b> after <a>: custom/c {}`, `<a#2> after <b>: custom/c {}`,
			`<a#2#2> after <a>: custom/c {}`, `<a#3> after <a>: custom/c {}`, `<c> after <a>: custom/c {}`,
			`lane.leaf/main = '<c>'`,
		}, []string{"duplicate-id@4", "duplicate-id@6"}},
		{"a line repeated byte for byte", v3(entry("a", "null"), entry("b", "'a'"), entry("a", "null")), []string{
			`<a> after root: custom/c {}`, `<b> after <a>: custom/c {}`, `lane.leaf/main = '<a>'`,
		}, []string{"repeated-line@4"}},
		{"an entry without an id", v3(entry("a", "null"), `{'type':'custom','parentId':'a',@,'customType':'c'}`), []string{
			`<a> after root: custom/c {}`, `<#1> after <a>: custom/c {}`, `lane.leaf/main = '<#1>'`,
		}, []string{"no-id@3"}},
	})
}

func TestContentRules(t *testing.T) {
	run(t, []rule{
		{"custom_message becomes a message", v3(
			`{'type':'custom_message','zz':1,'customType':'t','content':[],'display':false,'details':{'d':1},'id':'a','parentId':null,@}`), []string{
			`<a> after root: message {'message':{'role':'custom','customType':'t','content':[],'display':false,'details':{'d':1},'timestamp':1767225601000},'zz':1}`,
			`lane.leaf/main = '<a>'`,
		}, nil},
		{"extra members stay, structural names prefixed", v3(
			`{'seq':7,'type':'message','id':'a','parentId':null,@,'message':{'role':'user','role':'x'},'kind':'k','sum':'s','\ud800':1e3,'customType':'t'}`), []string{
			`<a> after root: message {'legacy.seq':7,'message':{'role':'user','role':'x'},'legacy.kind':'k','legacy.sum':'s','\ud800':1e3,'legacy.customType':'t'}`,
			`lane.leaf/main = '<a>'`,
		}, nil},
		{"unknown types are kept", v3(
			`{'type':'future','id':'a','parentId':null,@,'kind':'k','p':{'q':[]}}`,
			`{'type':'','id':'b','parentId':'a',@}`,
			`{'type':'\u0007','id':'c','parentId':'b',@,'x':1}`), []string{
			`<a> after root: custom/legacy.future {'data':{'kind':'k','p':{'q':[]}}}`,
			`<b> after <a>: custom/legacy.unnamed {'data':{'type':''}}`,
			`<c> after <b>: custom/legacy.unnamed {'data':{'type':'\u0007','x':1}}`,
			`lane.leaf/main = '<c>'`,
		}, []string{"unknown-type@2", "unknown-type@3", "unknown-type@4"}},
		{"what does not fit its type is kept too", v3(
			`{'type':'message','id':'a','parentId':null,@,'message':'text'}`,
			`{'type':'compaction','id':'b','parentId':'a',@,'summary':7}`,
			`{'type':'branch_summary','id':'c','parentId':'b',@,'summary':'','fromId':1}`,
			`{'type':'custom_message','id':'d','parentId':'c',@}`,
			`{'type':'custom','id':'e','parentId':'d',@,'data':1}`), []string{
			`<a> after root: custom/legacy.message {'data':{'message':'text'}}`,
			`<b> after <a>: custom/legacy.compaction {'data':{'summary':7}}`,
			`<c> after <b>: custom/legacy.branch_summary {'data':{'summary':'','fromId':1}}`,
			`<d> after <c>: custom/legacy.custom_message {'data':{}}`,
			`<e> after <d>: custom/legacy.custom {'data':{'data':1}}`,
			`lane.leaf/main = '<e>'`,
		}, []string{"schema@2", "schema@3", "schema@4", "schema@5", "unknown-type@6"}},
		{"discarded records leave the tree", v3(
			`{'type':'model_change','id':'m','parentId':null,@,'provider':'p','modelId':'x'}`,
			`{'type':'custom','id':'a','parentId':'m',@,'customType':'c'}`,
			`{'type':'thinking_level_change','id':'t','parentId':'a',@,'thinkingLevel':'high'}`,
			`{'type':'active_tools_change','id':'u','parentId':'t',@,'activeToolNames':['r']}`,
			`{'type':'custom','id':'b','parentId':'u',@,'customType':'c'}`,
			`{'type':'label','id':'l','parentId':'b',@,'targetId':'b','label':'x'}`), []string{
			`<a> after root: custom/c {}`, `<b> after <a>: custom/c {}`, `fact.label/<b> = 'x'`, `lane.leaf/main = '<b>'`,
		}, nil},
		{"a context edit", v3(
			`{'type':'message','id':'a','parentId':null,@,'message':{'role':'user'}}`,
			`{'type':'context_edit','id':'e','parentId':'a',@,'targetId':'a','replacement':null,'x':1}`,
			`{'type':'label','id':'l','parentId':'e',@,'targetId':'e','label':''}`,
			`{'type':'context_edit','id':'f','parentId':'l',@,'targetId':'l','replacement':{'content':'c'}}`), []string{
			`<a> after root: message {'message':{'role':'user'}}`,
			`<e> after <a>: custom/legacy.context_edit {'data':{'targetId':'<a>','replacement':null,'x':1}}`,
			`<f> after <e>: custom/legacy.context_edit {'data':{'targetId':'l','replacement':{'content':'c'}}}`,
			`lane.leaf/main = '<f>'`,
		}, []string{"dangling-reference@5"}},
		{"where a branch summary came from", v3(
			`{'type':'session_info','id':'n','parentId':null,@}`,
			`{'type':'custom','id':'a','parentId':'n',@,'customType':'c'}`,
			`{'type':'label','id':'l','parentId':'a',@,'targetId':'a'}`,
			`{'type':'branch_summary','id':'b','parentId':null,@,'fromId':'root','summary':'s','usage':null,'fromHook':true,'details':[]}`,
			`{'type':'branch_summary','id':'c','parentId':null,@,'fromId':'l','summary':'s'}`,
			`{'type':'branch_summary','id':'d','parentId':null,@,'fromId':'n','summary':'s'}`,
			`{'type':'branch_summary','id':'e','parentId':null,@,'summary':'s'}`), []string{
			`<a> after root: custom/c {}`,
			`<b> after root: branch_summary {'fromId':'root','summary':'s','usage':null,'fromHook':true,'details':[]}`,
			`<c> after root: branch_summary {'fromId':'<a>','summary':'s'}`,
			`<d> after root: branch_summary {'fromId':'root','summary':'s'}`,
			`<e> after root: branch_summary {'summary':'s'}`,
			`lane.leaf/main = '<e>'`,
		}, nil},
	})
}

func TestFactRules(t *testing.T) {
	base := []string{
		`{'type':'model_change','id':'m','parentId':null,@}`,
		`{'type':'custom','id':'a','parentId':'m',@,'customType':'c'}`,
		`{'type':'label','id':'l','parentId':'a',@,'targetId':'a','label':'first'}`,
		`{'type':'custom','id':'b','parentId':'a',@,'customType':'c'}`,
	}
	entries := []string{`<a> after root: custom/c {}`, `<b> after <a>: custom/c {}`}
	with := func(name string, lines, facts []string, leaf string, faults ...string) rule {
		r := rule{name: name, text: v3(append(append([]string(nil), base...), lines...)...), faults: faults}
		r.rows = append(append(append(r.rows, entries...), facts...), `lane.leaf/main = '<`+leaf+`>'`)
		return r
	}
	label := func(n, target, rest string) string {
		return `{'type':'label','id':'` + n + `','parentId':'b',@,'targetId':'` + target + `'` + rest + `}`
	}
	run(t, []rule{
		with("the latest label wins", []string{label("1", "a", `,'label':'two'`)}, []string{`fact.label/<a> = 'two'`}, "b"),
		with("an empty label clears", []string{label("1", "a", `,'label':''`)}, nil, "b"),
		with("so does null", []string{label("1", "a", `,'label':null`)}, nil, "b"),
		with("and none", []string{label("1", "a", ``)}, nil, "b"),
		with("a number does not", []string{label("1", "a", `,'label':7`)}, []string{`fact.label/<a> = 'first'`}, "b", "unusable-value@6"),
		with("a label on a label moves up and overwrites", []string{label("1", "l", `,'label':'up'`)}, []string{`fact.label/<a> = 'up'`}, "b"),
		with("a label without an entry above", []string{label("1", "m", `,'label':'x'`)}, []string{`fact.label/<a> = 'first'`}, "b", "dangling-reference@6"),
		with("labels stand by their entries", []string{label("1", "b", `,'label':'B'`), label("2", "a", `,'label':'\ud800'`)},
			[]string{`fact.label/<a> = '\ud800'`, `fact.label/<b> = 'B'`}, "b"),
		with("the latest name wins, on any branch", []string{
			`{'type':'session_info','id':'n','parentId':'b',@,'name':'one'}`, `{'type':'session_info','id':'o','parentId':null,@,'name':'two'}`,
			`{'type':'session_info','id':'p','parentId':'n',@,'name':true}`,
		}, []string{`fact.name/ = 'two'`, `fact.label/<a> = 'first'`}, "b", "unusable-value@8"),
		with("an empty name clears", []string{
			`{'type':'session_info','id':'n','parentId':'b',@,'name':'one'}`, `{'type':'session_info','id':'o','parentId':'n',@,'name':' '}`,
		}, []string{`fact.label/<a> = 'first'`}, "b"),
	})
}
