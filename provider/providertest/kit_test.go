package providertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// broken wraps a sound provider and breaks its responses in one way.
type broken struct {
	provider.Provider
	delta    func(provider.Delta) provider.Delta
	request  func(*provider.Request)
	response func(context.Context, *provider.Response)
	name     string
	poll     func(*provider.Response)
	cancel   error
}

func (b *broken) Poll(ctx context.Context, req provider.Request, handle session.DeferredHandle) provider.Response {
	r := b.Provider.(provider.Deferrer).Poll(ctx, req, handle)
	if b.poll != nil {
		b.poll(&r)
	}
	return r
}

func (b *broken) Cancel(ctx context.Context, handle session.DeferredHandle) error {
	return errors.Join(b.cancel, b.Provider.(provider.Deferrer).Cancel(ctx, handle))
}

func (b *broken) Name() string {
	if b.name != "" {
		return b.name
	}
	return b.Provider.Name()
}

func (b *broken) Stream(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
	if b.request != nil {
		b.request(&req)
	}
	r := b.Provider.Stream(ctx, req, func(d provider.Delta) {
		if b.delta != nil {
			d = b.delta(d)
		}
		if deltas != nil {
			deltas(d)
		}
	})
	if b.response != nil {
		b.response(ctx, &r)
	}
	return r
}

func sound() Kit {
	request := func(text string) provider.Request {
		return provider.Request{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, Attempt: 1,
			Messages: []session.Message{&session.UserMessage{Content: session.TextContent(text)}}}
	}
	cut := faux.Step{Content: session.TextContent("cut in the middle of it"), Error: "cut", ErrorAfterDeltas: 2}
	stuck := faux.Step{Content: session.TextContent("one"), Incidents: []faux.Incident{{AfterDeltas: 1, Do: faux.Hang}}}
	scene := func(text string, step faux.Step) faux.Scene {
		return faux.Scene{Match: faux.Prompt(text), Turns: faux.Turns(step)}
	}
	return Kit{
		Provider: faux.New(faux.Options{ChunkRunes: 4, Script: faux.Script{
			scene("text", faux.Text("a text of many words")),
			scene("thinking", faux.Step{Content: []session.Block{session.Thinking{Thinking: "hm"}, session.Text{Text: "so"}}}),
			scene("tools", faux.Step{Content: []session.Block{session.ToolCall{Name: "a", Arguments: `{"x":1}`}, session.ToolCall{Name: "b"}}}),
			scene("length", faux.Step{StopReason: session.StopLength}),
			scene("refused", faux.Fail("no", false)),
			scene("busy", faux.Step{Error: "busy", Retryable: true, RetryAfterMS: 9}),
			scene("broken", cut), scene("stuck", stuck),
			scene("overflow", faux.Step{Error: "too long", Overflow: true}),
			scene("deferred", faux.Defer(faux.Pending(), faux.Pending(), faux.Text("at last"))),
		}}),
		Text: request("text"), Thinking: request("thinking"), Tools: request("tools"), Length: request("length"),
		Refused: request("refused"), Busy: request("busy"), Broken: request("broken"), Overflow: request("overflow"), Stuck: request("stuck"),
		Deferred: request("deferred"),
	}
}

// TestEveryRowCanFail runs each row on the sound provider and on one that
// breaks what the row is about.
func TestEveryRowCanFail(t *testing.T) {
	set := func(f func(*provider.Response)) *broken {
		return &broken{response: func(_ context.Context, r *provider.Response) { f(r) }}
	}
	stop := func(reason session.StopReason) *broken {
		return set(func(r *provider.Response) { r.Message.StopReason, r.Message.ErrorMessage = reason, "broken" })
	}
	afterCancel := &broken{response: func(ctx context.Context, r *provider.Response) {
		if ctx.Err() != nil {
			r.Message.StopReason = map[session.StopReason]session.StopReason{
				session.StopAborted: session.StopError, session.StopError: session.StopAborted}[r.Message.StopReason]
		}
	}}
	breakers := map[string]*broken{
		"P01": stop(session.StopLength),
		"P02": set(func(r *provider.Response) { r.Message.Content = r.Message.Content[1:] }),
		"P03": stop(session.StopStop),
		"P04": stop(session.StopStop),
		"P05": set(func(r *provider.Response) { r.Retryable = true }),
		"P06": set(func(r *provider.Response) { r.RetryAfterMS = 0 }),
		"P07": set(func(r *provider.Response) { r.Message.Content = nil }),
		"P08": set(func(r *provider.Response) { r.Overflow = false }),
		"P09": afterCancel, "P10": afterCancel, "P11": afterCancel, "P12": afterCancel,
		"P13": stop(session.StopError),
		"P14": {delta: func(d provider.Delta) provider.Delta { return provider.TextDelta{Index: 0, Text: "?"} }},
		"P15": {request: func(r *provider.Request) { r.Messages = r.Messages[1:] }},
		"P16": {name: "someone else"},
		"P17": set(func(r *provider.Response) { r.Message.Deferred.ModelID = "another" }),
		"P18": {poll: func(r *provider.Response) {
			other := *r.Message.Deferred
			other.ID = "another"
			r.Message.Deferred = &other
		}},
		"P19": {poll: func(r *provider.Response) { r.Message.StopReason = session.StopLength }},
		"P20": {poll: func(r *provider.Response) { r.Message.StopReason = session.StopError }},
		"P21": {cancel: errors.New("there is none")},
	}
	for _, r := range rows {
		kit := sound()
		if err := r.run(kit, r.need(kit)); err != nil {
			t.Errorf("%s on a sound provider: %v", r.id, err)
		}
		b := breakers[r.id]
		if b == nil {
			t.Errorf("%s: nothing breaks it", r.id)
			continue
		}
		b.Provider = kit.Provider
		kit.Provider = b
		if err := r.run(kit, r.need(kit)); err == nil {
			t.Errorf("%s cannot fail", r.id)
		}
	}
}

