package harness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// oracle judges every transaction that a rig commits by what was durable before
// and is behind it, and every effect by what is durable when it begins. It looks
// at the store beneath whatever a test puts in between, so that it learns of
// what other owners write, and nobody sees its reads.
type oracle struct {
	t     testing.TB
	store pistore.Storage
	// found replaces failing the test.
	found func(problem string)
}

func (o *oracle) fault(format string, args ...any) {
	o.t.Helper()
	if o.found != nil {
		o.found(fmt.Sprintf(format, args...))
		return
	}
	o.t.Errorf("oracle: "+format, args...)
}

// registers reads registers; the oracle's reads do not fail.
func (o *oracle) registers(at ...pistore.Address) map[pistore.Address]pistore.Register {
	found, err := o.store.Registers(context.Background(), at)
	if err != nil {
		o.fault("%v", err)
	}
	out := map[pistore.Address]pistore.Register{}
	for _, r := range found {
		out[r.Address()] = r
	}
	return out
}

// entries returns which of the ids are entries.
func (o *oracle) entries(ids ...pistore.ID) map[pistore.ID]bool {
	found, err := o.store.Entries(context.Background(), ids)
	if err != nil {
		o.fault("%v", err)
	}
	out := map[pistore.ID]bool{}
	for _, e := range found {
		out[e.ID] = true
	}
	return out
}

// verdict is a transaction that is judged.
type verdict struct {
	o       *oracle
	tx      pistore.Tx
	before  map[pistore.Address]pistore.Register // of what it writes and expects
	after   map[pistore.Address]pistore.JSON     // of what it writes; empty: deleted
	entries []pistore.InsertEntry
	usage   []pistore.InsertUsage

	op        pistore.ID // the operation that it changes, empty if none
	lane      string
	from, to  registers.OpState // nil: it is not open
	expecting map[string]bool   // namespaces
}

// begin looks at what is durable before a commit.
func (o *oracle) begin(tx pistore.Tx) *verdict {
	v := &verdict{o: o, tx: tx, after: map[pistore.Address]pistore.JSON{}, expecting: map[string]bool{}}
	var at []pistore.Address
	for _, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			v.entries = append(v.entries, w)
			at = append(at, pistore.Address{Namespace: registers.PendingEntryNS, Key: string(w.ID)})
		case pistore.InsertUsage:
			v.usage = append(v.usage, w)
		case pistore.SetRegister:
			v.after[pistore.Address{Namespace: w.Namespace, Key: w.Key}] = w.Value
			at = append(at, pistore.Address{Namespace: w.Namespace, Key: w.Key})
			if w.Namespace == registers.OpStateNS {
				v.op = pistore.ID(w.Key)
			}
		case pistore.DeleteRegister:
			v.after[pistore.Address(w)] = ""
			at = append(at, pistore.Address(w))
			if w.Namespace == registers.OpStateNS {
				v.op = pistore.ID(w.Key)
			}
		}
	}
	if v.op != "" {
		at = append(at, pistore.Address{Namespace: registers.OpMetaNS, Key: string(v.op)})
	}
	for _, e := range tx.Expect {
		v.expecting[e.Namespace] = true
	}
	if len(at) > 0 {
		v.before = o.registers(at...)
	}
	return v
}

// judge looks at what is durable behind a commit that was made.
func (v *verdict) judge() {
	if v.op != "" && !v.operation() {
		return
	}
	for _, rule := range verdicts {
		if problem := rule.judge(v); problem != "" {
			v.o.fault("%s: %s\n%s", rule.name, problem, strings.Join(outline(v.tx), "; "))
		}
	}
}

// operation decodes the states of the operation; it is false where one cannot be
// read, as in a store that was spoiled.
func (v *verdict) operation() bool {
	at := pistore.Address{Namespace: registers.OpStateNS, Key: string(v.op)}
	meta := v.after[pistore.Address{Namespace: registers.OpMetaNS, Key: string(v.op)}]
	if meta == "" {
		meta = v.before[pistore.Address{Namespace: registers.OpMetaNS, Key: string(v.op)}].Value
	}
	m, err := registers.DecodeOpMeta(meta)
	if err != nil {
		v.o.fault("op.meta of %s: %v", v.op, err)
		return false
	}
	v.lane = m.Lane
	for _, s := range []struct {
		text pistore.JSON
		into *registers.OpState
	}{{v.before[at].Value, &v.from}, {v.after[at], &v.to}} {
		if s.text == "" {
			continue
		}
		if *s.into, err = registers.DecodeOpState(s.text); err != nil {
			v.o.fault("op.state of %s: %v", v.op, err)
			return false
		}
	}
	return true
}

