package harness

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
)

// How hooks are called. Those that the machine asks for answer it with an event
// (answers); the others belong to the effect that they stand beside.

// has reports whether a hook that the machine asks for has functions.
func (h *Hooks) has(name HookName) bool {
	switch name {
	case HookBeforeRequest:
		return len(h.BeforeRequest) > 0
	case HookBeforeTool:
		return len(h.BeforeTool) > 0
	case HookBeforeRunEnd:
		return len(h.BeforeRunEnd) > 0
	case HookBeforeCompaction:
		return len(h.BeforeCompaction) > 0
	case HookBeforeNavigation:
		return len(h.BeforeNavigation) > 0
	default:
		panic("harness: the machine does not ask hook " + string(name))
	}
}

// check refuses functions that are none.
func (h Hooks) check() error {
	hooks := reflect.ValueOf(h)
	for i := range hooks.NumField() {
		for j := range hooks.Field(i).Len() {
			if hooks.Field(i).Index(j).IsNil() {
				return fmt.Errorf("%w: function %d of the hook %s is nil", pistore.ErrInvalid, j, hooks.Type().Field(i).Name)
			}
		}
	}
	return nil
}

// own returns a copy whose slices are the harness's own.
func (h Hooks) own() *Hooks {
	return &Hooks{
		BeforeRun: slices.Clone(h.BeforeRun), BeforeResume: slices.Clone(h.BeforeResume), BeforeRunEnd: slices.Clone(h.BeforeRunEnd),
		TransformContext: slices.Clone(h.TransformContext), BeforeRequest: slices.Clone(h.BeforeRequest),
		BeforePayload: slices.Clone(h.BeforePayload), AfterResponse: slices.Clone(h.AfterResponse),
		BeforeTool: slices.Clone(h.BeforeTool), AfterTool: slices.Clone(h.AfterTool),
		BeforeCompaction: slices.Clone(h.BeforeCompaction), BeforeNavigation: slices.Clone(h.BeforeNavigation),
	}
}

// answer is an event that answers an action. It counts only while the position
// still asks for that.
type answer interface {
	event
	answers(action) bool
}

type (
	// requestPlanned: before_request let the attempt begin.
	requestPlanned struct{ outputLimit int64 }
	// callJudged: before_tool judged a planned call of a step.
	callJudged struct {
		step      pistore.ID
		index     int
		arguments pistore.JSON
		block     string // not empty: it must not run
	}
	// runEnding: before_run_end gave messages to go on with, or none.
	runEnding struct{ followUp []session.Message }
)

func (requestPlanned) isEvent() {}
func (callJudged) isEvent()     {}
func (runEnding) isEvent()      {}

func (requestPlanned) answers(act action) bool { return act == effectHook{HookBeforeRequest} }
func (runEnding) answers(act action) bool      { return act == effectHook{HookBeforeRunEnd} }
func (ev callJudged) answers(act action) bool {
	tools, ok := act.(effectTools)
	return ok && tools.step == ev.step && tools.judge == ev.index
}

// question is what the functions of a hook get and return. own returns a copy
// whose slices are the function's own.
type question[T any] interface{ own() T }

func (q RunInput) own() RunInput {
	q.Messages = slices.Clone(q.Messages)
	return q
}

func (q Resuming) own() Resuming { return q }

func (q RunEnding) own() RunEnding {
	q.FollowUp = slices.Clone(q.FollowUp)
	return q
}

func (q ContextView) own() ContextView {
	q.Messages = slices.Clone(q.Messages)
	return q
}

func (q RequestPlan) own() RequestPlan {
	q.Configuration.ActiveToolNames = slices.Clone(q.Configuration.ActiveToolNames)
	return q
}

func (q Payload) own() Payload {
	q.Request.System = slices.Clone(q.Request.System)
	q.Request.Messages = slices.Clone(q.Request.Messages)
	q.Request.Tools = slices.Clone(q.Request.Tools)
	return q
}

func (q ResponseReview) own() ResponseReview {
	m := *q.Message
	m.Content = slices.Clone(m.Content)
	q.Message = &m
	return q
}

func (q ToolPlan) own() ToolPlan { return q }

