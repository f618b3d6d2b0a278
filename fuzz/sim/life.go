package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/registers"
	"pistore/tool"
)

// life is one life of the process: a store that is open, a harness over it, and
// what runs in it.
type life struct {
	s     *simulation
	n     int
	drive harness.Drive
	guard *guard
	h     *harness.Harness
	lanes map[string]*harness.Lane
	// lookIsSafe: the tool look is declared safe, as it is in most lives.
	lookIsSafe bool
	missing    map[string]bool // what it lacks, see missingIn
	tools      *tool.Set
	resumed    map[string]bool // lanes on which something was resumed
	stuck      map[string]int  // how often a lane was found to need what is missing
	judged     map[string]*harness.Suspension
	watches    []*watch

	mu      sync.Mutex // guards what follows
	current string     // the lane that moves
	hung    map[string]bool
	heard   map[string][]harness.Event // by lane
	unstep  context.CancelFunc         // ends the wait for the effect that was released
}

// begin opens the store and starts a life. False: the store could not be opened,
// or the simulation has found something.
func (s *simulation) begin(drive harness.Drive) bool {
	s.lives++
	storage, err := s.place.open(s.ctx)
	if err != nil {
		s.find("open", "the store cannot be opened: %v", err)
		return false
	}
	if !s.look(storage) {
		return false
	}
	s.uncertain()
	l := &life{
		s: s, n: s.lives, drive: drive, guard: &guard{Storage: storage, o: s.oracle}, lanes: map[string]*harness.Lane{}, hung: map[string]bool{},
		missing: s.missingIn(s.lives), resumed: map[string]bool{}, stuck: map[string]int{}, judged: map[string]*harness.Suspension{},
		heard: map[string][]harness.Event{},
	}
	r := dice(s.program.seed, "life", s.lives)
	l.lookIsSafe = s.program.mode != Wild || !chance(r, 5)
	s.life = l
	if err := l.start(r); err != nil {
		s.find("open", "%v", err)
		return false
	}
	return true
}

// start makes the harness of a life and restores every lane that there is.
func (l *life) start(r *rand.Rand) error {
	var err error
	if l.tools, err = newTools(l); err != nil {
		return err
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(r.Uint32())
	}
	p := l.s.program
	if p.mode == Wild && l.n > 1 && chance(r, 3) { // what was captured counts, not what is now
		l.s.settings.RetryPolicy = registers.RetryPolicy{MaxAttempts: 1 + r.Int64N(6), BaseDelayMS: 1}
	}
	c := l.s.settings
	o := harness.Options{
		Providers: provider.NewSet(newProvider(l)), Tools: l.tools, Configuration: c.Configuration,
		SystemPrompt: "You are simulated.", ToolExecution: c.ToolExecution, RetryPolicy: c.RetryPolicy,
		Compaction: c.Compaction, SteeringMode: c.SteeringMode, FollowUpMode: c.FollowUpMode, StreamOptions: c.StreamOptions,
		Check: true, Hooks: newHooks(l), Drive: l.drive, OnEvent: l.onEvent, MaxResumes: p.maxResumes,
		Clock: l.s.clock.read, Sleep: l.sleep, Rand: rand.NewChaCha8(seed),
	}
	l.takeSettings()
	if l.h, err = l.s.config.New(l.guard, o); err != nil {
		return err
	}
	for _, name := range l.s.knownLanes() {
		if err := l.restore(name); err != nil && l.guard.failing() == nil {
			return fmt.Errorf("lane %s cannot be restored: %w", name, err)
		}
	}
	return nil
}

func (l *life) restore(name string) error {
	lane, err := l.h.Lane(l.s.ctx, name)
	if err == nil {
		l.lanes[name] = lane
		l.watchLane(name)
	}
	return err
}

func (l *life) automatic() bool { return l.drive == harness.Automatic }

// onEvent checks that what an event says to be durable is.
func (l *life) onEvent(ev harness.Event) {
	if l.s.program.watched {
		name := laneOf(ev)
		l.mu.Lock()
		l.heard[name] = append(l.heard[name], ev)
		l.mu.Unlock()
	}
	switch ev := ev.(type) {
	case harness.EntryAdded:
		if l.s.oracle.path(ev.Entry.ID) == nil {
			l.s.find("events", "entry %s is told of and not durable", ev.Entry.ID)
		}
	case harness.HandlerError:
		l.s.count("handler error")
	}
}

// laneOf is the lane of an event, of which each begins with what it is about.
func laneOf(ev harness.Event) string {
	about, _ := reflect.ValueOf(ev).Field(0).Interface().(harness.About)
	return about.Lane
}

// sleep waits for a retry, which takes no time.
func (l *life) sleep(ctx context.Context, until pistore.UnixMS) error {
	l.s.oracle.slept(l.lane(), until)
	l.s.count("sleep")
	return l.s.clock.sleep(ctx, until)
}

// slept counts the wait among the effects of an operation.
func (o *oracle) slept(lane string, until pistore.UnixMS) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.openLocked(lane); op != nil {
		op.effects++
		op.slept = until
	}
}

// move says which lane moves from now on.
func (l *life) move(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = name
}

func (l *life) lane() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

func (l *life) isHung(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung[name]
}

func (l *life) setHung(name string, hung bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hung[name] = hung
}

// stepped ends the wait for the effect that was released: it hangs.
func (l *life) stepped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unstep != nil {
		l.unstep()
	}
}

// A lane that never comes to rest is told from a machine that stands still by
// asking again: so long, so often.
const (
	restTime = 3 * time.Second
	restAsks = 20
)

