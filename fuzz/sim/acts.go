package sim

import (
	"context"
	"errors"

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
	do      func(l *life, lane *harness.Lane, a act) error
}

var actKinds = []actKind{
	{
		name: "prompt", weight: 10,
		refused: func(op *record) error {
			if op != nil {
				return harness.ErrLaneBusy
			}
			return nil
		},
		do: func(l *life, lane *harness.Lane, a act) error {
			_, err := lane.Prompt(l.asking(), harness.Prompt{Text: a.text()})
			return err
		},
	},
	{
		name: "configure", weight: 2, inRun: true,
		do: func(l *life, lane *harness.Lane, a act) error {
			r := dice(l.s.program.seed, "configure", a.n)
			c := lane.Configuration()
			c.Model.ModelID = models[r.IntN(len(models))].ID
			c.ThinkingLevel = []string{"off", "low", "high"}[r.IntN(3)]
			c.ActiveToolNames = nil
			for _, k := range toolKinds {
				if !chance(r, 4) {
					c.ActiveToolNames = append(c.ActiveToolNames, k.name)
				}
			}
			return lane.SetConfiguration(l.asking(), c)
		},
	},
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
		s.unsure = &unsure{a, commits}
		return false
	case !errors.Is(err, want):
		s.find("refusals", "%s on lane %s gives %v, and should give %v", a, a.lane, err, want)
	case want != nil:
		s.count("refused " + kind.name)
	}
	return true
}

// unsure is an act during which the store failed.
type unsure struct {
	act     act
	commits int // before it
}

// asked marks the context of a call, and so what is committed for it.
type asked struct{}

func (l *life) asking() context.Context { return context.WithValue(l.s.ctx, asked{}, true) }

// seeded is the configuration of a lane that is made.
func seeded() registers.LaneConfiguration {
	c := registers.LaneConfiguration{Model: registers.ModelRef{Provider: providerName, ModelID: "large"}, ThinkingLevel: "off"}
	for _, k := range toolKinds {
		c.ActiveToolNames = append(c.ActiveToolNames, k.name)
	}
	return c
}

// makeLane makes a lane that starts at an entry.
func makeLane(l *life, name string, anchor pistore.ID) error {
	return session.New(l.guard).CreateLane(l.asking(), name, anchor, seeded())
}
