package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/registers"
	"pistore/session"
)

// The sessions that tests look at, by name. Each is made by commits on a new
// session, so that any backend can hold it.
var fixtures = map[string]func(*maker){
	"tools":     makeTools,
	"tree":      makeTree,
	"hostile":   func(m *maker) { makeEverywhere(m, hostileText, hostileText) },
	"sprawling": func(m *maker) { makeEverywhere(m, sprawlingText, sprawlingText[:90]) },
	"damaged":   makeDamaged,
	"island":    makeIsland,
	"steps":     makeSteps,
	"worn":      makeWorn,
	"long":      makeLong,
	"bare":      func(*maker) {},
}

// maker commits what a fixture consists of.
type maker struct {
	ctx context.Context
	s   pistore.Storage
	err error
}

func makeFixture(ctx context.Context, s pistore.Storage, name string) error {
	build, ok := fixtures[name]
	if !ok {
		return fmt.Errorf("no fixture %q", name)
	}
	m := &maker{ctx: ctx, s: s}
	build(m)
	return m.err
}

func (m *maker) commit(writes ...pistore.Write) {
	if m.err == nil {
		_, m.err = m.s.Commit(m.ctx, pistore.Tx{Writes: writes})
	}
}

func (m *maker) set(namespace, key string, value pistore.JSON) {
	m.commit(pistore.SetRegister{Namespace: namespace, Key: key, Value: value})
}

func (m *maker) message(id, parent pistore.ID, message session.Message) {
	m.commit(pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: session.MessagePayload(message)})
}

func (m *maker) lane(name string, leaf pistore.ID, state registers.LaneState) {
	m.commit(
		pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: name, Value: registers.EncodeLaneLeaf(leaf)},
		pistore.SetRegister{Namespace: registers.LaneStateNS, Key: name, Value: registers.EncodeLaneState(state)},
		pistore.SetRegister{Namespace: registers.LaneConfigNS, Key: name, Value: registers.EncodeLaneConfiguration(fauxConfig)},
	)
}

// uid is an id as they are minted, of a fixed time.
func uid(n int) pistore.ID { return pistore.ID(fmt.Sprintf("0195c8d1-0000-7000-8000-%012x", n)) }

var fauxConfig = registers.LaneConfiguration{
	Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ThinkingLevel: "off", ActiveToolNames: []string{"read", "bash"},
}

func text(s string) []session.Block { return session.TextContent(s) }

func said(s string, stop session.StopReason, calls ...session.ToolCall) *session.AssistantMessage {
	m := &session.AssistantMessage{
		API: "faux", Provider: "faux", Model: "faux-1", StopReason: stop,
		Usage: `{"input":12,"output":3,"cacheRead":0,"cacheWrite":0,"totalTokens":15,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`,
	}
	if s != "" {
		m.Content = text(s)
	}
	for _, c := range calls {
		m.Content = append(m.Content, c)
	}
	return m
}

func (m *maker) usage(id, entry pistore.ID, usage pistore.JSON, model string) {
	m.commit(pistore.InsertUsage{
		ID: id, EntryID: entry, Usage: usage,
		Details: pistore.JSON(fmt.Sprintf(`{"lane":"main","operationId":"O1","purpose":"assistant","provider":"faux","modelId":%q}`, model)),
	})
}

// makeLong is a tree and more text than one block of a table holds.
func makeLong(m *maker) {
	makeTree(m)
	parent := pistore.ID("")
	noise := rand.New(rand.NewPCG(1, 1))
	for n := range 64 {
		var words strings.Builder
		for range 400 {
			fmt.Fprintf(&words, "%x ", noise.Uint32())
		}
		m.message(uid(1000+n), parent, &session.UserMessage{Content: text(words.String())})
		parent = uid(1000 + n)
	}
}