// verdicts are what every transaction keeps; a judge says how it does not.
var verdicts = []struct {
	name  string
	judge func(*verdict) string
}{
	{"order of writes", (*verdict).order},
	{"conditions", (*verdict).conditions},
	{"reserved ids", (*verdict).reservedIDs},
	{"a response, its usage and a decision", (*verdict).bill},
	{"summaries", (*verdict).summaries},
	{"calls", (*verdict).calls},
	{"attempts", (*verdict).attempts},
	{"cancellation", (*verdict).cancellation},
	{"placement", (*verdict).placement},
	{"totality", (*verdict).totality},
	{"terminal", (*verdict).terminal},
}

// order: content and behind the last entry the leaf, then cells, op.meta,
// op.state, configuration, outcome, and what the lane does.
func (v *verdict) order() string {
	ranks := map[string]int{
		registers.LaneLeafNS: 1, registers.OpMetaNS: 3, registers.OpStateNS: 4, registers.LaneConfigNS: 5,
		registers.LaneLastResultNS: 6, registers.LaneStateNS: 7,
	}
	last := 0
	for _, w := range v.tx.Writes {
		rank := 0
		switch w := w.(type) {
		case pistore.InsertUsage:
			rank = min(last, 1)
		case pistore.SetRegister:
			rank = max(2, ranks[w.Namespace])
			if w.Namespace == registers.LaneLeafNS {
				rank = 1
			}
		case pistore.DeleteRegister:
			rank = max(2, ranks[w.Namespace])
		}
		if rank < last {
			return fmt.Sprintf("%s comes too late", strings.Join(outline(pistore.Tx{Writes: []pistore.Write{w}}), ""))
		}
		last = rank
	}
	return ""
}

// conditions: what is overwritten from memory is as memory says.
func (v *verdict) conditions() string {
	for _, e := range v.tx.Expect {
		at := pistore.Address{Namespace: e.Namespace, Key: e.Key}
		if _, written := v.after[at]; written && v.before[at].Seq != e.Seq {
			return fmt.Sprintf("%s was expected at %d and stood at %d", e.Namespace, e.Seq, v.before[at].Seq)
		}
	}
	for at := range v.after {
		switch at.Namespace {
		case registers.OpStateNS:
			if v.from != nil && !v.expecting[at.Namespace] {
				return "op.state is overwritten whatever it is"
			}
		case registers.LaneStateNS, registers.LaneLeafNS:
			if !v.expecting[at.Namespace] {
				return at.Namespace + " is overwritten whatever it is"
			}
		}
	}
	if v.from != nil && v.to != nil && stepIn(v.to) != "" && stepIn(v.to) != stepIn(v.from) && !v.expecting[registers.LaneConfigNS] {
		return "a step captured a configuration that may not be the lane's"
	}
	return ""
}

// stepIn is the step of an assistant turn that captured a configuration.
func stepIn(s registers.OpState) pistore.ID {
	run, ok := s.(*registers.RunState)
	if !ok {
		return ""
	}
	switch ph := run.Phase.(type) {
	case *registers.AssistantReady:
		return ph.Context.StepID
	case *registers.AssistantPending:
		return ph.Context.StepID
	case *registers.AssistantRetryWait:
		return ph.Context.StepID
	case *registers.Tools:
		return ph.StepID
	case *registers.DeferredSuspended:
		return ph.StepID
	case *registers.DeferredPending:
		return ph.StepID
	default:
		return ""
	}
}

// reservedIDs: what settles an intent has the ids that the intent named.
func (v *verdict) reservedIDs() string {
	if v.from == nil {
		return ""
	}
	reserved := registers.ReservedIDs(v.from)
	for _, e := range v.entries {
		m, err := session.EntryMessage(pistore.Entry{ID: e.ID, Type: e.Type, CustomType: e.CustomType, Payload: e.Payload})
		if err != nil {
			continue
		}
		_, response := m.(*session.AssistantMessage)
		_, result := m.(*session.ToolResultMessage)
		_, batch := phaseIn(v.from).(*registers.Tools)
		if (response || result && batch) && !slices.Contains(reserved, e.ID) {
			return fmt.Sprintf("%s settles what no intent named", m.Role())
		}
	}
	return ""
}

