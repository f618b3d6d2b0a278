package conformance

import (
	"fmt"
	"strings"

	"pistore"
)

func payloadRows() []row {
	const asGiven = "store JSON as text; never decode it into numbers, maps or Go strings and encode it again"
	return []row{
		{id: "JSN-01", title: "number literals survive as written", advice: asGiven, check: texts(
			`1.0`, `1e2`, `1E+02`, `-0`, `-0.0`, `0.1000`, `12345678901234567890`, `123456789012345678901234567890.123456789`, `1e400`, `1e-400`,
			`9007199254740993`, `0.1`, `[1,1.0,1.00,1e0]`)},
		{id: "JSN-02", title: "key order and duplicate keys survive", advice: asGiven, check: texts(
			`{"z":1,"a":2,"m":3}`, `{"a":1,"a":2}`, `{"a":1,"b":2,"a":1}`, `{"":1,"":2}`, `{"b":{"y":1,"x":2},"a":[]}`)},
		{id: "JSN-03", title: "odd-case keys stand beside structural members",
			advice: "match structural names in exact case only: encoding/json lets ID override id", check: payloadOddCase},
		{id: "JSN-04", title: "escapes survive as written, \\u0000 and lone surrogates included", advice: asGiven, check: texts(
			`"\u0000"`, `"\ud800"`, `"\udc00x"`, `"\ud83d\ude00"`, `"\udc00\ud800"`, `"\/"`, `"\u00e9"`, `"\u00E9"`, `"\n\t\b\f\r"`, `"\u000a"`,
			`"\\u0000"`, `"\u003c\u003e\u0026"`, `{"\u0000":1,"\ud800":2}`, `"\u2028"`)},
		{id: "JSN-05", title: "raw characters survive, U+2028 and HTML ones included", advice: asGiven, check: texts(
			"\"\u2028\u2029\"", `"<&>'"`, "\"é e\u0301 \U0001f600 \U0010ffff \ufffd \uffff \ufeff\x7f\u0080\"", "{\"\u2028\":1}", "\"\ue000\ud7ff\"")},
		{id: "JSN-06", title: "insignificant white space is removed, that in strings kept",
			advice: "store what Tx.Admit returns, not what the caller gave", check: payloadWhite},
		{id: "JSN-07", title: "nesting of 1,000 is accepted and read back",
			advice: "do not run a JSON library with a lower depth over payloads", check: payloadDeep},
		{id: "JSN-08", title: "nesting of 1,001 is refused in every form",
			advice: "call Tx.Admit: it returns the *LimitError", check: payloadTooDeep},
		{id: "JSN-09", title: "strings of megabytes survive",
			advice: "what can be committed can be read back: no fixed line-reader buffer, no column limit", check: payloadMegabytes},
		{id: "JSN-10", title: "structural names are refused as top-level members of a payload",
			advice: "call Tx.Admit; a name spelled with escapes is the same name; deeper levels, registers and usage are free", check: payloadStructural},
		{id: "JSN-11", title: "raw invalid UTF-8 is refused in every form",
			advice: "call Tx.Admit; nothing may turn bad bytes into U+FFFD", check: payloadInvalidUTF8},
		{id: "JSN-12", title: "what is no JSON is refused in every form",
			advice: "call Tx.Admit: it returns ErrInvalid", check: payloadMalformed},
		{id: "JSN-13", title: "payload and usage are objects; only a custom entry may lack its payload",
			advice: "call Tx.Admit; an absent custom payload is stored as {}", check: payloadObjects},
	}
}

// texts returns a check that every text survives in every form.
func texts(values ...pistore.JSON) func(*probe) {
	return func(p *probe) { roundTrip(p, values, values) }
}

// roundTrip commits each given text in every form and reads back the stored ones
// by every kind of read, before and after reopening.
func roundTrip(p *probe, given, stored []pistore.JSON) {
	s := p.session()
	parent := pistore.ID("")
	for i, v := range given {
		id := pistore.ID(fmt.Sprintf("%03d", i))
		s.commit(
			pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: `{"v":` + v + `}`},
			pistore.InsertUsage{ID: "u" + id, Usage: `{"v":` + v + `}`, Details: v},
			set(string(id), v),
		)
		parent = id
	}
	s.wantTexts(parent, stored, "")
	if p.cfg.reopens() {
		s.reopen()
		s.wantTexts(parent, stored, " after reopening")
	}
}

