package harness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/tool"
)

// spanLog is a Tracer that keeps the tree of spans.
type spanLog struct {
	mu    sync.Mutex // guards what follows
	roots []*spanNode
	open  int
}

type spanNode struct {
	span  harness.Span
	ends  []harness.SpanEnd
	under []*spanNode
}

type spanKey struct{}

func (l *spanLog) Begin(ctx context.Context, s harness.Span) (context.Context, func(harness.SpanEnd)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &spanNode{span: s}
	l.open++
	if parent, ok := ctx.Value(spanKey{}).(*spanNode); ok {
		parent.under = append(parent.under, n)
	} else {
		l.roots = append(l.roots, n)
	}
	return context.WithValue(ctx, spanKey{}, n), func(e harness.SpanEnd) {
		l.mu.Lock()
		defer l.mu.Unlock()
		n.ends = append(n.ends, e)
		l.open--
	}
}

// tree renders the spans, those below a span indented.
func (l *spanLog) tree() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	var show func(depth int, nodes []*spanNode)
	show = func(depth int, nodes []*spanNode) {
		for _, n := range nodes {
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), renderSpan(n))
			show(depth+1, n.under)
		}
	}
	show(0, l.roots)
	return b.String()
}

func renderSpan(n *spanNode) string {
	s := n.span
	line := string(s.Kind)
	for _, part := range []string{string(s.Operation), s.Name, s.Model.ModelID} {
		if part != "" {
			line += " " + part
		}
	}
	for _, m := range []struct {
		name string
		n    int64
	}{{"attempt", s.Attempt}, {"wait", s.WaitMS}, {"writes", int64(s.Writes)}} {
		if m.n != 0 {
			line += fmt.Sprintf(" %s=%d", m.name, m.n)
		}
	}
	if s.Resumed {
		line += " resumed"
	}
	for _, e := range n.ends {
		line += strings.TrimRight(fmt.Sprintf(": %s %s", e.Status, e.Code), " ")
		if e.Tokens != nil {
			line += fmt.Sprintf(" %d+%d tokens", e.Tokens.Input, e.Tokens.Output)
		}
	}
	return line
}

// contextTool is a tool and contextProvider a provider that open a span of
// their own in the context that they get.
func contextTool(l *spanLog) tool.Tool {
	return tool.Tool{Name: "spanning", Parameters: anyObject, Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		_, end := l.Begin(ctx, harness.Span{Kind: "inside the tool"})
		end(harness.SpanEnd{Status: harness.SpanOK})
		return tool.Text("did"), nil
	}}
}

type contextProvider struct {
	*faux.Provider
	spans *spanLog
}

func (p contextProvider) Stream(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
	_, end := p.spans.Begin(ctx, harness.Span{Kind: "inside the provider"})
	defer end(harness.SpanEnd{Status: harness.SpanOK})
	return p.Provider.Stream(ctx, req, deltas)
}

// Work of each kind has its span, inside the one that it belongs to, in either
// drive; what application code opens lies inside, and a run lies in what the
// caller of Prompt has open.
func TestSpansNest(t *testing.T) {
	script := faux.Script{{Turns: []faux.Turn{{faux.Call("spanning", `{}`)}, {faux.Fail("overloaded", true), faux.Text("Done.")}}}}
	const want = `the caller
  commit writes=6: ok
  run run: ok completed
    commit writes=1: ok
    turn faux-1: ok
      step faux-1: ok
        request faux-1 attempt=1: ok toolUse 146+3 tokens
          inside the provider: ok
        commit writes=5: ok
      tool spanning: ok
        inside the tool: ok
      commit writes=4: ok
    turn faux-1: ok
      step faux-1: ok
        request faux-1 attempt=1: error error 0+0 tokens
          inside the provider: ok
        commit writes=4: ok
        sleep wait=2000: ok
        commit writes=1: ok
        request faux-1 attempt=2: ok stop 4+2 tokens
          inside the provider: ok
        commit writes=7: ok
`
	for _, drive := range []harness.Drive{harness.Automatic, harness.Manual} {
		spans := &spanLog{}
		r := newRig(t, config{
			drive: drive, extra: []tool.Tool{contextTool(spans)},
			provider: contextProvider{faux.New(faux.Options{Script: script}), spans},
			options:  func(o *harness.Options) { o.Tracer = spans },
		})
		ctx, end := spans.Begin(r.ctx, harness.Span{Kind: "the caller"})
		ctx, cancel := context.WithCancel(ctx)
		_, err := r.lane.Prompt(ctx, harness.Prompt{Text: "go"})
		r.check(err)
		cancel() // what ends the caller's context does not end the run
		r.completed(r.finish())
		if spans.open != 1 {
			t.Errorf("%d spans are open when Wait has returned", spans.open-1)
		}
		if diff := cmp.Diff(want, spans.tree()); diff != "" {
			t.Errorf("drive %d, spans (-want +got):\n%s", drive, diff)
		}
		end(harness.SpanEnd{})
	}
}

// A run that is closed leaves spans that say so; the resumed one has its own.
func TestSpansOfAClosedRun(t *testing.T) {
	spans := &spanLog{}
	p, called := hanging()
	traced := func(o *harness.Options) { o.Tracer = spans }
	r := newRig(t, config{provider: p, options: traced})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	await(r, called)
	rows := r.rows()
	r.check(r.h.Close(r.ctx))
	const closed = `commit writes=6: ok
run run: abandoned
  commit writes=1: ok
  turn: abandoned
    step: abandoned
      request attempt=1: aborted aborted 0+0 tokens
`
	if diff := cmp.Diff(closed, strings.ReplaceAll(spans.tree(), " faux-1", "")); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	*spans = spanLog{}
	r = newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Done."))}}, rows: rows, options: traced, seed: 1})
	_, err = r.lane.Resume(r.ctx)
	r.check(err)
	r.completed(r.finish())
	if got := spans.tree(); !strings.HasPrefix(got, "run run resumed: ok completed\n") || spans.open != 0 {
		t.Errorf("%d spans open of\n%s", spans.open, got)
	}
}

