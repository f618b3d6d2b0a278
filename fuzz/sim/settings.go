package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"

	"pistore"
	"pistore/harness"
	"pistore/registers"
)

// newSettings are those that the application starts with. What becomes of them
// outlives the process: an application keeps its settings.
func newSettings(p program) harness.Settings {
	return harness.Settings{
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: providerName, ModelID: "large"}},
		ToolExecution: p.tools, RetryPolicy: p.retry, SteeringMode: p.steering, FollowUpMode: p.followUp,
		Compaction: harness.Compaction{ReserveTokens: 600, KeepRecentTokens: 150}, StreamOptions: `{"n":0}`,
	}
}

// changeSettings changes some of what all lanes are given. In a script of several
// lanes it would depend on the schedule which runs see it.
func (l *life) changeSettings(a act) error {
	s := l.s
	if s.program.mode == Script && len(s.program.lanes) > 1 {
		return nil
	}
	r := dice(s.program.seed, "settings", a.n)
	var next harness.Settings
	err := l.h.ChangeSettings(l.asking(), func(old harness.Settings) harness.Settings {
		if want := s.oracle.inForce(); !reflect.DeepEqual(old, want) {
			s.find("settings", "ChangeSettings gives %+v, and %+v is in force", old, want)
		}
		next = otherSettings(r, old, s.program.mode)
		return next
	})
	switch {
	case err == nil:
		s.settings = next
		l.takeSettings()
	case next.RetryPolicy.MaxAttempts >= 0:
		return err
	}
	if now := l.h.Settings(); !reflect.DeepEqual(now, s.oracle.inForce()) {
		s.find("settings", "%+v are in force, and %+v should be", now, s.oracle.inForce())
	}
	return err
}

func otherSettings(r *rand.Rand, c harness.Settings, mode Mode) harness.Settings {
	switch r.IntN(8) {
	case 0:
		c.RetryPolicy = registers.RetryPolicy{MaxAttempts: 1 + r.Int64N(4), BaseDelayMS: 1 + r.Int64N(3000)}
	case 1:
		c.RetryPolicy.MaxAttempts = -1 // refused, with all else
	case 2:
		c.Compaction = harness.Compaction{ReserveTokens: 200 + r.Int64N(600), KeepRecentTokens: 100 + r.Int64N(100), ByHand: chance(r, 3)}
	case 3:
		c.SteeringMode = registers.OneAtATime
	case 4:
		c.FollowUpMode = registers.All
	case 5:
		c.StreamOptions = `{"n":1}`
	case 6:
		if mode != Drives { // there the order of calls follows from it
			c.ToolExecution = registers.Sequential
		}
	}
	c.Configuration.Model.ModelID = models[r.IntN(len(models))].ID
	c.Configuration.ThinkingLevel = []string{"off", "low"}[r.IntN(2)]
	c.Configuration.ActiveToolNames = []string{"append", "look", "finish"}
	return c
}

// takeSettings tells the oracle what is in force in this life: the settings of the
// application with what they leave out.
func (l *life) takeSettings() {
	c := l.s.settings
	if c.Configuration.ActiveToolNames == nil {
		c.Configuration.ActiveToolNames = l.tools.Names()
	}
	c.Configuration.ActiveToolNames = slices.Clone(c.Configuration.ActiveToolNames)
	if c.Configuration.ThinkingLevel == "" {
		c.Configuration.ThinkingLevel = "off"
	}
	if c.ToolExecution == "" {
		c.ToolExecution = registers.Parallel
	}
	o := l.s.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settings = c
}

func (o *oracle) inForce() harness.Settings {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.settings
}

// configure changes the configuration of a lane, as a whole or one part of it.
func (l *life) configure(lane *harness.Lane, a act) error {
	r := dice(l.s.program.seed, "configure", a.n)
	c := lane.Configuration()
	if want := l.s.oracle.configuration(a.lane); !reflect.DeepEqual(c, want) {
		l.s.find("configuration", "lane %s says %+v, and %+v is durable or seeds it", a.lane, c, want)
	}
	var tools []string
	for _, k := range toolKinds {
		if !chance(r, 4) {
			tools = append(tools, k.name)
		}
	}
	tools = append(tools, toolKinds[r.IntN(len(toolKinds))].name) // twice is once too often
	if !chance(r, 6) {
		tools = slices.Compact(slices.Sorted(slices.Values(tools)))
	}
	model := registers.ModelRef{Provider: providerName, ModelID: models[r.IntN(len(models))].ID}
	level := []string{"off", "low", "high"}[r.IntN(3)]
	var set func() error
	lacks := func() string { return "" }
	switch r.IntN(4) {
	case 0:
		c.Model, c.ThinkingLevel, c.ActiveToolNames = model, level, tools
		set = func() error { return lane.SetConfiguration(l.asking(), c) }
		lacks = func() string { return l.lacks(c, true) }
	case 1:
		c.Model = model
		set = func() error { return lane.SetModel(l.asking(), model) }
		lacks = func() string { return l.lacks(c, false) }
	case 2:
		c.ThinkingLevel = level
		set = func() error { return lane.SetThinkingLevel(l.asking(), level) }
	default:
		c.ActiveToolNames = tools
		set = func() error { return lane.SetActiveTools(l.asking(), tools) }
		lacks = func() string { return l.lacks(registers.LaneConfiguration{ActiveToolNames: tools}, true) }
	}
	return l.judgeSetter(a.lane, c, lacks(), set)
}

