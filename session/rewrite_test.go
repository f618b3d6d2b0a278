package session_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

const secret = "the secret word"

// secretive writes a session with a secret in every role that a message can
// have, and with copies of it wherever a harness or an import makes them.
func secretive(t *testing.T, b pistore.Backend) (told []pistore.ID) {
	t.Helper()
	text := session.TextContent(secret)
	messages := []session.Message{
		&session.SystemMessage{Content: text, Sections: pistore.JSON(`{"s":"` + secret + `"}`)},
		&session.UserMessage{Content: text, Timestamp: 7},
		&session.AssistantMessage{
			Content: []session.Block{
				session.Thinking{Thinking: secret}, session.Text{Text: secret},
				session.ToolCall{ID: "c1", Name: "read", Arguments: `{"path":"` + secret + `"}`},
			},
			Provider: "p", Model: "m", StopReason: session.StopToolUse, ErrorMessage: secret,
		},
		&session.ToolResultMessage{ToolCallID: "c1", ToolName: "read", Content: text, Details: `"` + secret + `"`},
		&session.CustomMessage{CustomType: "x", Content: text, Details: `"` + secret + `"`},
		&session.BashMessage{Command: secret, Output: secret},
		&session.UnknownMessage{RoleName: "oracle", Raw: `{"role":"oracle","says":"` + secret + `"}`},
	}
	var writes []pistore.Write
	var tail []pistore.JSON
	parent := pistore.ID("")
	add := func(id pistore.ID, kind pistore.EntryType, custom string, payload pistore.JSON) {
		writes = append(writes, pistore.InsertEntry{ID: id, ParentID: parent, Type: kind, CustomType: custom, Payload: payload})
		parent = id
	}
	for i, m := range messages {
		id := pistore.ID(rune('a' + i))
		told = append(told, id)
		tail = append(tail, session.EncodeMessage(m))
		add(id, pistore.TypeMessage, "", session.MessagePayload(m))
	}
	add("note", pistore.TypeCustom, "app.note", session.CustomPayload(`"`+secret+`"`))
	add("left", pistore.TypeBranchSummary, "", session.BranchSummaryPayload(session.BranchSummary{FromID: "root", Summary: secret}))
	told = append(told, "note", "left")
	tail = append(tail, session.EncodeMessage(&session.SummaryMessage{Kind: session.RoleBranchSummary, Summary: secret, FromID: "root"}))
	add("edit", pistore.TypeCustom, session.ContextEditType, session.CustomPayload(`{"targetId":"b","replacement":{"content":"`+secret+`, shorter"}}`))
	add("short", pistore.TypeCompaction, "", session.CompactionPayload(session.Compaction{Summary: "They talked.", RetainedTail: tail, TokensBefore: 9, SystemMessage: tail[0]}))
	add("own", pistore.TypeCompaction, "", session.CompactionPayload(session.Compaction{Summary: secret, RetainedTail: tail[:2], TokensBefore: 9}))
	told = append(told, "own")
	add("end", pistore.TypeMessage, "", session.MessagePayload(&session.UserMessage{Content: session.TextContent("bye")}))
	writes = append(writes, laneAt("main", "end", "")...)
	writes = append(writes, cell(registers.FactLabelNS, "b", `"`+secret+`"`), cell(registers.FactLabelNS, "end", `"kept"`),
		cell("app.copy", "k", `{"seen":[`+tail[1]+`,1.0]}`))
	write(t, b, "s", writes, []pistore.Write{pistore.InsertUsage{ID: "u", Usage: `{"input":1}`, Details: `{"answer":` + tail[2] + `}`}})
	return told
}

