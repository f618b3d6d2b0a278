package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"pistore"
	"pistore/harness"
	"pistore/memstore"
	"pistore/otel"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// marker stands for all content: wherever a text may be, it is one.
const marker = "XMARKERX"

// content is a run each of whose texts is a marker: a call that succeeds, one
// that fails, one of a tool that is not there, an error that is tried again, an
// answer.
func content() faux.Script {
	call := func(name string) session.Block {
		return session.ToolCall{ID: marker + name, Name: name, Arguments: `{"` + marker + `":"` + marker + `"}`}
	}
	return faux.Script{{Turns: []faux.Turn{
		{{Content: []session.Block{session.Text{Text: marker}, call("work"), call("fail"), call(marker)}}},
		{faux.Fail(marker, true), faux.Text(marker)},
	}}}
}

// traced is a harness whose spans are exported into memory.
type traced struct {
	t        *testing.T
	lane     *harness.Lane
	exported *tracetest.InMemoryExporter
	tracer   trace.Tracer
}

func newTraced(t *testing.T, script faux.Script, change func(*harness.Options)) *traced {
	t.Helper()
	ctx := t.Context()
	exported := tracetest.NewInMemoryExporter()
	spans := sdk.NewTracerProvider(sdk.WithSyncer(exported))
	storage, err := memstore.New(memstore.Options{}).Create(ctx, pistore.Info{ID: "s"})
	check(t, err)
	tools, err := tool.NewSet(
		tool.Tool{Name: "work", Description: marker, Parameters: `{"type":"object"}`, Execute: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			_, span := spans.Tracer("application").Start(ctx, "inside the tool")
			defer span.End()
			c.Progress(marker)
			return tool.Result{Content: session.TextContent(marker), Details: `"` + marker + `"`, Usage: `{"input":1}`}, nil
		}},
		tool.Tool{Name: "fail", Description: marker, Parameters: `{"type":"object"}`, Execute: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, errors.New(marker)
		}},
	)
	check(t, err)
	o := harness.Options{
		Providers: provider.NewSet(faux.New(faux.Options{Script: script})), Tools: tools, ToolExecution: registers.Sequential,
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}},
		SystemPrompt:  marker, StreamOptions: `{"key":"` + marker + `"}`, RetryPolicy: registers.RetryPolicy{MaxAttempts: 2},
		Tracer: otel.New(spans),
	}
	if change != nil {
		change(&o)
	}
	h, err := harness.New(storage, o)
	check(t, err)
	lane, err := h.Lane(ctx, registers.MainLane)
	check(t, err)
	t.Cleanup(func() {
		check(t, h.Close(context.Background()))
		check(t, storage.Close())
		check(t, spans.Shutdown(context.Background()))
	})
	return &traced{t, lane, exported, spans.Tracer("application")}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run prompts inside a span of the application and waits for the end.
func (r *traced) run(ctx context.Context, outcome registers.Outcome) {
	r.t.Helper()
	ctx, span := r.tracer.Start(ctx, "application")
	run, err := r.lane.Prompt(ctx, harness.Prompt{Text: marker})
	check(r.t, err)
	result, err := run.Wait(ctx)
	check(r.t, err)
	if result.Ended == nil || result.Ended.Outcome != outcome {
		r.t.Fatalf("the run came to %+v", result)
	}
	span.End()
}

// tree renders the spans as they nest, in the order in which they began.
func (r *traced) tree(show func(tracetest.SpanStub) string) string {
	all := r.exported.GetSpans()
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var b strings.Builder
	var below func(parent trace.SpanID, depth int)
	below = func(parent trace.SpanID, depth int) {
		for _, s := range all {
			if s.Parent.SpanID() == parent {
				fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), show(s))
				below(s.SpanContext.SpanID(), depth+1)
			}
		}
	}
	below(trace.SpanID{}, 0)
	return b.String()
}

