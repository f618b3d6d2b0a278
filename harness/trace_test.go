package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"pistore"
	"pistore/harness"
	"pistore/memstore"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// outline names the writes of a transaction in words.
func outline(tx pistore.Tx) []string {
	var out []string
	for _, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			msg, _ := w.Payload.Member("message")
			role, _ := msg.Member("role")
			text, _ := role.Text()
			line := "entry " + text
			if w.Type != pistore.TypeMessage {
				line = "entry " + string(w.Type)
			}
			if stop, ok := msg.Member("stopReason"); ok {
				reason, _ := stop.Text()
				line += " " + reason
			}
			if w.Type != pistore.TypeMessage {
				line = "entry " + string(w.Type)
			}
			out = append(out, line)
		case pistore.InsertUsage:
			out = append(out, "usage")
		case pistore.DeleteRegister:
			out = append(out, "delete "+w.Namespace)
		case pistore.SetRegister:
			out = append(out, outlineSet(w))
		}
	}
	return out
}

func outlineSet(w pistore.SetRegister) string {
	switch w.Namespace {
	case registers.LaneLeafNS:
		if w.Value == "null" {
			return "lane.leaf=null"
		}
	case registers.LaneStateNS:
		s, _ := registers.DecodeLaneState(w.Value)
		text := "lane.state=open"
		if s.CurrentOperationID == "" {
			text = "lane.state=idle"
		}
		return text + strings.Repeat(" with next", len(s.PendingNextRun))
	case registers.LaneLastResultNS:
		r, _ := registers.DecodeLastResult(w.Value)
		return fmt.Sprintf("lane.lastResult %s %s", r.Outcome, r.RunCompletion)
	case registers.OpStateNS:
		s, _ := registers.DecodeOpState(w.Value)
		switch s := s.(type) {
		case *registers.RunState:
			return "op.state " + outlinePhase(s.Phase) + outlineInbox(s)
		case *registers.CompactionState:
			return "op.state compaction " + outlineSummary(s.Summary)
		case *registers.NavigationState:
			if s.Summary == nil {
				return "op.state navigation"
			}
			return "op.state navigation " + outlineSummary(*s.Summary)
		}
	}
	return w.Namespace
}

func outlinePhase(ph registers.Phase) string {
	switch ph := ph.(type) {
	case *registers.Checkpoint:
		text := "checkpoint may_finish"
		if _, ok := ph.Continuation.(*registers.NeedAssistant); ok {
			text = "checkpoint need_assistant"
		}
		if ph.SkipInboxOnce {
			text += " skipInboxOnce"
		}
		return text
	case *registers.AssistantReady:
		return fmt.Sprintf("assistant ready %d", ph.NextAttempt)
	case *registers.AssistantPending:
		return fmt.Sprintf("assistant effect_pending attempt %d", ph.Attempt)
	case *registers.AssistantRetryWait:
		return fmt.Sprintf("assistant retry_wait %d", ph.NextAttempt)
	case *registers.Tools:
		var calls []string
		for _, c := range ph.Calls {
			calls = append(calls, strings.TrimSpace(string(c.Status)+" "+string(c.Replay)))
		}
		return "tools [" + strings.Join(calls, ", ") + "]"
	case *registers.DeferredSuspended:
		return fmt.Sprintf("deferred suspended poll %d", ph.Poll)
	case *registers.DeferredPending:
		return fmt.Sprintf("deferred effect_pending poll %d", ph.Poll)
	case *registers.RunCompaction:
		return fmt.Sprintf("compaction %s %s", ph.Reason, outlineSummary(ph.Summary))
	default:
		return fmt.Sprintf("%T", ph)
	}
}

