package verify

import (
	"testing"

	"pgregory.net/rapid"

	"pistore"
	"pistore/session"
)

// pieces are what messages are drawn of: much of it usual, some of it not.
var (
	pieceNames = []string{
		`"role"`, `"content"`, `"content"`, `"timestamp"`, `"api"`, `"model"`, `"stopReason"`, `"stopReason"`, `"deferred"`, `"usage"`,
		`"toolCallId"`, `"toolCallId"`, `"toolName"`, `"isError"`, `"details"`, `"mine"`, `"r\u006fle"`, `"c\u006fntent"`, `"stopR\u0065ason"`,
	}
	pieceValues = []string{
		`"x"`, `"x"`, `""`, `"a\nb"`, `null`, `true`, `false`, `7`, `-1e3`, `{}`, `{"a":[1]}`, `[]`, `[7]`,
		`"stop"`, `"aborted"`, `"\u0061borted"`, `"pending"`, `"p\u0065nding"`, `"deferred"`,
	}
	blockNames  = []string{`"text"`, `"thinking"`, `"redacted"`, `"id"`, `"id"`, `"name"`, `"name"`, `"arguments"`, `"thoughtSignature"`, `"type"`, `"t\u0079pe"`, `"mine"`}
	blockKinds  = []string{`"text"`, `"text"`, `"thinking"`, `"toolCall"`, `"toolCall"`, `"image"`, `"t\u0065xt"`, `7`}
	pieceRoles  = []string{`"user"`, `"assistant"`, `"assistant"`, `"assistant"`, `"toolResult"`, `"toolResult"`, `"system"`, `"\u0075ser"`, `null`}
	pieceRandom = rapid.Custom(drawMessage)
)

func drawMessage(t *rapid.T) string {
	pick := func(of []string) string { return rapid.SampledFrom(of).Draw(t, "piece") }
	members := ""
	if rapid.IntRange(0, 9).Draw(t, "role in front") > 0 {
		members = `,"role":` + pick(pieceRoles)
	}
	for range rapid.IntRange(0, 6).Draw(t, "members") {
		name, value := pick(pieceNames), pick(pieceValues)
		if name == `"content"` && rapid.Bool().Draw(t, "blocks") {
			value = drawBlocks(t, pick)
		}
		members += "," + name + ":" + value
	}
	return "{" + members[min(1, len(members)):] + "}"
}

func drawBlocks(t *rapid.T, pick func([]string) string) string {
	blocks := ""
	for range rapid.IntRange(0, 3).Draw(t, "blocks") {
		block := `,"type":` + pick(blockKinds)
		for range rapid.IntRange(0, 5).Draw(t, "members of a block") {
			block += "," + pick(blockNames) + ":" + pick(pieceValues)
		}
		blocks += ",{" + block[1:] + "}"
	}
	return "[" + blocks[min(1, len(blocks)):] + "]"
}

// What is accepted at a glance the parser accepts too, and says the same of it.
func TestCommonMessages(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		raw, err := pistore.CompactJSON(pieceRandom.Draw(t, "message"))
		if err != nil {
			t.Fatal(err)
		}
		var glance, parsed said
		if !glance.common(pistore.JSON(`{"message":`) + raw + `}`) {
			if glance != parsed {
				t.Fatalf("said %+v of what was not accepted", glance)
			}
			return
		}
		accepted++
		if err := parseMessage(raw, &parsed); err != nil || glance != parsed {
			t.Fatalf("%s: said %+v instead of %+v, %v", raw, glance, parsed, err)
		}
	})
	if accepted < 10 {
		t.Errorf("%d messages were accepted", accepted)
	}
}

// The messages that are written here are common.
func TestWrittenMessagesAreCommon(t *testing.T) {
	call := session.ToolCall{ID: "c", Name: "read", Arguments: `{"path":"a"}`, Signature: "s"}
	for want, m := range map[said]session.Message{
		{}: &session.UserMessage{Content: session.TextContent("a \"b\"\n")},
		{response: true, calls: 2}: &session.AssistantMessage{
			Content: []session.Block{session.Thinking{Thinking: "t", Signature: "s", Redacted: true}, session.Text{Text: "x"}, call, call},
			API:     "a", Provider: "p", Model: "m", ResponseID: "r", StopReason: session.StopToolUse,
		},
		{response: true, aborted: true}: &session.AssistantMessage{Content: session.TextContent("x"), StopReason: session.StopAborted},
		{result: true}:                  &session.ToolResultMessage{ToolCallID: "c", ToolName: "read", Content: session.TextContent("x")},
	} {
		var got said
		if payload := session.MessagePayload(m); !got.common(payload) || got != want {
			t.Errorf("%s: %+v, want %+v", payload, got, want)
		}
	}
}