// makeTools is a run that died in the middle of its second call.
func makeTools(m *maker) {
	m.message(uid(1), "", &session.UserMessage{Content: text("Why does TestOpen fail?\nFix it, please.")})
	m.message(uid(2), uid(1), said(
		"I will look at it.", session.StopToolUse,
		session.ToolCall{ID: "c1", Name: "read", Arguments: `{"path":"open_test.go"}`},
		session.ToolCall{ID: "c2", Name: "bash", Arguments: `{"command":"go test ./..."}`},
		session.ToolCall{ID: "c3", Name: "read", Arguments: `{"path":"open.go"}`},
	))
	m.usage(uid(3), uid(2), `{"input":1200,"output":31,"cacheRead":900,"totalTokens":2131,"cost":{"input":0.0012,"output":0.0003,"total":0.0015}}`, "faux-1")
	m.message(uid(4), uid(2), &session.ToolResultMessage{ToolCallID: "c1", ToolName: "read", Content: text("package x\n\nfunc TestOpen(t *testing.T) {\n}")})
	m.lane(registers.MainLane, uid(4), registers.LaneState{CurrentOperationID: "O1"})
	m.set(registers.OpMetaNS, "O1", registers.EncodeOpMeta(registers.OpMeta{
		OperationID: "O1", Lane: registers.MainLane, StartedAt: 1741478400000,
		Intent: registers.Intent{Kind: registers.KindRun, PromptEntryIDs: []pistore.ID{uid(1)}},
	}))
	m.set(registers.OpStateNS, "O1", registers.EncodeOpState(toolsState()))
	m.set(registers.OpToolArgsNS, "O1:S1:0", `{"path":"open_test.go"}`)
	m.set(registers.OpToolArgsNS, "O1:S1:1", `{"command":"go test ./..."}`)
	m.set(registers.PendingEntryNS, string(uid(9)), registers.EncodePendingEntry(registers.PendingEntry{
		Type: pistore.TypeMessage, Payload: session.MessagePayload(&session.UserMessage{Content: text("and be quick")}),
	}))
	m.set(registers.FactNameNS, "", `"Fix TestOpen"`)
	m.set(registers.FactLabelNS, string(uid(1)), `"start"`)
	m.set(registers.FactCustomNS, "ticket", `{"id":17,"open":null}`)
	m.set(registers.DocNS, "l:todo:main", `{"version":1,"fork":"copy","value":["look","fix"]}`)
	m.set(registers.TimerNS, "00000195c8d15200:T1", `{"wake":"task"}`)
	m.set("app.example", "k", `[1,2.50]`)
}

func toolsState() *registers.RunState {
	return &registers.RunState{
		Resumes: 1,
		Settings: registers.Settings{
			Compaction:   registers.CompactionSettings{Enabled: true, ReserveTokens: 16384, KeepRecentTokens: 20000},
			SteeringMode: registers.OneAtATime, FollowUpMode: registers.OneAtATime, ToolExecution: registers.Parallel,
		},
		Inbox:                  registers.Inbox{Steer: []pistore.ID{uid(9)}},
		LatestAssistantEntryID: uid(2),
		Phase: &registers.Tools{
			StepID: "S1", AssistantEntryID: uid(2), Configuration: fauxConfig,
			Calls: []registers.Call{
				{Status: registers.CallCompleted, SourceIndex: 0, ResultEntryID: uid(4)},
				{Status: registers.CallEffectPending, SourceIndex: 1, ResultEntryID: uid(5), Replay: registers.ReplayNever},
				{Status: registers.CallPlanned, SourceIndex: 2, ResultEntryID: uid(6)},
			},
		},
	}
}

