package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// counter is the durable program counter of an operation in words.
type counter struct {
	kind   registers.Kind
	phase  string
	detail string // what of the phase; may be empty
	// cancelled: the operation was asked to stop.
	cancelled bool
	resumes   int64
	queued    int
}

// counterOf puts a state into words. names are the names of the tools that the
// response of a batch calls, by source index; they may be nil.
func counterOf(state registers.OpState, names []string) counter {
	control := registers.ControlOf(state)
	c := counter{kind: registers.KindOf(state), cancelled: control.CancelRequested}
	switch s := state.(type) {
	case *registers.RunState:
		c.resumes = s.Resumes
		c.queued = len(s.Inbox.Steer) + len(s.Inbox.FollowUp) + len(s.Inbox.Writes)
		c.phase, c.detail = phaseWords(s.Phase, names)
	case *registers.CompactionState:
		c.resumes = s.Resumes
		c.phase, c.detail = summaryWords(s.Summary)
	case *registers.NavigationState:
		c.resumes = s.Resumes
		c.phase = "ready"
		if s.Summary != nil {
			c.phase, c.detail = summaryWords(*s.Summary)
		}
		c.detail = joinDetail(c.detail, "to "+string(s.TargetID))
	default:
		panic(fmt.Sprintf("pistore: unknown operation state %T", s))
	}
	return c
}

// String is the counter on one line.
func (c counter) String() string {
	text := string(c.kind) + ": "
	switch {
	case c.detail == "":
		text += c.phase
	case c.phase == "assistant": // its details name it themselves
		text += c.detail
	default:
		text += c.phase + " — " + c.detail
	}
	if c.cancelled {
		text += "; cancel requested"
	}
	return text
}