// bill: there is never a durable response without its usage, or response and
// usage without a decision.
func (v *verdict) bill() string {
	for _, e := range v.entries {
		m, err := session.EntryMessage(pistore.Entry{ID: e.ID, Type: e.Type, CustomType: e.CustomType, Payload: e.Payload})
		if err != nil {
			continue
		}
		response, ok := m.(*session.AssistantMessage)
		if !ok {
			continue
		}
		rows := 0
		for _, u := range v.usage {
			if u.EntryID == e.ID && u.Usage == response.Usage {
				rows++
			}
		}
		switch {
		case rows != 1:
			return fmt.Sprintf("response %s has %d usage rows", e.ID, rows)
		case v.op == "":
			return fmt.Sprintf("response %s comes without a decision", e.ID)
		}
	}
	return ""
}

// summaries: a request of a summary is billed under the id that its intent named,
// a summary that a model wrote has the id that was announced, and what is
// summarized is stored as long as a state names it.
func (v *verdict) summaries() string {
	var announced, result pistore.ID
	var prepared string
	if v.from != nil {
		if sum := registers.SummaryOf(v.from); sum != nil {
			prepared = registers.PreparationKey(v.op, sum.SummaryID)
			if sum.Generating != nil {
				result = sum.Generating.ResultEntryID
				if pend, ok := sum.Generating.Generation.(*registers.GenerationPending); ok && pend.Request != nil {
					announced = pend.Request.UsageID
				}
			}
		}
	}
	for _, u := range v.usage {
		purpose, _ := u.Details.Member("purpose")
		if (purpose == `"compaction"` || purpose == `"branch_summary"`) && result != "" && u.ID != announced {
			return fmt.Sprintf("usage row %s is of a request that no intent named", u.ID)
		}
	}
	for _, e := range v.entries {
		if (e.Type == pistore.TypeCompaction || e.Type == pistore.TypeBranchSummary) && result != "" && e.ID != result {
			return fmt.Sprintf("the summary %s was announced as %s", e.ID, result)
		}
	}
	left := prepared != "" && (v.to == nil || registers.SummaryOf(v.to) == nil)
	if value, written := v.after[pistore.Address{Namespace: registers.OpPreparationNS, Key: prepared}]; left && (!written || value != "") {
		return "a summary is left and its preparation stays"
	}
	return ""
}

// calls: a call starts with its arguments, and ends with its result.
func (v *verdict) calls() string {
	before, after := callsOf(v.from), callsOf(v.to)
	for id, key := range after {
		if _, running := before[id]; !running && v.after[key.arguments(v.op)] == "" {
			return fmt.Sprintf("the call for %s starts without its arguments", id)
		}
	}
	for id := range before {
		_, running := after[id]
		settled := slices.ContainsFunc(v.entries, func(e pistore.InsertEntry) bool { return e.ID == id })
		if !running && !settled {
			return fmt.Sprintf("the call for %s is over and has no result", id)
		}
	}
	return ""
}

// runningCall is where the arguments of a started call are.
type runningCall struct {
	step  pistore.ID
	index int64
}

func (c runningCall) arguments(op pistore.ID) pistore.Address {
	return pistore.Address{Namespace: registers.OpToolArgsNS, Key: registers.ToolKey(op, c.step, c.index)}
}

// callsOf are the started calls of a state by the ids of their results.
func callsOf(s registers.OpState) map[pistore.ID]runningCall {
	out := map[pistore.ID]runningCall{}
	if run, ok := s.(*registers.RunState); ok {
		if batch, ok := run.Phase.(*registers.Tools); ok {
			for _, c := range batch.Calls {
				if c.Status == registers.CallEffectPending {
					out[c.ResultEntryID] = runningCall{batch.StepID, c.SourceIndex}
				}
			}
		}
	}
	return out
}

// attempts are numbered one by one within a step.
func (v *verdict) attempts() string {
	to, ok := phaseIn(v.to).(*registers.AssistantPending)
	if !ok {
		return ""
	}
	want := int64(1)
	switch from := phaseIn(v.from).(type) {
	case *registers.AssistantPending:
		if from.ResponseEntryID == to.ResponseEntryID {
			return ""
		}
		if from.Context.StepID == to.Context.StepID {
			want = from.Attempt + 1
		}
	case *registers.AssistantReady:
		want = from.NextAttempt
	case *registers.AssistantRetryWait:
		want = from.NextAttempt
	}
	if to.Attempt != want || to.Attempt > to.Context.RetryPolicy.MaxAttempts {
		return fmt.Sprintf("attempt %d of %d where %d is next", to.Attempt, to.Context.RetryPolicy.MaxAttempts, want)
	}
	return ""
}

