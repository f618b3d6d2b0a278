package harness

import (
	"context"
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Input for a run that is open, or that is still to come, and writes beside it.
// Each call returns when its content is durable, with the ids that its messages
// will have as entries. What was queued can be taken back with CancelQueued
// until it is placed.

// Steer queues input that the open run takes at its next checkpoint, ahead of
// the turn that is owed there. Errors: ErrNoActiveRun when no run is open or it
// was asked to stop, ErrInvalidMessage, pistore.ErrTooLarge when too much waits
// already; nothing was written.
func (l *Lane) Steer(ctx context.Context, in Prompt) ([]pistore.ID, error) {
	return l.queue(ctx, queueSteer, in)
}

// FollowUp queues input that the open run takes when it would end. Errors are
// those of Steer.
func (l *Lane) FollowUp(ctx context.Context, in Prompt) ([]pistore.ID, error) {
	return l.queue(ctx, queueFollowUp, in)
}

// NextRun queues input that the next accepted prompt starts with, before what
// the prompt itself holds. It may be called at any time. Errors are those of
// Steer, ErrNoActiveRun aside.
func (l *Lane) NextRun(ctx context.Context, in Prompt) ([]pistore.ID, error) {
	return l.queue(ctx, queueNextRun, in)
}

func (l *Lane) queue(ctx context.Context, q queue, in Prompt) (ids []pistore.ID, err error) {
	messages, err := in.messages(l.h.clock.Read())
	if err != nil {
		return nil, fmt.Errorf("harness: lane %s: %w", l.name, err)
	}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.give()
	_, err = l.decide(ctx, func(p *position, m mint, c *change) (*position, error) {
		if q != queueNextRun {
			if run, open := p.operationState().(*registers.RunState); !open || run.Control.CancelRequested {
				return nil, ErrNoActiveRun
			}
		}
		ids = nil
		for _, msg := range messages {
			var id pistore.ID
			var err error
			if p, id, err = enqueue(p, q, messageEntry(session.MessagePayload(msg)), m, c); err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// CancelQueued takes back what waits under an id and reports whether it still
// did: what is placed stays, and what an Abort drained is drained.
func (l *Lane) CancelQueued(ctx context.Context, id pistore.ID) (cancelled bool, err error) {
	if err := l.take(ctx); err != nil {
		return false, err
	}
	defer l.give()
	_, err = l.decide(ctx, func(p *position, _ mint, c *change) (*position, error) {
		p = unqueue(p, id, c)
		cancelled = c.moved
		return p, nil
	})
	return cancelled && err == nil, err
}

// AppendMessage appends a message of the user's side to the conversation. On an
// idle lane it is an entry when the call returns. While a run is open it waits,
// durable, for the next checkpoint, and the run then owes a turn to it, if it
// enters the context. Errors: ErrInvalidMessage, ErrLaneBusy while an operation
// without an inbox is open, pistore.ErrTooLarge; nothing was written.
func (l *Lane) AppendMessage(ctx context.Context, m session.Message) (pistore.ID, error) {
	if err := checkInput([]session.Message{m}); err != nil {
		return "", fmt.Errorf("harness: lane %s: %w", l.name, err)
	}
	return l.appendEntry(ctx, messageEntry(session.MessagePayload(m)))
}

// AppendCustom appends an entry of the application; data may be empty. It
// enters the context only through a projector of its customType. Errors are
// those of AppendMessage.
func (l *Lane) AppendCustom(ctx context.Context, customType string, data pistore.JSON) (pistore.ID, error) {
	payload := session.CustomPayload("")
	if data != "" {
		if _, err := pistore.CompactJSON(string(data)); err != nil {
			return "", fmt.Errorf("harness: lane %s: %w: custom entry: %w", l.name, ErrInvalidMessage, err)
		}
		payload = session.CustomPayload(data)
	}
	payload, err := pistore.CheckEntry(pistore.TypeCustom, customType, payload)
	if err != nil {
		return "", fmt.Errorf("harness: lane %s: %w: custom entry: %w", l.name, ErrInvalidMessage, err)
	}
	return l.appendEntry(ctx, registers.PendingEntry{Type: pistore.TypeCustom, CustomType: customType, Payload: payload})
}

func (l *Lane) appendEntry(ctx context.Context, e registers.PendingEntry) (id pistore.ID, err error) {
	if err := l.take(ctx); err != nil {
		return "", err
	}
	defer l.give()
	_, err = l.decide(ctx, func(p *position, m mint, c *change) (*position, error) {
		if p.op == nil {
			id, c.moved = m.New(), true
			return c.place(p, session.Content{ID: id, Type: e.Type, CustomType: e.CustomType, Payload: e.Payload}), nil
		}
		if _, run := p.op.state.(*registers.RunState); !run {
			return nil, busy(p.op)
		}
		p, id, err = enqueue(p, queueWrites, e, m, c)
		return p, err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// Queues returns what waits for its place on the lane. The slices are the
// caller's.
func (l *Lane) Queues() Queues { return l.position().queues() }
