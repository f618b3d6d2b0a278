package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"pistore"
	"pistore/harness"
	"pistore/registers"
	"pistore/session"
)

// actKind is something that can be asked of a lane. A new one is an entry of
// actKinds.
type actKind struct {
	name   string
	weight int
	// inRun: in a script it is asked during a run, and not only of an idle lane.
	inRun bool
	// refused is the error that the call must give where the lane stands now (op
	// is nil on an idle lane), nil: none.
	refused func(op *record) error
	// lacks names what the call needs on an idle lane and this life lacks.
	lacks func(l *life, lane string) string
	// may are errors that an accepted call may give as well.
	may []error
	do  func(l *life, lane *harness.Lane, a act) error
}

var actKinds = []actKind{
	{
		name: "prompt", weight: 12, refused: unlessIdle,
		lacks: func(l *life, lane string) string { return l.lacks(l.s.oracle.configuration(lane), true) },
		do: func(l *life, lane *harness.Lane, a act) error {
			_, err := lane.Prompt(l.asking(), harness.Prompt{Text: a.text()})
			return err
		},
	},
	{
		name: "steer", weight: 4, inRun: true, refused: unlessRunning,
		do: func(l *life, lane *harness.Lane, a act) error {
			ids, err := lane.Steer(l.asking(), harness.Prompt{Text: a.text()})
			return l.queued(a, ids, err)
		},
	},
	{
		name: "follow-up", weight: 4, inRun: true, refused: unlessRunning,
		do: func(l *life, lane *harness.Lane, a act) error {
			ids, err := lane.FollowUp(l.asking(), harness.Prompt{Text: a.text()})
			return l.queued(a, ids, err)
		},
	},
	{
		name: "next-run", weight: 2, inRun: true,
		do: func(l *life, lane *harness.Lane, a act) error {
			ids, err := lane.NextRun(l.asking(), harness.Prompt{Text: a.text()})
			return l.queued(a, ids, err)
		},
	},
	{
		name: "append message", weight: 2, inRun: true, refused: unlessIdleOrRun,
		do: func(l *life, lane *harness.Lane, a act) error {
			id, err := lane.AppendMessage(l.asking(), &session.UserMessage{Content: session.TextContent(a.text()), Timestamp: l.s.clock.read()})
			return l.queued(a, []pistore.ID{id}, err)
		},
	},
	{
		name: "append custom", weight: 2, inRun: true, refused: unlessIdleOrRun,
		do: func(l *life, lane *harness.Lane, a act) error {
			id, err := lane.AppendCustom(l.asking(), "note", pistore.QuoteJSON(a.text()))
			return l.queued(a, []pistore.ID{id}, err)
		},
	},
	{
		name: "cancel queued", weight: 2, inRun: true,
		do: func(l *life, lane *harness.Lane, a act) error {
			waiting := l.s.oracle.waiting(a.lane)
			if len(waiting) == 0 {
				return nil
			}
			id := waiting[dice(l.s.program.seed, "cancel", a.n).IntN(len(waiting))]
			l.s.oracle.calling(func(k *call) { k.cancelling = id })
			there, err := lane.CancelQueued(l.asking(), id)
			l.s.oracle.calling(func(k *call) { k.cancelling = "" })
			if err == nil && !there {
				l.s.find("queues", "%s waits on lane %s and cannot be cancelled", id, a.lane)
			}
			l.s.count("cancelled")
			return err
		},
	},
	{
		name: "abort", weight: 3, inRun: true, refused: unlessOpen,
		do: func(l *life, lane *harness.Lane, a act) error { return l.abort(a.lane, lane) },
	},
	{
		name: "finalize", weight: 1, inRun: true, refused: unlessOpen,
		do: func(l *life, lane *harness.Lane, a act) error {
			outcomes := []registers.Outcome{registers.Completed, registers.Failed, registers.Aborted, registers.Declined}
			_, err := lane.Finalize(l.asking(), outcomes[dice(l.s.program.seed, "finalize", a.n).IntN(len(outcomes))])
			if err == nil {
				l.setHung(a.lane, false)
			}
			return err
		},
	},
	{
		name: "record usage", weight: 1, inRun: true,
		do: func(l *life, lane *harness.Lane, a act) error {
			_, err := lane.RecordUsage(l.asking(), harness.Spent{Usage: `{"input":1,"cost":{"total":0.03125}}`})
			return err
		},
	},
	{
		name: "compact", weight: 3, refused: unlessIdle, may: []error{harness.ErrNothingToCompact},
		lacks: func(l *life, lane string) string { return l.lacks(l.s.oracle.configuration(lane), false) },
		do: func(l *life, lane *harness.Lane, a act) error {
			_, err := lane.Compact(l.asking(), a.text())
			return err
		},
	},
	{
		name: "navigate", weight: 3, refused: unlessIdle, may: []error{errNowhere},
		do: func(l *life, lane *harness.Lane, a act) error {
			r := dice(l.s.program.seed, "navigate", a.n)
			nav := harness.Navigation{Summarize: chance(r, 2), TargetID: l.target(a.lane, r)}
			if chance(r, 3) {
				nav.Label = a.text()
			}
			if nav.TargetID == "" && l.s.oracle.open(a.lane) == nil {
				return errNowhere
			}
			if nav.TargetID == "" {
				nav.TargetID = "anywhere"
			}
			_, err := lane.Navigate(l.asking(), nav)
			if errors.Is(err, harness.ErrMissingIdentities) && l.lacks(l.s.oracle.configuration(a.lane), false) != "" {
				return errNowhere // if there was anything to summarize
			}
			return err
		},
	},
	{
		name: "configure", weight: 2, inRun: true,
		do: func(l *life, lane *harness.Lane, a act) error { return l.configure(lane, a) },
	},
	{
		name: "settings", weight: 2, inRun: true, may: []error{pistore.ErrInvalid},
		do: func(l *life, _ *harness.Lane, a act) error { return l.changeSettings(a) },
	},
}