// makeTree has branches, failed answers, summaries and two lanes at rest.
func makeTree(m *maker) {
	m.message(uid(1), "", &session.SystemMessage{Content: text("Be brief.")})
	m.message(uid(2), uid(1), &session.UserMessage{Content: text("Count to three.")})
	failed := said("", session.StopError)
	failed.ErrorMessage = "overloaded, try again"
	m.message(uid(3), uid(2), failed)
	m.message(uid(4), uid(2), said("One, two, three.", session.StopStop))
	m.usage(uid(20), uid(4), `{"input":10,"output":5,"cost":{"total":0.1}}`, "faux-1")
	m.usage(uid(21), uid(4), `{"input":7,"output":2,"cost":{"total":0.2}}`, "faux-2")
	m.message(uid(5), uid(4), &session.UserMessage{Content: text("Now in French.")})
	m.message(uid(6), uid(5), said("Un, deux, trois.", session.StopStop))
	m.commit(pistore.InsertEntry{ID: uid(7), ParentID: uid(6), Type: pistore.TypeCompaction, Payload: session.CompactionPayload(session.Compaction{
		Summary: "The user had the assistant count to three, in English and in French.", TokensBefore: 12345,
		RetainedTail: []pistore.JSON{session.EncodeMessage(said("Un, deux, trois.", session.StopStop))},
	})})
	m.message(uid(8), uid(7), &session.BashMessage{Command: "ls", Output: "a\nb\n"})
	long := said(strings.Repeat("A sentence that is wrapped at some point. ", 4), session.StopLength)
	m.message(uid(9), uid(8), long)
	m.commit(pistore.InsertEntry{ID: uid(10), ParentID: uid(4), Type: pistore.TypeBranchSummary, Payload: session.BranchSummaryPayload(session.BranchSummary{
		FromID: string(uid(6)), Summary: "There was an excursion into French.",
	})})
	m.message(uid(11), uid(10), &session.UserMessage{Content: []session.Block{session.Text{Text: "What is this?"}, session.Image{Data: "AAAA", MIMEType: "image/png"}}})
	m.message(uid(12), uid(11), &session.AssistantMessage{
		Content:    []session.Block{session.Thinking{Thinking: "An image.\nOf what?"}, session.Text{Text: "A pixel."}},
		Provider:   "faux",
		Model:      "faux-2",
		StopReason: session.StopStop,
	})
	m.commit(pistore.InsertEntry{ID: uid(13), ParentID: uid(12), Type: pistore.TypeCustom, CustomType: "app.note", Payload: session.CustomPayload(`{"seen":true}`)})
	m.lane(registers.MainLane, uid(9), registers.LaneState{})
	m.lane("thread-2", uid(13), registers.LaneState{})
	m.set(registers.LaneLastResultNS, registers.MainLane, registers.EncodeLastResult(registers.LastResult{
		OperationID: "O0", Kind: registers.KindRun, Outcome: registers.Failed, LeafID: uid(9),
		Error: &registers.Failure{Code: "output_limit", Message: "the answer was cut off"}, FinalAssistantID: uid(9),
	}))
	m.set(registers.FactLabelNS, string(uid(4)), `"english"`)
}

// hostileText acts on a terminal in every way there is: it sets a title,
// colours, moves the cursor, in C0 and C1, and turns the direction of text.
const hostileText = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\u009b2J\r\x7f\b\u202egnp.exe\u2066x\u2069 \u200fy\u2028z"

// sprawlingText has line breaks, and is longer than anything that is shown of it
// should be.
var sprawlingText = "one\ntwo\r\nthree\tfour\n\n" + strings.Repeat("five ", 20_000)

// makeEverywhere has a text wherever a store can have text, and a short one where
// that has to be short.
func makeEverywhere(m *maker, h, short string) {
	quoted := pistore.QuoteJSON(h)
	m.message(uid(1), "", &session.UserMessage{Content: text(h + "\nline two " + h)})
	m.message(uid(2), uid(1), &session.AssistantMessage{
		Content: []session.Block{
			session.Thinking{Thinking: h}, session.Text{Text: h},
			session.ToolCall{ID: h, Name: "n" + h, Arguments: pistore.JSON(`{"a":` + string(quoted) + `}`)},
		},
		Provider: h, Model: h, StopReason: session.StopError, ErrorMessage: h,
	})
	m.message(uid(3), uid(2), &session.ToolResultMessage{ToolCallID: h, ToolName: h, Content: text(h), IsError: true})
	m.message(uid(4), uid(3), &session.CustomMessage{CustomType: h, Content: text(h)})
	m.message(uid(5), uid(4), &session.BashMessage{Command: h, Output: h})
	m.commit(pistore.InsertEntry{ID: uid(6), ParentID: uid(5), Type: pistore.TypeMessage, Payload: pistore.JSON(`{"message":{"role":` + string(quoted) + `}}`)})
	m.commit(pistore.InsertEntry{ID: uid(7), ParentID: uid(6), Type: pistore.TypeCompaction, Payload: session.CompactionPayload(session.Compaction{Summary: h})})
	m.commit(pistore.InsertEntry{ID: "\u202eid", ParentID: uid(7), Type: pistore.TypeCustom, CustomType: "\u2066t", Payload: session.CustomPayload(quoted)})
	m.commit(pistore.InsertUsage{ID: uid(8), Usage: `{"input":1}`, Details: pistore.JSON(`{"provider":` + string(quoted) + `,"modelId":` + string(quoted) + `}`)})
	m.lane(registers.MainLane, "\u202eid", registers.LaneState{})
	m.set(registers.LaneConfigNS, registers.MainLane, registers.EncodeLaneConfiguration(registers.LaneConfiguration{
		Model: registers.ModelRef{Provider: h, ModelID: h}, ThinkingLevel: h, ActiveToolNames: []string{h},
	}))
	m.lane("\u202elane", uid(1), registers.LaneState{})
	m.set(registers.LaneLastResultNS, "\u202elane", registers.EncodeLastResult(registers.LastResult{
		OperationID: "O0", Kind: registers.KindRun, Outcome: registers.Failed, Error: &registers.Failure{Code: h, Message: h},
	}))
	m.set(registers.FactNameNS, "", quoted)
	m.set(registers.FactLabelNS, string(uid(2)), quoted)
	m.set(registers.FactCustomNS, short, quoted)
	m.set(registers.DocNS, "s:kind\u202e", quoted)
	m.set(registers.TaskStateNS, "\u202etask", quoted)
	m.set("foreign"+short, short, quoted)
}