func TestCheckFindsEachDefect(t *testing.T) {
	req := sound().Tools
	good := func() ([]provider.Delta, provider.Response) {
		m := provider.Empty(req, "api", session.StopToolUse, "")
		m.Content = []session.Block{session.Text{Text: "ab"}, session.ToolCall{ID: "1", Name: "n", Arguments: `{"x":1}`}}
		return []provider.Delta{
			provider.TextDelta{Index: 0, Text: "a"}, provider.TextDelta{Index: 0, Text: "b"},
			provider.ToolCallStart{Index: 1, ID: "1", Name: "n"}, provider.ToolArgumentsDelta{Index: 1, Arguments: `{"x": `}, provider.ToolArgumentsDelta{Index: 1, Arguments: `1}`},
		}, provider.Response{Message: m}
	}
	if deltas, r := good(); Check(req, deltas, r) != nil {
		t.Fatal(Check(req, deltas, r))
	}
	for name, spoil := range map[string]func([]provider.Delta, *provider.Response) []provider.Delta{
		"no message":  func(d []provider.Delta, r *provider.Response) []provider.Delta { r.Message = nil; return d },
		"wrong model": func(d []provider.Delta, r *provider.Response) []provider.Delta { r.Message.Model = "x"; return d },
		"no API":      func(d []provider.Delta, r *provider.Response) []provider.Delta { r.Message.API = ""; return d },
		"thinking level": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.ThinkingLevel = "x"
			return d
		},
		"timestamp": func(d []provider.Delta, r *provider.Response) []provider.Delta { r.Message.Timestamp = 1; return d },
		"unknown stop": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.StopReason = "end"
			return d
		},
		"error, no text": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.StopReason = "error"
			return d
		},
		"no handle": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.StopReason = "deferred"
			return d
		},
		"retryable":   func(d []provider.Delta, r *provider.Response) []provider.Delta { r.Retryable = true; return d },
		"retry after": func(d []provider.Delta, r *provider.Response) []provider.Delta { r.RetryAfterMS = 1; return d },
		"no usage":    func(d []provider.Delta, r *provider.Response) []provider.Delta { r.Message.Usage = ""; return d },
		"usage count": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.Usage = `{"input":-1}`
			return d
		},
		"usage cost": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.Usage = `{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2}`
			return d
		},
		"usage total": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.Usage = `{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":1}`
			return d
		},
		"no calls": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.Content = r.Message.Content[:1]
			return d[:2]
		},
		"call id": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.Content[1] = session.ToolCall{Name: "n", Arguments: `{"x":1}`}
			return d
		},
		"arguments array": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			r.Message.Content[1] = session.ToolCall{ID: "1", Name: "n", Arguments: `[]`}
			return d
		},
		"delta missing": func(d []provider.Delta, r *provider.Response) []provider.Delta { return d[1:] },
		"arguments cut": func(d []provider.Delta, r *provider.Response) []provider.Delta { return d[:4] },
		"nil delta":     func(d []provider.Delta, r *provider.Response) []provider.Delta { return append(d, nil) },
		"block missing": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			return append(d, provider.TextDelta{Index: 2, Text: "c"})
		},
		"kind changes": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			return append(d, provider.TextDelta{Index: 1, Text: "c"})
		},
		"call not started": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			return append(d, provider.ToolArgumentsDelta{Index: 2, Arguments: "{}"})
		},
		"started twice": func(d []provider.Delta, r *provider.Response) []provider.Delta { return append(d, d[2]) },
		"order": func(d []provider.Delta, r *provider.Response) []provider.Delta {
			return append(append([]provider.Delta{}, d[2:]...), d[:2]...)
		},
	} {
		deltas, r := good()
		deltas = spoil(deltas, &r)
		if err := Check(req, deltas, r); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

// TestRowsAreWellFormed holds that ids are stable and titles speak.
func TestRowsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.id] || !strings.HasPrefix(r.id, "P") || r.title == "" || r.why == "" {
			t.Errorf("row %+q", r.id)
		}
		seen[r.id] = true
	}
}
