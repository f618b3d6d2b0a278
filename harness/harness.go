package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// Drive says how effects are executed.
type Drive int

const (
	// Automatic executes each effect as soon as it is due.
	Automatic Drive = iota
	// Manual parks before each effect until [Lane.Step] releases it. Both
	// drives leave equal commits.
	Manual
)

// Options of a harness. The zero value has no models and no tools and takes
// nothing but what is restored.
type Options struct {
	Providers provider.Set
	Tools     *tool.Set
	// Configuration seeds lane.config when a lane accepts its first prompt.
	// Nil ActiveToolNames are all tools; an empty ThinkingLevel is "off".
	Configuration registers.LaneConfiguration
	// SystemPrompt is sent with every request; it is not stored.
	SystemPrompt string
	// ToolExecution is captured by each run: Parallel unless set.
	ToolExecution registers.ToolExecution
	// SteeringMode and FollowUpMode say how many of the waiting inputs one
	// checkpoint takes; they are captured by each run: OneAtATime unless set.
	SteeringMode registers.QueueMode
	FollowUpMode registers.QueueMode
	// RetryPolicy is captured by each step: 4 attempts from 2,000 ms unless set.
	RetryPolicy registers.RetryPolicy
	// Compaction says when a run compacts its context, and how far.
	Compaction Compaction
	// StreamOptions, a JSON object, is captured by each step for the provider.
	StreamOptions pistore.JSON
	// Hooks are awaited calls into the application.
	Hooks Hooks
	// Projectors give custom entries a place in the context, by customType.
	Projectors session.Projectors

	Drive Drive
	// OnEvent is called with every event, one at a time for each lane. It must
	// return soon; a panic in it is reported and goes no further. It may call
	// back into the lane. What waits for it waits for ever if it does not
	// return: [Harness.Close] without a deadline, and in manual drive Step and
	// Settle of its lane, are not to be called from it.
	OnEvent func(Event)
	// Tracer is told of the work as it begins and ends; nil: nobody is.
	Tracer Tracer

	// Clock, Rand and Sleep replace the system's. Sleep returns at the
	// instant, or with the context's error when that ends before.
	Clock pistore.Clock
	Rand  io.Reader
	Sleep func(ctx context.Context, until pistore.UnixMS) error
}

// Compaction is how a context is kept small. A compaction replaces the older
// part of a conversation, for the model, by a summary.
type Compaction struct {
	// ByHand leaves it to [Lane.Compact]: a run neither compacts when its context
	// fills up nor when a provider finds it too large.
	ByHand bool
	// ReserveTokens is what of a model's context window is to stay free: a
	// context that is larger is compacted. 0: 16,384; at most half of the window.
	ReserveTokens int64
	// KeepRecentTokens is how much of the newest part stays as it is. 0: 20,000;
	// at most half of what the reserve leaves.
	KeepRecentTokens int64
}

func (o Compaction) settings() (registers.CompactionSettings, error) {
	s := registers.CompactionSettings{Enabled: !o.ByHand, ReserveTokens: o.ReserveTokens, KeepRecentTokens: o.KeepRecentTokens}
	if s.ReserveTokens == 0 {
		s.ReserveTokens = 16384
	}
	if s.KeepRecentTokens == 0 {
		s.KeepRecentTokens = 20000
	}
	if s.ReserveTokens != storable(s.ReserveTokens) || s.KeepRecentTokens != storable(s.KeepRecentTokens) {
		return s, fmt.Errorf("%w: compaction with a reserve of %d and %d kept tokens", pistore.ErrInvalid, s.ReserveTokens, s.KeepRecentTokens)
	}
	return s, nil
}

// Harness runs the lanes of one session. It is safe for concurrent use.
type Harness struct {
	storage pistore.Storage
	env     environment
	planner planner
	drive   Drive
	onEvent func(Event)
	tracer  Tracer
	clock   pistore.Clock
	ids     *pistore.IDs
	sleep   func(context.Context, pistore.UnixMS) error
	hooks   *Hooks // those of env

	ctx    context.Context // ends when the harness is closed or faulted
	cancel context.CancelFunc

	mu     sync.Mutex // guards what follows
	lanes  map[string]*Lane
	sealed error          // why nothing is admitted any more: ErrClosed or ErrFaulted
	active map[string]int // handlers under way, by name, for Close to tell
	busy   int            // goroutines of lanes, and whoever holds a line: what Close waits for
	still  chan struct{}  // closed while busy is 0
}