// fileEverywhere is a session file of format 3 with a text wherever it can have
// text, and with lines that are no records.
func fileEverywhere(h string) string {
	q := string(pistore.QuoteJSON(h))
	return strings.Join([]string{
		`{"type":"session","version":3,"id":"` + "\u202e" + `id","timestamp":"2026-01-01T00:00:00.000Z","cwd":` + q + `,"parentSession":` + q + `}`,
		`{"type":"message","id":` + q + `,"parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":` + q + `}}`,
		`{"type":"message","id":"b","parentId":` + q + `,"timestamp":` + q + `,"message":{"role":"assistant","content":[{"type":"text","text":` + q +
			`},{"type":"toolCall","id":` + q + `,"name":` + q + `,"arguments":{` + q + `:` + q + `}}],"provider":` + q + `,"model":` + q +
			`,"stopReason":"toolUse","usage":{"input":1,"cost":{"total":1}}}}`,
		`{"type":"message","id":"c","parentId":"b","timestamp":"2026-01-01T00:00:03.000Z","message":{"role":"toolResult","toolCallId":` + q + `,"toolName":` + q +
			`,"content":[{"type":"text","text":` + q + `}],"isError":false,"usage":{"input":1}}}`,
		`{"type":` + q + `,"id":"d","parentId":"c"}`,
		`{"type":"custom_message","id":"e","parentId":"d","customType":` + q + `,"content":` + q + `,"display":true}`,
		`{"type":"compaction","id":"f","parentId":"e","summary":` + q + `,"firstKeptEntryId":` + q + `,"tokensBefore":1}`,
		`{"type":"label","id":"g","parentId":"f","targetId":"c","label":` + q + `}`,
		`{"type":"label","id":"g2","parentId":"g","targetId":` + q + `,"label":` + q + `}`,
		`{"type":"session_info","id":"h","parentId":"g2","name":` + q + `}`,
		`{"type":"model_change","id":"i","parentId":"h","provider":` + q + `,"modelId":` + q + `}`,
		`{"type":"thinking_level_change","id":"j","parentId":"i","thinkingLevel":` + q + `}`,
		h + `{"type":` + h,
		`{"type":"message","id":"` + h + `"`,
		`{"type":"message","id":"k","parentId":"` + h[:9] + `"}`,
		`{"type":"custom","id":"l","parentId":"\u202e\u001b]0;x","customType":"c","data":` + q + `}`,
		h,
	}, "\n")
}

