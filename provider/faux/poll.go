package faux

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"pistore"
	"pistore/provider"
	"pistore/session"
)

// Defer is a step whose response is deferred, and answered by these steps when
// it is polled.
func Defer(polls ...Step) Step {
	return Step{Deferred: &session.DeferredHandle{}, Polls: polls}
}

// Pending is the answer to a poll that comes too early.
func Pending() Step { return Step{StopReason: session.StopDeferred} }

// Poll is one poll that the provider was asked.
type Poll struct {
	Number int64 // the attempt of the request
	Handle session.DeferredHandle
}

// Polls returns the polls so far, in the order in which they came. The slice is
// the caller's.
func (p *Provider) Polls() []Poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.polls)
}

// Cancels returns the handles that were cancelled, in order, each as often as
// it was. The slice is the caller's.
func (p *Provider) Cancels() []session.DeferredHandle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.cancels)
}

// Poll answers as the Polls of the step say that deferred: the number of the
// poll picks one, the last answers all later polls.
func (p *Provider) Poll(ctx context.Context, req provider.Request, handle session.DeferredHandle) provider.Response {
	if !p.options.Forget {
		p.mu.Lock()
		p.polls = append(p.polls, Poll{req.Attempt, handle})
		p.mu.Unlock()
	}
	model, ok := p.Model(req.Model.ModelID)
	if !ok {
		return refuse(req, p.options.API, fmt.Errorf("there is no model %.80q", req.Model.ModelID))
	}
	step, at, err := p.deferred(req, handle)
	if err == nil && len(step.Polls) == 0 {
		err = fmt.Errorf("scene %s, turn %d: the script answers no polls", at.Scene, at.Turn)
	}
	if err != nil {
		return refuse(req, model.API, err)
	}
	answer := step.Polls[min(max(req.Attempt, 1), int64(len(step.Polls)))-1]
	s, err := newStream(answer, at, req, p.options.ChunkRunes)
	if err != nil {
		return refuse(req, model.API, err)
	}
	s.sleep = p.options.Sleep
	response := s.settle(s.run(ctx), provider.Empty(req, model.API, "", ""), sizes{}, model.Price)
	if m := response.Message; m.StopReason == session.StopDeferred && m.Deferred == nil {
		m.Deferred = &handle
	}
	return response
}

// Cancel does what the OnCancel of the step says that deferred; a handle of
// another script is an error.
func (p *Provider) Cancel(ctx context.Context, handle session.DeferredHandle) error {
	if !p.options.Forget {
		p.mu.Lock()
		p.cancels = append(p.cancels, handle)
		p.mu.Unlock()
	}
	step, _, err := p.deferred(provider.Request{}, handle)
	if err != nil || step.OnCancel == nil {
		return err
	}
	return step.OnCancel(ctx)
}

// deferred returns the step that deferred a response. Its handle carries the
// position, so that another process with the same script finds it.
func (p *Provider) deferred(req provider.Request, handle session.DeferredHandle) (Step, Position, error) {
	var at Position
	err := json.Unmarshal([]byte(handle.Data), &at)
	for _, scene := range p.options.Script {
		if err == nil && scene.Name == at.Scene && at.Turn >= 0 && at.Attempt >= 1 {
			return scene.step(req, at)
		}
	}
	return Step{}, at, fmt.Errorf("handle %.80q is none of this script", handle.ID)
}

// handle completes the handle of a step.
func (s *stream) handle(m *session.AssistantMessage) *session.DeferredHandle {
	h := *s.step.Deferred
	for at, value := range map[*string]string{&h.Provider: m.Provider, &h.ModelID: m.Model, &h.API: m.API, &h.ID: m.ResponseID} {
		if *at == "" {
			*at = value
		}
	}
	if h.Data == "" {
		data, err := json.Marshal(s.at)
		if err != nil {
			panic("faux: encode a position: " + err.Error())
		}
		h.Data = pistore.JSON(data)
	}
	return &h
}