// errNowhere: there is no entry to navigate to.
var errNowhere = errors.New("there is nowhere to go")

// target picks an entry to navigate to: any in the wild, in a script one that is
// at the same place in every run, what a user said.
func (l *life) target(lane string, r *rand.Rand) pistore.ID {
	leaf := l.s.oracle.leaf(lane)
	var all []pistore.ID
	if l.s.program.mode == Wild {
		all = l.s.oracle.all()
	} else {
		for _, n := range l.s.oracle.path(leaf) {
			if _, ok := n.message.(*session.UserMessage); ok {
				all = append(all, n.ID)
			}
		}
	}
	all = slices.DeleteFunc(all, func(id pistore.ID) bool { return id == leaf })
	if len(all) == 0 {
		return ""
	}
	return all[r.IntN(len(all))]
}

// all returns every entry, in the order in which they came.
func (o *oracle) all() []pistore.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.order)
}

// abort asks a lane to stop, from wherever it stands.
func (l *life) abort(name string, lane *harness.Lane) error {
	if at, _ := l.standing(name); at == suspended {
		l.s.oracle.willResume(name) // a drive brings it to its end
		l.resumed[name] = true
	}
	before := l.s.oracle.open(name)
	again := before != nil && cancelled(before.state)
	commits := l.s.oracle.size()
	drained, err := lane.Abort(l.asking())
	if err != nil {
		return err
	}
	l.setHung(name, false)
	l.s.count("aborted")
	if again && l.s.oracle.size() != commits && l.drive == harness.Manual {
		l.s.find("abort", "an Abort of lane %s that is repeated writes", name)
	}
	l.s.oracle.judgeDrained(name, drained)
	return nil
}

// judgeDrained holds what an Abort returns against what is durable.
func (o *oracle) judgeDrained(lane string, got harness.Drained) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.openLocked(lane)
	if op == nil {
		return // it has come to its end already
	}
	control := registers.ControlOf(op.state)
	for _, q := range []struct {
		ids []pistore.ID
		got []harness.Queued
	}{{control.DrainedSteer, got.Steer}, {control.DrainedFollowUp, got.FollowUp}} {
		same := slices.EqualFunc(q.ids, q.got, func(id pistore.ID, g harness.Queued) bool {
			return id == g.EntryID && registers.EncodePendingEntry(g.Content) == o.cells[pistore.Address{Namespace: registers.PendingEntryNS, Key: string(id)}]
		})
		if !same {
			o.find("abort", "lane %s: the Abort returns %v, and %v is drained", lane, q.got, q.ids)
		}
	}
}