func (s *session) wantTexts(newest pistore.ID, stored []pistore.JSON, when string) {
	scan := s.scanEntries(pistore.ScanQuery{})
	branch := s.branch(pistore.BranchQuery{Start: newest, Order: pistore.Reversed})
	ledger := s.scanUsage(pistore.ScanQuery{})
	listing := s.prefix("ns", "")
	s.p.check(len(scan) == len(stored) && len(branch) == len(stored) && len(ledger) == len(stored) && len(listing) == len(stored),
		"%d entries, %d on the branch, %d usage rows, %d registers%s, want %d of each",
		len(scan), len(branch), len(ledger), len(listing), when, len(stored))
	for i, want := range stored {
		object := `{"v":` + want + `}`
		s.sameText("payload in a scan"+when, scan[i].Payload, object)
		s.sameText("payload on a branch"+when, branch[i].Payload, object)
		s.sameText("payload by id"+when, s.entry(scan[i].ID).Payload, object)
		s.sameText("usage"+when, ledger[i].Usage, object)
		s.sameText("details"+when, ledger[i].Details, want)
		s.sameText("register in a listing"+when, listing[i].Value, want)
		s.sameText("register by address"+when, s.register("ns", listing[i].Key).Value, want)
	}
}

// sameText compares without a diff, which would be unreadable for long texts.
func (s *session) sameText(what string, got, want pistore.JSON) {
	s.p.check(got == want, "%s: got %s, want %s", what, short(got), short(want))
}

func payloadOddCase(p *probe) {
	s := p.session()
	payload := pistore.JSON(`{"ID":"x","Id":1,"Seq":999,"SEQ":0,"ParentID":"p","parentid":"q","Timestamp":5,"TYPE":"custom","customtype":"c","CustomType":"d","Kind":"z","SUM":1,"payload":{}}`)
	r := s.commit(pistore.InsertEntry{ID: "e", Type: pistore.TypeMessage, Payload: payload},
		pistore.InsertUsage{ID: "u", Usage: `{"ID":"x","Seq":7,"USAGE":{},"EntryID":"z"}`}, set("k", `{"Key":"x","VALUE":1,"Seq":2}`))
	wantEntries := []pistore.Entry{{ID: "e", Seq: r.Seqs[0], Timestamp: r.Timestamp, Type: pistore.TypeMessage, Payload: payload}}
	wantUsage := []pistore.UsageRow{{ID: "u", Seq: r.Seqs[1], Usage: `{"ID":"x","Seq":7,"USAGE":{},"EntryID":"z"}`}}
	wantRegisters := []pistore.Register{{Namespace: "ns", Key: "k", Value: `{"Key":"x","VALUE":1,"Seq":2}`, Seq: r.Seqs[2]}}
	for _, when := range []string{"", " after reopening"} {
		if when != "" && !p.cfg.reopens() {
			break
		}
		if when != "" {
			s.reopen()
		}
		equal(p, "entries"+when, s.scanEntries(pistore.ScanQuery{}), wantEntries)
		equal(p, "usage rows"+when, s.scanUsage(pistore.ScanQuery{}), wantUsage)
		equal(p, "registers"+when, s.prefix("ns", ""), wantRegisters)
	}
}

func payloadWhite(p *probe) {
	roundTrip(p,
		[]pistore.JSON{" 1", "{ \"a\" : [ 1 , 2 ] ,\n\t\"b c\":\r\n{ } }", "\"  a \u00a0 b  \"", "[ \" \\\" \" , \"\\\\\" ]", "\ttrue\n"},
		[]pistore.JSON{"1", "{\"a\":[1,2],\"b c\":{}}", "\"  a \u00a0 b  \"", "[\" \\\" \",\"\\\\\"]", "true"})
}

// nested returns a value of the given nesting.
func nested(depth int) pistore.JSON {
	var b strings.Builder
	for i := range depth {
		b.WriteString([]string{"[", `{"":`}[i%2])
	}
	b.WriteString("0")
	for i := depth - 1; i >= 0; i-- {
		b.WriteString([]string{"]", "}"}[i%2])
	}
	return pistore.JSON(b.String())
}

func payloadDeep(p *probe) {
	texts(nested(pistore.MaxJSONDepth-1), pistore.JSON(strings.Repeat("[", 999)+strings.Repeat("]", 999)))(p)
	s := p.session()
	s.commit(set("k", nested(pistore.MaxJSONDepth)))
	s.sameText("register of the deepest value", s.register("ns", "k").Value, nested(pistore.MaxJSONDepth))
}