// waiting returns a context that ends when what is released next hangs.
func (l *life) waiting() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(l.s.ctx, restTime)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unstep = cancel
	return ctx, cancel
}

// step releases an effect and waits until the lane is at rest, or hangs.
func (l *life) step(name string, id int64) {
	l.await(name, func(ctx context.Context) error {
		_, err := l.lanes[name].StepEffect(ctx, id)
		return err
	})
}

// settle waits until the lane is at rest, or hangs.
func (l *life) settle(name string) { l.await(name, l.lanes[name].Settle) }

// await makes a call that ends when the lane is at rest, or hangs.
func (l *life) await(name string, call func(context.Context) error) {
	l.move(name)
	for range restAsks {
		ctx, done := l.waiting()
		err := call(ctx)
		done()
		if !errors.Is(err, context.DeadlineExceeded) || l.isHung(name) {
			l.judgeWait(name, err)
			return
		}
		if l.s.found() {
			return // what is wrong already may keep it from resting
		}
		call = l.lanes[name].Settle
	}
	l.s.find("drive", "lane %s does not come to rest", name)
}

func (l *life) judgeWait(name string, err error) {
	switch {
	case err == nil, l.isHung(name), l.guard.failing() != nil:
	default:
		l.s.find("drive", "lane %s does not come to rest: %v", name, err)
	}
}

// standing is where a lane stands in this life.
type standing int

const (
	idle standing = iota
	running
	suspended
)

// standing asks a lane without waiting, and holds its answer against what is
// durable.
func (l *life) standing(name string) (standing, *harness.Suspension) {
	handle := l.lanes[name].Handle()
	if handle == nil {
		return idle, nil
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	result, err := handle.Wait(over)
	switch {
	case err != nil:
		return running, nil
	case result.Suspended != nil:
		if l.judged[name] != result.Suspended && l.guard.failing() == nil {
			l.judged[name] = result.Suspended
			l.judgeSuspension(name, *result.Suspended)
		}
		return suspended, result.Suspended
	}
	l.s.oracle.judgeEnd(name, *result.Ended)
	return idle, nil
}

// judgeEnd holds the outcome that a handle gives against the durable one.
func (o *oracle) judgeEnd(lane string, got registers.LastResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.ops[got.OperationID]
	if op == nil || op.result == nil || op.result.Outcome != got.Outcome || op.result.LeafID != got.LeafID {
		o.find("handles", "lane %s: the handle of %s says %s, which is not durable", lane, got.OperationID, got.Outcome)
	}
}

// kill ends a life as SIGKILL does: from now on nothing of it reaches the store
// or the world. What is left of it only ends its goroutines.
func (l *life) kill() {
	l.guard.die()
	l.end()
}

// close ends a life in order: what is stored then is what a kill leaves.
func (l *life) close() {
	before := l.s.oracle.size()
	l.end()
	if after := l.s.oracle.size(); after != before {
		l.s.find("close", "Close writes %d transactions", after-before)
	}
}

func (l *life) end() {
	told := map[string]int{}
	for _, w := range l.watches {
		told[w.name] = len(l.heardOn(w.name))
	}
	if l.h != nil {
		if err := l.h.Close(context.Background()); err != nil {
			l.s.find("close", "%v", err)
		}
	}
	l.endWatches(told)
	l.s.life = nil
}

func (o *oracle) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.commits)
}

// resume continues a lane as somebody does who wants it to go on.
func (l *life) resume(name string) {
	l.resumeBy(name, l.lanes[name].Resume)
}

// resumeAutomatically continues a lane as a host does with all that it finds. An
// operation that made no step forward for too long stays where it is.
func (l *life) resumeAutomatically(name string) {
	op := l.s.oracle.open(name)
	if op == nil || resumesOf(op.state) < l.s.program.maxResumes {
		l.resumeBy(name, l.lanes[name].ResumeAutomatically)
		return
	}
	before := l.s.oracle.size()
	l.move(name)
	_, err := l.lanes[name].ResumeAutomatically(l.s.ctx)
	at, why := l.standing(name)
	if err != nil || at != suspended || why.Reason != harness.SuspendCrashLoop || l.s.oracle.size() != before {
		l.s.find("crash loop", "lane %s was resumed %d times without a step forward, and goes on: %v", name, resumesOf(op.state), err)
	}
	l.s.count("parked in a crash loop")
}

func (l *life) resumeBy(name string, resume func(context.Context) (*harness.Handle, error)) {
	op := l.s.oracle.willResume(name)
	l.resumed[name] = true
	l.move(name)
	_, err := resume(l.s.ctx)
	switch {
	case err == nil && op:
		l.s.count("resume")
	case l.guard.failing() != nil:
	default:
		l.s.find("resume", "lane %s, operation open: %v: %v", name, op, err)
	}
	l.settle(name)
	if at, why := l.standing(name); at == suspended && why.Reason == harness.SuspendMissingIdentities {
		l.stuck[name]++
	}
}

func (o *oracle) willResume(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.openLocked(name)
	if op != nil {
		op.resumed = true
		op.resumes++
	}
	return op != nil
}

// abortHanging ends what hangs, from inside of it.
func (l *life) abortHanging(name string) {
	err := l.abort(name, l.lanes[name])
	l.s.say("  %s: it hangs, and is aborted: %v", name, err)
	if err != nil && !errors.Is(err, pistore.ErrFaulted) && !errors.Is(err, harness.ErrNoActiveOperation) { // it may be ended from outside
		l.s.find("refusals", "lane %s hangs and cannot be aborted: %v", name, err)
	}
}
