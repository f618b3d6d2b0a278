package harness_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// longSession is the export of a session of many turns whose last run was
// killed behind an intent.
func longSession(t *testing.T, turns int) iter.Seq2[pistore.Row, error] {
	t.Helper()
	ids := pistore.NewIDs(func() pistore.UnixMS { return 1_700_000_000_000 }, rand.NewChaCha8([32]byte{}))
	var rows []pistore.Row
	seq := pistore.Seq(0)
	next := func() pistore.Seq { seq++; return seq }
	leaf := pistore.ID("")
	say := func(m session.Message) {
		e := pistore.Entry{ID: ids.New(), ParentID: leaf, Seq: next(), Type: pistore.TypeMessage, Payload: session.MessagePayload(m)}
		rows = append(rows, e)
		leaf = e.ID
	}
	for i := range turns {
		say(&session.UserMessage{Content: session.TextContent(fmt.Sprintf("question %d", i))})
		if i < turns-1 {
			say(&session.AssistantMessage{Content: session.TextContent("answer"), Usage: "{}", StopReason: session.StopStop})
		}
	}
	op := ids.New()
	set := func(namespace, key string, value pistore.JSON) {
		rows = append(rows, pistore.Register{Namespace: namespace, Key: key, Value: value, Seq: next()})
	}
	config := registers.LaneConfiguration{ThinkingLevel: "off", ActiveToolNames: []string{}}
	set(registers.LaneLeafNS, "main", registers.EncodeLaneLeaf(leaf))
	set(registers.OpMetaNS, string(op), registers.EncodeOpMeta(registers.OpMeta{
		OperationID: op, Lane: "main", SourceLeafID: rows[0].(pistore.Entry).ID,
		Intent: registers.Intent{Kind: registers.KindRun, PromptEntryIDs: []pistore.ID{leaf}},
	}))
	set(registers.OpStateNS, string(op), registers.EncodeOpState(&registers.RunState{
		Settings: registers.Settings{SteeringMode: registers.OneAtATime, FollowUpMode: registers.OneAtATime, ToolExecution: registers.Parallel},
		Phase: &registers.AssistantPending{
			Context: registers.Context{
				StepID: ids.New(), TriggerEntryID: leaf, Configuration: config, StreamOptions: "{}",
				RetryPolicy: registers.RetryPolicy{MaxAttempts: 4},
			},
			Attempt: 1, ResponseEntryID: ids.New(), UsageID: ids.New(),
		},
	}))
	set(registers.LaneConfigNS, "main", registers.EncodeLaneConfiguration(config))
	set(registers.LaneStateNS, "main", registers.EncodeLaneState(registers.LaneState{CurrentOperationID: op}))
	return func(yield func(pistore.Row, error) bool) {
		if !yield(pistore.Header{Info: pistore.Info{ID: "long"}, NextSeq: seq + 1}, nil) {
			return
		}
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}