// unlessOpen: there must be something to stop.
func unlessOpen(op *record) error {
	if op == nil {
		return harness.ErrNoActiveOperation
	}
	return nil
}

// unlessIdle: a lane has one operation at a time.
func unlessIdle(op *record) error {
	if op != nil {
		return harness.ErrLaneBusy
	}
	return nil
}

// unlessRunning: only an open run that was not asked to stop takes input.
func unlessRunning(op *record) error {
	if op == nil || op.meta.Intent.Kind != registers.KindRun || cancelled(op.state) {
		return harness.ErrNoActiveRun
	}
	return nil
}

// unlessIdleOrRun: what has no inbox takes no writes.
func unlessIdleOrRun(op *record) error {
	if op != nil && op.meta.Intent.Kind != registers.KindRun {
		return harness.ErrLaneBusy
	}
	return nil
}

// queued checks that what a call says to be durable is.
func (l *life) queued(a act, ids []pistore.ID, err error) error {
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !l.s.oracle.has(id) {
			l.s.find("durability", "%s is accepted as %s, and nothing is durable under that id", a, id)
		}
	}
	return nil
}

// has reports whether an id is queued or placed.
func (o *oracle) has(id pistore.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, queued := o.cells[pistore.Address{Namespace: registers.PendingEntryNS, Key: string(id)}]
	return queued || o.entries[id] != nil
}

// waiting returns what is queued on a lane and can be taken back.
func (o *oracle) waiting(lane string) []pistore.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	state, _ := o.lane(lane)
	ids := slices.Clone(state.PendingNextRun)
	if op := o.openLocked(lane); op != nil {
		if run, ok := op.state.(*registers.RunState); ok {
			ids = slices.Concat(ids, run.Inbox.Steer, run.Inbox.FollowUp, run.Inbox.Writes)
		}
	}
	return ids
}

func kindOf(a act) actKind {
	for _, k := range actKinds {
		if k.name == a.kind {
			return k
		}
	}
	panic("sim: no act " + a.kind)
}

// act asks something of a lane. It reports whether that is done with: a storage
// that failed before anything was written leaves it to the next life.
func (l *life) act(a act) (done bool) {
	s := l.s
	kind := kindOf(a)
	op := s.oracle.open(a.lane)
	var want error
	if kind.refused != nil {
		want = kind.refused(op)
	}
	if want == nil && kind.lacks != nil && kind.lacks(l, a.lane) != "" {
		want = harness.ErrMissingIdentities
	}
	commits := s.oracle.size()
	l.move(a.lane)
	err := kind.do(l, l.lanes[a.lane], a)
	s.say("%s: %s: %v", a.lane, a, err)
	s.count("act " + kind.name)
	switch {
	case l.guard.failing() != nil:
		if err == nil || !errors.Is(err, pistore.ErrFaulted) {
			s.find("faults", "%s on a store that fails gives %v", a, err)
		}
		s.unsure = &unsure{act: a, commits: commits}
		return false
	case want == nil && slices.ContainsFunc(kind.may, func(e error) bool { return errors.Is(err, e) }):
		s.count("declined " + kind.name)
	case !errors.Is(err, want):
		s.find("refusals", "%s on lane %s gives %v, and should give %v", a, a.lane, err, want)
	case want != nil:
		s.count("refused " + kind.name)
	}
	return true
}

// expect judges what a call gives; a store that failed is another's to judge.
func (l *life) expect(err, want error) error {
	if l.guard.failing() != nil {
		return err
	}
	if !errors.Is(err, want) {
		l.s.find("refusals", "a setter gives %v, and should give %v", err, want)
	}
	return nil
}

// unsure is an act during which the store failed.
type unsure struct {
	act       act
	commits   int  // before it
	inRequest bool // it was asked for within a request
}

// asked marks the context of a call, and so what is committed for it.
type asked struct{}

func (l *life) asking() context.Context { return context.WithValue(l.s.ctx, asked{}, true) }
