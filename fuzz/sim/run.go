package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"pistore"
	"pistore/harness"
	"pistore/registers"
)

// simulation is one run of a program.
type simulation struct {
	*account
	ctx      context.Context
	config   Config
	program  program
	clock    *clock
	rng      *rand.Rand // of the schedule
	place    place
	oracle   *oracle
	world    *world
	life     *life // nil: the process is dead
	lives    int
	mishaps  int              // that may still happen
	mishapN  int              // that happened
	settings harness.Settings // of the application
	wantsAll bool             // the next life is to lack nothing
	watches  map[string]*watch
	next     map[string]int
	unsure   *unsure
	turns    map[string]int      // steps of each lane that were asked for
	seen     map[pistore.ID]bool // those steps

	transcripts map[string][]string
	digest      string
}

func newSimulation(ctx context.Context, p program, c Config) (*simulation, error) {
	a := newAccount(c.Trace)
	s := &simulation{
		account: a, ctx: ctx, config: c, program: p, clock: &clock{now: 1_700_000_000_000}, rng: dice(p.seed, "schedule"),
		world: newWorld(), mishaps: p.mishaps, next: map[string]int{}, turns: map[string]int{}, seen: map[pistore.ID]bool{},
		transcripts: map[string][]string{}, settings: newSettings(p), watches: map[string]*watch{},
	}
	switch {
	case c.Mishaps < 0:
		s.mishaps = 0
	case c.Mishaps > 0:
		s.mishaps = min(s.mishaps, c.Mishaps)
	}
	s.oracle = newOracle(a, s.clock, s.world)
	var err error
	s.place, err = newPlace(c.Backend, p.seed, s.clock.read)
	return s, err
}

// maxSteps bounds a simulation: one that takes more does not come to an end.
const maxSteps = 20_000

// move is something that the schedule may do next.
type move struct {
	weight int
	do     func()
}

// run does one thing after the other until nothing is left to do.
func (s *simulation) run() {
	defer func() {
		if s.life != nil && s.found() {
			s.life.kill()
		}
	}()
	for range maxSteps {
		if s.found() || s.ctx.Err() != nil {
			return
		}
		if s.life == nil {
			s.begin(harness.Manual)
			continue
		}
		if s.life.guard.failing() != nil {
			s.afterFault()
			continue
		}
		moves := s.moves()
		if len(moves) == 0 {
			return
		}
		weights := make([]int, len(moves))
		for i, m := range moves {
			weights[i] = m.weight
		}
		moves[weighted(s.rng, weights)].do()
	}
	s.find("liveness", "after %d steps it goes on", maxSteps)
}

// moves lists what may happen next, in a fixed order.
func (s *simulation) moves() []move {
	var moves []move
	add := func(weight int, do func()) { moves = append(moves, move{weight, do}) }
	l, stuck := s.life, false
	for _, name := range s.lanesHere() {
		if l.isHung(name) {
			continue
		}
		parked := l.lanes[name].Peek()
		if s.program.mode == Script && len(parked) > 0 { // what is aborted must not depend on the schedule
			parked = []harness.Effect{mostUrgent(parked)}
		}
		for _, e := range parked {
			add(30, func() {
				s.say("%s: step %s %d", name, e.Kind, e.ID)
				l.step(name, e.ID)
			})
		}
		if at, why := l.standing(name); at == suspended {
			if l.waits(name, why) {
				stuck = true
				continue
			}
			add(15, func() {
				s.say("%s: resume (%s %s)", name, why.Reason, why.Detail)
				l.resume(name)
			})
			if why.Reason != harness.SuspendCrashLoop {
				add(15, func() {
					s.say("%s: resume automatically (%s %s)", name, why.Reason, why.Detail)
					l.resumeAutomatically(name)
				})
			}
		}
	}
	for _, name := range s.program.lanes {
		if a, ok := s.nextAct(name); ok && (s.program.mode == Wild || s.oracle.open(name) == nil) {
			add(12, func() { s.perform(a) })
		}
	}
	if stuck && len(moves) == 0 {
		add(30, func() {
			s.say("end this life, for one that lacks nothing")
			s.wantsAll = true
			s.crash(false)
		})
	}
	stuck = len(moves) == 0 && slices.ContainsFunc(s.lanesHere(), l.isHung)
	if stuck {
		for _, name := range s.lanesHere() {
			if l.isHung(name) {
				add(60, func() {
					l.move(name)
					l.abortHanging(name)
					if l.guard.failing() == nil {
						l.settle(name)
					}
				})
			}
		}
	}
	if s.mishaps > 0 || stuck {
		for _, m := range mishaps {
			if (!m.disk || s.place.fail != nil) && (!m.power || s.place.losesPower) {
				add(m.weight, func() {
					s.mishaps--
					s.mishapN++
					s.count("mishap " + m.name)
					s.say("MISHAP %s", m.name)
					m.do(s)
				})
			}
		}
	}
	return moves
}