// judgeSetter makes a call that is to leave a lane with a configuration, or to be
// refused.
func (l *life) judgeSetter(lane string, c registers.LaneConfiguration, lacking string, set func() error) error {
	o := l.s.oracle
	var want error
	if twice := len(slices.Compact(slices.Sorted(slices.Values(c.ActiveToolNames)))) < len(c.ActiveToolNames); twice {
		want = pistore.ErrInvalid
	} else if lacking != "" {
		want = harness.ErrMissingIdentities
	}
	if want == nil {
		o.calling(func(k *call) { k.configuring = &c })
	}
	err := set()
	o.calling(func(k *call) { k.configuring = nil })
	switch {
	case l.guard.failing() != nil:
	case err == nil && want == nil && !reflect.DeepEqual(o.configuration(lane), c):
		l.s.find("configuration", "lane %s was given %+v, and holds %+v", lane, c, o.configuration(lane))
	}
	return l.expect(err, want)
}

// The configuration of a lane is the seed in force when the lane gets its first,
// and changes by a setter only.
func judgeConfiguration(c *commit) string {
	for at, value := range c.sets {
		if at.Namespace != registers.LaneConfigNS {
			continue
		}
		got, err := registers.DecodeLaneConfiguration(value)
		want := c.o.settings.Configuration
		if asked := c.o.call.configuring; asked != nil {
			want = *asked
		} else if c.before(at) != "" {
			return "the configuration of lane " + at.Key + " is written, and nobody asked for it"
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			return "the configuration of lane " + at.Key + " becomes " + string(value) + ", and not what was asked for"
		}
	}
	return ""
}

// A run keeps the settings, and a step the context, that was in force when it
// began.
func judgeCaptured(c *commit) string {
	for _, ch := range c.ops {
		if run, ok := ch.after.(*registers.RunState); ok {
			want := runSettings(c.o.settings)
			if before, ok := ch.before.(*registers.RunState); ok {
				want = before.Settings
			}
			if run.Settings != want {
				return "the run holds settings that were not in force when it was accepted"
			}
		}
		before, after := contextOf(ch.before), contextOf(ch.after)
		switch {
		case after == nil:
		case before != nil && before.StepID == after.StepID:
			if !reflect.DeepEqual(before, after) {
				return "step " + string(after.StepID) + " changes what it captured"
			}
		case after.RetryPolicy != c.o.settings.RetryPolicy, after.StreamOptions != c.o.settings.StreamOptions:
			return "step " + string(after.StepID) + " captures settings that are not in force"
		case !reflect.DeepEqual(after.Configuration, c.configuration(ch.lane)):
			return "step " + string(after.StepID) + " captures another configuration than its lane has"
		}
	}
	return ""
}

func runSettings(s harness.Settings) registers.Settings {
	return registers.Settings{
		Compaction: registers.CompactionSettings{
			Enabled: !s.Compaction.ByHand, ReserveTokens: s.Compaction.ReserveTokens, KeepRecentTokens: s.Compaction.KeepRecentTokens,
		},
		SteeringMode: s.SteeringMode, FollowUpMode: s.FollowUpMode, ToolExecution: s.ToolExecution,
	}
}

// contextOf returns what the open step of an operation captured, nil if there is
// none.
func contextOf(s registers.OpState) *registers.Context {
	if s == nil {
		return nil
	}
	if sum := registers.SummaryOf(s); sum != nil {
		if sum.Generating == nil {
			return nil
		}
		return &sum.Generating.Context
	}
	run, ok := s.(*registers.RunState)
	if !ok {
		return nil
	}
	switch p := run.Phase.(type) {
	case *registers.AssistantReady:
		return &p.Context
	case *registers.AssistantPending:
		return &p.Context
	case *registers.AssistantRetryWait:
		return &p.Context
	default:
		return nil
	}
}

// configuration is that of a lane behind the transaction.
func (c *commit) configuration(lane string) registers.LaneConfiguration {
	return c.o.decodeConfiguration(c.after(pistore.Address{Namespace: registers.LaneConfigNS, Key: lane}))
}

func (o *oracle) configurationLocked(lane string) registers.LaneConfiguration {
	return o.decodeConfiguration(o.cells[pistore.Address{Namespace: registers.LaneConfigNS, Key: lane}])
}

func (o *oracle) decodeConfiguration(value pistore.JSON) registers.LaneConfiguration {
	if value == "" {
		return o.settings.Configuration
	}
	c, err := registers.DecodeLaneConfiguration(value)
	if err != nil {
		o.find("invariant 21", "a configuration cannot be read: %v", err)
	}
	return c
}
