package conformance

import (
	"strings"

	"pistore"
)

// What generated programs draw from: few values, so that they meet, and odd ones.
// oddIDs and orderedKeys belong to them too.
var (
	namespaces = []string{"a", "ab", "a/b", "op.state", "\u00e9\U00010000"}

	entryTypes = []pistore.EntryType{
		pistore.TypeMessage, pistore.TypeMessage, pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary, pistore.TypeCustom,
	}

	customTypes = []string{"a", "b", "message", "\U0001f600"}

	badIDs = []pistore.ID{"", "\x00", "a\nb", "\u0085", "\xff", pistore.ID(strings.Repeat("x", pistore.MaxIDBytes+1))}

	badAddresses = []pistore.Address{
		{Namespace: "", Key: "k"}, {Namespace: "a", Key: "\x00"}, {Namespace: "a\xff", Key: "k"},
		{Namespace: "a", Key: strings.Repeat("k", pistore.MaxKeyBytes+1)},
	}

	jsonTexts = []pistore.JSON{
		`null`, `true`, `0`, `-0`, `1.0`, `1e2`, `0.1000`, `12345678901234567890`, `""`, `"text"`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`,
		"\"\u2028\U0010ffff\"", `[]`, `{}`, `{"b":1,"a":2,"b":3}`, `{"ID":1,"Seq":2,"id":3}`, ` [ 1 , " x " ] `, "{\n\t\"a\" : [ ] }",
		`[[[[1]]]]`, `"\/\"\\"`, pistore.JSON(`"` + strings.Repeat("long ", 200) + `"`),
	}

	badTexts = []pistore.JSON{`{`, ` `, `01`, "\"\xff\"", `{"seq":1}x`, `[1,]`, nested(pistore.MaxJSONDepth + 1)}

	usageTexts = []pistore.JSON{
		`{}`, `{"input":1,"output":2,"totalTokens":3}`, `{"input":0.1,"cost":{"input":0.1,"total":0.2}}`, `{"input":0.2,"cost":{"total":0.1}}`,
		`{"input":1e20,"output":1e-20}`, `{"cacheRead":12345678901234567890,"cacheWrite":1.50}`, `{"output":-0,"reasoning":7,"cacheWrite1h":2}`,
		`{"input":-5,"cost":{"total":-0.1}}`, `{"input":null,"output":1}`, `{"input":"1"}`, `{"Input":5,"extra":[1.0]}`, `{ "input" : 3 }`,
		`{"input":1e401,"cost":{"total":1e400}}`, `{"id":1,"seq":2,"kind":"x"}`, `[]`,
	}
)