// lanesHere are the lanes of this life, in a fixed order.
func (s *simulation) lanesHere() []string {
	var names []string
	for _, name := range s.program.lanes {
		if s.life.lanes[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

// knownLanes are the lanes that the store has, main always.
func (s *simulation) knownLanes() []string {
	names := []string{registers.MainLane}
	s.oracle.mu.Lock()
	defer s.oracle.mu.Unlock()
	for _, name := range s.program.lanes {
		if _, ok := s.oracle.lane(name); ok && name != registers.MainLane {
			names = append(names, name)
		}
	}
	return names
}

// nextAct returns what is to be asked of a lane next.
func (s *simulation) nextAct(lane string) (act, bool) {
	n := 0
	for _, a := range s.program.acts {
		if a.lane != lane {
			continue
		}
		if n == s.next[lane] {
			return a, true
		}
		n++
	}
	return act{}, false
}

// perform asks something of a lane. A lane that is not there yet is made first.
func (s *simulation) perform(a act) {
	s.clock.jump(pistore.UnixMS(dice(s.program.seed, "time", a.n).Int64N(5000)))
	if !s.haveLane(a.lane) {
		return
	}
	s.life.goOn()
	s.next[a.lane]++ // first: a drive that begins may ask for what comes next
	if !s.life.act(a) {
		s.next[a.lane]--
	}
	if s.life != nil && s.life.guard.failing() == nil && !s.life.isHung(a.lane) {
		s.life.settle(a.lane)
	}
}

// atRequest is called inside a request. In a script this is where things are
// asked of an open run: at the first request of some steps.
func (l *life) atRequest(lane string) {
	s := l.s
	if s.program.mode == Wild {
		return
	}
	p := s.oracle.announced(lane)
	if p == nil || s.seen[p.step] {
		return
	}
	step := p.step
	s.seen[step] = true
	s.turns[lane]++
	r := dice(s.program.seed, "turn", lane, s.turns[lane])
	for chance(r, 2) {
		a, ok := s.nextAct(lane)
		if !ok || !kindOf(a).inRun {
			return
		}
		if !l.act(a) {
			s.seen[step] = false
			s.turns[lane]--
			s.unsure.inRequest = true
			return
		}
		s.next[lane]++
	}
}

// haveLane makes a lane unless it is there. False: the store failed.
func (s *simulation) haveLane(name string) bool {
	l := s.life
	if l.lanes[name] != nil {
		return true
	}
	l.move(name)
	anchor := pistore.ID("")
	if s.program.mode == Wild { // where main stands depends on the schedule
		anchor = s.oracle.leaf(registers.MainLane)
	}
	lane, err := l.h.CreateLane(l.asking(), name, anchor)
	s.say("%s: made at %s: %v", name, anchor, err)
	switch {
	case err == nil:
		l.lanes[name] = lane
		l.watchLane(name)
	case l.guard.failing() == nil || !errors.Is(err, pistore.ErrFaulted):
		s.find("lanes", "lane %s cannot be made: %v", name, err)
	}
	return err == nil
}

// afterFault checks that the harness knows of the fault, and lets the process
// die in one way or the other.
func (s *simulation) afterFault() {
	for _, name := range s.lanesHere() {
		if _, err := s.life.lanes[name].Prompt(s.ctx, harness.Prompt{Text: "after a fault"}); !errors.Is(err, pistore.ErrFaulted) {
			s.find("faults", "lane %s takes a prompt after a fault: %v", name, err)
		}
	}
	if chance(s.rng, 2) {
		s.life.close()
		s.reap(s.place.close)
	} else {
		s.crash(false)
	}
}

// reap ends the store of a life that has ended.
func (s *simulation) reap(end func() error) {
	if err := end(); err != nil && !errors.Is(err, pistore.ErrFaulted) {
		s.find("close", "the store: %v", err)
	}
}

// crash kills the process, with the power or without. What a power cut leaves is
// rolled by dice of its own: how often they are thrown depends on the files that
// there are, and with logstore on what its engine does beside the commits.
func (s *simulation) crash(power bool) {
	s.life.kill()
	s.reap(func() error { return s.place.die(power, dice(s.program.seed, "power", s.mishapN)) })
}

// uncertain notes, when the store is opened again, of which lanes the outcome of
// an effect is not known and cannot be had again.
func (s *simulation) uncertain() {
	o := s.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, op := range o.ops {
		if p := pendingOf(op.state); p != nil && p.attempt == p.most {
			s.world.doubt(op.meta.Lane, "the last attempt was in flight")
		}
		if batch := batchOf(op.state); batch != nil {
			for _, call := range batch.Calls {
				if call.Status == registers.CallEffectPending && call.Replay != registers.ReplaySafe {
					s.world.doubt(op.meta.Lane, "an unsafe call was in flight")
				}
			}
		}
	}
}

func (s *simulation) result() Result {
	return Result{
		Seed: s.program.seed, Mode: s.program.mode, Acts: len(s.program.acts), Mishaps: s.mishapN,
		Counts: s.counts, Finding: s.finding, Trace: s.story(),
	}
}

// simulateDrive runs a program without mishaps in one of the drives, lane by
// lane.
func simulateDrive(ctx context.Context, p program, c Config, drive harness.Drive) (*simulation, error) {
	s, err := newSimulation(ctx, p, c)
	if err != nil {
		return nil, err
	}
	s.begin(drive)
	for range maxSteps {
		if s.found() || s.life == nil {
			return s, s.end()
		}
		a, ok := s.firstAct()
		if !ok {
			return s, s.end()
		}
		s.perform(a)
		s.finish(a.lane)
	}
	return nil, fmt.Errorf("sim: a program of more than %d acts", maxSteps)
}

// firstAct returns what is to be asked next of any lane.
func (s *simulation) firstAct() (act, bool) {
	best, found := act{}, false
	for _, name := range s.program.lanes {
		if a, ok := s.nextAct(name); ok && (!found || a.n < best.n) {
			best, found = a, true
		}
	}
	return best, found
}

// finish drives a lane until it is idle.
func (s *simulation) finish(name string) {
	l := s.life
	for range maxSteps {
		lane := l.lanes[name]
		if s.found() || lane == nil {
			return
		}
		if l.automatic() && lane.Handle() != nil {
			if _, err := lane.Handle().Wait(s.ctx); err != nil {
				s.find("drive", "lane %s: %v", name, err)
				return
			}
		}
		parked := lane.Peek()
		at, _ := l.standing(name)
		switch {
		case len(parked) > 0:
			l.step(name, mostUrgent(parked).ID)
		case at == suspended:
			l.resume(name)
		case at == running:
			s.find("drive", "lane %s is at rest and its operation goes on", name)
		default:
			return
		}
	}
	s.find("liveness", "lane %s goes on after %d steps", name, maxSteps)
}

// mostUrgent is the effect that comes first where the order is not the schedule's:
// commits come first and calls last, the oldest first.
func mostUrgent(parked []harness.Effect) harness.Effect {
	return slices.MinFunc(parked, func(a, b harness.Effect) int { return cmp.Compare(urgency(a), urgency(b)) })
}

func urgency(e harness.Effect) int {
	switch e.Kind {
	case harness.EffectCommit:
		return 0
	case harness.EffectTool:
		return 2
	default:
		return 1
	}
}
