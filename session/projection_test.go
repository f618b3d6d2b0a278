package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	. "pistore/session"
)

// Entries for paths. A path is written oldest first; each entry's parent is the
// one before it.

func entry(id pistore.ID, t pistore.EntryType, customType string, payload pistore.JSON) pistore.Entry {
	return pistore.Entry{ID: id, Type: t, CustomType: customType, Payload: payload}
}

func says(id pistore.ID, m Message) pistore.Entry {
	return entry(id, pistore.TypeMessage, "", MessagePayload(m))
}

func user(id pistore.ID, text string) pistore.Entry {
	return says(id, &UserMessage{Content: TextContent(text)})
}

func answer(text string, stop StopReason, calls ...string) *AssistantMessage {
	m := &AssistantMessage{Content: TextContent(text), StopReason: stop, Timestamp: 7}
	for _, id := range calls {
		m.Content = append(m.Content, ToolCall{ID: id, Name: "read", Arguments: `{"path":"x"}`})
	}
	return m
}

// assistant is a response that stopped by itself or to make calls.
func assistant(id pistore.ID, text string, calls ...string) pistore.Entry {
	if len(calls) > 0 {
		return says(id, answer(text, StopToolUse, calls...))
	}
	return says(id, answer(text, StopStop))
}

func ended(id pistore.ID, stop StopReason, calls ...string) pistore.Entry {
	return says(id, answer("…", stop, calls...))
}

func output(call, text string) *ToolResultMessage {
	return &ToolResultMessage{ToolCallID: call, ToolName: "read", Content: TextContent(text)}
}

func result(id pistore.ID, call string) pistore.Entry {
	return says(id, output(call, "out "+string(id)))
}

func compaction(id pistore.ID, summary string, tail ...Message) pistore.Entry {
	c := Compaction{Summary: summary, TokensBefore: 1000}
	for _, m := range tail {
		c.RetainedTail = append(c.RetainedTail, EncodeMessage(m))
	}
	return entry(id, pistore.TypeCompaction, "", CompactionPayload(c))
}

func branchSummary(id pistore.ID, summary string) pistore.Entry {
	return entry(id, pistore.TypeBranchSummary, "", BranchSummaryPayload(BranchSummary{FromID: "E0", Summary: summary}))
}

func custom(id pistore.ID, customType string, data pistore.JSON) pistore.Entry {
	return entry(id, pistore.TypeCustom, customType, CustomPayload(data))
}

// edit leaves its target out, or replaces its content if one is given.
func edit(id, target pistore.ID, content ...pistore.JSON) pistore.Entry {
	replacement := pistore.JSON("null")
	if len(content) > 0 {
		replacement = `{"content":` + content[0] + `}`
	}
	return custom(id, ContextEditType, `{"targetId":`+pistore.QuoteJSON(string(target))+`,"replacement":`+replacement+`}`)
}

// lines shows a projection: role, source and text of each message, and of a
// result the call that it is of; "!" marks a synthetic one. Notes come last.
func lines(p Projection) string {
	var b strings.Builder
	for _, m := range p.Messages {
		fmt.Fprintf(&b, "%s %s", m.Role, m.Source)
		if m.LegacySource != "" {
			fmt.Fprintf(&b, " (%s)", m.LegacySource)
		}
		switch m := m.Message.(type) {
		case *UserMessage:
			b.WriteString(" " + JoinText(m.Content))
		case *AssistantMessage:
			b.WriteString(" " + JoinText(m.Content))
			for _, c := range m.ToolCalls() {
				b.WriteString(" ?" + c.ID)
			}
		case *ToolResultMessage:
			b.WriteString(" =" + m.ToolCallID)
		case *SystemMessage:
			b.WriteString(" " + JoinText(m.Content))
		case *CustomMessage:
			b.WriteString(" " + JoinText(m.Content))
		case *SummaryMessage:
			b.WriteString(" " + m.Summary)
		}
		if m.Synthetic {
			b.WriteString("!")
		}
		b.WriteByte('\n')
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note %s %s\n", n.Entry, n.Problem)
	}
	return b.String()
}

type path = []pistore.Entry

