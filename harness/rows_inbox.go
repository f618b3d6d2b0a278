package harness

import (
	"fmt"
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Rows of the transition table around what waits for its place: the inbox of
// an open run, and what a lane keeps for its next run.

// queue is one of the queues of a lane.
type queue int

const (
	queueSteer queue = iota
	queueFollowUp
	queueWrites
	queueNextRun
)

// consume places the oldest items of a queue of the inbox.
type consume struct {
	queue queue
	count int
}

func (consume) isEvent()  {}
func (consume) isAction() {}

// waiting is one of the queues of an inbox.
func (q queue) of(in *registers.Inbox) *[]pistore.ID {
	switch q {
	case queueSteer:
		return &in.Steer
	case queueFollowUp:
		return &in.FollowUp
	case queueWrites:
		return &in.Writes
	default:
		panic(fmt.Sprintf("harness: an inbox has no queue %d", q))
	}
}

// take asks for as much of a queue as its mode lets one checkpoint take, and is
// false if nothing waits.
func take(run *registers.RunState, q queue) (action, bool) {
	mode := registers.All
	switch q {
	case queueSteer:
		mode = run.Settings.SteeringMode
	case queueFollowUp:
		mode = run.Settings.FollowUpMode
	}
	n := len(*q.of(&run.Inbox))
	if n > 0 && mode == registers.OneAtATime {
		n = 1
	}
	return consume{q, n}, n > 0
}

// nextAtCheckpoint keeps the order of a checkpoint: deferred writes, steering,
// a context that is too full, the turn that is owed, follow-ups, the end. Behind input that was just placed
// writes and steering wait for the turn that it is owed, so that one at a time
// means just that.
func nextAtCheckpoint(p *position, at *registers.Checkpoint, env *environment) action {
	run := p.op.run()
	owed := false
	switch at.Continuation.(type) {
	case *registers.NeedAssistant:
		owed = true
	case *registers.MayFinish:
	default:
		panic(fmt.Sprintf("harness: continuation %T", at.Continuation))
	}
	if !owed || !at.SkipInboxOnce {
		for _, q := range []queue{queueWrites, queueSteer} {
			if act, ok := take(run, q); ok {
				return act
			}
		}
	}
	if tooFull(p, at, env) {
		return beginThreshold{}
	}
	if owed {
		return unlessMissing(env, p.configuration(env), beginStep{})
	}
	if act, ok := take(run, queueFollowUp); ok {
		return act
	}
	return env.unlessHooked(HookBeforeRunEnd, finishRun{})
}

// nextOfDrain lets a run that failed go on with whatever waits.
func nextOfDrain(run *registers.RunState) action {
	for _, q := range []queue{queueWrites, queueSteer, queueFollowUp} {
		if act, ok := take(run, q); ok {
			return act
		}
	}
	return failRun{}
}

// applyConsume turns queued content into entries. A turn is owed to what enters
// the context, unless the run was asked to stop; what does not enter it changes
// nothing else.
func applyConsume(p *position, ev consume, env *environment, c *change) *position {
	var trigger pistore.ID
	for _, id := range (*ev.queue.of(&p.op.run().Inbox))[:ev.count] {
		if env.projects(p.queued[id]) {
			trigger = id
		}
	}
	p = c.placeFrom(p, ev.queue, ev.count)
	if trigger == "" || p.op.cancelled() {
		return p
	}
	return p.withPhase(&registers.Checkpoint{
		Continuation: &registers.NeedAssistant{}, TriggerEntryID: trigger, SkipInboxOnce: true,
	})
}

// placeFrom gives the oldest items of a queue of the inbox their places.
func (c *change) placeFrom(p *position, q queue, count int) *position {
	for _, id := range (*q.of(&p.op.run().Inbox))[:count] {
		p = c.placeQueued(p, id)
	}
	return p.withRun(func(run *registers.RunState) {
		waiting := q.of(&run.Inbox)
		*waiting = (*waiting)[count:]
	})
}

// placeQueued gives queued content its place: the entry for the register.
func (c *change) placeQueued(p *position, id pistore.ID) *position {
	e := p.queued[id]
	c.remove(registers.PendingEntryNS, string(id))
	p = c.place(p, session.Content{ID: id, Type: e.Type, CustomType: e.CustomType, Payload: e.Payload})
	return p.withQueued(func(all map[pistore.ID]registers.PendingEntry) { delete(all, id) })
}

// projects reports whether content enters the context of a request.
func (env *environment) projects(e registers.PendingEntry) bool {
	switch e.Type {
	case pistore.TypeCustom:
		return env.projectors[e.CustomType] != nil
	case pistore.TypeMessage:
		raw, _ := e.Payload.Member("message")
		switch m, err := session.ParseMessage(raw); m := m.(type) {
		case *session.BashMessage:
			return !m.ExcludeFromContext
		case *session.UnknownMessage:
			return false
		default:
			return err == nil
		}
	default:
		return true
	}
}

// Bounds of what may wait on a lane: op.state names each item and is written
// anew by every commit, and all of it may have to be placed by one.
const (
	maxQueued      = 1000
	maxQueuedBytes = pistore.MaxPayloadBytes
)

// enqueue makes content durable under a new id, at the end of a queue.
func enqueue(p *position, q queue, e registers.PendingEntry, m mint, c *change) (*position, pistore.ID, error) {
	size := int64(len(e.Payload))
	for _, other := range p.queued {
		size += int64(len(other.Payload))
	}
	if n := len(p.queued) + 1; n > maxQueued {
		return nil, "", &pistore.LimitError{Limit: "entries that wait", Got: int64(n), Max: maxQueued}
	}
	if size > maxQueuedBytes {
		return nil, "", &pistore.LimitError{Limit: "bytes that wait", Got: size, Max: maxQueuedBytes}
	}
	id := m.New()
	c.moved = true
	c.set(registers.PendingEntryNS, string(id), registers.EncodePendingEntry(e))
	p = p.withQueued(func(all map[pistore.ID]registers.PendingEntry) { all[id] = e })
	if q == queueNextRun {
		p.state.PendingNextRun = append(slices.Clip(p.state.PendingNextRun), id)
		return p, id, nil
	}
	return p.withRun(func(run *registers.RunState) {
		waiting := q.of(&run.Inbox)
		*waiting = append(slices.Clip(*waiting), id)
	}), id, nil
}

// unqueue takes an item out of the queue that it waits in and deletes its
// content; nothing changes if it waits in none.
func unqueue(p *position, id pistore.ID, c *change) *position {
	without := func(ids []pistore.ID) ([]pistore.ID, bool) {
		i := slices.Index(ids, id)
		if i < 0 {
			return ids, false
		}
		return append(slices.Clone(ids[:i]), ids[i+1:]...), true
	}
	if rest, found := without(p.state.PendingNextRun); found {
		c.moved = true
		next := *p
		next.state.PendingNextRun = rest
		p = &next
	} else if run, ok := p.operationState().(*registers.RunState); ok {
		for _, q := range []queue{queueSteer, queueFollowUp, queueWrites} {
			if rest, found := without(*q.of(&run.Inbox)); found {
				c.moved = true
				p = p.withRun(func(run *registers.RunState) { *q.of(&run.Inbox) = rest })
			}
		}
	}
	if !c.moved {
		return p
	}
	c.remove(registers.PendingEntryNS, string(id))
	return p.withQueued(func(all map[pistore.ID]registers.PendingEntry) { delete(all, id) })
}