// everyForm returns a write of each form and place that holds the text: entry
// payload and usage only if it is an object.
func everyForm(text pistore.JSON) []pistore.Write {
	return []pistore.Write{
		pistore.InsertEntry{ID: "e", Type: pistore.TypeMessage, Payload: text},
		pistore.InsertEntry{ID: "e", Type: pistore.TypeCustom, CustomType: "c", Payload: text},
		pistore.InsertUsage{ID: "u", Usage: text},
		pistore.InsertUsage{ID: "u", Usage: `{}`, Details: text},
		set("k", text),
	}
}

func payloadTooDeep(p *probe) {
	s := p.session()
	deep := nested(pistore.MaxJSONDepth)
	for _, w := range everyForm(`{"v":` + deep + `}`) {
		s.refuseLimit("nesting", w, pistore.MaxJSONDepth+1, pistore.MaxJSONDepth)
	}
}

func payloadMegabytes(p *probe) {
	long := pistore.JSON(`"` + strings.Repeat("0123456789abcde\\n", 1<<16) + `"`)
	texts(long, `{"a":`+long+`,"b":`+long+`}`, pistore.JSON("["+strings.Repeat(`"é",`, 1<<18)+"0]"))(p)
}

func payloadStructural(p *probe) {
	s := p.session()
	names := []string{"kind", "id", "parentId", "seq", "timestamp", "type", "customType", "sum"}
	for _, name := range append(names, `\u0069d`, `se\u0071`, `\u0073\u0075\u006d`) {
		payload := pistore.JSON(`{"a":1,"` + name + `":1}`)
		s.refuse(pistore.ErrInvalid, txOf(pistore.InsertEntry{ID: "e", Type: pistore.TypeMessage, Payload: payload}))
		s.refuse(pistore.ErrInvalid, txOf(pistore.InsertEntry{ID: "e", Type: pistore.TypeCustom, CustomType: "c", Payload: payload}))
	}
	for i, name := range names {
		id := pistore.ID(fmt.Sprint(i))
		free := pistore.JSON(`{"` + name + `":1}`)
		_, err := s.try(txOf(
			pistore.InsertEntry{ID: "e" + id, Type: pistore.TypeMessage, Payload: `{"deeper":` + free + `}`},
			pistore.InsertUsage{ID: "u" + id, Usage: free, Details: free}, set("k", free),
		))
		p.noError("commit with "+name+" where it is free", err)
	}
}

func payloadInvalidUTF8(p *probe) {
	s := p.session()
	for _, bad := range []string{"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"} {
		for _, w := range everyForm(pistore.JSON(`{"v":"` + bad + `"}`)) {
			s.refuse(pistore.ErrInvalid, txOf(w))
		}
		s.refuse(pistore.ErrInvalid, txOf(set("k", pistore.JSON(`{"`+bad+`":1}`))))
	}
}

func payloadMalformed(p *probe) {
	s := p.session()
	for _, bad := range []pistore.JSON{
		`{`, `}`, `{}{}`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{'a':1}`, `{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":NaN}`, `{"a":Infinity}`,
		`{"a":tru}`, `{"a":[1,]}`, `{"a":"\x"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", `{"a":"`, "\ufeff{}", `{}//`, `{"a":[}]`, ` `,
	} {
		for _, w := range everyForm(bad) {
			s.refuse(pistore.ErrInvalid, txOf(w))
		}
	}
	s.refuse(pistore.ErrInvalid, txOf(set("k", ``)))
	s.refuse(pistore.ErrInvalid, txOf(usage("u", ``)))
}

func payloadObjects(p *probe) {
	s := p.session()
	for _, scalar := range []pistore.JSON{`null`, `1`, `"{}"`, `[]`, `[{}]`, `true`} {
		s.refuse(pistore.ErrInvalid, txOf(pistore.InsertEntry{ID: "e", Type: pistore.TypeMessage, Payload: scalar}))
		s.refuse(pistore.ErrInvalid, txOf(pistore.InsertEntry{ID: "e", Type: pistore.TypeCustom, CustomType: "c", Payload: scalar}))
		s.refuse(pistore.ErrInvalid, txOf(usage("u", scalar)))
	}
	for _, t := range []pistore.EntryType{pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary} {
		s.refuse(pistore.ErrInvalid, txOf(pistore.InsertEntry{ID: "e", Type: t}))
		s.commit(pistore.InsertEntry{ID: pistore.ID("empty " + t), Type: t, Payload: `{}`})
	}
	s.commit(pistore.InsertEntry{ID: "custom", Type: pistore.TypeCustom, CustomType: "c"})
	s.sameText("payload of a custom entry without one", s.entry("custom").Payload, `{}`)
}
