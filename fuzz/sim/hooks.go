package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pistore/harness"
	"pistore/session"
)

// newHooks returns the hooks of a life: those that the seed registers. What they
// decide follows from what they are asked, so that they decide the same again.
func newHooks(l *life) harness.Hooks {
	r := dice(l.s.program.seed, "hooks")
	var h harness.Hooks
	if !chance(r, 3) {
		return h
	}
	some := func() bool { return chance(r, 2) }
	if some() {
		add(&h.BeforeRun, l.beforeRun)
	}
	if some() {
		add(&h.BeforeResume, func(_ context.Context, in harness.Resuming) (harness.Resuming, error) {
			l.hooked(in.Lane, "before_resume", false)
			return in, nil
		})
	}
	if some() {
		add(&h.BeforeRunEnd, l.beforeRunEnd)
	}
	if some() {
		add(&h.TransformContext, l.transformContext)
	}
	if some() {
		add(&h.BeforeRequest, func(_ context.Context, in harness.RequestPlan) (harness.RequestPlan, error) {
			l.hooked(in.Lane, "before_request", true)
			in.MaxOutputTokens = 400
			return in, nil
		})
	}
	if some() {
		add(&h.BeforePayload, func(_ context.Context, in harness.Payload) (harness.Payload, error) {
			l.hooked(in.Lane, "before_payload", true)
			in.Request.Options = hookOptions
			return in, nil
		})
	}
	if some() {
		add(&h.AfterResponse, l.afterResponse)
	}
	if some() {
		add(&h.BeforeTool, l.beforeTool)
	}
	if some() {
		add(&h.AfterTool, l.afterTool)
	}
	if some() {
		add(&h.BeforeCompaction, l.decideSummary)
	}
	if some() {
		add(&h.BeforeNavigation, l.decideSummary)
	}
	return h
}

// decideSummary declines some summaries and supplies others.
func (l *life) decideSummary(_ context.Context, in harness.SummaryPlan) (harness.SummaryPlan, error) {
	l.hooked(in.Lane, "before_summary", true)
	switch dice(l.s.program.seed, "summary", len(in.Preparation.MessagesToSummarize), in.Preparation.TokensBefore).IntN(5) {
	case 0:
		in.Decline = true
	case 1:
		in.Supplied = &harness.SuppliedSummary{Text: "A hook says: much was said.", Usage: `{"input":5,"cost":{"total":0.0625}}`}
	case 2:
		in.Supplied = &harness.SuppliedSummary{Text: "A hook says: little was said."}
	}
	if !l.guard.isDead() {
		l.s.oracle.decided(in.Lane, decision{in.Decline, in.Supplied})
	}
	return in, nil
}

func add[T any](hook *[]func(context.Context, T) (T, error), f func(context.Context, T) (T, error)) {
	*hook = append(*hook, f)
}

// hookOptions are what a hook makes of the options of a request.
const hookOptions = `{"from":"a hook"}`

var errHook = errors.New("this hook has no opinion")

// hooked counts a call of a hook among the effects of the lane's operation.
// Nothing is decided for an operation that was asked to stop.
func (l *life) hooked(lane, name string, decides bool) {
	l.s.count("hook " + name)
	l.s.say("  %s: hook %s", lane, name)
	l.s.oracle.judgeHook(lane, name, decides && !l.guard.isDead())
}

func (o *oracle) judgeHook(lane, name string, decides bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.openLocked(lane)
	if op == nil {
		return
	}
	o.judgeEffect(op, "hook "+name)
	if decides && cancelled(op.state) {
		o.find("cancellation", "hook %s of lane %s starts after the cancellation", name, lane)
	}
}

func (l *life) beforeRun(_ context.Context, in harness.RunInput) (harness.RunInput, error) {
	l.s.count("hook before_run")
	note := &session.SystemMessage{Content: session.TextContent("A hook was here."), Timestamp: l.s.clock.read()}
	in.Messages = append([]session.Message{note}, in.Messages...)
	return in, nil
}

// beforeRunEnd has some runs go on, and none for ever.
func (l *life) beforeRunEnd(_ context.Context, in harness.RunEnding) (harness.RunEnding, error) {
	l.hooked(in.Lane, "before_run_end", true)
	text, before := "", 0
	for _, n := range l.s.oracle.path(l.s.oracle.leaf(in.Lane)) {
		switch m := n.message.(type) {
		case *session.AssistantMessage:
			text = session.JoinText(m.Content)
		case *session.UserMessage:
			if strings.HasPrefix(session.JoinText(m.Content), "hook ") {
				before++
			}
		}
	}
	r := dice(l.s.program.seed, "end", text)
	if before < 3 && chance(r, 4) {
		in.FollowUp = append(in.FollowUp, &session.UserMessage{
			Content: session.TextContent(fmt.Sprintf("hook %d", r.IntN(1_000_000))), Timestamp: l.s.clock.read(),
		})
	}
	return in, nil
}

// transformContext changes every request in the same way, so that each still
// extends the one before.
func (l *life) transformContext(_ context.Context, in harness.ContextView) (harness.ContextView, error) {
	l.hooked(in.Lane, "transform_context", true)
	first := session.ProjectedMessage{Message: &session.UserMessage{Content: session.TextContent("Be brief.")}}
	in.Messages = append([]session.ProjectedMessage{first}, in.Messages...)
	return in, nil
}

func (l *life) afterResponse(_ context.Context, in harness.ResponseReview) (harness.ResponseReview, error) {
	l.hooked(in.Lane, "after_response", false)
	m := *in.Message
	m.Content = append([]session.Block{session.Text{Text: "Seen. "}}, m.Content...)
	in.Message = &m
	return in, nil
}

// beforeTool rewrites some calls, blocks some, and fails for some.
func (l *life) beforeTool(_ context.Context, in harness.ToolPlan) (harness.ToolPlan, error) {
	l.hooked(in.Lane, "before_tool", true)
	switch dice(l.s.program.seed, "before tool", in.Call.Arguments).IntN(6) {
	case 0:
		in.Block = "a hook says no"
	case 1:
		in.Call.Arguments = `{"n":7}`
	case 2:
		in.Call.Arguments = `{"n":"no number"}`
	case 3:
		return in, errHook
	}
	return in, nil
}

func (l *life) afterTool(_ context.Context, in harness.ToolOutcome) (harness.ToolOutcome, error) {
	l.hooked(in.Lane, "after_tool", false)
	if in.Call.Name == "append" {
		panic("a hook panics")
	}
	in.Result.Content = append(in.Result.Content, session.Text{Text: " (seen)"})
	return in, nil
}