func TestProject(t *testing.T) {
	projectors := Projectors{
		"note": func(e pistore.Entry) (Message, bool) {
			data, ok := e.Payload.Member("data")
			return &CustomMessage{CustomType: "note", Content: TextContent("note " + string(data))}, ok
		},
		"broken": func(pistore.Entry) (Message, bool) { return &CustomMessage{Details: "{"}, true },
	}
	for _, r := range []struct {
		name string
		path path
		want string
	}{
		{"nothing", nil, ""},
		{"a chat", path{user("E1", "hi"), assistant("E2", "hello")}, "user E1 hi\nassistant E2 hello\n"},

		// Step 1 and 2: from the newest compaction on.
		{"compaction alone", path{user("E1", "hi"), compaction("E2", "sum")}, "compactionSummary E2 sum\n"},
		{"older compactions do not count", path{compaction("E1", "old", &UserMessage{Content: TextContent("kept once")}), user("E2", "x"),
			compaction("E3", "new"), user("E4", "y")}, "compactionSummary E3 new\nuser E4 y\n"},
		{"tail before what follows", path{compaction("E1", "sum", &UserMessage{Content: TextContent("a")}, answer("b", StopStop)), user("E2", "c")},
			"compactionSummary E1 sum\nuser E1 a\nassistant E1 b\nuser E2 c\n"},
		{"system message first", path{entry("E1", pistore.TypeCompaction, "",
			CompactionPayload(Compaction{Summary: "sum", SystemMessage: EncodeMessage(&SystemMessage{Content: TextContent("be kind")})}))},
			"system E1 be kind\ncompactionSummary E1 sum\n"},
		{"a tail that cannot be read in part", path{entry("E1", pistore.TypeCompaction, "",
			`{"summary":"s","retainedTail":[7,{"role":"user","content":"a"}],"tokensBefore":1}`)},
			"compactionSummary E1 s\nuser E1 a\nnote E1 a retained message: invalid: is no object\n"},
		{"a compaction without tail and tokens", path{entry("E1", pistore.TypeCompaction, "", `{"summary":"s"}`)}, "compactionSummary E1 s\n"},

		// Step 3: responses that are no answers.
		{"error, aborted, deferred", path{user("E1", "a"), ended("E2", StopError), ended("E3", StopAborted), ended("E4", StopDeferred), assistant("E5", "b")},
			"user E1 a\nassistant E5 b\n"},
		{"a genuine length stays", path{user("E1", "a"), ended("E2", StopLength), user("E3", "go on")}, "user E1 a\nassistant E2 …\nuser E3 go on\n"},
		{"results go with their response", path{ended("E1", StopAborted, "c1"), result("E2", "c1"), user("E3", "x")}, "user E3 x\n"},
		{"in the tail too", path{compaction("E1", "s", answer("no", StopError), answer("yes", StopStop))}, "compactionSummary E1 s\nassistant E1 yes\n"},

		// Step 5: custom entries and branch summaries.
		{"no projector", path{custom("E1", "other", `1`), user("E2", "x")}, "user E2 x\n"},
		{"a projector", path{custom("E1", "note", `1`), user("E2", "x")}, "custom E1 note 1\nuser E2 x\n"},
		{"a projector that declines", path{custom("E1", "note", ``), user("E2", "x")}, "user E2 x\n"},
		{"a projector that fails", path{custom("E1", "broken", `1`)}, "note E1 a projector gave a message that cannot be written\n"},
		{"branch summary", path{branchSummary("E1", "left"), user("E2", "x")}, "branchSummary E1 left\nuser E2 x\n"},
		{"empty branch summary", path{branchSummary("E1", ""), user("E2", "x")}, "user E2 x\n"},
		{"empty branch summary in a tail", path{compaction("E1", "s", &SummaryMessage{Kind: RoleBranchSummary, FromID: "root"})}, "compactionSummary E1 s\n"},
		{"an unknown role stays", path{entry("E1", pistore.TypeMessage, "", `{"message":{"role":"oracle","x":1}}`)}, "oracle E1\n"},
		{"a message that cannot be read", path{entry("E1", pistore.TypeMessage, "", `{"message":{"role":"user","content":7}}`), user("E2", "x"),
			entry("E3", pistore.TypeMessage, "", `{}`)},
			"user E2 x\nnote E1 entry E1: invalid: content is no list\nnote E3 invalid: entry E3 has no message\n"},
	} {
		t.Run(r.name, func(t *testing.T) {
			p, err := ProjectPath(r.path, projectors)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.want, lines(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProjectEdits(t *testing.T) {
	retained := entry("E1", pistore.TypeCompaction, "", CompactionPayload(Compaction{
		Summary: "s", RetainedTail: []pistore.JSON{`{"role":"user","content":"a"}`, `{"role":"user","content":"b"}`}, RetainedSources: []string{"L1", "L2"},
	}))
	const gone = ", which is not on the path since the newest compaction\n"
	for _, r := range []struct {
		name string
		path path
		want string
	}{
		{"omit", path{user("E1", "a"), user("E2", "b"), edit("E3", "E1")}, "user E2 b\n"},
		{"replace by a string", path{user("E1", "a"), edit("E2", "E1", `"A"`)}, "user E1 A\n"},
		{"replace by blocks", path{user("E1", "a"), edit("E2", "E1", `[{"type":"text","text":"B"}]`)}, "user E1 B\n"},
		{"replace by nothing", path{user("E1", "a"), edit("E2", "E1", `[]`)}, "user E1 \n"},
		{"the last one wins", path{user("E1", "a"), edit("E2", "E1"), edit("E3", "E1", `"x"`), edit("E4", "E1", `"y"`)}, "user E1 y\n"},
		{"the last one omits", path{user("E1", "a"), edit("E3", "E1", `"x"`), edit("E4", "E1")}, ""},
		{"an odd one does not win", path{user("E1", "a"), edit("E2", "E1", `"x"`), custom("E3", ContextEditType, `{"targetId":"E1"}`)},
			"user E1 x\nnote E3 a context edit without a replacement that can be read\n"},
		{"odd replacements", path{user("E1", "a"), edit("E2", "E1", `7`), custom("E3", ContextEditType, `{"targetId":"E1","replacement":{}}`),
			custom("E4", ContextEditType, `{"replacement":null}`), custom("E5", ContextEditType, ``)},
			"user E1 a\nnote E2 a context edit without a replacement that can be read\nnote E3 a context edit without a replacement that can be read\n" +
				"note E4 a context edit without a target\nnote E5 a context edit without a target\n"},
		{"dangling", path{user("E1", "a"), edit("E2", "E9")}, "user E1 a\nnote E2 a context edit of \"E9\"" + gone},
		{"target before the compaction", path{user("E1", "a"), compaction("E2", "s"), edit("E3", "E1")}, "compactionSummary E2 s\nnote E3 a context edit of \"E1\"" + gone},
		{"the compaction itself", path{compaction("E2", "s", output("c", "x")), edit("E3", "E2")}, "compactionSummary E2 s\nnote E3 a context edit of \"E2\"" + gone},
		{"what was retained", path{retained, edit("E2", "L2", `"B"`)}, "compactionSummary E1 s\nuser E1 (L1) a\nuser E1 (L2) B\n"},
		{"what was retained left out", path{retained, edit("E2", "L1")}, "compactionSummary E1 s\nuser E1 (L2) b\n"},
		{"a result keeps its call", path{assistant("E1", "x", "c1"), result("E2", "c1"), edit("E3", "E2", `"removed"`)}, "assistant E1 x ?c1\ntoolResult E2 =c1\n"},
		{"a result left out is missing", path{assistant("E1", "x", "c1"), result("E2", "c1"), edit("E3", "E2")}, "assistant E1 x ?c1\ntoolResult E1 =c1!\n"},
		{"a response without its calls", path{assistant("E1", "x", "c1"), result("E2", "c1"), edit("E3", "E1", `"y"`)}, "assistant E1 y\n"},
		{"a summary has no content", path{branchSummary("E1", "left"), edit("E2", "E1", `"x"`)},
			"branchSummary E1 left\nnote E2 a context edit of the content of \"E1\", which has none\n"},
		{"a summary left out", path{branchSummary("E1", "left"), edit("E2", "E1")}, ""},
		{"a response that is dropped anyway", path{ended("E1", StopError), edit("E2", "E1", `"x"`)}, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			p, err := ProjectPath(r.path, Projectors{ContextEditType: func(pistore.Entry) (Message, bool) { panic("an edit was projected") }})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.want, lines(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	raw, err := ProjectPath(path{entry("E1", pistore.TypeMessage, "", `{"message":{"extra":1.50,"role":"user","content":"a","content":"b","timestamp":1}}`),
		edit("E2", "E1", `"c"`)}, nil)
	if got := raw.Messages[0].Raw; err != nil || got != `{"extra":1.50,"role":"user","content":"c","timestamp":1}` {
		t.Errorf("edited message: %s, %v", got, err)
	}
}

func TestProjectPairing(t *testing.T) {
	for _, r := range []struct {
		name string
		path path
		want string
	}{
		{"as it should be", path{assistant("E1", "x", "c1", "c2"), result("E2", "c1"), result("E3", "c2"), assistant("E4", "y")},
			"assistant E1 x ?c1 ?c2\ntoolResult E2 =c1\ntoolResult E3 =c2\nassistant E4 y\n"},
		{"as they finished", path{assistant("E1", "x", "c1", "c2", "c3"), result("E2", "c3"), result("E3", "c1"), result("E4", "c2")},
			"assistant E1 x ?c1 ?c2 ?c3\ntoolResult E3 =c1\ntoolResult E4 =c2\ntoolResult E2 =c3\n"},
		{"a user in between", path{assistant("E1", "x", "c1"), user("E2", "u"), result("E3", "c1")}, "assistant E1 x ?c1\ntoolResult E3 =c1\nuser E2 u\n"},
		{"a result is missing", path{assistant("E1", "x", "c1", "c2"), result("E2", "c2"), user("E3", "u")},
			"assistant E1 x ?c1 ?c2\ntoolResult E1 =c1!\ntoolResult E2 =c2\nuser E3 u\n"},
		{"all are missing", path{assistant("E1", "x", "c1", "c2"), user("E3", "u")}, "assistant E1 x ?c1 ?c2\ntoolResult E1 =c1!\ntoolResult E1 =c2!\nuser E3 u\n"},
		{"an orphan", path{user("E1", "u"), result("E2", "c1"), assistant("E3", "x")}, "user E1 u\nassistant E3 x\n"},
		{"two results of one call", path{assistant("E1", "x", "c1"), result("E2", "c1"), result("E3", "c1")}, "assistant E1 x ?c1\ntoolResult E2 =c1\n"},
		{"a result before its call", path{result("E1", "c1"), assistant("E2", "x", "c1")}, "assistant E2 x ?c1\ntoolResult E1 =c1\n"},
		{"an id that two responses use", path{assistant("E1", "x", "c0"), result("E2", "c0"), assistant("E3", "y", "c0"), result("E4", "c0")},
			"assistant E1 x ?c0\ntoolResult E2 =c0\nassistant E3 y ?c0\ntoolResult E4 =c0\n"},
		{"and the first has no result", path{assistant("E1", "x", "c0"), assistant("E3", "y", "c0"), result("E4", "c0")},
			"assistant E1 x ?c0\ntoolResult E1 =c0!\nassistant E3 y ?c0\ntoolResult E4 =c0\n"},
		{"and the second has none", path{assistant("E1", "x", "c0"), result("E2", "c0"), assistant("E3", "y", "c0")},
			"assistant E1 x ?c0\ntoolResult E2 =c0\nassistant E3 y ?c0\ntoolResult E3 =c0!\n"},
		{"an id twice in one response", path{assistant("E1", "x", "c", "c"), result("E2", "c"), result("E3", "c"), result("E4", "c")},
			"assistant E1 x ?c ?c\ntoolResult E2 =c\ntoolResult E3 =c\n"},
		{"one result for an id used twice", path{assistant("E1", "x", "c", "c"), result("E2", "c")}, "assistant E1 x ?c ?c\ntoolResult E2 =c\ntoolResult E1 =c!\n"},
		{"the dropped response of an id", path{ended("E1", StopError, "c"), assistant("E2", "x", "c"), result("E3", "c")}, "assistant E2 x ?c\ntoolResult E3 =c\n"},
		{"length with calls", path{ended("E1", StopLength, "c1"), says("E2", &ToolResultMessage{ToolCallID: "c1", IsError: true})},
			"assistant E1 … ?c1\ntoolResult E2 =c1\n"},
		{"within a tail", path{compaction("E1", "s", answer("x", StopToolUse, "c1", "c2"), output("c2", "b"), output("c1", "a")), user("E2", "u")},
			"compactionSummary E1 s\nassistant E1 x ?c1 ?c2\ntoolResult E1 =c1\ntoolResult E1 =c2\nuser E2 u\n"},
		{"a tail without its results", path{compaction("E1", "s", answer("x", StopToolUse, "c1"))}, "compactionSummary E1 s\nassistant E1 x ?c1\ntoolResult E1 =c1!\n"},
		{"a tail that starts with a result", path{compaction("E1", "s", output("c1", "a"), answer("x", StopStop))}, "compactionSummary E1 s\nassistant E1 x\n"},
		{"from tail to path", path{compaction("E1", "s", answer("x", StopToolUse, "c1")), result("E2", "c1")}, "compactionSummary E1 s\nassistant E1 x ?c1\ntoolResult E2 =c1\n"},
	} {
		t.Run(r.name, func(t *testing.T) {
			p, err := ProjectPath(r.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.want, lines(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProjectRaw(t *testing.T) {
	const message = `{"timestamp":1e3,"role":"user","content":"\ud800","X":[1.0]}`
	p, err := ProjectPath(path{entry("E0", pistore.TypeCompaction, "", `{"tokensBefore":1.50e2,"summary":"s<","retainedTail":[`+message+`]}`),
		entry("E1", pistore.TypeMessage, "", `{"message":`+message+`}`), branchSummary("E2", "b"), assistant("E3", "", "c1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range p.Messages {
		got = append(got, string(m.Raw))
	}
	want := []string{
		`{"role":"compactionSummary","summary":"s<","tokensBefore":1.50e2}`, message, message,
		`{"role":"branchSummary","summary":"b","fromId":"E0"}`,
		string(EncodeMessage(answer("", StopToolUse, "c1"))),
		`{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"No result was recorded for this call. ` +
			`It may or may not have run. Check before you repeat it."}],"isError":true,"timestamp":7}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProjectRefusesWhatStandsForMuch(t *testing.T) {
	for _, e := range []pistore.Entry{
		entry("E1", pistore.TypeCompaction, "", `{"summary":7}`),
		entry("E1", pistore.TypeCompaction, "", `{"summary":"s","retainedTail":{}}`),
		entry("E1", pistore.TypeBranchSummary, "", `{"summary":[]}`),
	} {
		if p, err := ProjectPath(path{e, user("E2", "x")}, nil); !errors.Is(err, pistore.ErrInvalid) || len(p.Messages) > 0 {
			t.Errorf("%s: %v, error %v", e.Payload, p, err)
		}
	}
}

func TestExtendsContext(t *testing.T) {
	project := func(p path) []ProjectedMessage {
		got, err := ProjectPath(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Messages
	}
	all := path{user("E1", "a"), assistant("E2", "b", "c1"), result("E3", "c1"), assistant("E4", "d"), user("E5", "e")}
	// A call that has no result yet is never sent, so requests are made where
	// the newest entry is no response with calls.
	for i := range all {
		for k := i; k <= len(all); k++ {
			if i == 2 || k == 2 {
				continue
			}
			if at, ok := ExtendsContext(project(all[:i]), project(all[:k])); !ok || at != len(project(all[:i])) {
				t.Errorf("%d entries, then %d: parts at %d", i, k, at)
			}
		}
	}
	for _, r := range []struct {
		name string
		next path
		at   int
	}{
		{"shorter", all[:1], 1},
		{"compacted", append(append(path{}, all...), compaction("E6", "s")), 0},
		{"edited", append(append(path{}, all...), edit("E6", "E4")), 3},
		{"another branch", path{user("E1", "a"), user("E7", "x")}, 1},
	} {
		if at, ok := ExtendsContext(project(all), project(r.next)); ok || at != r.at {
			t.Errorf("%s: parts at %d (%v), want %d", r.name, at, ok, r.at)
		}
	}
}
