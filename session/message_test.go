package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	. "pistore/session"
)

func TestMessageRoundTrip(t *testing.T) {
	code := int64(-1)
	for _, r := range []struct {
		m    Message
		want pistore.JSON
	}{
		{&UserMessage{Content: TextContent("a <b> & \u2028"), Timestamp: 5}, `{"role":"user","content":"a <b> & ` + "\u2028" + `","timestamp":5}`},
		{&UserMessage{Content: []Block{Text{"look"}, Image{"aGk=", "image/png"}}},
			`{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","data":"aGk=","mimeType":"image/png"}],"timestamp":0}`},
		{&UserMessage{}, `{"role":"user","content":[],"timestamp":0}`},
		{&AssistantMessage{
			Content: []Block{
				Thinking{Thinking: "hm", Signature: "sig=="}, Thinking{Redacted: true, Signature: "r"}, Text{"ok"},
				ToolCall{ID: "c1", Name: "read", Arguments: `{"n":1.0,"n":2}`, Signature: "ts"}, UnknownBlock{Raw: `{"type":"audio","x":[]}`},
			},
			API: "faux", Provider: "p", Model: "m", ResponseModel: "m-1", ResponseID: "r1", ThinkingLevel: "high", Usage: `{"input":1}`,
			StopReason: StopToolUse, Timestamp: 6,
		}, `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"sig=="},` +
			`{"type":"thinking","thinking":"","thinkingSignature":"r","redacted":true},{"type":"text","text":"ok"},` +
			`{"type":"toolCall","id":"c1","name":"read","arguments":{"n":1.0,"n":2},"thoughtSignature":"ts"},{"type":"audio","x":[]}],` +
			`"api":"faux","provider":"p","model":"m","responseModel":"m-1","responseId":"r1","thinkingLevel":"high","usage":{"input":1},` +
			`"stopReason":"toolUse","timestamp":6}`},
		{&AssistantMessage{
			API: "a", Provider: "p", Model: "m", Usage: "{}", StopReason: StopDeferred, ErrorMessage: "later",
			Deferred: &DeferredHandle{Provider: "p", ModelID: "m", API: "a", ID: "d1", ExpiresAt: 9, PollAfterMS: 1000, Data: `[1]`},
		}, `{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":{},"stopReason":"deferred","errorMessage":"later",` +
			`"deferred":{"provider":"p","modelId":"m","api":"a","id":"d1","expiresAt":9,"pollAfterMs":1000,"data":[1]},"timestamp":0}`},
		{&ToolResultMessage{ToolCallID: "c1", ToolName: "read", Content: TextContent("out"), IsError: true, Details: "null", Usage: `{"input":2}`, Timestamp: 7},
			`{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"out"}],"details":null,"usage":{"input":2},"isError":true,"timestamp":7}`},
		{&SystemMessage{Content: TextContent("be kind"), Sections: `{"a":null}`, ToolsAdded: `["x"]`, ToolsRemoved: `[]`},
			`{"role":"system","content":"be kind","sections":{"a":null},"toolsAdded":["x"],"toolsRemoved":[],"timestamp":0}`},
		{&CustomMessage{CustomType: "note", Content: TextContent("n"), Display: true, Details: "1"},
			`{"role":"custom","customType":"note","content":"n","display":true,"details":1,"timestamp":0}`},
		{&BashMessage{Command: "ls", Output: "a\n", ExitCode: &code, Truncated: true, ExcludeFromContext: true},
			`{"role":"bashExecution","command":"ls","output":"a\n","exitCode":-1,"cancelled":false,"truncated":true,"excludeFromContext":true,"timestamp":0}`},
		{&BashMessage{Command: "ls", Cancelled: true}, `{"role":"bashExecution","command":"ls","output":"","cancelled":true,"truncated":false,"timestamp":0}`},
		{&SummaryMessage{Kind: RoleCompactionSummary, Summary: "s", TokensBefore: "12"}, `{"role":"compactionSummary","summary":"s","tokensBefore":12}`},
		{&SummaryMessage{Kind: RoleBranchSummary, Summary: "s", FromID: "root"}, `{"role":"branchSummary","summary":"s","fromId":"root"}`},
		{&UnknownMessage{RoleName: "oracle", Raw: `{"x":1,"role":"oracle"}`}, `{"x":1,"role":"oracle"}`},
	} {
		got := EncodeMessage(r.m)
		if diff := cmp.Diff(string(r.want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.m.Role(), diff)
		}
		back, err := ParseMessage(got)
		if err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if diff := cmp.Diff(r.m, back); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got, diff)
		}
		e := pistore.Entry{ID: "E1", Type: pistore.TypeMessage, Payload: MessagePayload(r.m)}
		if m, err := EntryMessage(e); err != nil || cmp.Diff(r.m, m) != "" {
			t.Errorf("entry message: %v, %v", m, err)
		}
		if _, err := pistore.CheckEntry(e.Type, "", e.Payload); err != nil {
			t.Error(err)
		}
	}
}

