package registers_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	. "pistore/registers"
)

var update = flag.Bool("update", false, "write the goldens anew")

func golden(t *testing.T, name string, got pistore.JSON) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", name, diff)
	}
}

func TestOpStateGoldens(t *testing.T) {
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			value := EncodeOpState(s)
			golden(t, "op.state-"+name, value)
			back, err := DecodeOpState(value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s, back); diff != "" {
				t.Errorf("round trip (-want +got):\n%s", diff)
			}
			n, _ := Lookup(OpStateNS)
			if err := n.CheckValue("O", value); err != nil {
				t.Error(err)
			}
		})
	}
}

// A state is shared by whoever looks at it: encoding only reads it, which the
// race detector holds.
func TestEncodeAtOnce(t *testing.T) {
	for name, s := range shapes() {
		var wg sync.WaitGroup
		texts := make([]pistore.JSON, 2)
		for i := range texts {
			wg.Go(func() { texts[i] = EncodeOpState(s) })
		}
		wg.Wait()
		if texts[0] != texts[1] {
			t.Errorf("%s: %s and %s", name, texts[0], texts[1])
		}
	}
}

func TestCellGoldens(t *testing.T) {
	for name, c := range cells() {
		t.Run(name, func(t *testing.T) {
			golden(t, name, c.encoded)
			back, err := c.decode(c.encoded)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.value, back); diff != "" {
				t.Errorf("round trip (-want +got):\n%s", diff)
			}
			n, ok := Lookup(c.namespace)
			if !ok {
				t.Fatalf("no namespace %s", c.namespace)
			}
			if err := errors.Join(n.CheckKey(c.key), n.CheckValue(c.key, c.encoded)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOpStateEveryMember takes each member out of each shape, adds an
// unknown one beside it, doubles it, and changes the case of its name.
func TestOpStateEveryMember(t *testing.T) {
	optional := []string{"skipInboxOnce", "thresholdCheckedTriggerEntryId", "customInstructions", "label", "request"}
	for name, s := range shapes() {
		value := EncodeOpState(s)
		forEachMember(value, func(prefix, member string, v pistore.JSON, suffix string) {
			text := `"` + member + `":` + string(v)
			refused := func(what, text string) {
				t.Helper()
				_, err := DecodeOpState(pistore.JSON(text))
				if !errors.Is(err, pistore.ErrInvalid) || !strings.HasPrefix(err.Error(), "op.state: ") {
					t.Errorf("%s: %s %s: error %v for\n%s", name, what, member, err, text)
				}
			}
			refused("unknown beside", prefix+text+`,"extra":1`+suffix)
			refused("twice", prefix+text+`,`+text+suffix)
			refused("other case", prefix+`"`+strings.ToUpper(member[:1])+member[1:]+`":`+string(v)+suffix)
			if !slices.Contains(optional, member) && !(member == "triggerEntryId" && strings.Contains(prefix, `"summaryId"`)) {
				refused("null instead of", prefix+`"`+member+`":`+nullOr(member)+suffix)
				refused("without", strings.TrimSuffix(prefix, ",")+strings.TrimPrefix(suffix, optionalComma(prefix)))
			}
		})
	}
}

// nullOr is a value that the member cannot have.
func nullOr(member string) string {
	if member == "latestAssistantEntryId" {
		return "0"
	}
	return "null"
}

// optionalComma is what has to go after a member that is taken out.
func optionalComma(prefix string) string {
	if strings.HasSuffix(prefix, ",") {
		return ""
	}
	return ","
}

// forEachMember visits every member of every object in value, with the text
// before and after it. The members of objects that are kept as they are, and
// those of lists, are left out.
func forEachMember(value pistore.JSON, visit func(prefix, member string, v pistore.JSON, suffix string)) {
	var walk func(before string, v pistore.JSON, after string)
	walk = func(before string, v pistore.JSON, after string) {
		at := 1
		for name, m := range v.Members() {
			if at > 1 {
				at++ // the comma
			}
			start := at
			end := start + len(name) + 3 + len(m)
			prefix, suffix := before+string(v[:start]), string(v[end:])+after
			visit(prefix, name, m, suffix)
			if name != "streamOptions" {
				walk(prefix+`"`+name+`":`, m, suffix)
			}
			at = end
		}
	}
	walk("", value, "")
}

// TestOpStateAsDesigned reads and writes the shapes as the design prints them.
func TestOpStateAsDesigned(t *testing.T) {
	const (
		config = `{"model":{"provider":"p","modelId":"m"},"thinkingLevel":"off","activeToolNames":[]}`
		ctx    = `{"stepId":"S1","triggerEntryId":"E1","configuration":` + config +
			`,"streamOptions":{},"retryPolicy":{"maxAttempts":4,"baseDelayMs":2000},"overflowRecoveryUsed":false}`
		deciding   = `{"summaryId":"T1","status":"deciding"}`
		generating = `{"summaryId":"T1","status":"generating","resultEntryId":"E9","context":` + ctx +
			`,"generation":{"status":"effect_pending","attempt":1,"request":{"index":0,"usageId":"U3"},"usageIds":[]}}`
		running   = `{"status":"running"}`
		cancelled = `{"status":"cancel_requested","requestedAt":1700000000000,"drainedSteer":[],"drainedFollowUp":[]}`
		needing   = `{"kind":"checkpoint","continuation":{"kind":"need_assistant","overflowRecoveryUsed":false},"triggerEntryId":"E1","skipInboxOnce":true}`
	)
	run := func(control, phase string) string {
		return `{"kind":"run","resumes":0,"control":` + control + `,"settings":{"compaction":{"enabled":true,"reserveTokens":16384,"keepRecentTokens":20000},` +
			`"steeringMode":"one_at_a_time","followUpMode":"one_at_a_time","toolExecution":"parallel"},` +
			`"inbox":{"steer":[],"followUp":[],"writes":[]},"latestAssistantEntryId":null,"phase":` + phase + `}`
	}
	for _, text := range []string{
		run(running, needing),
		run(cancelled, `{"kind":"checkpoint","continuation":{"kind":"may_finish","includeFinalAssistant":true},"triggerEntryId":"E2","thresholdCheckedTriggerEntryId":"E2"}`),
		run(running, `{"kind":"assistant","status":"ready","context":`+ctx+`,"nextAttempt":1}`),
		run(running, `{"kind":"assistant","status":"effect_pending","context":`+ctx+`,"attempt":1,"responseEntryId":"E2","usageId":"U1","intendedOutputLimit":16384,"contextWindow":200000}`),
		run(running, `{"kind":"assistant","status":"retry_wait","context":`+ctx+`,"nextAttempt":2,"notBefore":1700000002000,"errorMessage":"…"}`),
		run(running, `{"kind":"tools","stepId":"S1","assistantEntryId":"E2","configuration":`+config+`,"calls":[{"status":"planned","sourceIndex":0,"resultEntryId":"E3"},`+
			`{"status":"effect_pending","sourceIndex":1,"resultEntryId":"E4","replay":"never"},{"status":"completed","sourceIndex":2,"resultEntryId":"E5","terminate":false}]}`),
		run(running, `{"kind":"compaction","reason":"overflow","summary":`+generating+`,"resumeAfter":`+needing+`}`),
		run(running, `{"kind":"deferred","status":"suspended","stepId":"S1","sourceEntryId":"E2","poll":0,"configuration":`+config+`,"streamOptions":{}}`),
		run(running, `{"kind":"deferred","status":"effect_pending","stepId":"S1","sourceEntryId":"E2","configuration":`+config+`,"streamOptions":{},"poll":1,"responseEntryId":"E3","usageId":"U2"}`),
		run(running, `{"kind":"failure_drain","error":{"code":"…","message":"…"},"provenance":{"kind":"response","entryId":"E2"}}`),
		run(running, `{"kind":"failure_drain","error":{"code":"…","message":"…"},"provenance":{"kind":"summary","summaryId":"…"}}`),
		`{"kind":"compaction","resumes":0,"control":` + running + `,"customInstructions":"…","summary":` + generating + `}`,
		`{"kind":"compaction","resumes":0,"control":` + running + `,"summary":` + deciding + `}`,
		`{"kind":"navigation","resumes":0,"control":` + running + `,"targetId":"E1","label":"…","summarize":false}`,
		`{"kind":"navigation","resumes":0,"control":` + cancelled + `,"targetId":"E1","label":"…","summarize":true,"summary":` + deciding + `}`,
	} {
		s, err := DecodeOpState(pistore.JSON(text))
		if err != nil {
			t.Errorf("%v for\n%s", err, text)
			continue
		}
		if diff := cmp.Diff(text, string(EncodeOpState(s))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestOpStateRefusals(t *testing.T) {
	type row struct{ name, shape, old, new, want string }
	for _, r := range []row{
		{"unknown status of a call", "tools", `"status":"effect_pending","sourceIndex":1`, `"status":"started","sourceIndex":1`,
			`op.state: phase.calls[1].status: "started" is none of planned, effect_pending, completed`},
		{"call without result id", "tools", `,"resultEntryId":"E3"`, ``, `op.state: phase.calls[0].resultEntryId: is missing`},
		{"replay of a planned call", "tools", `"resultEntryId":"E3"`, `"resultEntryId":"E3","replay":"safe"`,
			`op.state: phase.calls[0]: has an unknown member "replay"`},
		{"calls out of order", "tools", `"sourceIndex":1`, `"sourceIndex":2`, `op.state: phase.calls[2].sourceIndex: is not above the one before it`},
		{"one reserved id for two calls", "tools", `"E4"`, `"E3"`, `op.state: reserved id "E3" has two uses`},
		{"no calls", "tools", `"calls":[`, `"calls":[],"x":[`, `op.state: phase.calls: is empty`},
		{"calls null", "deferred-suspended", `"activeToolNames":["read","bash"]`, `"activeToolNames":null`,
			`op.state: phase.configuration.activeToolNames: is null instead of a list`},
		{"extra in an inner configuration", "deferred-suspended", `"thinkingLevel":"off"`, `"thinkingLevel":"off","x":0`,
			`op.state: phase.configuration: has an unknown member "x"`},
		{"attempt zero", "assistant-effect-pending", `"attempt":1`, `"attempt":0`, `op.state: phase.attempt: is 0, out of range`},
		{"attempt fraction", "assistant-effect-pending", `"attempt":1`, `"attempt":1.0`,
			`op.state: phase.attempt: is the number 1.0 instead of a whole number in range`},
		{"attempt above 2^63", "assistant-effect-pending", `"attempt":1`, `"attempt":9223372036854775808`,
			`op.state: phase.attempt: is the number 9223372036854775808 instead of a whole number in range`},
		{"limit above 2^53", "assistant-effect-pending", `"contextWindow":200000`, `"contextWindow":9007199254740992`,
			`op.state: phase.contextWindow: is 9007199254740992, out of range`},
		{"attempt text", "assistant-effect-pending", `"attempt":1`, `"attempt":"1"`, `op.state: phase.attempt: is a string instead of a whole number in range`},
		{"negative resumes", "navigation", `"resumes":0`, `"resumes":-1`, `op.state: resumes: is -1, out of range`},
		{"flag as number", "navigation", `"summarize":false`, `"summarize":0`, `op.state: summarize: is the number 0 instead of true or false`},
		{"summary nobody asked for", "navigation", `"summarize":false`, `"summarize":false,"summary":{}`, `op.state: has an unknown member "summary"`},
		{"empty id", "navigation", `"targetId":"E1"`, `"targetId":""`, `op.state: targetId: invalid: empty id`},
		{"id with a control character", "navigation", `"targetId":"E1"`, `"targetId":"E\u0001"`, `op.state: targetId: invalid: id "E\x01" has a control character`},
		{"id too long", "navigation", `"targetId":"E1"`, `"targetId":"` + strings.Repeat("x", 129) + `"`, `op.state: targetId: id bytes: 129 exceeds the limit of 128`},
		{"step id with a colon", "assistant-ready", `"stepId":"S1"`, `"stepId":"S:1"`, `op.state: phase.context.stepId: has a colon`},
		{"queued twice", "checkpoint-queues", `"writes":["P3","P4"]`, `"writes":["P3","P3"]`, `op.state: inbox.writes[1]: is there twice`},
		{"queued in two queues", "checkpoint-queues", `"writes":["P3","P4"]`, `"writes":["P1"]`, `op.state: reserved id "P1" has two uses`},
		{"unknown kind", "navigation", `"kind":"navigation"`, `"kind":"finished"`, `op.state: kind: "finished" is none of run, compaction, navigation`},
		{"unknown phase", "tools", `"kind":"tools"`, `"kind":"finished"`, `op.state: phase.kind: "finished" is none of checkpoint, assistant, tools, compaction, deferred, failure_drain`},
		{"stream options no object", "assistant-ready", `{"temperature":0.50}`, `[]`, `op.state: phase.context.streamOptions: is a list instead of an object`},
		{"checkpoint of another kind", "run-compaction-overflow", `"kind":"checkpoint"`, `"kind":"tools"`, `op.state: phase.resumeAfter.kind: "tools" is none of checkpoint`},
		{"not an object", "navigation", "", "", `op.state: is null instead of an object`},
	} {
		value := strings.Replace(string(EncodeOpState(shapes()[r.shape])), r.old, r.new, 1)
		if r.old == "" {
			value = "null"
		}
		_, err := DecodeOpState(pistore.JSON(value))
		if !errors.Is(err, pistore.ErrInvalid) || err.Error() != r.want {
			t.Errorf("%s:\n got %v\nwant %s", r.name, err, r.want)
		}
	}
	for _, text := range []pistore.JSON{"", "{", `{"kind":"run"`, `[]`, `{"kind":"run"} {}`, pistore.JSON(strings.Repeat("[", 2000)), "\xff"} {
		if _, err := DecodeOpState(text); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%.20q: error %v", string(text), err)
		}
	}
}

func TestEncodePanicsOnWhatDecodeRefuses(t *testing.T) {
	noPhase := run(nil)
	badMode := run(&Checkpoint{Continuation: need, TriggerEntryID: "E1"})
	badMode.Settings.SteeringMode = ""
	for name, encode := range map[string]func(){
		"no state":       func() { EncodeOpState(nil) },
		"no phase":       func() { EncodeOpState(noPhase) },
		"unknown word":   func() { EncodeOpState(badMode) },
		"empty id":       func() { EncodeOpState(&NavigationState{}) },
		"no options":     func() { EncodeOpState(run(&DeferredSuspended{StepID: "S", SourceEntryID: "E", Configuration: config})) },
		"two provenance": func() { EncodeOpState(run(&FailureDrain{Provenance: Provenance{"E1", "T1"}})) },
		"bad leaf":       func() { EncodeLaneLeaf("\x00") },
		"negative":       func() { EncodeToolOutput(ToolOutput{DroppedBytes: -1}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "registers: ") {
					t.Errorf("panic %v", text)
				}
			}()
			encode()
			t.Error("no panic")
		})
	}
}

func TestCellRefusals(t *testing.T) {
	for _, r := range []struct {
		namespace, key string
		value          pistore.JSON
		want           string // empty: accepted
	}{
		{LaneLeafNS, "main", `7`, `lane.leaf: is the number 7 instead of an entry id or null`},
		{LaneLeafNS, "main", `""`, `lane.leaf: invalid: empty id`},
		{LaneConfigNS, "main", `{"model":{"provider":"a","modelId":"b","x":1},"thinkingLevel":"off","activeToolNames":[],"y":2}`, ``},
		{LaneConfigNS, "main", `{"model":{"provider":"a","modelId":"b"},"thinkingLevel":"off","activeToolNames":[],"thinkingLevel":"low"}`, ``},
		{LaneConfigNS, "main", `{"model":{"Provider":"a","modelId":"b"},"thinkingLevel":"off","activeToolNames":[]}`, `lane.config: model.provider: is missing`},
		{LaneConfigNS, "main", `{"model":{"provider":"a","modelId":"b"},"thinkingLevel":"off","activeToolNames":[1]}`,
			`lane.config: activeToolNames[0]: is the number 1 instead of a string`},
		{LaneStateNS, "main", `{"currentOperationId":null,"pendingNextRun":[],"x":1}`, `lane.state: has an unknown member "x"`},
		{LaneStateNS, "main", `{"currentOperationId":null,"pendingNextRun":null}`, `lane.state: pendingNextRun: is null instead of a list`},
		{LaneStateNS, "main", `{"pendingNextRun":[]}`, `lane.state: currentOperationId: is missing`},
		{LaneLastResultNS, "main", `{"operationId":"O","kind":"run","outcome":"completed","leafId":null,"more":[]}`, ``},
		{LaneLastResultNS, "main", `{"operationId":"O","kind":"run","outcome":"ok","leafId":null}`,
			`lane.lastResult: outcome: "ok" is none of completed, failed, aborted, declined`},
		{OpMetaNS, "O2", EncodeOpMeta(OpMeta{OperationID: "O", Lane: "main", Intent: Intent{Kind: KindRun}}), `op.meta: operationId: is "O" under the key "O2"`},
		{OpMetaNS, "O", `{"operationId":"O","lane":"","sourceLeafId":null,"startedAt":0,"intent":{"kind":"compaction"}}`, `op.meta: lane: invalid: empty lane name`},
		{PendingEntryNS, "P", `{"type":"message","payload":{"id":"x"}}`, `pending.entry: invalid: payload has a member named "id", which is structural`},
		{PendingEntryNS, "P", `{"type":"custom","payload":{}}`, `pending.entry: invalid: empty customType`},
		{PendingEntryNS, "P", `{"type":"message","payload":[]}`, `pending.entry: payload: is a list instead of an object`},
		{OpToolArgsNS, "O:S:0", `{"a":1,"a":2}`, ``},
		{OpToolArgsNS, "O:S:0", `"a"`, `op.tool_args: is a string instead of an object`},
		{OpPreparationNS, "O:T", `{"messagesToSummarize":["x"],"retainedTail":[],"tokensBefore":0}`,
			`op.preparation: messagesToSummarize[0]: is a string instead of an object`},
		{FactNameNS, "", `null`, `a name or label is null instead of a string`},
		{FactCustomNS, "", `null`, ``},
		{TimerNS, "", `{`, `invalid JSON at byte 1: end of text instead of a member name`},
		{"app.x", "", `null`, ``},
	} {
		n, ok := Lookup(r.namespace)
		if !ok {
			t.Fatalf("no namespace %s", r.namespace)
		}
		err := n.CheckValue(r.key, r.value)
		switch {
		case r.want == "" && err != nil:
			t.Errorf("%s %s: error %v", r.namespace, r.value, err)
		case r.want != "" && (!errors.Is(err, pistore.ErrInvalid) || err.Error() != r.want):
			t.Errorf("%s %s:\n got %v\nwant %s", r.namespace, r.value, err, r.want)
		}
	}
}
