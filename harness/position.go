package harness

import (
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
	op        *operation // nil: idle
}

// operation is an open operation.
type operation struct {
	meta  registers.OpMeta
	other registers.OpState // a kind that is not executed here; nil: a run
	run   registers.RunState
	seq   pistore.Seq          // of op.state
	batch []session.ToolCall   // calls of the response behind an open tool batch, in call order
	args  map[int]pistore.JSON // effective arguments of the batch's started calls, by index
	// output is what restore found of the output of calls that were interrupted.
	output map[int]registers.ToolOutput
}

// environment is what the machine may know of the process around it. Everything
// in it is fixed for the life of the harness.
type environment struct {
	providers     provider.Set
	tools         *tool.Set
	seed          registers.LaneConfiguration
	settings      registers.Settings
	retryPolicy   registers.RetryPolicy
	streamOptions pistore.JSON
}

// missing names the first model or tool of a configuration that is not there,
// or is empty.
func (env *environment) missing(c registers.LaneConfiguration) string {
	if _, known := env.model(c.Model); !known {
		return "model " + c.Model.Provider + "/" + c.Model.ModelID
	}
	for _, name := range c.ActiveToolNames {
		if _, ok := env.tools.Lookup(name); !ok {
			return "tool " + name
		}
	}
	return ""
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

// withPhase returns a copy of p whose run stands in another phase.
func (p *position) withPhase(ph registers.Phase) *position {
	next, op := *p, *p.op
	op.run.Phase = ph
	if _, tools := ph.(*registers.Tools); !tools {
		op.batch, op.args, op.output = nil, nil, nil
	}
	next.op = &op
	return &next
}
