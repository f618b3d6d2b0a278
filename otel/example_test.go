package otel_test

import (
	"context"
	"errors"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"pistore"
	"pistore/harness"
	"pistore/memstore"
	"pistore/otel"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
)

// A harness whose spans go to an exporter: here into memory, in a service to a
// collector.
func ExampleNew() {
	ctx := context.Background()
	exporter := tracetest.NewInMemoryExporter()
	spans := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	defer func() { _ = spans.Shutdown(ctx) }()

	storage, err := memstore.New(memstore.Options{}).Create(ctx, pistore.Info{ID: "s"})
	if err != nil {
		panic(err)
	}
	h, err := harness.New(storage, harness.Options{
		Providers:     provider.NewSet(faux.New(faux.Options{Script: faux.Script{{Turns: faux.Turns(faux.Text("Hello."))}}})),
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}},
		Tracer:        otel.New(spans),
	})
	if err != nil {
		panic(err)
	}
	lane, err := h.Lane(ctx, registers.MainLane)
	if err != nil {
		panic(err)
	}
	run, err := lane.Prompt(ctx, harness.Prompt{Text: "Greet me."})
	if err != nil {
		panic(err)
	}
	if _, err := run.Wait(ctx); err != nil {
		panic(err)
	}
	if err := errors.Join(h.Close(ctx), storage.Close()); err != nil {
		panic(err)
	}
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// pistore.commit
	// pistore.commit
	// pistore.request
	// pistore.commit
	// pistore.step
	// pistore.turn
	// pistore.run
}
