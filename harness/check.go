package harness

import (
	"context"
	"fmt"
	"strings"

	"pistore"
	"pistore/registers"
)

// Self-check: what is stored is read back through restore, which shares nothing
// with the position in memory, and the two are compared. A register that
// another owner has written since is passed over; the next commit that needs it
// meets a conflict.

// facet is what one register makes of a position: all that was restored from it
// and by it.
type facet struct {
	at    pistore.Address
	seq   pistore.Seq
	value string
}

// check compares the lane's position with what is stored. The caller holds the
// line. An error is a difference, or that of a read.
func (l *Lane) check(ctx context.Context) error {
	p := l.position()
	stored, err := l.restore(ctx)
	if err != nil {
		return err
	}
	in := make(map[pistore.Address]facet)
	for _, f := range stored.facets() {
		in[f.at] = f
	}
	for _, f := range p.facets() {
		found := in[f.at]
		switch {
		case found.at == f.at && found.seq > f.seq, stored.stateSeq > p.stateSeq:
			// another owner's
		case found != f:
			return l.h.corrupt(f.at, 22, difference(f, found))
		}
	}
	if p.op == nil || !p.hasPath() || stored.leafSeq != p.leafSeq {
		return nil
	}
	return l.checkPath(ctx, p, stored)
}

func difference(memory, stored facet) string {
	switch {
	case stored.seq == 0:
		return "it is not stored, and it is in memory"
	case stored.seq != memory.seq:
		return fmt.Sprintf("it is stored with seq %d, and in memory with seq %d", stored.seq, memory.seq)
	default:
		return "what it holds, or what it names, is stored otherwise than it is in memory"
	}
}

// facets are the registers of a position with what they stand for.
func (p *position) facets() []facet {
	lane := func(namespace string, seq pistore.Seq, value ...string) facet {
		return facet{pistore.Address{Namespace: namespace, Key: p.lane}, seq, strings.Join(value, "\n")}
	}
	out := []facet{
		lane(registers.LaneLeafNS, p.leafSeq, string(p.leaf)),
		lane(registers.LaneStateNS, p.stateSeq, string(registers.EncodeLaneState(p.state)), p.contents(p.state.PendingNextRun)),
	}
	if p.configSeq != 0 {
		out = append(out, lane(registers.LaneConfigNS, p.configSeq, string(registers.EncodeLaneConfiguration(*p.config))))
	}
	if p.op != nil {
		at := pistore.Address{Namespace: registers.OpStateNS, Key: string(p.op.meta.OperationID)}
		out = append(out, facet{at, p.op.seq, p.op.describe() + p.contents(registers.QueuedIDs(p.op.state))})
	}
	return out
}

// contents is the content of what is queued under some ids.
func (p *position) contents(ids []pistore.ID) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, "%s %s\n", id, registers.EncodePendingEntry(p.queued[id]))
	}
	return b.String()
}

// describe is all that is known of an operation and durable.
func (op *operation) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", registers.EncodeOpMeta(op.meta), registers.EncodeOpState(op.state))
	if batch, ok := op.phase().(*registers.Tools); ok {
		for i, call := range batch.Calls {
			fmt.Fprintf(&b, "call %q %q %s args %s", op.batch[i].ID, op.batch[i].Name, op.batch[i].Arguments, op.args[i])
			if out, partial := op.output[i]; partial && call.Status == registers.CallEffectPending {
				fmt.Fprintf(&b, " output %s", registers.EncodeToolOutput(out))
			}
			b.WriteByte('\n')
		}
	}
	if op.handle != nil {
		fmt.Fprintf(&b, "handle %+v\n", *op.handle)
	}
	if op.summary.preparation != nil {
		fmt.Fprintf(&b, "preparation %s\n", registers.EncodePreparation(*op.summary.preparation))
	}
	return b.String()
}

// checkPath compares the path in memory with the stored one.
func (l *Lane) checkPath(ctx context.Context, p, stored *position) error {
	stored, err := l.h.withPath(ctx, stored)
	if err != nil {
		return err
	}
	a, b := p.path, stored.path
	for a != nil && b != nil && a.Entry == b.Entry {
		a, b = a.prev, b.prev
	}
	if a == nil && b == nil {
		return nil
	}
	at := pistore.Address{Namespace: registers.LaneLeafNS, Key: p.lane}
	return l.h.corrupt(at, 22, "the path to the leaf is stored otherwise than it is in memory")
}