func phaseIn(s registers.OpState) registers.Phase {
	if run, ok := s.(*registers.RunState); ok {
		return run.Phase
	}
	return nil
}

// cancellation: a response is aborted only where somebody asked for it, and
// what is asked for is not taken back.
func (v *verdict) cancellation() string {
	cancelled := func(s registers.OpState) bool { return s != nil && registers.ControlOf(s).CancelRequested }
	if cancelled(v.from) && v.to != nil && !cancelled(v.to) {
		return "a cancellation is taken back"
	}
	for _, e := range v.entries {
		message, _ := e.Payload.Member("message")
		reason, _ := message.Member("stopReason")
		if text, _ := reason.Text(); text == string(session.StopAborted) && !cancelled(v.from) && !cancelled(v.to) {
			return fmt.Sprintf("response %s is aborted, and nobody asked for that", e.ID)
		}
	}
	return ""
}

// placement: queued content becomes an entry in the transaction that deletes its
// register, as it was.
func (v *verdict) placement() string {
	for _, e := range v.entries {
		at := pistore.Address{Namespace: registers.PendingEntryNS, Key: string(e.ID)}
		queued, waited := v.before[at]
		if !waited {
			continue
		}
		if value, written := v.after[at]; !written || value != "" {
			return fmt.Sprintf("%s is placed and waits all the same", e.ID)
		}
		if content, err := registers.DecodePendingEntry(queued.Value); err != nil || content.Payload != e.Payload || content.Type != e.Type {
			return fmt.Sprintf("%s is not placed as it was queued", e.ID)
		}
	}
	return ""
}

// totality: what an open operation names is there, and what it reserves is not.
func (v *verdict) totality() string {
	if v.to == nil {
		return ""
	}
	wanted := registers.RequiredKeys(v.op, v.to)
	found := v.o.registers(wanted...)
	for _, at := range wanted {
		if _, ok := found[at]; !ok {
			return fmt.Sprintf("it names %s %s, which is absent", at.Namespace, at.Key)
		}
	}
	named, reserved := registers.EntryIDs(v.to), registers.ReservedIDs(v.to)
	there := v.o.entries(append(slices.Clone(named), reserved...)...)
	for _, id := range named {
		if !there[id] {
			return fmt.Sprintf("it names entry %s, which is absent", id)
		}
	}
	for _, id := range reserved {
		if there[id] {
			return fmt.Sprintf("it reserves %s, which is an entry", id)
		}
	}
	return ""
}

// terminal: an operation ends with its outcome, frees the lane, and leaves
// nothing behind; nothing else writes an outcome.
func (v *verdict) terminal() string {
	ends := v.from != nil && v.to == nil
	var outcome pistore.JSON
	for at, value := range v.after {
		if at.Namespace == registers.LaneLastResultNS {
			outcome = value
		}
	}
	if !ends {
		if outcome != "" {
			return "an outcome is written and no operation ends"
		}
		return ""
	}
	last, err := registers.DecodeLastResult(outcome)
	state, _ := registers.DecodeLaneState(v.after[pistore.Address{Namespace: registers.LaneStateNS, Key: v.lane}])
	_, freed := v.after[pistore.Address{Namespace: registers.LaneStateNS, Key: v.lane}]
	switch {
	case err != nil || last.OperationID != v.op:
		return fmt.Sprintf("operation %s ends with the outcome %s", v.op, outcome)
	case !freed || state.CurrentOperationID != "":
		return "the operation ends and its lane is not free"
	}
	for _, namespace := range []string{registers.OpMetaNS, registers.OpStateNS, registers.OpToolArgsNS, registers.OpToolOutputNS, registers.OpPreparationNS} {
		for r, err := range v.o.store.RegistersByPrefix(context.Background(), namespace, string(v.op)) {
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%s %s outlives its operation", r.Namespace, r.Key)
		}
	}
	var queued []pistore.Address
	for _, id := range registers.QueuedIDs(v.from) {
		queued = append(queued, pistore.Address{Namespace: registers.PendingEntryNS, Key: string(id)})
	}
	if len(queued) > 0 {
		for at := range v.o.registers(queued...) {
			return fmt.Sprintf("the queued %s outlives its operation", at.Key)
		}
	}
	return ""
}