// New returns a harness over an open session, which stays the caller's to
// close, after the harness. It touches nothing: lanes are restored when they
// are asked for. Errors match pistore.ErrInvalid.
func New(storage pistore.Storage, o Options) (*Harness, error) {
	if storage == nil {
		return nil, fmt.Errorf("harness: %w: no storage", pistore.ErrInvalid)
	}
	env, err := newEnvironment(o)
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	h := &Harness{
		storage: storage, env: env, planner: planner{next, apply}, drive: o.Drive, onEvent: o.OnEvent, tracer: o.Tracer,
		clock: o.Clock, sleep: o.Sleep, lanes: map[string]*Lane{}, active: map[string]int{}, still: make(chan struct{}),
	}
	h.hooks = h.env.hooks
	close(h.still)
	if h.clock == nil {
		h.clock = pistore.SystemClock
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	h.ids = pistore.NewIDs(h.clock, o.Rand)
	if h.sleep == nil {
		h.sleep = h.sleepReally
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// newEnvironment fills in the defaults and checks what can be checked.
func newEnvironment(o Options) (environment, error) {
	env := environment{
		providers: o.Providers, tools: o.Tools, seed: o.Configuration,
		retryPolicy: o.RetryPolicy, streamOptions: "{}", projectors: o.Projectors,
		hooks: o.Hooks.own(),
		settings: registers.Settings{
			SteeringMode: o.SteeringMode, FollowUpMode: o.FollowUpMode,
			ToolExecution: o.ToolExecution,
		},
	}
	var err error
	if env.settings.Compaction, err = o.Compaction.settings(); err != nil {
		return env, err
	}
	if o.SystemPrompt != "" {
		env.system = session.TextContent(o.SystemPrompt)
	}
	for _, mode := range []*registers.QueueMode{&env.settings.SteeringMode, &env.settings.FollowUpMode} {
		switch *mode {
		case "":
			*mode = registers.OneAtATime
		case registers.OneAtATime, registers.All:
		default:
			return env, fmt.Errorf("%w: queue mode %q", pistore.ErrInvalid, *mode)
		}
	}
	switch o.ToolExecution {
	case "":
		env.settings.ToolExecution = registers.Parallel
	case registers.Parallel, registers.Sequential:
	default:
		return env, fmt.Errorf("%w: tool execution %q", pistore.ErrInvalid, o.ToolExecution)
	}
	if env.seed.ThinkingLevel == "" {
		env.seed.ThinkingLevel = "off"
	}
	if env.seed.ActiveToolNames == nil {
		env.seed.ActiveToolNames = o.Tools.Names()
	}
	env.seed.ActiveToolNames = append([]string{}, env.seed.ActiveToolNames...)
	if env.retryPolicy == (registers.RetryPolicy{}) {
		env.retryPolicy = registers.RetryPolicy{MaxAttempts: 4, BaseDelayMS: 2000}
	}
	if p := env.retryPolicy; p.MaxAttempts < 1 || p.MaxAttempts > pistore.MaxSeq || p.BaseDelayMS < 0 || p.BaseDelayMS > pistore.MaxSeq {
		return env, fmt.Errorf("%w: retry policy of %d attempts from %d ms", pistore.ErrInvalid, env.retryPolicy.MaxAttempts, env.retryPolicy.BaseDelayMS)
	}
	if o.StreamOptions != "" {
		options, err := pistore.CompactJSON(string(o.StreamOptions))
		if err != nil {
			return env, fmt.Errorf("stream options: %w", err)
		}
		if !options.IsObject() {
			return env, fmt.Errorf("%w: stream options are not a JSON object", pistore.ErrInvalid)
		}
		env.streamOptions = options
	}
	return env, nil
}

// Lane returns a lane, restored from the store when it is first asked for: it
// is idle, or suspended with an operation that [Lane.Resume] continues.
// Nothing is started. A session that has no lane yet gets main by one commit.
// Errors: ErrInvalidLane, ErrUnknownLane, pistore.ErrCorrupt where what the
// lane's registers name is not there.
func (h *Harness) Lane(ctx context.Context, name string) (*Lane, error) {
	if err := registers.CheckLane(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidLane, err)
	}
	h.mu.Lock()
	l := h.lanes[name]
	if l == nil {
		l = newLane(h, name)
		h.lanes[name] = l
	}
	h.mu.Unlock()
	if err := l.restoreOnce(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Close is a controlled crash: nothing more is admitted, handlers are
// cancelled, nothing is written, and commits under way finish. What is stored
// is what a SIGKILL would have left. Handlers that still run when ctx ends are
// abandoned and named in the error; they can commit nothing any more. Close is
// idempotent: a later call waits for those again. The storage stays open.
func (h *Harness) Close(ctx context.Context) error {
	h.seal(fmt.Errorf("harness: %w", pistore.ErrClosed))
	h.mu.Lock()
	still := h.still
	h.mu.Unlock()
	select {
	case <-still:
		return nil
	default:
	}
	select {
	case <-still:
		return nil
	case <-ctx.Done():
		if names := h.handlers(); names != "" {
			return fmt.Errorf("harness: closed with handlers abandoned: %s: %w", names, ctx.Err())
		}
		return fmt.Errorf("harness: closed before its lanes were still: %w", ctx.Err())
	}
}

// admit counts in a caller who wants to decide something, unless the harness
// is sealed: what was admitted before Close is over when Close returns.
func (h *Harness) admit() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sealed != nil {
		return h.sealed
	}
	h.enterLocked()
	return nil
}

// enter counts in a goroutine that starts; whoever starts it is counted in too.
func (h *Harness) enter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enterLocked()
}

func (h *Harness) enterLocked() {
	if h.busy == 0 {
		h.still = make(chan struct{})
	}
	h.busy++
}

func (h *Harness) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy--; h.busy == 0 {
		close(h.still)
	}
}

// seal refuses everything from now on and lets every Wait return. It reports
// whether the harness had not faulted before.
func (h *Harness) seal(cause error) bool {
	h.mu.Lock()
	first := !errors.Is(h.sealed, pistore.ErrFaulted)
	if h.sealed == nil {
		h.sealed = cause
	}
	cause = h.sealed
	lanes := make([]*Lane, 0, len(h.lanes))
	for _, l := range h.lanes {
		lanes = append(lanes, l)
	}
	h.mu.Unlock()
	h.cancel()
	for _, l := range lanes {
		l.gate.seal(cause)
		l.handle().seal(cause)
	}
	return first
}

// handlers names the application code that still runs.
func (h *Harness) handlers() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(h.active)), ", ")
}

// sealedBy says why nothing is admitted, or nil.
func (h *Harness) sealedBy() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sealed
}

// sleepReally waits by the wall clock; an instant that has passed is no wait.
func (h *Harness) sleepReally(ctx context.Context, until pistore.UnixMS) error {
	const longestMS = pistore.UnixMS(math.MaxInt64 / time.Millisecond) // some 292 years
	timer := time.NewTimer(time.Duration(min(until-h.clock.Read(), longestMS)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