// failingTracer fails in one way or another.
type failingTracer struct {
	spans  *spanLog
	begins func(harness.Span) bool // which spans fail at once
	ends   bool                    // those that do not fail as they end
	how    func()
}

func (f failingTracer) Begin(ctx context.Context, s harness.Span) (context.Context, func(harness.SpanEnd)) {
	if f.begins(s) {
		if f.how == nil {
			return nil, nil //nolint:staticcheck // a tracer that breaks its contract
		}
		f.how()
	}
	inside, end := f.spans.Begin(ctx, s)
	return inside, func(e harness.SpanEnd) {
		if f.ends {
			f.how()
		}
		end(e)
	}
}

// A tracer that fails takes nothing along: the run ends as it would have, and
// the failure is told.
func TestFailingTracer(t *testing.T) {
	every := func(harness.Span) bool { return true }
	none := func(harness.Span) bool { return false }
	for name, f := range map[string]failingTracer{
		"panics as spans begin": {begins: every, how: func() { panic("out of cheese") }},
		"returns nil":           {begins: every},
		"panics as spans end":   {begins: none, ends: true, how: func() { panic("out of cheese") }},
		"panics for tools":      {begins: func(s harness.Span) bool { return s.Kind == harness.SpanTool }, how: func() { panic("out of cheese") }},
	} {
		t.Run(name, func(t *testing.T) {
			f.spans = &spanLog{}
			log := &eventLog{}
			r := newRig(t, config{
				script:  faux.Script{{Turns: faux.Turns(faux.Call("append", `{"text":"one"}`), faux.Text("Done."))}},
				onEvent: log.hear, options: func(o *harness.Options) { o.Tracer = f },
			})
			r.completed(r.prompt("go"))
			want := []string{"user: go", `assistant:  [append {"text":"one"}]`, `result of append: append did "one"`, "assistant: Done."}
			if diff := cmp.Diff(want, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
			r.check(r.h.Close(r.ctx))
			told := slices.ContainsFunc(log.events, func(ev harness.Event) bool {
				failed, ok := ev.(harness.HandlerError)
				return ok && failed.Handler == "tracer" && failed.Err != nil
			})
			if !told {
				t.Error("nobody was told")
			}
		})
	}
}

// A commit that meets a conflict has a span that says so.
func TestSpanOfAConflict(t *testing.T) {
	spans := &spanLog{}
	r := newRig(t, config{
		script: faux.Script{{Turns: faux.Turns(faux.Text("Done."))}}, drive: harness.Manual,
		options: func(o *harness.Options) { o.Tracer = spans },
	})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	r.check(r.lane.Settle(r.ctx))
	_, err = r.store.Storage.Commit(r.ctx, pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{
		Namespace: "lane.config", Key: "main", Value: r.register("lane.config", "main"),
	}}})
	r.check(err)
	r.completed(r.finish())
	if got := spans.tree(); !strings.Contains(got, "commit writes=1: error conflict\n") {
		t.Errorf("spans:\n%s", got)
	}
}

// The spans of a compaction, of its requests and their retry, and of the call
// that gives a deferred response up; none says what anything is about.
func TestSpansOfOtherWork(t *testing.T) {
	spans := &spanLog{}
	traced := func(o *harness.Options) { o.Tracer = spans }
	r := newSummaryRig(t, config{options: traced}, fill, summaryScene(faux.Fail("overloaded", true), faux.Text("SUMMARY")))
	r.completed(r.prompt("fill"))
	*spans = spanLog{}
	r.completed(r.compact("be brief"))
	const compaction = `commit writes=4: ok
run compaction: ok completed
  commit writes=1: ok
  step faux-1: ok
    request faux-1 attempt=1: error error 0+0 tokens
    commit writes=2: ok
    sleep wait=2000: ok
    commit writes=1: ok
    request faux-1 attempt=2: ok stop 293+2 tokens
    commit writes=8: ok
`
	if diff := cmp.Diff(compaction, spans.tree()); diff != "" {
		t.Errorf("spans of a compaction (-want +got):\n%s", diff)
	}
	for _, text := range []string{"SUMMARY", "be brief", "overloaded", "fill"} {
		if strings.Contains(spans.everything(), text) {
			t.Errorf("%q is in a span", text)
		}
	}

	*spans = spanLog{}
	r = newRig(t, config{script: laterRun, options: traced})
	r.suspended(r.prompt("go"))
	_, err := r.lane.Abort(r.ctx)
	r.check(err)
	result, err := r.lane.Handle().Wait(r.ctx)
	r.check(err)
	if result.Ended == nil {
		t.Fatal(describe(result))
	}
	for _, line := range []string{"run run: suspended deferred\n", "run run resumed: aborted aborted\n", "      cancel faux-1: ok\n"} {
		if !strings.Contains(spans.tree(), line) {
			t.Errorf("no %q in\n%s", line, spans.tree())
		}
	}
}

// everything is all that the spans hold.
func (l *spanLog) everything() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	var show func([]*spanNode)
	show = func(nodes []*spanNode) {
		for _, n := range nodes {
			fmt.Fprintf(&b, "%+v %+v\n", n.span, n.ends)
			show(n.under)
		}
	}
	show(l.roots)
	return b.String()
}
