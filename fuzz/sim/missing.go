package sim

import (
	"maps"
	"slices"

	"pistore/harness"
	"pistore/provider"
	"pistore/registers"
)

// Some lives lack a model or tools: what needs them is turned away or suspended,
// spends nothing, and goes on in a life that has them again.

// missingIn rolls what the next life lacks, by the names that a suspension gives
// it. The first has everything, and so has one that was begun for that.
func (s *simulation) missingIn(life int) map[string]bool {
	r := dice(s.program.seed, "missing", life)
	whole := s.program.mode != Wild || life == 1 || s.wantsAll
	s.wantsAll = false
	if whole || !chance(r, 4) {
		return nil
	}
	s.count("life that lacks something")
	missing := map[string]bool{}
	if chance(r, 2) {
		missing[modelName(models[r.IntN(len(models))].ID)] = true
	} else {
		for range 1 + r.IntN(3) {
			missing[toolName(toolKinds[r.IntN(len(toolKinds))].name)] = true
		}
	}
	s.say("this life lacks %v", slices.Sorted(maps.Keys(missing)))
	return missing
}

func modelName(id string) string  { return "model " + providerName + "/" + id }
func toolName(name string) string { return "tool " + name }

// models are those that a life has.
func (l *life) models() []provider.Model {
	return slices.DeleteFunc(slices.Clone(models), func(m provider.Model) bool { return l.missing[modelName(m.ID)] })
}

// lacks names the first of a configuration that this life lacks, or is empty.
func (l *life) lacks(c registers.LaneConfiguration, tools bool) string {
	if name := modelName(c.Model.ModelID); l.missing[name] {
		return name
	}
	for _, tool := range c.ActiveToolNames {
		if name := toolName(tool); tools && l.missing[name] {
			return name
		}
	}
	return ""
}

// configuration is the durable one of a lane, or the seed that it will get.
func (o *oracle) configuration(lane string) registers.LaneConfiguration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.configurationLocked(lane)
}

// needs reports whether an operation cannot go on from where it stands without
// what a suspension names.
func (o *oracle) needs(op *record, name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := func(c registers.LaneConfiguration, tools bool) bool {
		if modelName(c.Model.ModelID) == name {
			return true
		}
		return tools && slices.ContainsFunc(c.ActiveToolNames, func(tool string) bool { return toolName(tool) == name })
	}
	if sum := registers.SummaryOf(op.state); sum != nil {
		return sum.Generating != nil && names(sum.Generating.Context.Configuration, false)
	}
	run, ok := op.state.(*registers.RunState)
	if !ok {
		return false
	}
	switch p := run.Phase.(type) {
	case *registers.Checkpoint:
		return names(o.configurationLocked(op.meta.Lane), true)
	case *registers.AssistantReady:
		return names(p.Context.Configuration, true)
	case *registers.Tools:
		return slices.ContainsFunc(p.Configuration.ActiveToolNames, func(tool string) bool { return toolName(tool) == name })
	default:
		return false
	}
}

// judgeSuspension holds the reason for a suspension against what is durable and
// what this life lacks.
func (l *life) judgeSuspension(lane string, why harness.Suspension) {
	op := l.s.oracle.open(lane)
	if op == nil {
		l.s.find("suspensions", "lane %s is suspended (%s), and no operation is open", lane, why.Reason)
		return
	}
	good := false
	switch why.Reason {
	case harness.SuspendRestored:
		good = !l.resumed[lane]
	case harness.SuspendMissingIdentities:
		good = l.missing[why.Detail] && l.s.oracle.needs(op, why.Detail) && !cancelled(op.state)
		l.s.count("suspended for what is missing")
	case harness.SuspendDeferred:
		if run, ok := op.state.(*registers.RunState); ok {
			_, good = run.Phase.(*registers.DeferredSuspended)
		}
	case harness.SuspendCrashLoop:
		good = resumesOf(op.state) >= l.s.program.maxResumes
	}
	if !good {
		l.s.find("suspensions", "lane %s is suspended for %s %q; it stands at %s, resumed %d times", lane, why.Reason, why.Detail, briefState(op.state), resumesOf(op.state))
	}
}

// waits reports whether a lane waits for what this life lacks, and was asked often
// enough to go on.
func (l *life) waits(lane string, why *harness.Suspension) bool {
	return why.Reason == harness.SuspendMissingIdentities && l.stuck[lane] >= 2
}
