package harness_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/session"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// What a request holds: the system prompt, the active tools in their order, the
// limits, and the conversation in the form that providers take.
func TestRequestContent(t *testing.T) {
	code := int64(3)
	r := newRig(t, config{
		script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}, active: []string{"lookup", "append"}, noLane: true,
		options: func(o *harness.Options) {
			o.SystemPrompt = "Be brief."
			o.StreamOptions = ` { "cache" : true } `
			o.Configuration.ThinkingLevel = "low"
			o.Projectors = session.Projectors{"note": func(e pistore.Entry) (session.Message, bool) {
				return &session.CustomMessage{CustomType: "note", Content: session.TextContent("projected \xff")}, true
			}}
		},
	})
	r.check(session.Init(r.ctx, r.store))
	raw := func(id pistore.ID, kind pistore.EntryType, payload pistore.JSON) session.Content {
		return session.Content{ID: id, Type: kind, Payload: payload}
	}
	_, err := r.other().Append(r.ctx, "main",
		session.MessageContent("old", &session.UserMessage{Content: session.TextContent("forgotten")}),
		raw("c", pistore.TypeCompaction, `{"summary":"They met.","retainedTail":[{"role":"user","content":"kept"}],"tokensBefore":9}`),
		raw("b", pistore.TypeBranchSummary, `{"fromId":"x","summary":"They strayed."}`),
		session.CustomContent("n", "note", ""),
		session.CustomContent("m", "unprojected", ""),
		raw("a", pistore.TypeMessage, `{"message":{"role":"assistant","content":[{"type":"text","text":"lone \ud800 half"},
			{"type":"toolCall","id":"k","name":"append","arguments":{"text":"\udc00","pair":"\ud83d\ude00","\\u":"\\ud800"}},
			{"type":"chart","title":"\udbff"}],"api":"faux","provider":"faux","model":"faux-1","usage":{},"stopReason":"toolUse","timestamp":1}}`),
		raw("e", pistore.TypeMessage, `{"message":{"role":"assistant","content":[{"type":"text","text":"dropped"}],"usage":{},"stopReason":"error"}}`),
		raw("s", pistore.TypeMessage, `{"message":{"role":"system","content":"Now in French.","sections":{"tone":"\ud800"}}}`),
		raw("u", pistore.TypeMessage, `{"message":{"role":"martian","content":"unsent"}}`),
	)
	r.check(err)
	r.lane, err = r.h.Lane(r.ctx, "main")
	r.check(err)
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{
		Messages: []session.Message{
			&session.BashMessage{Command: "ls", Output: "a.txt", ExitCode: &code, Truncated: true, Timestamp: 5},
			&session.BashMessage{Command: "secret", ExcludeFromContext: true},
			&session.BashMessage{Command: "true", Cancelled: true},
			&session.CustomMessage{CustomType: "x", Content: session.TextContent("custom"), Timestamp: 6},
		},
		Text: "What now?", Images: []session.Image{{Data: "AAAA", MIMEType: "image/png"}},
	})
	r.check(err)
	r.completed(r.finish())
	req := r.faux.Requests()[0]

	if req.ThinkingLevel != "low" || req.Options != `{"cache":true}` || req.Attempt != 1 || req.MaxOutputTokens != 16_384 || req.Model.ModelID != "faux-1" {
		t.Errorf("request %+v", req)
	}
	if diff := cmp.Diff([]session.Block{session.Text{Text: "Be brief."}}, req.System); diff != "" {
		t.Errorf("system: %s", diff)
	}
	want := []provider.ToolSpec{{Name: "lookup", Description: "Looks up.", Parameters: anyObject}, {Name: "append", Description: "Appends a line.", Parameters: anyObject}}
	if diff := cmp.Diff(want, req.Tools); diff != "" {
		t.Errorf("tools: %s", diff)
	}
	user := func(text string, at pistore.UnixMS) session.Message {
		return &session.UserMessage{Content: session.TextContent(text), Timestamp: at}
	}
	messages := []session.Message{
		user("What was said before this point was replaced by this summary:\n\nThey met.", 0),
		user("kept", 0),
		user("The conversation went on along another branch and came back here. Summary of that branch:\n\nThey strayed.", 0),
		user("projected \uFFFD", 0),
		&session.AssistantMessage{
			Content: []session.Block{
				session.Text{Text: "lone \uFFFD half"},
				session.ToolCall{ID: "k", Name: "append", Arguments: `{"text":"\ufffd","pair":"\ud83d\ude00","\\u":"\\ud800"}`},
				session.UnknownBlock{Raw: `{"type":"chart","title":"\ufffd"}`},
			},
			API: "faux", Provider: "faux", Model: "faux-1", Usage: "{}", StopReason: session.StopToolUse, Timestamp: 1,
		},
		&session.ToolResultMessage{ToolCallID: "k", ToolName: "append", IsError: true, Timestamp: 1,
			Content: session.TextContent("No result was recorded for this call. It may or may not have run. Check before you repeat it.")},
		&session.SystemMessage{Content: session.TextContent("Now in French."), Sections: `{"tone":"\ufffd"}`},
		user("The user ran this command:\n```\nls\n```\nIts output:\n```\na.txt\n```\nThe output is cut.\nIt exited with code 3.", 5),
		user("The user ran this command:\n```\ntrue\n```\nIt printed nothing.\nThe user cancelled it.", 0),
		user("custom", 6),
		&session.UserMessage{Content: []session.Block{session.Text{Text: "What now?"}, session.Image{Data: "AAAA", MIMEType: "image/png"}}, Timestamp: r.clock.read()},
	}
	if diff := cmp.Diff(messages, req.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	// What is stored is as it was given.
	found, err := r.store.Entries(r.ctx, []pistore.ID{"a"})
	r.check(err)
	if !strings.Contains(string(found[0].Payload), `{"text":"\udc00","pair":"\ud83d\ude00","\\u":"\\ud800"}`) {
		t.Errorf("stored: %s", found[0].Payload)
	}
}