func (q ToolOutcome) own() ToolOutcome {
	q.Result.Content = slices.Clone(q.Result.Content)
	return q
}

// ask calls the functions of a hook, one after the other. keep makes of what
// one returned what counts of it, or says why it cannot be used. The error is
// that of the last function that failed, or that of the context when it ended.
func ask[T question[T]](
	ctx context.Context, l *Lane, about About, name HookName,
	functions []func(context.Context, T) (T, error), given T, keep func(given, returned T) (T, error),
) (T, error) {
	defer l.h.handler("hook " + string(name))()
	var failed error
	ctx, end := l.begin(ctx, Span{Kind: SpanHook, About: about, Name: string(name)})
	defer func() { end(endOfHook(ctx, failed)) }()
	for _, f := range functions {
		var returned T
		var err error
		if ended := apart(func() { returned, err = f(ctx, given.own()) }); ended != nil {
			err = ended
		}
		if ctx.Err() != nil {
			return given, ctx.Err()
		}
		if err == nil {
			returned, err = keep(given, returned)
		}
		if err != nil {
			failed = err
			l.emit(HandlerError{about, "hook " + string(name), err})
			continue
		}
		given = returned
	}
	return given, failed
}

// endOfHook is how the span of a call ends that has an error and no more.
func endOfHook(ctx context.Context, failed error) SpanEnd {
	switch {
	case ctx.Err() != nil:
		return SpanEnd{Status: SpanAborted}
	case failed != nil:
		return SpanEnd{Status: SpanError}
	default:
		return SpanEnd{Status: SpanOK}
	}
}

// passHook waits at the gate before a hook. It is false when the hook must not
// be called any more.
func (d *drive) passHook(name HookName, detail any) bool {
	t := d.l.gate.announce(EffectHook, d.l.name, func() pistore.JSON { return describeHook(name, detail) })
	return d.l.gate.pass(d.signal, t) == nil
}

func describeHook(name HookName, detail any) pistore.JSON {
	shown := map[string]any{"hook": name}
	if detail != nil {
		shown["of"] = detail
	}
	return describe(shown)
}

// hook asks a hook for the machine.
func (d *drive) hook(name HookName) (event, bool) {
	switch name {
	case HookBeforeRequest:
		return d.beforeRequest()
	case HookBeforeRunEnd:
		return d.beforeRunEnd()
	case HookBeforeCompaction:
		return d.beforeSummary(name, d.h.hooks.BeforeCompaction)
	case HookBeforeNavigation:
		return d.beforeSummary(name, d.h.hooks.BeforeNavigation)
	default:
		panic("harness: hook " + string(name))
	}
}

