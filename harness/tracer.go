package harness

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Tracer is told of work as it begins and ends. It learns ids, names of models,
// tools and hooks, counts and statuses, and never a prompt, an argument, a
// result, the text of an error or a credential.
//
// Its functions are called synchronously, from any goroutine, where the work is
// done: they return soon and do not call back into the harness. A panic in one
// is reported as a HandlerError, and the work goes on without the span.
type Tracer interface {
	// Begin opens a span. The context that it returns is ctx or derived from
	// it, and is the one that the work gets: spans which a provider, a tool or a
	// hook opens nest in this one. The function that it returns ends the span
	// and is called once.
	//
	// Spans nest: a tool in a turn, a request, a cancel or a sleep in a step, a
	// step in a turn or in the operation, a turn in the operation, commits and
	// hooks in whichever of these is innermost. The
	// operation is in what the context of the Prompt or Resume that started it
	// carries; the deadline and the end of that context do not count.
	Begin(ctx context.Context, s Span) (context.Context, func(SpanEnd))
}

// SpanKind is the kind of work that a span is about.
type SpanKind string

// The kinds of span.
const (
	// SpanRun is one stretch of an operation of any kind, from its acceptance or
	// a Resume to its end or its next suspension.
	SpanRun SpanKind = "run"
	// SpanTurn is one response and the calls that it makes.
	SpanTurn SpanKind = "turn"
	// SpanStep is the generation of one response or one summary, with all its
	// attempts.
	SpanStep SpanKind = "step"
	// SpanRequest is one call of a provider.
	SpanRequest SpanKind = "request"
	// SpanCancel is the call that tells a provider to give a deferred response up.
	SpanCancel SpanKind = "cancel"
	// SpanTool is one execution of a tool.
	SpanTool SpanKind = "tool"
	// SpanHook is one call of a hook.
	SpanHook SpanKind = "hook"
	// SpanSleep is the wait before a retry.
	SpanSleep SpanKind = "sleep"
	// SpanCommit is one transaction.
	SpanCommit SpanKind = "commit"
)

// Span describes work that begins. What does not apply to its kind is empty.
type Span struct {
	Kind SpanKind
	About
	Operation registers.Kind     // run: what kind of operation it is
	Resumed   bool               // run: it goes on after a suspension
	Model     registers.ModelRef // turn, step, request, cancel
	Attempt   int64              // request: from 1
	EntryID   pistore.ID         // request, tool: reserved for what comes of it
	Name      string             // tool, hook
	WaitMS    int64              // sleep
	Writes    int                // commit: how many there are in the transaction
}

// SpanStatus says how work ended.
type SpanStatus string

// The statuses.
const (
	SpanOK        SpanStatus = "ok"
	SpanError     SpanStatus = "error"
	SpanAborted   SpanStatus = "aborted"   // it was asked to stop
	SpanSuspended SpanStatus = "suspended" // a run waits for a Resume
	SpanAbandoned SpanStatus = "abandoned" // the harness closed or faulted first
)

// SpanEnd describes work that ended. What does not apply is empty.
type SpanEnd struct {
	Status SpanStatus
	// Code is a word for the status: the outcome, the failure or the reason for
	// a suspension of a run, the stop reason of a response, "conflict" for a
	// commit.
	Code   string
	Tokens *Tokens // request
}

// Tokens is what a response says that it used.
type Tokens struct{ Input, Output, CacheRead, CacheWrite int64 }

// begin opens a span, unless nobody traces.
func (l *Lane) begin(ctx context.Context, s Span) (context.Context, func(SpanEnd)) {
	tracer := l.h.tracer
	if tracer == nil {
		return ctx, func(SpanEnd) {}
	}
	var inside context.Context
	var end func(SpanEnd)
	err := apart(func() { inside, end = tracer.Begin(ctx, s) })
	if err == nil && (inside == nil || end == nil) {
		err = errors.New("the tracer returned nil from Begin")
	}
	if err != nil {
		l.post(HandlerError{s.About, "tracer", err})
		return ctx, func(SpanEnd) {}
	}
	return inside, func(e SpanEnd) {
		if err := apart(func() { end(e) }); err != nil {
			l.post(HandlerError{s.About, "tracer", err})
		}
	}
}

// carrying is a context that ends with one and carries the values of another.
type carrying struct {
	context.Context
	values context.Context
}

func (c carrying) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// endOfResponse is how the span of a request ends.
func endOfResponse(m *session.AssistantMessage) SpanEnd {
	if m == nil { // a provider that breaks its contract
		return SpanEnd{Status: SpanError, Code: "unknown"}
	}
	end := SpanEnd{Status: SpanOK, Code: string(m.StopReason), Tokens: &Tokens{
		Input: tokens(m.Usage, "input"), Output: tokens(m.Usage, "output"),
		CacheRead: tokens(m.Usage, "cacheRead"), CacheWrite: tokens(m.Usage, "cacheWrite"),
	}}
	switch m.StopReason {
	case session.StopError:
		end.Status = SpanError
	case session.StopAborted:
		end.Status = SpanAborted
	case session.StopStop, session.StopLength, session.StopToolUse, session.StopDeferred:
	default: // a provider's own word
		end.Code = "unknown"
	}
	return end
}