func outlineSummary(s registers.Summary) string {
	if s.Generating == nil {
		return "deciding"
	}
	switch g := s.Generating.Generation.(type) {
	case *registers.GenerationReady:
		return fmt.Sprintf("ready %d", g.NextAttempt)
	case *registers.GenerationPending:
		if g.Request == nil {
			return fmt.Sprintf("effect_pending attempt %d", g.Attempt)
		}
		return fmt.Sprintf("effect_pending attempt %d request %d", g.Attempt, g.Request.Index)
	case *registers.GenerationRetryWait:
		return fmt.Sprintf("retry_wait %d", g.NextAttempt)
	default:
		return fmt.Sprintf("%T", g)
	}
}

// counter counts reads.
type counter struct {
	pistore.Storage
	mu                                 sync.Mutex
	lookups, entryCalls, registerCalls int
	scans                              int
}

func (c *counter) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	c.mu.Lock()
	c.entryCalls++
	c.mu.Unlock()
	return c.Storage.Entries(ctx, ids)
}

func (c *counter) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	c.mu.Lock()
	if c.registerCalls++; c.registerCalls <= 2 {
		c.lookups += len(at)
	}
	c.mu.Unlock()
	return c.Storage.Registers(ctx, at)
}

func (c *counter) scan() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scans++
}

func (c *counter) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	c.scan()
	return c.Storage.RegistersByPrefix(ctx, namespace, prefix)
}

func (c *counter) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	c.scan()
	return c.Storage.Branch(ctx, q)
}

func (c *counter) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	c.scan()
	return c.Storage.ScanEntries(ctx, q)
}

// Restore costs the same whatever the length of the session.
func TestRestoreReadsAHandful(t *testing.T) {
	for _, turns := range []int{10, 10_000} {
		t.Run(fmt.Sprint(turns), func(t *testing.T) {
			ctx := context.Background()
			b := memstore.New(memstore.Options{})
			if _, err := b.Load(ctx, longSession(t, turns)); err != nil {
				t.Fatal(err)
			}
			s, err := b.Open(ctx, "long", pistore.ReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			c := &counter{Storage: s}
			h, err := harness.New(c, harness.Options{})
			if err != nil {
				t.Fatal(err)
			}
			lane, err := h.Lane(ctx, "main")
			if err != nil {
				t.Fatal(err)
			}
			if lane.Handle() == nil {
				t.Fatal("the open run was not found")
			}
			if c.lookups > 5 || c.registerCalls > 3 || c.entryCalls != 1 || c.scans != 0 {
				t.Errorf("%d register look-ups, %d calls for registers, %d for entries, %d scans", c.lookups, c.registerCalls, c.entryCalls, c.scans)
			}
		})
	}
}

func TestLaneRejections(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}, drive: harness.Manual})
	before := len(r.store.commits())
	reject := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{})
	reject("empty prompt", err, harness.ErrInvalidMessage)
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Messages: []session.Message{&session.AssistantMessage{}}})
	reject("a response as a prompt", err, harness.ErrInvalidMessage)
	_, err = r.lane.Resume(r.ctx)
	reject("resume of an idle lane", err, harness.ErrNothingToResume)
	_, err = r.h.Lane(r.ctx, "nowhere")
	reject("unknown lane", err, harness.ErrUnknownLane)
	_, err = r.h.Lane(r.ctx, "a\x00b")
	reject("bad lane name", err, harness.ErrInvalidLane)
	err = r.lane.SetConfiguration(r.ctx, registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "none"}})
	reject("unknown model", err, harness.ErrMissingIdentities)
	cancelled, cancel := context.WithCancel(r.ctx)
	cancel()
	_, err = r.lane.Prompt(cancelled, harness.Prompt{Text: "hi"})
	reject("cancelled", err, context.Canceled)
	if got := len(r.store.commits()); got != before {
		t.Errorf("rejections made %d commits", got-before)
	}

	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "hi"})
	r.check(err)
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "hi"})
	reject("second prompt", err, harness.ErrLaneBusy)
	_, err = r.lane.Resume(r.ctx)
	reject("resume of a running lane", err, harness.ErrNothingToResume)
	r.completed(r.finish())
	r.check(r.h.Close(r.ctx))
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "hi"})
	reject("after close", err, pistore.ErrClosed)
}
