package harness

import (
	"context"
	"errors"
	"testing"

	"pistore"
)

// An effect whose context has ended does not wait, and nobody takes its lane to be
// at rest on its account.
func TestEndedEffectIsNoRest(t *testing.T) {
	g := newGate(true)
	g.enter()
	still := g.still
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ticket := g.announce(EffectRequest, "main", func() pistore.JSON { return "{}" })
	if err := g.pass(ctx, ticket); !errors.Is(err, context.Canceled) {
		t.Errorf("it passes with %v", err)
	}
	select {
	case <-still:
		t.Error("the lane was at rest meanwhile")
	default:
	}
	if len(g.peek()) != 0 || g.busy != 1 {
		t.Errorf("%d effects are parked, %d goroutines count", len(g.peek()), g.busy)
	}
}