// named shows a span by its name, what is particular about it, and how it ended.
func named(s tracetest.SpanStub) string {
	line := strings.TrimPrefix(s.Name, "pistore.")
	for _, a := range s.Attributes {
		switch a.Key {
		case "pistore.attempt", "gen_ai.tool.name", "pistore.wait_ms", "pistore.code", "pistore.operation.kind", "gen_ai.request.model":
			line += " " + a.Value.String()
		}
	}
	if s.Status.Code != codes.Unset {
		line += ": " + s.Status.Code.String()
	}
	if s.SpanKind == trace.SpanKindClient {
		line += " (client)"
	}
	return line
}

func TestSpanTree(t *testing.T) {
	r := newTraced(t, content(), nil)
	r.run(t.Context(), registers.Completed)
	const want = `application
  commit
  run run completed
    commit
    turn faux-1
      step faux-1
        request faux-1 1 toolUse (client)
        commit
      tool work
        inside the tool
      commit
      tool fail: Error
      commit
    turn faux-1
      step faux-1
        request faux-1 1 error: Error (client)
        commit
        sleep 0
        commit
        request faux-1 2 stop (client)
        commit
`
	if diff := cmp.Diff(want, r.tree(named)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// Spans say which session state they are about, and how much was used.
func TestAttributes(t *testing.T) {
	r := newTraced(t, content(), nil)
	r.run(t.Context(), registers.Completed)
	for _, s := range r.exported.GetSpans() {
		has := map[string]string{}
		for _, a := range s.Attributes {
			has[string(a.Key)] = a.Value.String()
		}
		wanted := map[string][]string{
			"pistore.run":     {"pistore.lane", "pistore.operation.id", "pistore.operation.kind", "pistore.operation.resumed", "pistore.status"},
			"pistore.turn":    {"pistore.lane", "pistore.operation.id", "pistore.turn.id", "gen_ai.provider.name", "gen_ai.request.model", "pistore.status"},
			"pistore.step":    {"pistore.turn.id", "gen_ai.request.model"},
			"pistore.request": {"pistore.entry.id", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "pistore.code"},
			"pistore.tool":    {"pistore.entry.id", "gen_ai.tool.name", "pistore.turn.id"},
			"pistore.commit":  {"pistore.commit.writes", "pistore.lane"},
			"pistore.sleep":   {"pistore.wait_ms"},
		}[s.Name]
		for _, key := range wanted {
			if has[key] == "" {
				t.Errorf("%s has no %s: %v", s.Name, key, has)
			}
		}
		if has["pistore.lane"] != "main" && wanted != nil {
			t.Errorf("%s is of lane %q", s.Name, has["pistore.lane"])
		}
	}
}

// No span holds any content, however the run ends.
func TestNoContent(t *testing.T) {
	for _, tt := range []struct {
		name    string
		script  faux.Script
		outcome registers.Outcome
	}{
		{"completed", content(), registers.Completed},
		{"failed", faux.Script{{Turns: faux.Turns(faux.Fail(marker, false))}}, registers.Failed},
		{"of an unknown reason", faux.Script{{Turns: faux.Turns(faux.Step{StopReason: marker, Content: session.TextContent(marker)})}}, registers.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newTraced(t, tt.script, func(o *harness.Options) {
				o.Hooks.BeforeRequest = append(o.Hooks.BeforeRequest, func(context.Context, harness.RequestPlan) (harness.RequestPlan, error) {
					return harness.RequestPlan{}, errors.New(marker)
				})
				o.Hooks.AfterResponse = append(o.Hooks.AfterResponse, func(context.Context, harness.ResponseReview) (harness.ResponseReview, error) {
					panic(marker)
				})
			})
			r.run(t.Context(), tt.outcome)
			spans := r.exported.GetSpans()
			if len(spans) < 8 {
				t.Fatalf("%d spans", len(spans))
			}
			readable := false
			for _, s := range spans {
				text := fmt.Sprintf("%+v", s)
				readable = readable || strings.Contains(text, "faux-1")
				if strings.Contains(text, marker) {
					t.Errorf("content is in %s", text)
				}
			}
			if !readable {
				t.Error("the values of attributes cannot be seen")
			}
		})
	}
}
