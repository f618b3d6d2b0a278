package harness

import (
	"maps"
	"slices"

	"pistore"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// position is everything durable about a lane that the machine decides from,
// with the seqs that its decisions are conditional on. Positions are never
// changed: apply returns a new one, and what it shares with the old one
// (phases, slices) is not changed either.
type position struct {
	lane      string
	leaf      pistore.ID // empty: before any entry
	leafSeq   pistore.Seq
	config    *registers.LaneConfiguration // nil: not seeded yet
	configSeq pistore.Seq
	state     registers.LaneState
	stateSeq  pistore.Seq
	// path is the conversation up to the leaf as far as a model sees it; it is
	// in memory while an operation is driven. See hasPath.
	path *pathEntry
	op   *operation // nil: idle
	// queued is the content of everything that waits for its place: what the
	// lane keeps for its next run, and what the open operation has in its inbox
	// or drained from it.
	queued map[pistore.ID]registers.PendingEntry
}

// operation is an open operation.
type operation struct {
	meta  registers.OpMeta
	state registers.OpState    // of any kind; rows copy it and never change it
	seq   pistore.Seq          // of op.state
	batch []session.ToolCall   // calls of the response behind an open tool batch, in call order
	args  map[int]pistore.JSON // effective arguments of the batch's started calls, by index
	// output is what restore found of the output of calls that were interrupted.
	output map[int]registers.ToolOutput
	handle *session.DeferredHandle // the newest of a deferred response
	// summary is what an open summary works on.
	summary summaryWork
}

// environment is what the machine may know of the process around it. It is never
// changed, but replaced when the settings change.
type environment struct {
	providers     provider.Set
	tools         *tool.Set
	seed          registers.LaneConfiguration
	settings      registers.Settings
	retryPolicy   registers.RetryPolicy
	streamOptions pistore.JSON
	system        []session.Block // the system prompt; nil: none
	projectors    session.Projectors
	hooks         *Hooks // which of them have functions
}

// missing names the first model or tool of a configuration that is not there,
// or is empty.
func (env *environment) missing(c registers.LaneConfiguration) string {
	if name := env.missingModel(c); name != "" {
		return name
	}
	return env.missingTool(c)
}

// missingTool names the first tool of a configuration that is not there, or is
// empty.
func (env *environment) missingTool(c registers.LaneConfiguration) string {
	for _, name := range c.ActiveToolNames {
		if !env.has(name) {
			return "tool " + name
		}
	}
	return ""
}

func (env *environment) has(tool string) bool {
	_, ok := env.tools.Lookup(tool)
	return ok
}

// missingModel names the model of a configuration if it is not there; a summary
// needs no tools.
func (env *environment) missingModel(c registers.LaneConfiguration) string {
	if _, known := env.model(c.Model); !known {
		return "model " + c.Model.Provider + "/" + c.Model.ModelID
	}
	return ""
}

// window is the context window of the lane's model, 0 if it is not known.
func (env *environment) window(p *position) int64 {
	m, _ := env.model(p.configuration(env).Model)
	return storable(m.ContextWindow)
}

// model looks a model up. It is application code; one that panics knows none.
func (env *environment) model(ref registers.ModelRef) (m provider.Model, known bool) {
	defer func() {
		if recover() != nil {
			m, known = provider.Model{}, false
		}
	}()
	_, m, known = env.providers.Model(ref)
	return m, known
}

// configuration is the lane's, or the seed where none is stored yet.
func (p *position) configuration(env *environment) registers.LaneConfiguration {
	if p.config != nil {
		return *p.config
	}
	return env.seed
}

// run is the state of a run, which the operation must be.
func (op *operation) run() *registers.RunState { return op.state.(*registers.RunState) }

// cancelled reports whether the operation was asked to stop.
func (op *operation) cancelled() bool { return registers.ControlOf(op.state).CancelRequested }

// operationState is the state of the open operation, nil on an idle lane.
func (p *position) operationState() registers.OpState {
	if p.op == nil {
		return nil
	}
	return p.op.state
}

// queues is what waits for its place.
func (p *position) queues() Queues {
	q := Queues{NextRun: slices.Clone(p.state.PendingNextRun)}
	if run, ok := p.operationState().(*registers.RunState); ok {
		q.Steer, q.FollowUp = slices.Clone(run.Inbox.Steer), slices.Clone(run.Inbox.FollowUp)
		q.Writes = slices.Clone(run.Inbox.Writes)
	}
	return q
}

// phase is where a run stands, nil for an operation of another kind.
func (op *operation) phase() registers.Phase {
	if run, ok := op.state.(*registers.RunState); ok {
		return run.Phase
	}
	return nil
}

// started names the results of the open batch's calls that were started and are
// not settled.
func (op *operation) started() map[pistore.ID]bool {
	out := map[pistore.ID]bool{}
	if batch, ok := op.phase().(*registers.Tools); ok {
		for _, call := range batch.Calls {
			if call.Status == registers.CallEffectPending {
				out[call.ResultEntryID] = true
			}
		}
	}
	return out
}

// owned returns the registers that end with the operation, op.meta and op.state
// aside: those that its state names, as far as they exist.
func (op *operation) owned() []pistore.Address {
	id := op.meta.OperationID
	keys := registers.RequiredKeys(id, op.state)[2:]
	batch, ok := op.phase().(*registers.Tools)
	if !ok {
		return keys
	}
	for i, call := range batch.Calls {
		key := registers.ToolKey(id, batch.StepID, call.SourceIndex)
		if _, started := op.args[i]; started && call.Status == registers.CallCompleted {
			keys = append(keys, pistore.Address{Namespace: registers.OpToolArgsNS, Key: key})
		}
		if _, partial := op.output[i]; partial && call.Status == registers.CallEffectPending {
			keys = append(keys, pistore.Address{Namespace: registers.OpToolOutputNS, Key: key})
		}
	}
	return keys
}

// with returns a copy of p whose operation is changed. What the operation
// shares with the old one is the caller's to copy before it changes it.
func (p *position) with(change func(*operation)) *position {
	next, op := *p, *p.op
	change(&op)
	next.op = &op
	return &next
}

// withState returns a copy of p whose operation, of any kind, has a changed
// state.
func (p *position) withState(change func(registers.OpState)) *position {
	return p.with(func(op *operation) {
		op.state = registers.CopyState(op.state)
		change(op.state)
	})
}

// withRun returns a copy of p whose run has a changed state.
func (p *position) withRun(change func(*registers.RunState)) *position {
	return p.withState(func(s registers.OpState) { change(s.(*registers.RunState)) })
}

// withQueued returns a copy of p in which the content of what is queued is
// changed.
func (p *position) withQueued(change func(map[pistore.ID]registers.PendingEntry)) *position {
	next := *p
	next.queued = maps.Clone(p.queued)
	if next.queued == nil {
		next.queued = map[pistore.ID]registers.PendingEntry{}
	}
	change(next.queued)
	return &next
}

// withPhase returns a copy of p whose run stands in another phase.
func (p *position) withPhase(ph registers.Phase) *position {
	return p.withRun(func(run *registers.RunState) { run.Phase = ph }).with(func(op *operation) {
		if _, tools := ph.(*registers.Tools); !tools {
			op.batch, op.args, op.output = nil, nil, nil
		}
		op.handle = nil // withHandle sets it
	})
}
