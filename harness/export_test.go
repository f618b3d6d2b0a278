package harness

import (
	"maps"
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// FaultyPlanners names the planners with a planted defect, by what they do.
func FaultyPlanners() []string {
	return slices.Concat(slices.Sorted(maps.Keys(faulty)), slices.Sorted(maps.Keys(faultySummaries)))
}

// NewFaulty returns a harness whose planner has a planted defect.
func NewFaulty(storage pistore.Storage, o Options, name string) (*Harness, error) {
	h, err := New(storage, o)
	if err == nil {
		plant := faulty[name]
		if plant == nil {
			plant = faultySummaries[name]
		}
		h.planner = plant(h.planner)
	}
	return h, err
}

// faulty makes planners that are wrong in one place.
var faulty = map[string]func(planner) planner{
	"settles twice": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if _, ok := ev.(toolSettled); ok {
			q = c.place(q, session.Content{ID: ids.New(), Type: pistore.TypeMessage, Payload: lastPayload(c)})
		}
		return q
	}),
	"skips the intent": func(m planner) planner {
		return planner{next: func(p *position, env *environment) action {
			act := m.next(p, env)
			if clear, ok := act.(clearCall); ok {
				p.op.args[clear.index] = p.op.batch[clear.index].Arguments
				return effectTools{calls: []int{clear.index}, judge: -1}
			}
			return act
		}, apply: m.apply}
	},
	"clears the drained queue early": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if q.op == nil || p.op == nil || !q.op.cancelled() {
			return q
		}
		control := registers.ControlOf(q.op.state)
		for _, id := range slices.Concat(control.DrainedSteer, control.DrainedFollowUp) {
			c.remove(registers.PendingEntryNS, string(id))
		}
		return q
	}),
	"ignores cancellation": func(m planner) planner {
		return planner{next: func(p *position, env *environment) action {
			if p.op == nil || !p.op.cancelled() {
				return m.next(p, env)
			}
			act := m.next(p.withState(func(s registers.OpState) { *registers.ControlOf(s) = registers.Control{} }), env)
			switch act.(type) {
			case effectHook, effectSleep: // they end at once, again and again
				return m.next(p, env)
			}
			return act
		}, apply: m.apply}
	},
	"forgets the inbox": func(m planner) planner {
		return planner{next: func(p *position, env *environment) action {
			if run, ok := p.operationState().(*registers.RunState); ok && len(run.Inbox.Writes) == 0 {
				q, op, blind := *p, *p.op, *run
				blind.Inbox = registers.Inbox{}
				op.state, q.op = &blind, &op
				return m.next(&q, env)
			}
			return m.next(p, env)
		}, apply: m.apply}
	},
	"compacts twice": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if run, ok := q.operationState().(*registers.RunState); ok {
			at, _ := run.Phase.(*registers.Checkpoint)
			if at == nil {
				return q
			}
			if need, ok := at.Continuation.(*registers.NeedAssistant); ok && need.OverflowRecoveryUsed {
				again := *at
				again.Continuation = &registers.NeedAssistant{}
				q = q.withPhase(&again)
			}
		}
		return q
	}),
	"resets the retry count": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if _, ok := ev.(resumed); ok && q.op != nil {
			if ready, ok := q.op.phase().(*registers.AssistantReady); ok {
				again := *ready
				again.NextAttempt = 1
				q = q.withPhase(&again)
			}
		}
		return q
	}),
	"drops usage": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if _, ok := ev.(resumed); ok {
			c.content = slices.DeleteFunc(c.content, func(w pistore.Write) bool {
				_, usage := w.(pistore.InsertUsage)
				return usage
			})
		}
		return q
	}),
	"moves to a wrong leaf": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if settled, ok := ev.(toolSettled); ok && settled.result.isError {
			wrong := *q
			wrong.leaf = p.leaf
			q = &wrong
		}
		return q
	}),
	"goes on without what is missing": func(m planner) planner {
		return planner{next: func(p *position, env *environment) action {
			act := m.next(p, env)
			if why, ok := act.(suspend); ok && why.reason == SuspendMissingIdentities {
				if _, ready := p.op.phase().(*registers.AssistantReady); ready {
					return intend{}
				}
			}
			return act
		}, apply: m.apply}
	},
	"spends an attempt on what is missing": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if _, ok := ev.(resumed); ok && q.op != nil && p.op != nil {
			was, _ := p.op.phase().(*registers.AssistantReady)
			if now, ok := q.op.phase().(*registers.AssistantReady); ok && was != nil {
				spent := *now
				spent.NextAttempt++
				c.moved = true
				q = q.withPhase(&spent)
			}
		}
		return q
	}),
	"retries under new settings": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if _, ok := ev.(due); ok {
			if ready, ok := q.op.phase().(*registers.AssistantReady); ok {
				again := *ready
				again.Context.RetryPolicy = env.retryPolicy
				q = q.withPhase(&again)
			}
		}
		return q
	}),
	"resumes an unsafe tool": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		if _, ok := ev.(resumed); ok {
			if _, ok := p.op.phase().(*registers.Tools); ok {
				return p
			}
		}
		return m.apply(p, ev, env, ids, c)
	}),
}

// applies makes a planner whose apply is another one.
func applies(apply func(planner, *position, event, *environment, mint, *change) *position) func(planner) planner {
	return func(m planner) planner {
		return planner{next: m.next, apply: func(p *position, ev event, env *environment, ids mint, c *change) *position {
			return apply(m, p, ev, env, ids, c)
		}}
	}
}

// lastPayload is that of the newest entry of a change.
func lastPayload(c *change) pistore.JSON {
	for _, w := range slices.Backward(c.content) {
		if e, ok := w.(pistore.InsertEntry); ok {
			return e.Payload
		}
	}
	return `{"message":{"role":"user","content":"nothing"}}`
}

// HoldsPath reports whether a lane keeps its conversation in memory.
func HoldsPath(l *Lane) bool { return l.position().path != nil }

// KnownLanes names the lanes that a harness keeps in memory.
func KnownLanes(h *Harness) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.lanes))
}
