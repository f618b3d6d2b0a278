package session_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/internal/allocs"
	. "pistore/session"
)

// pathOf makes a path of arbitrary bytes: each byte an entry, its low bits the
// kind, its high bits the call or target that it is about.
func pathOf(program []byte) path {
	var p path
	for i, b := range program {
		id := pistore.ID("E" + string(rune('A'+i%64)) + string(rune('A'+i/64%64)))
		which := string(rune('a' + b>>4%4))
		target := pistore.ID("E" + string(rune('A'+b>>4)) + "A")
		switch b % 16 {
		case 0, 1:
			p = append(p, user(id, which))
		case 2:
			p = append(p, assistant(id, which))
		case 3:
			p = append(p, assistant(id, which, which))
		case 4:
			p = append(p, assistant(id, which, "a", which, "b"))
		case 5:
			p = append(p, ended(id, StopLength, which))
		case 6:
			p = append(p, ended(id, StopError, which))
		case 7, 8, 9:
			p = append(p, result(id, which))
		case 10:
			p = append(p, compaction(id, which, answer("t", StopToolUse, "a", which), output(which, "x"), output("b", "y")))
		case 11:
			p = append(p, branchSummary(id, which[:b>>4%2]))
		case 12:
			p = append(p, edit(id, target))
		case 13:
			p = append(p, edit(id, target, `"x"`))
		case 14:
			p = append(p, custom(id, "note", pistore.JSON(`"`+which+`"`)))
		default:
			p = append(p, ended(id, StopAborted))
		}
	}
	return p
}

// FuzzProject gives the projection paths of any shape with a payload of any
// bytes among them.
func FuzzProject(f *testing.F) {
	for _, seed := range []string{"", "\x03\x07", "\x13\x04\x27\x17\x37\x00", "\x0a\x07\x17\x0c\x1d", "\x00\x02\x0a\x03\x0e\x0b\x1b", "\x04\x07\x07\x07\x07"} {
		f.Add([]byte(seed), `{"message":{"role":"assistant","content":[{"type":"toolCall","id":"a","name":"n"}]}}`, uint8(0))
	}
	f.Add([]byte("\x07\x07"), `{"summary":"s","retainedTail":[{"role":"toolResult","toolCallId":"a"},7],"systemMessage":{"role":"user"}}`, uint8(1))
	f.Add([]byte("\x00"), `{"data":{"targetId":"EAA","replacement":{"content":[{"type":"toolCall","id":"a","name":"n"}]}}}`, uint8(3))
	f.Fuzz(func(t *testing.T, program []byte, payload string, kind uint8) {
		if len(program) > 200 {
			return
		}
		p := pathOf(program)
		if admitted, err := pistore.CompactJSON(payload); err == nil && admitted.IsObject() {
			types := []pistore.EntryType{pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary, pistore.TypeCustom, "later"}
			odd := entry("odd", types[int(kind)%len(types)], ContextEditType, admitted)
			p = slices.Insert(p, len(p)/2, odd)
		}
		allocs.Within(t, 100*len(program)+len(payload), 300, 4<<20, func() { _, _ = ProjectPath(p, nil) })
		got, err := ProjectPath(p, nil)
		if err != nil {
			if !errors.Is(err, pistore.ErrInvalid) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		checkPairs(t, got.Messages)
		for _, m := range got.Messages {
			if _, err := pistore.CompactJSON(string(m.Raw)); err != nil {
				t.Fatalf("%s: %v", m.Raw, err)
			}
			view, err := ParseMessage(m.Raw)
			if diff := cmp.Diff(m.Message, view); err != nil || diff != "" || view.Role() != m.Role {
				t.Fatalf("%s: the view is another one: %v %s", m.Raw, err, diff)
			}
		}
		again, _ := ProjectPath(p, nil)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("two projections differ:\n%s", diff)
		}
	})
}

// checkPairs demands that each call has exactly one result, at once and in call
// order, and that there is no other result and no response without an answer.
func checkPairs(t *testing.T, messages []ProjectedMessage) {
	t.Helper()
	var owed []string
	for i, m := range messages {
		r, isResult := m.Message.(*ToolResultMessage)
		switch {
		case isResult && len(owed) == 0:
			t.Fatalf("message %d: a result nobody waits for, of %q", i, r.ToolCallID)
		case isResult && owed[0] != r.ToolCallID:
			t.Fatalf("message %d: a result of %q, want one of %q", i, r.ToolCallID, owed[0])
		case isResult:
			owed = owed[1:]
		case len(owed) > 0:
			t.Fatalf("message %d: %s, want the result of %q", i, m.Role, owed[0])
		}
		if a, ok := m.Message.(*AssistantMessage); ok {
			if a.StopReason == StopError || a.StopReason == StopAborted || a.StopReason == StopDeferred {
				t.Fatalf("message %d ended in %s", i, a.StopReason)
			}
			for _, c := range a.ToolCalls() {
				owed = append(owed, c.ID)
			}
		}
	}
	if len(owed) > 0 {
		t.Fatalf("no result of %q at the end", owed[0])
	}
}
