// Package otel shows the work of a harness as OpenTelemetry spans. It is a
// package of its own so that nobody who imports another one gets OpenTelemetry
// with it; it imports harness and the OpenTelemetry API, no SDK.
package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"pistore/harness"
)

// The attributes of spans. Those that the semantic conventions of OpenTelemetry
// name are named as there. None holds a prompt, an argument, a result, the text
// of an error or a credential: a [harness.Tracer] learns of none.
const (
	attrLane      = attribute.Key("pistore.lane")
	attrOperation = attribute.Key("pistore.operation.id")
	attrKind      = attribute.Key("pistore.operation.kind")
	attrResumed   = attribute.Key("pistore.operation.resumed")
	attrTurn      = attribute.Key("pistore.turn.id")
	attrEntry     = attribute.Key("pistore.entry.id")
	attrAttempt   = attribute.Key("pistore.attempt")
	attrWait      = attribute.Key("pistore.wait_ms")
	attrWrites    = attribute.Key("pistore.commit.writes")
	attrHook      = attribute.Key("pistore.hook")
	attrStatus    = attribute.Key("pistore.status")
	attrCode      = attribute.Key("pistore.code")

	attrProvider   = attribute.Key("gen_ai.provider.name")
	attrModel      = attribute.Key("gen_ai.request.model")
	attrTool       = attribute.Key("gen_ai.tool.name")
	attrInput      = attribute.Key("gen_ai.usage.input_tokens")
	attrOutput     = attribute.Key("gen_ai.usage.output_tokens")
	attrCacheRead  = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	attrCacheWrite = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
)

// Tracer makes a span of each piece of work of a harness. It is safe for
// concurrent use, by several harnesses too.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer whose spans go to a provider, which stays the caller's to
// shut down, after the harness is closed.
func New(provider trace.TracerProvider) *Tracer {
	return &Tracer{provider.Tracer("pistore/otel")}
}

// Begin is part of [harness.Tracer].
func (t *Tracer) Begin(ctx context.Context, s harness.Span) (context.Context, func(harness.SpanEnd)) {
	kind := trace.SpanKindInternal
	if s.Kind == harness.SpanRequest || s.Kind == harness.SpanCancel {
		kind = trace.SpanKindClient
	}
	ctx, span := t.tracer.Start(ctx, "pistore."+string(s.Kind), trace.WithSpanKind(kind), trace.WithAttributes(attributes(s)...))
	return ctx, func(e harness.SpanEnd) {
		end(span, e)
		span.End()
	}
}

func attributes(s harness.Span) []attribute.KeyValue {
	all := []attribute.KeyValue{attrLane.String(s.Lane)}
	text := func(key attribute.Key, value string) {
		if value != "" {
			all = append(all, key.String(value))
		}
	}
	text(attrOperation, string(s.OperationID))
	text(attrTurn, string(s.TurnID))
	text(attrEntry, string(s.EntryID))
	text(attrProvider, s.Model.Provider)
	text(attrModel, s.Model.ModelID)
	switch s.Kind {
	case harness.SpanRun:
		all = append(all, attrKind.String(string(s.Operation)), attrResumed.Bool(s.Resumed))
	case harness.SpanRequest:
		all = append(all, attrAttempt.Int64(s.Attempt))
	case harness.SpanTool:
		text(attrTool, s.Name)
	case harness.SpanHook:
		text(attrHook, s.Name)
	case harness.SpanSleep:
		all = append(all, attrWait.Int64(s.WaitMS))
	case harness.SpanCommit:
		all = append(all, attrWrites.Int(s.Writes))
	}
	return all
}

// end says how the work ended. Only what failed has a status of OpenTelemetry:
// to be stopped, suspended or abandoned is no failure.
func end(span trace.Span, e harness.SpanEnd) {
	span.SetAttributes(attrStatus.String(string(e.Status)))
	if e.Code != "" {
		span.SetAttributes(attrCode.String(e.Code))
	}
	if e.Status == harness.SpanError {
		span.SetStatus(codes.Error, e.Code)
	}
	if u := e.Tokens; u != nil {
		span.SetAttributes(attrInput.Int64(u.Input), attrOutput.Int64(u.Output), attrCacheRead.Int64(u.CacheRead), attrCacheWrite.Int64(u.CacheWrite))
	}
}
