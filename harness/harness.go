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
	"sync/atomic"
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
	// back into the lane. The public call that an event comes from returns behind
	// it, whatever its context, unless somebody delivers already. What waits for it waits for ever if it does not
	// return: [Harness.Close] without a deadline, and in manual drive Step and
	// Settle of its lane, are not to be called from it.
	OnEvent func(Event)
	// Tracer is told of the work as it begins and ends; nil: nobody is.
	Tracer Tracer

	// Check reads back what every commit wrote and compares it with what is in
	// memory; a difference is a fault. Every Resume does so anyhow.
	Check bool
	// MaxResumes is how often in a row [Lane.ResumeAutomatically] resumes an
	// operation that makes no durable step forward. 0: 5.
	MaxResumes int64

	// Clock, Rand and Sleep replace the system's. Sleep returns at the
	// instant, or with the context's error when that ends before; one that
	// fails otherwise is reported, and the system's sleep takes over.
	Clock pistore.Clock
	Rand  io.Reader
	Sleep func(ctx context.Context, until pistore.UnixMS) error
}

// Harness runs the lanes of one session. It is safe for concurrent use.
type Harness struct {
	storage pistore.Storage
	planner planner
	drive   Drive
	onEvent func(Event)
	tracer  Tracer
	clock   pistore.Clock
	ids     *pistore.IDs
	sleep   func(context.Context, pistore.UnixMS) error
	hooks   *Hooks // those of the environment
	checks  bool   // every commit is read back
	// maxResumes is where automatic resumes end.
	maxResumes int64

	// settings is the line of what all lanes are given: whoever holds its one
	// token changes the environment. It is taken before the line of a lane,
	// never behind it.
	settings    chan struct{}
	environment atomic.Pointer[environment]

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
	if o.Drive != Automatic && o.Drive != Manual {
		return nil, fmt.Errorf("harness: %w: there is no drive %d", pistore.ErrInvalid, o.Drive)
	}
	env, err := newEnvironment(o)
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	h := &Harness{
		storage: storage, planner: planner{next, apply}, drive: o.Drive, onEvent: o.OnEvent, tracer: o.Tracer,
		clock: o.Clock, sleep: o.Sleep, lanes: map[string]*Lane{}, active: map[string]int{}, still: make(chan struct{}),
		settings: make(chan struct{}, 1),
	}
	h.hooks, h.checks = env.hooks, o.Check
	switch {
	case o.MaxResumes < 0:
		return nil, fmt.Errorf("harness: %w: %d resumes at most", pistore.ErrInvalid, o.MaxResumes)
	case o.MaxResumes == 0:
		h.maxResumes = 5
	default:
		h.maxResumes = o.MaxResumes
	}
	h.environment.Store(env)
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

// Lane returns a lane, restored from the store when it is first asked for: it
// is idle, or suspended with an operation that [Lane.Resume] continues.
// Nothing is started. A session that has no lane yet gets main by one commit.
// Errors: ErrInvalidLane, ErrUnknownLane, pistore.ErrCorrupt where what the
// lane's registers name is not there.
func (h *Harness) Lane(ctx context.Context, name string) (*Lane, error) {
	if err := registers.CheckLane(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidLane, err)
	}
	l := h.lane(name)
	defer h.letGo(l)
	if err := l.restoreOnce(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// lane returns the one value that stands for a lane in this process, until the
// caller lets it go.
func (h *Harness) lane(name string) *Lane {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lanes[name]
	if l == nil {
		l = newLane(h, name)
		h.lanes[name] = l
	}
	l.callers++
	return l
}

// letGo keeps the value only if the lane turned out to be there, or somebody
// else still asks.
func (h *Harness) letGo(l *Lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.callers--; l.callers == 0 && l.position() == nil {
		delete(h.lanes, l.name)
	}
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