// Each request of a lane begins with the one before it, whatever order the
// results of parallel calls come in, and over errors and retries.
func TestRequestsGrowAtTheTail(t *testing.T) {
	script := faux.Script{{Turns: []faux.Turn{
		{calls("append", "lookup", "nowhere", "fail")}, {faux.Fail("overloaded", true), calls("alone", "panic")}, {faux.Text("Done.")},
		{calls("lookup")}, {faux.Text("Done again.")},
	}}}
	r := newRig(t, config{script: script, drive: harness.Manual})
	var contexts [][]session.ProjectedMessage
	var requests []provider.Request
	for range 2 {
		_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		for {
			r.check(r.lane.Settle(r.ctx))
			parked := r.lane.Peek()
			if len(parked) == 0 {
				break
			}
			last := parked[len(parked)-1] // the newest first
			if last.Kind == harness.EffectRequest {
				projected, err := session.ProjectBranch(r.ctx, r.store, r.lane.Leaf(), nil)
				r.check(err)
				contexts = append(contexts, projected)
			}
			_, err := r.lane.StepEffect(r.ctx, last.ID)
			r.check(err)
		}
		r.completed(r.finish())
	}
	requests = r.faux.Requests()
	if len(requests) != 6 || len(contexts) != 6 {
		t.Fatalf("%d requests, %d contexts", len(requests), len(contexts))
	}
	for i := 1; i < len(contexts); i++ {
		if at, ok := session.ExtendsContext(contexts[i-1], contexts[i]); !ok {
			t.Errorf("context %d parts from the one before at message %d", i, at)
		}
		before := requests[i-1].Messages
		if diff := cmp.Diff(before, requests[i].Messages[:len(before)]); diff != "" {
			t.Errorf("request %d differs from the one before: %s", i, diff)
		}
	}
}