func TestParseMessageIsLenient(t *testing.T) {
	for _, r := range []struct {
		raw  pistore.JSON
		want Message
	}{
		{`{"role":"user"}`, &UserMessage{}},
		{`{"role":"user","content":null,"timestamp":null}`, &UserMessage{}},
		{`{"role":"system","timestamp":1}`, &SystemMessage{Timestamp: 1}},
		{`{"content":"a","role":"user","role":"system","content":"b"}`, &SystemMessage{Content: TextContent("b")}},
		{`{"role":"user","Content":"x","content":"a","ROLE":"system"}`, &UserMessage{Content: TextContent("a")}},
		{`{"role":"user","content":[null,7,"x",{},{"type":7},{"type":"text"}]}`, &UserMessage{Content: []Block{
			UnknownBlock{"null"}, UnknownBlock{"7"}, UnknownBlock{`"x"`}, UnknownBlock{"{}"}, UnknownBlock{`{"type":7}`}, Text{},
		}}},
		{`{"role":"user","content":"\ud83e\udde7 \ud800","timestamp":1e3}`, &UserMessage{Content: TextContent("\U0001f9e7 \ufffd"), Timestamp: 1000}},
		{`{"role":"user","timestamp":-5}`, &UserMessage{}},
		{`{"role":"user","timestamp":1e999}`, &UserMessage{Timestamp: pistore.MaxSeq}},
		{`{"role":"user","timestamp":99999999999999999999}`, &UserMessage{Timestamp: pistore.MaxSeq}},
		{`{"role":"user","timestamp":12.75}`, &UserMessage{Timestamp: 12}},
		{`{"role":"assistant","usage":null,"deferred":null,"extra":{"role":"x"}}`, &AssistantMessage{}},
		{`{"role":"assistant","usage":"much"}`, &AssistantMessage{Usage: `"much"`}},
		{`{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n"},{"type":"toolCall","id":"d","name":"n","arguments":null}]}`,
			&AssistantMessage{Content: []Block{ToolCall{ID: "c", Name: "n", Arguments: "{}"}, ToolCall{ID: "d", Name: "n", Arguments: "{}"}}}},
		{`{"role":"assistant","content":"plain"}`, &AssistantMessage{Content: TextContent("plain")}},
		{`{"role":"bashExecution","command":"x","exitCode":null}`, &BashMessage{Command: "x"}},
		{`{"role":"user","content":"x","timestamp":"2026-01-01"}`, &UserMessage{Content: TextContent("x")}},
		{`{"role":"branchSummary","summary":"s","tokensBefore":1}`, &SummaryMessage{Kind: RoleBranchSummary, Summary: "s"}},
	} {
		got, err := ParseMessage(r.raw)
		if err != nil {
			t.Errorf("%s: %v", r.raw, err)
		} else if diff := cmp.Diff(r.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.raw, diff)
		}
	}
}