// tokens reads a count of a usage object; 0 if it has none or no whole one.
func tokens(usage pistore.JSON, name string) int64 {
	given, _ := usage.Member(name)
	n, _ := strconv.ParseInt(string(given), 10, 64)
	return max(n, 0)
}

// endOfTool is how the span of a call ends.
func endOfTool(ctx context.Context, r toolResult) SpanEnd {
	switch {
	case r.isError && ctx.Err() != nil:
		return SpanEnd{Status: SpanAborted}
	case r.isError:
		return SpanEnd{Status: SpanError}
	default:
		return SpanEnd{Status: SpanOK}
	}
}

// endOfRun is how the span of a run ends that came to a result.
func endOfRun(r Result) SpanEnd {
	switch {
	case r.Suspended != nil:
		return SpanEnd{Status: SpanSuspended, Code: string(r.Suspended.Reason)}
	case r.Ended.Outcome == registers.Failed:
		return SpanEnd{Status: SpanError, Code: r.Ended.Error.Code}
	case r.Ended.Outcome == registers.Aborted:
		return SpanEnd{Status: SpanAborted, Code: string(r.Ended.Outcome)}
	default:
		return SpanEnd{Status: SpanOK, Code: string(r.Ended.Outcome)}
	}
}

// endOfCommit is how the span of a commit ends.
func endOfCommit(err error) SpanEnd {
	switch {
	case err == nil:
		return SpanEnd{Status: SpanOK}
	case errors.Is(err, pistore.ErrConflict):
		return SpanEnd{Status: SpanError, Code: "conflict"}
	default:
		return SpanEnd{Status: SpanError}
	}
}

// trail is where a drive stands in the spans of its run, turn and step. It
// belongs to the drive's goroutine.
type trail struct {
	l               *Lane
	ctx             context.Context // of the innermost span that is open
	run, turn, step segment
}

// segment is an open span of a trail; its zero value is none.
type segment struct {
	id    pistore.ID      // of the step that it is about; of the operation for a run
	outer context.Context // what surrounds it
	end   func(SpanEnd)
}

func (t *trail) open(s *segment, id pistore.ID, span Span) {
	*s = segment{id: id, outer: t.ctx}
	t.ctx, s.end = t.l.begin(t.ctx, span)
}

func (t *trail) close(s *segment, end SpanEnd) {
	if s.end != nil {
		s.end(end)
		t.ctx = s.outer
	}
	*s = segment{}
}

// begin opens the span of the run.
func (t *trail) begin(p *position, resumed bool) {
	t.open(&t.run, p.op.meta.OperationID, Span{
		Kind: SpanRun, About: p.about(""), Operation: p.op.meta.Intent.Kind, Resumed: resumed,
	})
	t.follow(p)
}

// follow closes the spans that a position has left and opens those that it is
// in.
func (t *trail) follow(p *position) {
	turn, step, model := stageOf(p.op)
	if t.step.id != step {
		t.close(&t.step, SpanEnd{Status: SpanOK})
	}
	if t.turn.id != turn {
		t.close(&t.turn, SpanEnd{Status: SpanOK})
	}
	if turn != "" && t.turn.id == "" {
		t.open(&t.turn, turn, Span{Kind: SpanTurn, About: p.about(turn), Model: model})
	}
	if step != "" && t.step.id == "" {
		t.open(&t.step, step, Span{Kind: SpanStep, About: p.about(step), Model: model})
	}
}

// finish closes every span that is open.
func (t *trail) finish(end SpanEnd) {
	t.close(&t.step, SpanEnd{Status: end.Status})
	t.close(&t.turn, SpanEnd{Status: end.Status})
	t.close(&t.run, end)
}

// stageOf is the turn and the step that an operation is in, empty if it is in
// none, and the model that works on them.
func stageOf(op *operation) (turn, step pistore.ID, model registers.ModelRef) {
	if op == nil {
		return "", "", model
	}
	if sum := registers.SummaryOf(op.state); sum != nil {
		if g := sum.Generating; g != nil {
			step, model = g.Context.StepID, g.Context.Configuration.Model
		}
		return "", step, model
	}
	switch ph := op.phase().(type) {
	case *registers.AssistantReady:
		return ph.Context.StepID, ph.Context.StepID, ph.Context.Configuration.Model
	case *registers.AssistantPending:
		return ph.Context.StepID, ph.Context.StepID, ph.Context.Configuration.Model
	case *registers.AssistantRetryWait:
		return ph.Context.StepID, ph.Context.StepID, ph.Context.Configuration.Model
	case *registers.DeferredSuspended:
		return ph.StepID, ph.StepID, ph.Configuration.Model
	case *registers.DeferredPending:
		return ph.StepID, ph.StepID, ph.Configuration.Model
	case *registers.Tools:
		return ph.StepID, "", ph.Configuration.Model
	case *registers.Checkpoint, *registers.FailureDrain, *registers.RunCompaction, nil:
		return "", "", model
	default:
		panic(fmt.Sprintf("harness: phase %T", ph))
	}
}
