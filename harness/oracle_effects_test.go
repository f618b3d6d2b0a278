package harness_test

import (
	"context"

	"pistore"
	"pistore/harness"
	"pistore/registers"
)

// Begin makes the oracle a tracer: no effect begins before its intent is
// durable.
func (o *oracle) Begin(ctx context.Context, s harness.Span) (context.Context, func(harness.SpanEnd)) {
	switch s.Kind {
	case harness.SpanRequest, harness.SpanTool, harness.SpanSleep:
		if problem := o.intended(s); problem != "" {
			o.fault("%s before its intent: %s", s.Kind, problem)
		}
	}
	return ctx, func(harness.SpanEnd) {}
}

// intended says how an effect was not announced.
func (o *oracle) intended(s harness.Span) string {
	at := pistore.Address{Namespace: registers.OpStateNS, Key: string(s.OperationID)}
	stored, ok := o.registers(at)[at]
	if !ok {
		return "the operation is not open"
	}
	state, err := registers.DecodeOpState(stored.Value)
	if err != nil {
		return err.Error()
	}
	var generation registers.Generation
	if sum := registers.SummaryOf(state); sum != nil && sum.Generating != nil {
		generation = sum.Generating.Generation
	}
	announced := false
	switch s.Kind {
	case harness.SpanRequest:
		switch ph := phaseIn(state).(type) {
		case *registers.AssistantPending:
			announced = ph.ResponseEntryID == s.EntryID && ph.Attempt == s.Attempt
		case *registers.DeferredPending:
			announced = ph.ResponseEntryID == s.EntryID
		}
		if g, ok := generation.(*registers.GenerationPending); ok {
			announced = g.Request != nil && g.Attempt == s.Attempt
		}
	case harness.SpanTool:
		_, announced = callsOf(state)[s.EntryID]
	case harness.SpanSleep:
		_, announced = phaseIn(state).(*registers.AssistantRetryWait)
		if _, ok := generation.(*registers.GenerationRetryWait); ok {
			announced = true
		}
	}
	if !announced {
		return string(stored.Value)
	}
	return ""
}
