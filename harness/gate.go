package harness

import (
	"context"
	"errors"
	"slices"
	"sync"

	"pistore"
)

// Effect describes an effect that waits at the gate in manual drive. It
// marshals as the JSON that a person sees.
type Effect struct {
	ID     int64        `json:"id"` // rising in the order in which effects were asked for
	Kind   EffectKind   `json:"kind"`
	Lane   string       `json:"lane"`
	Detail pistore.JSON `json:"detail"` // what exactly: the transaction, the request, the call
}

// EffectKind is the kind of an effect.
type EffectKind string

// The kinds of effect.
const (
	EffectCommit  EffectKind = "commit"
	EffectRequest EffectKind = "request"
	EffectTool    EffectKind = "tool"
	EffectSleep   EffectKind = "sleep"
	EffectHook    EffectKind = "hook"
	EffectCancel  EffectKind = "cancel" // of a deferred response
)

// gate is where every effect of a lane passes. In automatic drive it is always
// open. In manual drive each effect parks until it is released, and the gate
// knows when nothing moves any more: busy counts the goroutines of the lane's
// procedure that are neither parked nor waiting for one that is.
type gate struct {
	manual bool

	mu     sync.Mutex // guards what follows
	lastID int64
	parked []*ticket
	busy   int
	still  chan struct{} // closed when busy falls to 0, replaced when it rises
	sealed error
}

// ticket is an effect on its way through the gate.
type ticket struct {
	effect Effect
	open   chan struct{} // closed on release
	gone   bool
	// Guarded by the gate: refused says that refuse released it, and without is
	// what happens in its place then.
	refused bool
	without func()
}

// errRefused: the effect must not be executed, since its operation was asked to
// stop.
var errRefused = errors.New("refused")

func newGate(manual bool) *gate {
	still := make(chan struct{})
	close(still)
	return &gate{manual: manual, still: still}
}

// enter counts a goroutine in before it starts or is woken; leave counts it
// out when it ends or waits.
func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.enterLocked()
}

func (g *gate) enterLocked() {
	if g.busy == 0 {
		g.still = make(chan struct{})
	}
	g.busy++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked()
}

func (g *gate) leaveLocked() {
	if g.busy--; g.busy == 0 {
		close(g.still)
	}
}

// announce registers an effect. Announcing apart from passing keeps effects in
// the order in which the procedure asked for them, whichever goroutine comes
// to the gate first. The detail is made in manual drive only.
func (g *gate) announce(kind EffectKind, lane string, detail func() pistore.JSON) *ticket {
	if !g.manual {
		return nil
	}
	t := &ticket{effect: Effect{Kind: kind, Lane: lane, Detail: detail()}, open: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lastID++
	t.effect.ID = g.lastID
	g.parked = append(g.parked, t)
	return t
}

// pass waits until the effect is released. It fails when the gate is sealed or
// the context ends; the effect must not be executed then.
func (g *gate) pass(ctx context.Context, t *ticket) error {
	if t == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.sealed
	}
	if err := g.wait(ctx, t); err != nil {
		return err
	}
	select {
	case <-t.open:
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.sealed == nil && t.refused {
			return errRefused
		}
		return g.sealed
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if !t.gone {
			g.remove(t)
			g.enterLocked()
		}
		if t.refused {
			return errRefused
		}
		return ctx.Err()
	}
}

// wait counts the caller out, who is about to wait. With a context that has ended
// nobody waits: it must not look as if the lane were at rest meanwhile.
func (g *gate) wait(ctx context.Context, t *ticket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil && !t.gone {
		g.remove(t)
		return err
	}
	g.leaveLocked()
	return nil
}

func (g *gate) remove(t *ticket) {
	t.gone = true
	g.parked = slices.DeleteFunc(g.parked, func(o *ticket) bool { return o == t })
}

// release lets one effect pass: the one with the id, or the oldest for id 0.
func (g *gate) release(id int64) (Effect, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.parked {
		if id == 0 || t.effect.ID == id {
			g.releaseLocked(t)
			return t.effect, nil
		}
	}
	return Effect{}, ErrNotParked
}

// releaseLocked counts the goroutine in on its behalf, so that nobody sees the
// lane at rest between release and waking.
func (g *gate) releaseLocked(t *ticket) {
	g.remove(t)
	g.enterLocked()
	close(t.open)
}

// seal refuses every effect from now on, parked ones included.
func (g *gate) seal(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealed == nil {
		g.sealed = cause
	}
	for len(g.parked) > 0 {
		g.releaseLocked(g.parked[0])
	}
}

// refuse turns back every effect that is parked, in the order in which they
// were asked for.
func (g *gate) refuse() {
	var instead []func()
	g.mu.Lock()
	for len(g.parked) > 0 {
		t := g.parked[0]
		t.refused = true
		if t.without != nil {
			instead = append(instead, t.without)
		}
		g.releaseLocked(t)
	}
	g.mu.Unlock()
	for _, f := range instead {
		f()
	}
}

// whenRefused says what is to happen in place of an effect that is refused.
func (g *gate) whenRefused(t *ticket, without func()) {
	if t == nil {
		return
	}
	g.mu.Lock()
	t.without = without
	late := t.refused
	g.mu.Unlock()
	if late {
		without()
	}
}

// settle waits until nothing of the lane's procedure moves.
func (g *gate) settle(ctx context.Context) error {
	g.mu.Lock()
	still := g.still
	g.mu.Unlock()
	select {
	case <-still:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) peek() []Effect {
	g.mu.Lock()
	defer g.mu.Unlock()
	effects := make([]Effect, len(g.parked))
	for i, t := range g.parked {
		effects[i] = t.effect
	}
	return effects
}