// beforeRun lets before_run change the messages of a prompt. The caller does not
// hold the line and is counted in.
func (l *Lane) beforeRun(ctx context.Context, messages []session.Message) ([]session.Message, error) {
	if len(l.h.hooks.BeforeRun) == 0 {
		return messages, nil
	}
	if err := l.h.admit(); err != nil {
		return nil, err
	}
	defer l.h.leave()
	if err := accepts(l.position(), l.h.env()); err != nil { // as it will be refused, most likely
		return nil, fmt.Errorf("harness: lane %s: %w", l.name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.h.ctx, cancel)()
	out, _ := ask(ctx, l, About{Lane: l.name}, HookBeforeRun, l.h.hooks.BeforeRun, RunInput{l.name, messages}, func(given, returned RunInput) (RunInput, error) {
		given.Messages = returned.Messages
		if len(returned.Messages) == 0 {
			return given, fmt.Errorf("%w: no message is left of the prompt", ErrInvalidMessage)
		}
		return given, checkInput(returned.Messages)
	})
	if err := l.h.sealedBy(); err != nil {
		return nil, err
	}
	return out.Messages, ctx.Err()
}

// beforeResume tells before_resume that the operation goes on.
func (d *drive) beforeResume() bool {
	if !d.passHook(HookBeforeResume, nil) {
		return d.alive()
	}
	p := d.at
	q := Resuming{p.about(stepOf(p.op.phase())), registers.CopyState(p.op.state)}
	_, _ = ask(d.trail.ctx, d.l, q.About, HookBeforeResume, d.h.hooks.BeforeResume, q, func(given, _ Resuming) (Resuming, error) {
		return given, nil
	})
	return d.alive()
}

func (d *drive) beforeRequest() (event, bool) {
	p := d.at
	ready := p.op.phase().(*registers.AssistantReady)
	model, _ := d.h.env().model(ready.Context.Configuration.Model)
	plan := RequestPlan{p.about(ready.Context.StepID), ready.Context.Configuration, ready.NextAttempt, storable(model.MaxOutputTokens)}
	if !d.passHook(HookBeforeRequest, map[string]any{"model": plan.Configuration.Model, "attempt": plan.Attempt}) {
		return nil, d.alive()
	}
	out, _ := ask(d.trail.ctx, d.l, plan.About, HookBeforeRequest, d.h.hooks.BeforeRequest, plan, func(given, returned RequestPlan) (RequestPlan, error) {
		given.MaxOutputTokens = returned.MaxOutputTokens
		if n := returned.MaxOutputTokens; n != storable(n) {
			return given, fmt.Errorf("%w: an output limit of %d tokens", pistore.ErrInvalid, n)
		}
		return given, nil
	})
	return requestPlanned{out.MaxOutputTokens}, d.alive()
}

func (d *drive) beforeRunEnd() (event, bool) {
	p := d.at
	q := RunEnding{About: p.about("")}
	if end := p.op.phase().(*registers.Checkpoint).Continuation.(*registers.MayFinish); end.IncludeFinalAssistant {
		q.FinalAssistantID = p.op.run().LatestAssistantEntryID
	}
	if !d.passHook(HookBeforeRunEnd, nil) {
		return nil, d.alive()
	}
	out, _ := ask(d.trail.ctx, d.l, q.About, HookBeforeRunEnd, d.h.hooks.BeforeRunEnd, q, func(given, returned RunEnding) (RunEnding, error) {
		given.FollowUp = returned.FollowUp
		return given, checkInput(returned.FollowUp)
	})
	return runEnding{out.FollowUp}, d.alive()
}

// transformContext lets transform_context replace what a model sees.
func (d *drive) transformContext(about About, projected []session.ProjectedMessage) []session.ProjectedMessage {
	if len(d.h.hooks.TransformContext) == 0 || !d.passHook(HookTransformContext, nil) {
		return projected
	}
	for i := range projected {
		projected[i].Message = session.CopyMessage(projected[i].Message)
	}
	out, _ := ask(d.trail.ctx, d.l, about, HookTransformContext, d.h.hooks.TransformContext, ContextView{about, projected}, func(given, returned ContextView) (ContextView, error) {
		err := checkView(given.Messages, returned.Messages)
		given.Messages = returned.Messages
		return given, err
	})
	return session.Pair(out.Messages)
}

// checkView refuses messages that cannot be converted to those of a provider.
// Those that were there before can.
func checkView(given, returned []session.ProjectedMessage) error {
	known := make(map[session.Message]bool, len(given))
	for _, m := range given {
		known[m.Message] = true
	}
	for i, m := range returned {
		if s, _ := m.Message.(*session.SummaryMessage); s != nil || known[m.Message] {
			continue
		}
		if _, err := readBack(m.Message); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// beforePayload lets before_payload change a request.
func (d *drive) beforePayload(about About, entry pistore.ID, req provider.Request) provider.Request {
	if len(d.h.hooks.BeforePayload) == 0 || !d.passHook(HookBeforePayload, map[string]any{"responseEntryId": entry}) {
		return req
	}
	for i, m := range req.Messages {
		req.Messages[i] = session.CopyMessage(m)
	}
	out, _ := ask(d.trail.ctx, d.l, about, HookBeforePayload, d.h.hooks.BeforePayload, Payload{about, entry, req}, func(given, returned Payload) (Payload, error) {
		r := returned.Request
		err := checkPayload(given.Request, r)
		given.Request.System, given.Request.Messages = r.System, r.Messages
		given.Request.Tools, given.Request.Options = r.Tools, r.Options
		return given, err
	})
	return out.Request
}

// checkPayload refuses what the contract of a provider does not allow.
func checkPayload(given, returned provider.Request) error {
	known := make(map[session.Message]bool, len(given.Messages))
	for _, m := range given.Messages {
		known[m] = true
	}
	for i, m := range returned.Messages {
		if known[m] {
			continue
		}
		switch m.(type) {
		case *session.UserMessage, *session.AssistantMessage, *session.ToolResultMessage, *session.SystemMessage:
		default:
			return fmt.Errorf("%w: message %d: a request holds no %T", pistore.ErrInvalid, i, m)
		}
		if _, err := readBack(m); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if returned.Options == given.Options {
		return nil
	}
	if options, err := pistore.CompactJSON(string(returned.Options)); err != nil || !options.IsObject() {
		return fmt.Errorf("%w: options that are no JSON object", pistore.ErrInvalid)
	}
	return nil
}

// afterResponse lets after_response replace the content of a response.
func (d *drive) afterResponse(about About, entry pistore.ID, msg *session.AssistantMessage) *session.AssistantMessage {
	if len(d.h.hooks.AfterResponse) == 0 || !d.passHook(HookAfterResponse, map[string]any{"responseEntryId": entry}) {
		return msg
	}
	out, _ := ask(d.trail.ctx, d.l, about, HookAfterResponse, d.h.hooks.AfterResponse, ResponseReview{about, entry, msg}, keepContent)
	return out.Message
}

// keepContent takes the content of a reviewed response, whose stop reason goes
// along with its calls.
func keepContent(given, returned ResponseReview) (ResponseReview, error) {
	if returned.Message == nil {
		return given, fmt.Errorf("%w: no message", pistore.ErrInvalid)
	}
	m := *given.Message
	m.Content = returned.Message.Content
	switch calls := len(m.ToolCalls()) > 0; {
	case m.StopReason == session.StopToolUse && !calls:
		m.StopReason = session.StopStop
	case m.StopReason == session.StopStop && calls:
		m.StopReason = session.StopToolUse
	}
	stored, problem := wellFormed(&m)
	if problem != "" {
		return given, fmt.Errorf("%w: %s", pistore.ErrInvalid, problem)
	}
	given.Message = stored
	return given, nil
}

// beforeTool asks before_tool about a planned call, beside the calls that run.
func (d *drive) beforeTool(ctx context.Context, about About, index int, call session.ToolCall) callJudged {
	out, err := ask(ctx, d.l, about, HookBeforeTool, d.h.hooks.BeforeTool, ToolPlan{About: about, Call: call}, func(given, returned ToolPlan) (ToolPlan, error) {
		if given.Block == "" {
			given.Block = returned.Block
		}
		var err error
		if given.Call.Arguments, err = storableArguments(returned.Call.Arguments); err != nil {
			return given, err
		}
		return given, d.h.env().tools.Validate(call.Name, given.Call.Arguments)
	})
	ev := callJudged{step: about.TurnID, index: index, arguments: out.Call.Arguments, block: out.Block}
	if ev.block == "" && err != nil {
		ev.block = "This call was not executed, because a check of it failed: " + err.Error()
	}
	return ev
}

// storableArguments are arguments as op.tool_args takes them.
func storableArguments(given pistore.JSON) (pistore.JSON, error) {
	if len(given) > pistore.MaxPayloadBytes {
		return "", &pistore.LimitError{Limit: "arguments bytes", Got: int64(len(given)), Max: pistore.MaxPayloadBytes}
	}
	return pistore.CompactJSON(string(given))
}

// afterTool lets after_tool change what a call returned.
func (d *drive) afterTool(ctx context.Context, about About, id pistore.ID, call session.ToolCall, r toolResult) toolResult {
	shown := map[string]any{"toolCallId": call.ID, "toolName": call.Name, "resultEntryId": id}
	if len(d.h.hooks.AfterTool) == 0 || !d.passHook(HookAfterTool, shown) {
		return r
	}
	q := ToolOutcome{about, id, call, r.given()}
	out, _ := ask(ctx, d.l, about, HookAfterTool, d.h.hooks.AfterTool, q, func(given, returned ToolOutcome) (ToolOutcome, error) {
		returned.Result.Usage = given.Result.Usage
		given.Result = returned.Result
		_, err := storableResult(call, given.Result)
		return given, err
	})
	return settledResult(call, out.Result, nil)
}