func joinDetail(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

func phaseWords(p registers.Phase, names []string) (phase, detail string) {
	switch p := p.(type) {
	case *registers.Checkpoint:
		return "checkpoint", checkpointWords(*p)
	case *registers.AssistantReady:
		return "assistant", "assistant request ready, " + attempt(p.NextAttempt, p.Context)
	case *registers.AssistantPending:
		return "assistant", "assistant request in flight, " + attempt(p.Attempt, p.Context)
	case *registers.AssistantRetryWait:
		return "assistant", "waiting for retry until " + instantMS(p.NotBefore) + ", " + attempt(p.NextAttempt, p.Context) + because(p.ErrorMessage)
	case *registers.Tools:
		return "tools", toolsWords(p.Calls, names)
	case *registers.RunCompaction:
		phase, detail := summaryWords(p.Summary)
		return "compaction", joinDetail(string(p.Reason), joinDetail(phase, detail))
	case *registers.DeferredSuspended:
		return "deferred", fmt.Sprintf("suspended after %s, the next resume polls", count(p.Poll, "poll", "polls"))
	case *registers.DeferredPending:
		return "deferred", fmt.Sprintf("poll %d in flight", p.Poll)
	case *registers.FailureDrain:
		return "failure_drain", "failed with " + p.Error.Code + because(p.Error.Message)
	default:
		panic(fmt.Sprintf("pistore: unknown phase %T", p))
	}
}

func checkpointWords(p registers.Checkpoint) string {
	switch c := p.Continuation.(type) {
	case *registers.NeedAssistant:
		if c.OverflowRecoveryUsed {
			return "an assistant turn is owed, after an overflow compaction"
		}
		return "an assistant turn is owed"
	case *registers.MayFinish:
		return "may finish"
	default:
		panic(fmt.Sprintf("pistore: unknown continuation %T", c))
	}
}

func attempt(n int64, c registers.Context) string {
	return fmt.Sprintf("attempt %d of %d", n, c.RetryPolicy.MaxAttempts)
}

func because(message string) string {
	if message = firstLine(message); message == "" {
		return ""
	}
	return ": " + message
}

// toolsWords says which calls of a batch are started. A started call is the one
// thing whose effect is uncertain.
func toolsWords(calls []registers.Call, names []string) string {
	var started, numbers []string
	completed, next := 0, 0
	replays := map[registers.Replay]bool{}
	for i, c := range calls {
		switch c.Status {
		case registers.CallEffectPending:
			replays[c.Replay] = true
			numbers = append(numbers, strconv.Itoa(i+1))
			word := "replay " + string(c.Replay)
			if name := nameOf(c, names); name != "" {
				word = name + ", " + word
			}
			started = append(started, word)
		case registers.CallCompleted:
			completed++
		case registers.CallPlanned:
			if next == 0 {
				next = i + 1
			}
		}
	}
	n := len(calls)
	switch {
	case len(started) == 1 && names == nil:
		return fmt.Sprintf("call %s of %d started, %s", numbers[0], n, started[0])
	case len(started) == 1:
		return fmt.Sprintf("call %s of %d started (%s)", numbers[0], n, started[0])
	case len(started) > 1 && names == nil && len(replays) == 1:
		return fmt.Sprintf("calls %s of %d started, %s", joined(numbers), n, started[0])
	case len(started) > 1:
		return fmt.Sprintf("calls %s of %d started (%s)", joined(numbers), n, strings.Join(started, "; "))
	case next == 0:
		return fmt.Sprintf("all of %d calls completed", n)
	case completed == 0:
		return count(int64(n), "call", "calls") + " planned"
	default:
		return fmt.Sprintf("%d of %d calls completed, call %d is next", completed, n, next)
	}
}

func nameOf(c registers.Call, names []string) string {
	if c.SourceIndex >= 0 && c.SourceIndex < int64(len(names)) {
		return names[c.SourceIndex]
	}
	return ""
}

func summaryWords(s registers.Summary) (phase, detail string) {
	if s.Generating == nil {
		return "deciding", ""
	}
	c := s.Generating.Context
	switch g := s.Generating.Generation.(type) {
	case *registers.GenerationReady:
		return "generating", "summary request ready, " + attempt(g.NextAttempt, c)
	case *registers.GenerationPending:
		if g.Request == nil {
			return "generating", "between two summary requests, " + attempt(g.Attempt, c)
		}
		return "generating", fmt.Sprintf("summary request %d in flight, %s", g.Request.Index+1, attempt(g.Attempt, c))
	case *registers.GenerationRetryWait:
		return "generating", "waiting for retry until " + instantMS(g.NotBefore) + ", " + attempt(g.NextAttempt, c) + because(g.ErrorMessage)
	default:
		panic(fmt.Sprintf("pistore: unknown generation %T", g))
	}
}

// batchOf returns the response whose calls a state is in the middle of, empty
// if it is in none.
func batchOf(state registers.OpState) pistore.ID {
	if run, ok := state.(*registers.RunState); ok {
		if t, ok := run.Phase.(*registers.Tools); ok {
			return t.AssistantEntryID
		}
	}
	return ""
}

// toolNames returns the names of the tools that a response calls, in order.
func toolNames(ctx context.Context, s pistore.Storage, response pistore.ID) []string {
	if response == "" {
		return nil
	}
	found, err := s.Entries(ctx, []pistore.ID{response})
	if err != nil || len(found) == 0 {
		return nil
	}
	found[0].Payload = readable(found[0].Payload)
	m, err := session.EntryMessage(found[0])
	if err != nil {
		return nil
	}
	var names []string
	if a, ok := m.(*session.AssistantMessage); ok {
		for _, c := range a.ToolCalls() {
			names = append(names, c.Name)
		}
	}
	return names
}

// noLaneState and noOpState say that a state is missing, which is not to be taken
// for one that is damaged.
const noLaneState = "what it is doing is not known: there is no lane.state"

func noOpState(op pistore.ID) string {
	return fmt.Sprintf("an operation without a state: there is no op.state of %s", op)
}

// laneInWords says what a lane is doing, on one line.
func laneInWords(ctx context.Context, s pistore.Storage, lane string) (string, error) {
	value, there, err := registerValue(ctx, s, registers.LaneStateNS, lane)
	if err != nil {
		return "", err
	}
	if !there {
		_, stands, err := registerValue(ctx, s, registers.LaneLeafNS, lane)
		if stands && err == nil {
			return noLaneState, nil
		}
		return "idle", err // nothing has happened yet
	}
	state, err := registers.DecodeLaneState(value)
	if err != nil {
		return "", err
	}
	op := state.CurrentOperationID
	if op == "" {
		return "idle", nil
	}
	value, there, err = registerValue(ctx, s, registers.OpStateNS, string(op))
	if err != nil {
		return "", err
	}
	if !there {
		return noOpState(op), nil
	}
	opState, err := registers.DecodeOpState(value)
	if err != nil {
		return "", err
	}
	return counterOf(opState, toolNames(ctx, s, batchOf(opState))).String(), nil
}

func registerValue(ctx context.Context, s pistore.Storage, namespace, key string) (pistore.JSON, bool, error) {
	found, err := s.Registers(ctx, []pistore.Address{{Namespace: namespace, Key: key}})
	if err != nil || len(found) == 0 {
		return "", false, err
	}
	return found[0].Value, true, nil
}
