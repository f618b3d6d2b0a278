// Package faux is a provider that answers from a script: deterministic, without
// network, the default of demo and tests. It can stream, fail, overflow, defer,
// hang, and kill its process at any delta.
package faux

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"pistore"
	"pistore/provider"
	"pistore/session"
)

// Options say what a provider is and answers. Only Script must be set.
type Options struct {
	Name   string           // empty: "faux"
	API    string           // of its models that name none; empty: "faux"
	Models []provider.Model // empty: DefaultModel
	Script Script
	// ChunkRunes is the most characters in one delta. 0: 16.
	ChunkRunes int
	// Sleep waits for some milliseconds or until ctx ends. nil: by the system's
	// timer.
	Sleep func(ctx context.Context, ms int64)
	// Forget keeps no record of requests, for long runs.
	Forget bool
}

// DefaultModel is the model of a provider that names none.
var DefaultModel = provider.Model{
	ID: "faux-1", API: "faux", ContextWindow: 200_000, MaxOutputTokens: 16_384,
	Price: provider.Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000},
}

// Provider answers from a script. It has no state that an answer depends on.
type Provider struct {
	options Options

	mu       sync.Mutex // guards what follows
	requests []provider.Request
	polls    []Poll
	cancels  []session.DeferredHandle
}

// New returns a provider. It panics if the script is ambiguous: two scenes of
// one name or without Match, a turn without steps.
func New(o Options) *Provider {
	if o.Name == "" {
		o.Name = "faux"
	}
	if o.API == "" {
		o.API = "faux"
	}
	if len(o.Models) == 0 {
		o.Models = []provider.Model{DefaultModel}
	}
	o.Models = slices.Clone(o.Models)
	for i := range o.Models {
		if o.Models[i].API == "" {
			o.Models[i].API = o.API
		}
	}
	if o.ChunkRunes <= 0 {
		o.ChunkRunes = 16
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	o.Script = o.Script.named()
	return &Provider{options: o}
}

func sleep(ctx context.Context, ms int64) {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Name returns the name from the options.
func (p *Provider) Name() string { return p.options.Name }

// Model returns one of the models from the options.
func (p *Provider) Model(id string) (provider.Model, bool) {
	for _, m := range p.options.Models {
		if m.ID == id {
			return m, true
		}
	}
	return provider.Model{}, false
}

// Requests returns the requests so far, in the order in which they came. The
// slice is the caller's.
func (p *Provider) Requests() []provider.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func (p *Provider) record(req provider.Request) {
	if p.options.Forget {
		return
	}
	req.System = slices.Clone(req.System)
	req.Messages = slices.Clone(req.Messages)
	req.Tools = slices.Clone(req.Tools)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, req)
}

// Stream answers a request as the script says. A request that is larger than
// the window of its model is answered with an overflow error, whatever the
// script says.
func (p *Provider) Stream(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
	p.record(req)
	model, ok := p.Model(req.Model.ModelID)
	if !ok {
		return refuse(req, p.options.API, fmt.Errorf("there is no model %.80q", req.Model.ModelID))
	}
	sent, err := measure(req)
	if err != nil {
		return refuse(req, model.API, err)
	}
	if tokens := sent.total(); model.ContextWindow > 0 && tokens > model.ContextWindow {
		response := refuse(req, model.API, fmt.Errorf("prompt is too long: %d tokens > %d maximum", tokens, model.ContextWindow))
		response.Overflow = true
		return response
	}
	step, at, err := p.options.Script.find(p.options.Name, req)
	if err != nil {
		return refuse(req, model.API, err)
	}
	s, err := newStream(step, at, req, p.options.ChunkRunes)
	if err != nil {
		return refuse(req, model.API, err)
	}
	s.sleep, s.deltas = p.options.Sleep, deltas
	ending := s.run(ctx)
	return s.settle(ending, provider.Empty(req, model.API, "", ""), sent, model.Price)
}

// refuse answers with an error that no retry helps.
func refuse(req provider.Request, api string, err error) provider.Response {
	return provider.Response{Message: provider.Empty(req, api, session.StopError, "faux: "+err.Error())}
}

// ending is how a stream ended.
type ending int

const (
	complete ending = iota
	failed          // as the step says
	cancelled
	late // ctx met its deadline
)

// stream is one response under way.
type stream struct {
	step   Step
	at     Position
	blocks []block
	all    []provider.Delta
	sent   int // how many of all were received
	sleep  func(context.Context, int64)
	deltas func(provider.Delta)
}

// block is a block of content with the deltas that it takes: all[start:end].
type block struct {
	content    session.Block
	start, end int
}

func newStream(step Step, at Position, req provider.Request, chunkRunes int) (*stream, error) {
	s := &stream{step: step, at: at}
	if step.ChunkRunes > 0 {
		chunkRunes = step.ChunkRunes
	}
	for i, content := range step.Content {
		b := block{content: content, start: len(s.all)}
		switch c := content.(type) {
		case session.Text:
			for _, text := range chunks(c.Text, chunkRunes) {
				s.all = append(s.all, provider.TextDelta{Index: i, Text: text})
			}
		case session.Thinking:
			for _, text := range chunks(c.Thinking, chunkRunes) {
				s.all = append(s.all, provider.ThinkingDelta{Index: i, Thinking: text})
			}
		case session.ToolCall:
			if c.ID == "" {
				c.ID = fmt.Sprintf("call_%d_%d_%d", at.Turn, len(req.Messages), i)
			}
			if c.Arguments == "" {
				c.Arguments = "{}"
			}
			arguments, err := pistore.CompactJSON(string(c.Arguments))
			if err != nil {
				return nil, fmt.Errorf("scene %s, turn %d: arguments of call %s: %w", at.Scene, at.Turn, c.Name, err)
			}
			c.Arguments = arguments
			b.content = c
			s.all = append(s.all, provider.ToolCallStart{Index: i, ID: c.ID, Name: c.Name})
			for _, text := range chunks(string(arguments), chunkRunes) {
				s.all = append(s.all, provider.ToolArgumentsDelta{Index: i, Arguments: text})
			}
		default:
			return nil, fmt.Errorf("scene %s, turn %d: a response cannot have a block %T", at.Scene, at.Turn, content)
		}
		b.end = len(s.all)
		s.blocks = append(s.blocks, b)
	}
	return s, nil
}

// run streams to the end, whichever it is.
func (s *stream) run(ctx context.Context) ending {
	for ; ; s.sent++ {
		last := s.sent == len(s.all)
		for _, incident := range s.step.Incidents {
			if incident.AfterDeltas == s.sent || last && incident.AfterDeltas > s.sent {
				incident.Do(ctx)
			}
		}
		if e, ended := over(ctx); ended {
			return e
		}
		if s.step.Error != "" && (s.sent >= s.step.ErrorAfterDeltas || last) {
			return failed
		}
		if last {
			return complete
		}
		if s.step.DelayMS > 0 {
			s.sleep(ctx, s.step.DelayMS)
			if e, ended := over(ctx); ended {
				return e
			}
		}
		if s.deltas != nil {
			s.deltas(s.all[s.sent])
		}
	}
}

func over(ctx context.Context) (ending, bool) {
	switch {
	case provider.Cancelled(ctx):
		return cancelled, true
	case ctx.Err() != nil:
		return late, true
	default:
		return complete, false
	}
}

// settle fills in the message.
func (s *stream) settle(e ending, m *session.AssistantMessage, sent sizes, price provider.Price) provider.Response {
	response := provider.Response{Message: m}
	m.ResponseID = s.at.responseID()
	switch e {
	case complete:
		for _, b := range s.blocks {
			m.Content = append(m.Content, b.content)
		}
		response.Overflow = s.step.Overflow
		s.stop(m)
	case failed:
		m.Content = s.received()
		m.StopReason, m.ErrorMessage = session.StopError, s.step.Error
		if s.step.StopReason != "" {
			m.StopReason = s.step.StopReason
		}
		response.Overflow = s.step.Overflow
		response.Retryable, response.RetryAfterMS = s.step.Retryable, s.step.RetryAfterMS
	case cancelled:
		m.Content = s.received()
		m.StopReason, m.ErrorMessage = session.StopAborted, "the request was cancelled"
	case late:
		m.Content = s.received()
		m.StopReason, m.ErrorMessage = session.StopError, "faux: the request took too long"
		response.Retryable = true
	default:
		panic(fmt.Sprintf("faux: impossible ending %d", e))
	}
	switch {
	case e == complete && s.step.Usage != "" || e == failed && s.step.Usage != "":
		m.Usage = s.step.Usage
	case e == complete || len(m.Content) > 0:
		m.Usage = sent.usage(m.Content).JSON(price)
	}
	return response
}

// stop sets why a complete response stopped.
func (s *stream) stop(m *session.AssistantMessage) {
	switch {
	case s.step.StopReason != "":
		m.StopReason = s.step.StopReason
	case s.step.Deferred != nil:
		m.StopReason = session.StopDeferred
	case len(m.ToolCalls()) > 0:
		m.StopReason = session.StopToolUse
	default:
		m.StopReason = session.StopStop
	}
	if s.step.Deferred != nil {
		m.Deferred = s.handle(m)
	}
	if m.StopReason == session.StopError || m.StopReason == session.StopAborted {
		m.ErrorMessage = "faux: settled as " + string(m.StopReason) + " by the script"
	}
}

// received returns the content that the deltas so far amount to; a call whose
// arguments are not whole is left out, and what is behind it.
func (s *stream) received() []session.Block {
	var content []session.Block
	for _, b := range s.blocks {
		if b.start >= s.sent {
			break
		}
		if b.end <= s.sent {
			content = append(content, b.content)
			continue
		}
		text := ""
		for _, d := range s.all[b.start:s.sent] {
			switch d := d.(type) {
			case provider.TextDelta:
				text += d.Text
			case provider.ThinkingDelta:
				text += d.Thinking
			}
		}
		switch b.content.(type) {
		case session.Text:
			content = append(content, session.Text{Text: text})
		case session.Thinking:
			content = append(content, session.Thinking{Thinking: text})
		}
		break
	}
	return content
}

// chunks cuts text into pieces of n characters.
func chunks(text string, n int) []string {
	var pieces []string
	start, count := 0, 0
	for i := range text {
		if count == n {
			pieces = append(pieces, text[start:i])
			start, count = i, 0
		}
		count++
	}
	if start < len(text) {
		pieces = append(pieces, text[start:])
	}
	return pieces
}
