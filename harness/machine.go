package harness

import (
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// The machine. next says what a position asks for; apply makes a transition.
// Neither does I/O, reads a clock or mints an id of its own.

// action is what a position asks for next: a transition, which is an event that
// needs nothing from outside, or an effect, or an end.
type action interface{ isAction() }

type (
	// effectRequest asks for the response that effect_pending announced.
	effectRequest struct{}
	// effectTools asks that these calls of a step run, which are all
	// effect_pending, and that before_tool judges a planned one; -1: none.
	effectTools struct {
		step  pistore.ID
		calls []int
		judge int
	}
	// effectHook asks a hook, whose answer is an event.
	effectHook struct{ name HookName }
	// effectSleep asks to wait until an instant.
	effectSleep struct{ until pistore.UnixMS }
	// suspend asks for something that this process cannot give.
	suspend struct {
		reason SuspendReason
		detail string
	}
	// ended: the operation is no more; the lane is idle.
	ended struct{}
)

func (effectRequest) isAction() {}
func (effectTools) isAction()   {}
func (effectHook) isAction()    {}
func (effectSleep) isAction()   {}
func (suspend) isAction()       {}
func (ended) isAction()         {}

// event is what moves a position: a transition, or news from outside.
type event interface{ isEvent() }

// transition is an event that next asks for.
type transition interface {
	event
	action
}

type (
	beginStep  struct{} // checkpoint, an assistant turn is owed: capture the context
	intend     struct{} // ready: announce the attempt, with the model's output limit
	clearCall  struct{ index int }
	rejectCall struct {
		index   int
		message string
	}
	endBatch  struct{} // every call is completed
	finishRun struct{} // checkpoint, nothing is owed
	failRun   struct{} // failure_drain with an empty inbox
)

type (
	// resumed is the first event after a restore.
	resumed struct{}
	// responded settles the attempt in flight. The message is well formed.
	responded struct {
		message      *session.AssistantMessage
		retryable    bool
		retryAfterMS int64
		overflow     bool // the adapter counted more input than the window holds
	}
	// toolSettled settles a started call.
	toolSettled struct {
		index  int
		result toolResult
	}
	// due ends a retry_wait.
	due struct{}
)

func (beginStep) isEvent()   {}
func (intend) isEvent()      {}
func (clearCall) isEvent()   {}
func (rejectCall) isEvent()  {}
func (endBatch) isEvent()    {}
func (finishRun) isEvent()   {}
func (failRun) isEvent()     {}
func (resumed) isEvent()     {}
func (responded) isEvent()   {}
func (toolSettled) isEvent() {}
func (due) isEvent()         {}

func (beginStep) isAction()  {}
func (intend) isAction()     {}
func (clearCall) isAction()  {}
func (rejectCall) isAction() {}
func (endBatch) isAction()   {}
func (finishRun) isAction()  {}
func (failRun) isAction()    {}

// next says what the position asks for. Whether an effect that it asks for is
// already under way in this process is the driver's to know.
func next(p *position, env *environment) action {
	if p.op == nil {
		return ended{}
	}
	if reason := beyond(p.op); reason != "" {
		return suspend{SuspendUnsupported, reason}
	}
	switch s := p.op.state.(type) {
	case *registers.CompactionState:
		return nextOfSummary(p, env)
	case *registers.NavigationState:
		return nextOfNavigation(p, s, env)
	}
	if p.op.cancelled() {
		return nextCancelled(p, env)
	}
	switch ph := p.op.phase().(type) {
	case *registers.Checkpoint:
		return nextAtCheckpoint(p, ph, env)
	case *registers.AssistantReady:
		return unlessMissing(env, ph.Context.Configuration, env.unlessHooked(HookBeforeRequest, intend{}))
	case *registers.AssistantPending:
		return effectRequest{}
	case *registers.AssistantRetryWait:
		return effectSleep{ph.NotBefore}
	case *registers.Tools:
		return nextOfBatch(p.op, ph, env)
	case *registers.DeferredSuspended:
		return unlessUnpollable(env, ph.Configuration, suspend{SuspendDeferred, p.op.handle.ID})
	case *registers.DeferredPending:
		return unlessUnpollable(env, ph.Configuration, effectPoll{})
	case *registers.RunCompaction:
		return nextOfSummary(p, env)
	case *registers.FailureDrain:
		return nextOfDrain(p.op.run())
	default:
		panic(fmt.Sprintf("harness: phase %T", ph))
	}
}

// beyond names what this harness does not execute, or is empty. Such a state
// stays as it is.
func beyond(op *operation) string {
	if op.meta.RequestID != "" {
		return "request"
	}
	return ""
}

func unlessMissing(env *environment, c registers.LaneConfiguration, act action) action {
	if name := env.missing(c); name != "" {
		return suspend{SuspendMissingIdentities, name}
	}
	return act
}

// unlessHooked asks a hook that has functions before it lets a transition be
// made: the hook's answer makes it.
func (env *environment) unlessHooked(name HookName, t transition) action {
	if env.hooks.has(name) {
		return effectHook{name}
	}
	return t
}

// nextOfBatch clears planned calls in source order, one at a time when the
// batch is sequential, and waits for what runs.
func nextOfBatch(op *operation, batch *registers.Tools, env *environment) action {
	var running []int
	planned := -1
	for i, c := range batch.Calls {
		switch c.Status {
		case registers.CallEffectPending:
			if name := op.batch[i].Name; !env.has(name) {
				return suspend{SuspendMissingIdentities, "tool " + name}
			}
			running = append(running, i)
		case registers.CallPlanned:
			if planned < 0 {
				planned = i
			}
		}
	}
	if planned >= 0 && (len(running) == 0 || !sequential(op, env)) {
		act := judgeCall(op.batch[planned], planned, batch, env)
		_, cleared := act.(clearCall)
		_, stuck := act.(suspend)
		switch {
		case cleared && env.hooks.has(HookBeforeTool):
			return effectTools{batch.StepID, running, planned}
		case !stuck || len(running) == 0:
			return act
		}
	}
	if len(running) > 0 {
		return effectTools{batch.StepID, running, -1}
	}
	return endBatch{}
}

// sequential reports whether the calls of a batch run one after the other:
// because the run says so, or because one of the tools called asks for it.
func sequential(op *operation, env *environment) bool {
	if op.run().Settings.ToolExecution == registers.Sequential {
		return true
	}
	for _, call := range op.batch {
		if t, ok := env.tools.Lookup(call.Name); ok && t.Sequential {
			return true
		}
	}
	return false
}

// judgeCall says whether a planned call may start.
func judgeCall(call session.ToolCall, index int, batch *registers.Tools, env *environment) action {
	active := false
	for _, name := range batch.Configuration.ActiveToolNames {
		active = active || name == call.Name
	}
	if !active {
		return rejectCall{index, fmt.Sprintf("There is no tool named %q.", call.Name)}
	}
	if !env.has(call.Name) {
		return suspend{SuspendMissingIdentities, "tool " + call.Name}
	}
	if err := env.tools.Validate(call.Name, call.Arguments); err != nil {
		return rejectCall{index, err.Error()}
	}
	return clearCall{index}
}

// mint is where apply gets ids and the present from.
type mint interface {
	New() pistore.ID
	At(pistore.UnixMS) pistore.ID
	Now() pistore.UnixMS
}

// apply makes one transition: the position after it, with every write that
// makes it true added to the change.
func apply(p *position, ev event, env *environment, m mint, c *change) *position {
	switch ev := ev.(type) {
	case beginStep:
		return applyBeginStep(p, env, m, c)
	case intend:
		return applyIntend(p, 0, env, m, c)
	case requestPlanned:
		return applyIntend(p, ev.outputLimit, env, m, c)
	case responded:
		return applyResponse(p, ev, env, m, c)
	case polled:
		return applyPolled(p, ev, m, c)
	case cancelCalled:
		return applyCancelCalled(p)
	case due:
		return applyDue(p)
	case beginThreshold:
		return applyThreshold(p, env, m, c)
	case chooseModel:
		return applyChooseModel(p, env, m)
	case intendSummary:
		return applyIntendSummary(p, env, m, c)
	case summaryResponded:
		return applySummaryResponse(p, ev, m, c)
	case summaryDecided:
		return applyDecided(p, ev, env, m, c)
	case abandonSummary:
		return applyAbandonSummary(p, c)
	case arrive:
		return applyArrive(p, c)
	case clearCall:
		return applyClearCall(p, ev.index, p.op.batch[ev.index].Arguments, env, c)
	case callJudged:
		if ev.block != "" {
			return applyToolSettled(p, ev.index, errorResult(ev.block), m, c)
		}
		return applyClearCall(p, ev.index, ev.arguments, env, c)
	case rejectCall:
		return applyToolSettled(p, ev.index, errorResult(ev.message), m, c)
	case toolSettled:
		return applyToolSettled(p, ev.index, ev.result, m, c)
	case endAborted:
		return applyEndAborted(p, c)
	case consume:
		return applyConsume(p, ev, env, c)
	case endBatch:
		return applyEndBatch(p, c)
	case finishRun:
		return applyFinish(p, c)
	case runEnding:
		return applyRunEnding(p, ev.followUp, m, c)
	case failRun:
		return applyFail(p, c)
	case resumed:
		return applyResumed(p, env, m, c)
	default:
		panic(fmt.Sprintf("harness: event %T", ev))
	}
}

// planner is the machine. It is a value, so that a test can run a faulty one.
type planner struct {
	next  func(*position, *environment) action
	apply func(*position, event, *environment, mint, *change) *position
}

// fold applies an event, if there is one, and then every transition that needs
// no effect. The result is one transaction and the effect it leads to.
func (m planner) fold(p *position, ev event, env *environment, ids mint) (*position, *change, action) {
	c := &change{from: p}
	if a, ok := ev.(answer); ok && !a.answers(m.next(p, env)) {
		ev = nil // nobody asks any more
	}
	if ev != nil {
		_, recovering := ev.(resumed)
		c.moved = !recovering // recovery may find nothing to settle
		p = m.apply(p, ev, env, ids, c)
	}
	for {
		act := m.next(p, env)
		t, ok := act.(transition)
		if !ok {
			return p, c, act
		}
		p = m.apply(p, t, env, ids, c)
		c.moved = true
	}
}