// makeDamaged breaks what registers say: a leaf that leads nowhere, an operation
// whose state cannot be read, content that nobody has queued.
func makeDamaged(m *maker) {
	m.message(uid(1), "", &session.UserMessage{Content: text("hello")})
	m.lane(registers.MainLane, uid(1), registers.LaneState{CurrentOperationID: "O1"})
	m.set(registers.OpMetaNS, "O1", registers.EncodeOpMeta(registers.OpMeta{
		OperationID: "O1", Lane: registers.MainLane, StartedAt: 1, Intent: registers.Intent{Kind: registers.KindRun},
	}))
	m.set(registers.OpStateNS, "O1", `{"kind":"run","surprise":true}`)
	m.lane("side", "gone", registers.LaneState{})
	m.commit(pistore.InsertEntry{ID: uid(2), ParentID: uid(1), Type: pistore.TypeMessage, Payload: `{"message":{"role":"assistant","content":7}}`})
	m.set(registers.LaneStateNS, "side", `{}`)
}

// makeSteps is makeTools, and two steps further.
func makeSteps(m *maker) {
	makeTools(m)
	state := toolsState()
	tools := state.Phase.(*registers.Tools)
	tools.Calls[1] = registers.Call{Status: registers.CallCompleted, SourceIndex: 1, ResultEntryID: uid(5)}
	m.commit(
		pistore.InsertEntry{ID: uid(5), ParentID: uid(4), Type: pistore.TypeMessage, Payload: session.MessagePayload(&session.ToolResultMessage{ToolCallID: "c2", ToolName: "bash", Content: text("ok")})},
		pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: registers.MainLane, Value: registers.EncodeLaneLeaf(uid(5))},
		pistore.DeleteRegister{Namespace: registers.OpToolArgsNS, Key: "O1:S1:1"},
		pistore.SetRegister{Namespace: registers.OpToolArgsNS, Key: "O1:S1:2", Value: `{"path":"open.go"}`},
		pistore.SetRegister{Namespace: registers.OpStateNS, Key: "O1", Value: registers.EncodeOpState(state)},
	)
	state.Resumes = 2
	tools.Calls[2].Status, tools.Calls[2].Replay = registers.CallEffectPending, registers.ReplaySafe
	m.set(registers.OpStateNS, "O1", registers.EncodeOpState(state))
}

// makeWorn is makeTools with a register that was overwritten many times.
func makeWorn(m *maker) {
	makeTools(m)
	for i := range 200 {
		m.set("app.example", "counter", pistore.JSON(fmt.Sprint(i)))
	}
}

// makeIsland has only a warning.
func makeIsland(m *maker) {
	m.message(uid(1), "", &session.UserMessage{Content: text("hello")})
	m.lane(registers.MainLane, uid(1), registers.LaneState{})
	m.set(registers.FactLabelNS, "gone", `"label"`)
}

// makeStore makes a logstore with sessions, each given as SESSION=FIXTURE.
func makeStore(dir string, sessions []string) (err error) {
	ctx := context.Background()
	db, err := logstore.Open(dir, logstore.Options{
		Clock:  func() pistore.UnixMS { return 1741478400000 },
		Random: rand.NewChaCha8([32]byte{}),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for i, arg := range sessions {
		id, fixture, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("mkstore: %q is not SESSION=FIXTURE", arg)
		}
		if err := makeSession(ctx, db, pistore.SessionID(id), i, fixture); err != nil {
			return err
		}
	}
	return nil
}

// makeSession makes a session that holds a fixture, i minutes younger than the
// first one.
func makeSession(ctx context.Context, b pistore.Backend, id pistore.SessionID, i int, fixture string) error {
	s, err := b.Create(ctx, pistore.Info{ID: id, CreatedAt: pistore.UnixMS(1741478400000 + i*60000), CWD: "/home/user/project"})
	if err != nil {
		return err
	}
	return errors.Join(makeFixture(ctx, s, fixture), s.Close())
}

// makeFile makes a session file of format 4. The session is named as the file.
func makeFile(path, fixture string) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), "made")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := jsonl.NewFolder(dir, jsonl.Options{
		Clock: func() pistore.UnixMS { return 1741478400000 }, Rand: rand.NewChaCha8([32]byte{}),
	})
	id := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if err := errors.Join(makeSession(context.Background(), b, pistore.SessionID(id), 0, fixture), b.Close()); err != nil {
		return err
	}
	made, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	if err != nil || len(made) != 1 {
		return fmt.Errorf("%d files: %w", len(made), err)
	}
	return os.Rename(made[0], path)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
