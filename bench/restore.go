package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"pistore"
	"pistore/harness"
	"pistore/registers"
	"pistore/session"
)

// LongSession is the export of a session of many turns, one question and one
// answer each, whose last run was killed behind the intent of its request: what
// restore has to find its way in. It is deterministic.
func LongSession(id pistore.SessionID, turns int) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		g := &generator{yield: func(r pistore.Row) bool { return yield(r, nil) }}
		g.ids = pistore.NewIDs(func() pistore.UnixMS { return 1_700_000_000_000 + pistore.UnixMS(g.seq) }, rand.NewChaCha8([32]byte{}))
		g.session(id, turns)
	}
}

type generator struct {
	ids   *pistore.IDs
	seq   pistore.Seq
	leaf  pistore.ID
	yield func(pistore.Row) bool
	over  bool // nobody wants more
}

func (g *generator) emit(r pistore.Row) {
	g.over = g.over || !g.yield(r)
}

func (g *generator) say(m session.Message) {
	g.seq++
	e := pistore.Entry{ID: g.ids.New(), ParentID: g.leaf, Seq: g.seq, Timestamp: 1_700_000_000_000, Type: pistore.TypeMessage, Payload: session.MessagePayload(m)}
	g.leaf = e.ID
	g.emit(e)
}

func (g *generator) set(namespace, key string, value pistore.JSON) {
	g.seq++
	g.emit(pistore.Register{Namespace: namespace, Key: key, Value: value, Seq: g.seq})
}

func (g *generator) session(id pistore.SessionID, turns int) {
	random := rand.New(rand.NewPCG(1, 1))
	g.emit(pistore.Header{Info: pistore.Info{ID: id}, NextSeq: pistore.Seq(2*turns + 100)})
	for i := 0; i < turns && !g.over; i++ {
		g.say(&session.UserMessage{Content: session.TextContent(fmt.Sprintf("question %d: %s", i, prose(random, 200)))})
		if i < turns-1 {
			g.say(&session.AssistantMessage{Content: session.TextContent(prose(random, 1500)), Usage: "{}", StopReason: session.StopStop})
		}
	}
	if g.over {
		return
	}
	prompt, op, lane := g.leaf, g.ids.New(), registers.MainLane
	config := registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ThinkingLevel: "off", ActiveToolNames: []string{}}
	for _, r := range []struct {
		namespace, key string
		value          pistore.JSON
	}{
		{registers.LaneLeafNS, lane, registers.EncodeLaneLeaf(prompt)},
		{registers.OpMetaNS, string(op), registers.EncodeOpMeta(registers.OpMeta{
			OperationID: op, Lane: lane,
			Intent: registers.Intent{Kind: registers.KindRun, PromptEntryIDs: []pistore.ID{prompt}},
		})},
		{registers.OpStateNS, string(op), registers.EncodeOpState(&registers.RunState{
			Settings: registers.Settings{SteeringMode: registers.OneAtATime, FollowUpMode: registers.OneAtATime, ToolExecution: registers.Parallel},
			Phase: &registers.AssistantPending{
				Context: registers.Context{
					StepID: g.ids.New(), TriggerEntryID: prompt, Configuration: config, StreamOptions: "{}",
					RetryPolicy: registers.RetryPolicy{MaxAttempts: 4, BaseDelayMS: 2000},
				},
				Attempt: 1, ResponseEntryID: g.ids.New(), UsageID: g.ids.New(),
			},
		})},
		{registers.LaneConfigNS, lane, registers.EncodeLaneConfiguration(config)},
		{registers.LaneStateNS, lane, registers.EncodeLaneState(registers.LaneState{CurrentOperationID: op})},
	} {
		g.set(r.namespace, r.key, r.value)
	}
}

// Restore measures how long it takes to restore the lane main of an open
// session that LongSession filled: the time until a harness knows what the
// lane is doing.
func Restore(ctx context.Context, s pistore.Storage) (time.Duration, error) {
	begin := time.Now()
	h, err := harness.New(s, harness.Options{})
	if err != nil {
		return 0, err
	}
	lane, err := h.Lane(ctx, registers.MainLane)
	elapsed := time.Since(begin)
	if err == nil && lane.Handle() == nil {
		err = errors.New("bench: restore did not find the open run")
	}
	return elapsed, errors.Join(err, h.Close(ctx))
}