func TestErase(t *testing.T) {
	onEach(t, func(t *testing.T, open func(*testing.T) pistore.Backend) {
		b := open(t)
		told := secretive(t, b)
		before := opened(t, b, "s")
		generation := before.Info().Generation
		usage, err := before.Stats(t.Context())
		plan, planErr := session.PlanRewrite(t.Context(), before, session.RewriteOptions{Erase: told})
		structure := structureOf(t, before)
		if err = errors.Join(err, planErr, before.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := session.Rewrite(t.Context(), b, "s", session.RewriteOptions{Erase: told})
		if err != nil {
			t.Fatal(err)
		}
		// The edit, 9 in the tail, its system message, the register, the details.
		if r.Erased != int64(len(told)) || r.Copies != 12 || r.Labels != 1 || r.Dropped != 0 || !slices.Equal(r.Summaries, []pistore.ID{"short"}) {
			t.Errorf("%+v", r)
		}
		if plan.Digest != r.Digest || plan.Copies != r.Copies || plan.Rows != r.Rows {
			t.Errorf("planned %+v, done %+v", plan, r)
		}
		if r.Info.Generation == generation {
			t.Error("the generation is the old one")
		}
		after := opened(t, b, "s")
		if d, err := pistore.Digest(t.Context(), after); err != nil || d != r.Digest {
			t.Errorf("digest %s instead of %s, %v", d, r.Digest, err)
		}
		if now, err := after.Stats(t.Context()); err != nil || now != usage {
			t.Errorf("statistics %+v instead of %+v, %v", now, usage, err)
		}
		if got := structureOf(t, after); !slices.Equal(got, structure) {
			t.Errorf("structure\n%v instead of\n%v", got, structure)
		}
		for row, err := range after.Export(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if text := rowText(row); strings.Contains(text, secret) {
				t.Errorf("it is still told: %s", text)
			}
		}
		if err := after.Close(); err != nil {
			t.Error(err)
		}
		sound(t, b, "s")
		again, err := session.Rewrite(t.Context(), b, "s", session.RewriteOptions{Erase: told})
		if err != nil || again.Digest != r.Digest || again.Copies != 0 {
			t.Errorf("a second time: %+v, %v", again, err)
		}
	})
}

func structureOf(t *testing.T, s pistore.Storage) (all []pistore.Entry) {
	t.Helper()
	for e, err := range s.ScanEntries(t.Context(), pistore.ScanQuery{StructureOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func rowText(row pistore.Row) string {
	switch r := row.(type) {
	case pistore.Entry:
		return string(r.ID) + string(r.Payload)
	case pistore.Register:
		return r.Namespace + r.Key + string(r.Value)
	case pistore.UsageRow:
		return string(r.ID) + string(r.Usage+r.Details)
	}
	return ""
}

// TestEraseOne leaves all else as it was, byte for byte.
func TestEraseOne(t *testing.T) {
	b := newBackend(t)
	secretive(t, b)
	before, cells, _ := contentOf(t, opened(t, b, "s"))
	if _, err := session.Rewrite(t.Context(), b, "s", session.RewriteOptions{Erase: []pistore.ID{"d"}}); err != nil {
		t.Fatal(err)
	}
	after, cellsAfter, _ := contentOf(t, opened(t, b, "s"))
	for id, payload := range before {
		changed := id == "d" || id == "short"
		if (after[id] != payload) != changed {
			t.Errorf("entry %s: %s became %s", id, payload, after[id])
		}
	}
	for at, value := range cells {
		if cellsAfter[at] != value {
			t.Errorf("register %s: %s became %s", at, value, cellsAfter[at])
		}
	}
}

func TestDropAbandoned(t *testing.T) {
	onEach(t, func(t *testing.T, open func(*testing.T) pistore.Backend) {
		b := open(t)
		writes := []pistore.Write{
			said("a", "", "1"), said("b", "a", "2"), said("dead", "a", "3"), said("dead2", "dead", "4"), said("marked", "dead", "5"),
			said("side", "b", "6"), said("gone", "b", "7"), said("gone2", "gone", "8"), said("result", "b", "9"),
		}
		writes = append(append(writes, laneAt("main", "b", "")...), laneAt("x", "side", "")...)
		writes = append(writes, cell(registers.FactLabelNS, "marked", `"m"`), cell(registers.FactLabelNS, "nobody", `"n"`),
			cell(registers.LaneLastResultNS, "x", registers.EncodeLastResult(registers.LastResult{
				OperationID: "P", Kind: registers.KindRun, Outcome: registers.Aborted, LeafID: "result",
			})))
		write(t, b, "s", writes)
		r, err := session.Rewrite(t.Context(), b, "s", session.RewriteOptions{DropAbandoned: true})
		if err != nil || r.Dropped != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		s := opened(t, b, "s")
		var ids []pistore.ID
		for _, e := range structureOf(t, s) {
			ids = append(ids, e.ID)
		}
		if want := []pistore.ID{"a", "b", "dead", "marked", "side", "result"}; !slices.Equal(ids, want) {
			t.Errorf("left: %v, want %v", ids, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRewriteRefusals(t *testing.T) {
	b := newBackend(t)
	forkable(t, b)
	write(t, b, "raw", []pistore.Write{said("a", "", "1")})
	digest := func(id pistore.SessionID) string {
		d, err := pistore.Digest(t.Context(), opened(t, b, id))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := digest("s") + digest("raw")
	refuse := func(what string, id pistore.SessionID, o session.RewriteOptions, want error) {
		t.Helper()
		if _, err := session.Rewrite(t.Context(), b, id, o); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		if now := digest("s") + digest("raw"); now != before {
			t.Errorf("%s: the session was changed", what)
		}
	}
	refuse("an unknown entry", "s", session.RewriteOptions{Erase: []pistore.ID{"x", "nobody"}}, pistore.ErrNotFound)
	refuse("a usage row", "s", session.RewriteOptions{Erase: []pistore.ID{"u"}}, pistore.ErrNotFound)
	refuse("what a run works on", "s", session.RewriteOptions{Erase: []pistore.ID{"b"}}, session.ErrLaneBusy)
	refuse("what a run was accepted with", "s", session.RewriteOptions{Erase: []pistore.ID{"a"}}, session.ErrLaneBusy)
	refuse("no lane", "raw", session.RewriteOptions{DropAbandoned: true}, pistore.ErrInvalid)
	var used *session.InUseError
	_, err := session.Rewrite(t.Context(), b, "s", session.RewriteOptions{Erase: []pistore.ID{"b"}})
	if !errors.As(err, &used) || used.Operation != "O" || used.Entry != "b" {
		t.Errorf("%v", err)
	}
	writer, err := b.Open(t.Context(), "s", pistore.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	refuse("beside a writer", "s", session.RewriteOptions{DropAbandoned: true}, pistore.ErrLocked)
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
	torn := tearing{b}
	if _, err := session.Rewrite(t.Context(), torn, "s", session.RewriteOptions{DropAbandoned: true}); !errors.Is(err, errTorn) {
		t.Errorf("a torn source: %v", err)
	}
	if now := digest("s") + digest("raw"); now != before {
		t.Error("a torn source: the session was changed")
	}
}

// tearing is a backend whose sessions end early when they are rewritten.
type tearing struct{ pistore.Backend }

func (b tearing) Rewrite(ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	return b.Backend.Rewrite(ctx, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
		return make(broken{old, nil, 6})
	})
}

// TestEraseInPreparation erases what a summary that is being made was given.
func TestEraseInPreparation(t *testing.T) {
	b := newBackend(t)
	forkable(t, b)
	s, err := b.Open(t.Context(), "s", pistore.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	message := session.EncodeMessage(&session.UserMessage{Content: session.TextContent("aside"), Timestamp: 5})
	_, err = s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{
		pistore.InsertEntry{ID: "sum", ParentID: "b", Type: pistore.TypeCompaction, Payload: session.CompactionPayload(session.Compaction{Summary: secret})},
		cell(registers.OpPreparationNS, registers.PreparationKey("O", "T"), registers.EncodePreparation(registers.Preparation{
			MessagesToSummarize: []pistore.JSON{message}, RetainedTail: []pistore.JSON{message}, PreviousSummary: secret, TokensBefore: 1,
		})),
	}})
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := session.Rewrite(t.Context(), b, "s", session.RewriteOptions{Erase: []pistore.ID{"x", "sum"}})
	if err != nil || r.Copies != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	_, cells, _ := contentOf(t, opened(t, b, "s"))
	p, err := registers.DecodePreparation(cells["op.preparation/O:T"])
	if err != nil || strings.Contains(string(cells["op.preparation/O:T"]), "aside") || p.PreviousSummary != "[erased]" || len(p.MessagesToSummarize) != 1 {
		t.Errorf("%s, %v", cells["op.preparation/O:T"], err)
	}
}
