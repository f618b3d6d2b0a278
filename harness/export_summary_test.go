package harness

import (
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Planted defects of the way from a frozen preparation to a summary.

var faultySummaries = map[string]func(planner) planner{
	"asks again about a decided summary": func(m planner) planner {
		return planner{next: func(p *position, env *environment) action {
			act := m.next(p, env)
			if _, ok := act.(intendSummary); ok && p.op.summary.settled == 0 {
				return env.unlessHooked(decisionHook(p.op.state), act.(transition))
			}
			return act
		}, apply: m.apply}
	},
	"generates a summary that was declined": changesEvent(func(ev event) event {
		if d, ok := ev.(summaryDecided); ok {
			d.declined = false
			return d
		}
		return ev
	}),
	"drops the bill of a supplied summary": changesEvent(func(ev event) event {
		if d, ok := ev.(summaryDecided); ok && d.supplied != nil {
			free := *d.supplied
			free.Usage = ""
			d.supplied = &free
			return d
		}
		return ev
	}),
	"drops the bill of a summary request": changesContent(func(w pistore.Write) (pistore.Write, bool) {
		_, usage := w.(pistore.InsertUsage)
		return w, !usage
	}),
	"loses a retained message": changesContent(func(w pistore.Write) (pistore.Write, bool) {
		e, ok := w.(pistore.InsertEntry)
		if !ok || e.Type != pistore.TypeCompaction {
			return w, true
		}
		summary, err := session.ParseCompaction(e.Payload)
		if err == nil && len(summary.RetainedTail) > 0 {
			summary.RetainedTail = summary.RetainedTail[1:]
			e.Payload = session.CompactionPayload(summary)
		}
		return e, true
	}),
	"leaves a branch summary where the lane came from": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		for i, w := range c.content {
			if e, ok := w.(pistore.InsertEntry); ok && e.Type == pistore.TypeBranchSummary {
				e.ParentID = p.leaf
				c.content[i] = e
			}
		}
		return q
	}),
	"keeps the preparation": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if q.op != nil {
			c.cells = slices.DeleteFunc(c.cells, func(w pistore.Write) bool {
				gone, ok := w.(pistore.DeleteRegister)
				return ok && gone.Namespace == registers.OpPreparationNS
			})
		}
		return q
	}),
	"goes on as if a failed summary were there": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if was, ok := p.op.phase().(*registers.RunCompaction); ok && q.op != nil {
			if _, failed := q.op.phase().(*registers.FailureDrain); failed {
				return q.withPhase(&was.ResumeAfter)
			}
		}
		return q
	}),
	"forgets that a trigger was checked": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if _, ok := ev.(beginThreshold); !ok {
			return q
		}
		if begun, ok := q.op.phase().(*registers.RunCompaction); ok {
			again := *begun
			again.ResumeAfter.ThresholdCheckedTriggerEntryID = ""
			return q.withPhase(&again)
		}
		return q
	}),
	"places a summary that was cancelled": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		if _, ok := ev.(summaryResponded); !ok || !p.op.cancelled() {
			return m.apply(p, ev, env, ids, c)
		}
		going := p.withState(func(s registers.OpState) { registers.ControlOf(s).CancelRequested = false })
		q := m.apply(going, ev, env, ids, c)
		if q.op != nil {
			q = q.withState(func(s registers.OpState) { *registers.ControlOf(s) = *registers.ControlOf(p.op.state) })
		}
		return q
	}),
	"repeats an attempt at a summary": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if _, ok := ev.(resumed); ok && q.op != nil {
			if sum := registers.SummaryOf(q.op.state); sum != nil && sum.Generating != nil {
				if ready, ok := sum.Generating.Generation.(*registers.GenerationReady); ok && ready.NextAttempt > 1 {
					return q.withGeneration(&registers.GenerationReady{NextAttempt: ready.NextAttempt - 1, UsageIDs: ready.UsageIDs})
				}
			}
		}
		return q
	}),
	"forgets what a summary has cost": applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		q := m.apply(p, ev, env, ids, c)
		if q.op != nil {
			if sum := registers.SummaryOf(q.op.state); sum != nil && sum.Generating != nil {
				if wait, ok := sum.Generating.Generation.(*registers.GenerationRetryWait); ok && wait.UsageIDs != nil {
					poorer := *wait
					poorer.UsageIDs = nil
					return q.withGeneration(&poorer)
				}
			}
		}
		return q
	}),
}

// changesEvent makes a planner to which something else happens.
func changesEvent(other func(event) event) func(planner) planner {
	return applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		return m.apply(p, other(ev), env, ids, c)
	})
}

// changesContent makes a planner that writes other entries and usage rows, or
// leaves some out, where a summary is answered or decided.
func changesContent(other func(pistore.Write) (w pistore.Write, keep bool)) func(planner) planner {
	return applies(func(m planner, p *position, ev event, env *environment, ids mint, c *change) *position {
		before := len(c.content)
		q := m.apply(p, ev, env, ids, c)
		switch ev.(type) {
		case summaryResponded, summaryDecided:
		default:
			return q
		}
		kept := c.content[:before]
		for _, w := range c.content[before:] {
			if w, keep := other(w); keep {
				kept = append(kept, w)
			}
		}
		c.content = kept
		return q
	})
}