// The JSON of every effect at the gate, as a person sees it.
func TestEffectJSON(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: []faux.Turn{
		{{Content: []session.Block{session.ToolCall{ID: "c", Name: "append", Arguments: `{"text":"<one>"}`}}}},
		{faux.Fail("overloaded", true), faux.Text("Done.")},
	}}}, active: []string{"append"}, drive: harness.Manual})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	var b strings.Builder
	for {
		r.check(r.lane.Settle(r.ctx))
		parked := r.lane.Peek()
		if len(parked) == 0 {
			break
		}
		for _, e := range parked {
			text, err := json.MarshalIndent(e, "", " ")
			r.check(err)
			b.Write(append(text, '\n'))
		}
		stepped, err := r.lane.Step(r.ctx)
		r.check(err)
		if stepped != parked[0] {
			t.Errorf("released %+v, parked was %+v", stepped, parked[0])
		}
	}
	got := renameIDs(b.String(), map[string]string{})
	golden := filepath.Join("testdata", "effects.golden")
	if *update {
		r.check(os.MkdirAll("testdata", 0o755))
		r.check(os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	r.check(err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// Effects are numbered in the order in which they were asked for; a number that
// is not parked is refused, and changes nothing.
func TestStepEffect(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(calls("append", "lookup"), faux.Text("Done."))}}, drive: harness.Manual})
	if _, err := r.lane.Step(r.ctx); !isError(err, harness.ErrNotParked) {
		t.Errorf("step of an idle lane: %v", err)
	}
	if _, err := r.lane.RunToCompletion(r.ctx); !isError(err, harness.ErrNothingToResume) {
		t.Errorf("run of an idle lane: %v", err)
	}
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	last := int64(0)
	for {
		r.check(r.lane.Settle(r.ctx))
		parked := r.lane.Peek()
		if len(parked) == 0 {
			break
		}
		for i, e := range parked {
			if e.ID <= last-int64(len(parked)) || i > 0 && e.ID <= parked[i-1].ID || e.Lane != "main" {
				t.Errorf("effect %+v behind %d", e, last)
			}
		}
		last = max(last, parked[len(parked)-1].ID)
		before := len(r.store.commits())
		if _, err := r.lane.StepEffect(r.ctx, last+100); !isError(err, harness.ErrNotParked) {
			t.Errorf("step of no effect: %v", err)
		}
		if diff := cmp.Diff(parked, r.lane.Peek()); diff != "" || len(r.store.commits()) != before {
			t.Errorf("a refused step changed something: %s", diff)
		}
		// While effects are parked nothing happens.
		commits, requests := len(r.store.commits()), len(r.faux.Requests())
		e, err := r.lane.Step(r.ctx)
		r.check(err)
		commits, requests = len(r.store.commits())-commits, len(r.faux.Requests())-requests
		if want := map[harness.EffectKind][2]int{harness.EffectCommit: {1, 0}, harness.EffectRequest: {0, 1}, harness.EffectTool: {0, 0}}[e.Kind]; [2]int{commits, requests} != want {
			t.Errorf("a %s made %d commits and %d requests", e.Kind, commits, requests)
		}
	}
	r.completed(r.finish())
}

// RunToCompletion is over with its run, though a listener has started another.
func TestRunToCompletionEndsWithItsRun(t *testing.T) {
	var r *rig
	r = newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("One."), faux.Text("Two."))}}, drive: harness.Manual, noLane: true,
		onEvent: func(ev harness.Event) {
			if end, ok := ev.(harness.RunEnd); ok && len(r.faux.Requests()) == 1 {
				if _, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "next"}); err != nil {
					t.Errorf("prompt behind %s: %v", end.OperationID, err)
				}
			}
		}})
	var err error
	r.lane, err = r.h.Lane(r.ctx, "main")
	r.check(err)
	first, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	result := r.finish()
	r.completed(result)
	if result.Ended.OperationID != first.OperationID() || len(r.faux.Requests()) != 1 {
		t.Errorf("run %s ended, of %s, with %d requests", result.Ended.OperationID, first.OperationID(), len(r.faux.Requests()))
	}
	r.completed(r.finish())
	if len(r.faux.Requests()) != 2 {
		t.Errorf("%d requests", len(r.faux.Requests()))
	}
}