func TestParseMessageRefusals(t *testing.T) {
	for _, r := range []struct {
		raw  pistore.JSON
		want string
	}{
		{``, "is no object"}, {`[]`, "is no object"}, {`{}`, "role is no string"}, {`{"role":7}`, "role is no string"}, {`{"Role":"user"}`, "role is no string"},
		{`{"role":"user","content":7}`, "content is no list"},
		{`{"role":"user","content":{}}`, "content is no list"},
		{`{"role":"user","content":[{"type":"text","text":1}]}`, "content[0].text is no string"},
		{`{"role":"assistant","content":["x",{"type":"toolCall","name":"n"}]}`, "content[1] is a tool call without id or name"},
		{`{"role":"assistant","content":[{"type":"toolCall","id":"c"}]}`, "content[0] is a tool call without id or name"},
		{`{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":"{}"}]}`, "content[0].arguments is no object"},
		{`{"role":"assistant","content":[{"type":"thinking","redacted":1}]}`, "content[0].redacted is neither true nor false"},
		{`{"role":"assistant","deferred":"d"}`, "deferred is no object"},
		{`{"role":"assistant","deferred":{"id":1}}`, "deferred.id is no string"},
		{`{"role":"assistant","stopReason":true}`, "stopReason is no string"},
		{`{"role":"toolResult","content":"x"}`, "toolCallId is missing"},
		{`{"role":"toolResult","toolCallId":"c","isError":"no"}`, "isError is neither true nor false"},
		{`{"role":"bashExecution","exitCode":"0"}`, "exitCode is no number"},
	} {
		m, err := ParseMessage(r.raw)
		if !errors.Is(err, pistore.ErrInvalid) || !strings.HasSuffix(err.Error(), ": "+r.want) || m != nil {
			t.Errorf("%s: %v, %v; want %s", r.raw, m, err, r.want)
		}
	}
}

// TestEncodeMessageIsNoWayIn: a part that is no JSON cannot make a message that
// is.
func TestEncodeMessageIsNoWayIn(t *testing.T) {
	const break1 pistore.JSON = `1},"x":{"y":1`
	for _, m := range []Message{
		&AssistantMessage{Content: []Block{ToolCall{ID: "c", Name: "n", Arguments: `{}},{"type":"text","text":"x"`}}},
		&AssistantMessage{Content: []Block{UnknownBlock{}}},
		&AssistantMessage{Usage: break1},
		&AssistantMessage{Deferred: &DeferredHandle{Data: break1}},
		&ToolResultMessage{Details: break1},
		&SystemMessage{Sections: break1},
		&UnknownMessage{Raw: break1},
		&UnknownMessage{},
	} {
		if _, err := pistore.CheckEntry(pistore.TypeMessage, "", MessagePayload(m)); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%s: error %v", EncodeMessage(m), err)
		}
	}
	if got := EncodeMessage(&AssistantMessage{}); !strings.Contains(string(got), `"usage":`+string(ZeroUsage)) {
		t.Errorf("a response without usage: %s", got)
	}
}

func TestPayloads(t *testing.T) {
	c := Compaction{
		Summary: "s", RetainedTail: []pistore.JSON{`{"role":"user","content":"a"}`}, TokensBefore: 12, Details: `{"a":1}`, Usage: `{"input":1}`,
		FromHook: true, SystemMessage: `{"role":"system","content":"x"}`, RetainedSources: []string{"L1"},
	}
	payload := CompactionPayload(c)
	if want := pistore.JSON(`{"summary":"s","retainedTail":[{"role":"user","content":"a"}],"tokensBefore":12,"details":{"a":1},"usage":{"input":1},` +
		`"fromHook":true,"systemMessage":{"role":"system","content":"x"},"retainedSources":["L1"]}`); payload != want {
		t.Errorf("compaction: %s", payload)
	}
	back, err := ParseCompaction(payload)
	if diff := cmp.Diff(c, back); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got := CompactionPayload(Compaction{}); got != `{"summary":"","retainedTail":[],"tokensBefore":0}` {
		t.Errorf("empty compaction: %s", got)
	}
	b := BranchSummary{FromID: "root", Summary: "s", Details: "null", Usage: "{}", FromHook: true}
	payload = BranchSummaryPayload(b)
	if payload != `{"fromId":"root","summary":"s","details":null,"usage":{},"fromHook":true}` {
		t.Errorf("branch summary: %s", payload)
	}
	backB, err := ParseBranchSummary(payload)
	if diff := cmp.Diff(b, backB); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got := ToolResultPayload(output("c", "x"), true); !strings.HasSuffix(string(got), `},"terminate":true}`) {
		t.Errorf("terminating result: %s", got)
	}
	if CustomPayload("") != "{}" || CustomPayload("null") != `{"data":null}` {
		t.Error("custom payload")
	}
	if _, err := EntryMessage(custom("E1", "note", "1")); !errors.Is(err, pistore.ErrInvalid) {
		t.Errorf("message of a custom entry: %v", err)
	}
}
