package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"pistore"
	"pistore/registers"
)

// CreateLane makes a lane that stands on anchor, empty for before any entry, with
// the configuration of the settings and nothing to do. Errors: ErrInvalidLane,
// ErrLaneExists, ErrUnknownTarget when there is no such entry; nothing was
// written.
func (h *Harness) CreateLane(ctx context.Context, name string, anchor pistore.ID) (*Lane, error) {
	if err := registers.CheckLane(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidLane, err)
	}
	if err := h.takeSettings(ctx); err != nil {
		return nil, err
	}
	l := h.lane(name)
	defer h.letGo(l)
	if err := l.take(ctx); err != nil {
		h.giveSettings()
		return nil, err
	}
	defer l.give()
	defer h.giveSettings() // first: a listener that hears of the lane may change them
	if l.position() != nil {
		return nil, fmt.Errorf("harness: %w: %s", ErrLaneExists, name)
	}
	if anchor != "" {
		found, err := h.storage.Entries(ctx, []pistore.ID{anchor})
		if err != nil {
			return nil, fmt.Errorf("harness: create lane %s: %w", name, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("harness: create lane %s: %w: entry %.140q", name, ErrUnknownTarget, string(anchor))
		}
	}
	r, err := l.write(ctx, About{Lane: name}, newLaneTx(name, anchor, h.env().seed))
	if errors.Is(err, pistore.ErrConflict) {
		return nil, fmt.Errorf("harness: %w: %s", ErrLaneExists, name)
	}
	if err != nil {
		return nil, l.rejected(ctx, err)
	}
	config := owned(h.env().seed)
	l.move(&position{
		lane: name, leaf: anchor, leafSeq: r.Seqs[0], config: &config, configSeq: r.Seqs[1], stateSeq: r.Seqs[2],
	})
	if h.checks {
		if err := l.check(context.WithoutCancel(ctx)); err != nil {
			return nil, l.rejected(ctx, err)
		}
	}
	l.post(LaneCreated{About{Lane: name}, anchor})
	return l, nil
}

// newLaneTx writes the registers of a lane that must not exist.
func newLaneTx(name string, anchor pistore.ID, config registers.LaneConfiguration) pistore.Tx {
	var tx pistore.Tx
	for _, r := range []pistore.SetRegister{
		{Namespace: registers.LaneLeafNS, Key: name, Value: registers.EncodeLaneLeaf(anchor)},
		{Namespace: registers.LaneConfigNS, Key: name, Value: registers.EncodeLaneConfiguration(config)},
		{Namespace: registers.LaneStateNS, Key: name, Value: registers.EncodeLaneState(registers.LaneState{})},
	} {
		tx.Writes = append(tx.Writes, r)
		tx.Expect = append(tx.Expect, pistore.Precondition{Namespace: r.Namespace, Key: r.Key})
	}
	return tx
}

// Configuration returns the lane's configuration, or the seed that its first
// operation will store. The slice in it is the caller's.
func (l *Lane) Configuration() registers.LaneConfiguration {
	return owned(l.position().configuration(l.h.env()))
}

// SetConfiguration overwrites the lane's configuration; what is left out means
// what it means in Options. A step that has started keeps the one it captured.
// Errors: ErrMissingIdentities, pistore.ErrInvalid.
func (l *Lane) SetConfiguration(ctx context.Context, c registers.LaneConfiguration) error {
	c.ActiveToolNames = slices.Clone(c.ActiveToolNames)
	return l.configure(ctx, (*environment).missing, func(old *registers.LaneConfiguration) { *old = c })
}

// SetModel sets the model alone, as SetConfiguration sets everything.
func (l *Lane) SetModel(ctx context.Context, m registers.ModelRef) error {
	return l.configure(ctx, (*environment).missingModel, func(c *registers.LaneConfiguration) { c.Model = m })
}

// SetThinkingLevel sets the thinking level alone; the model need not be there.
func (l *Lane) SetThinkingLevel(ctx context.Context, level string) error {
	none := func(*environment, registers.LaneConfiguration) string { return "" }
	return l.configure(ctx, none, func(c *registers.LaneConfiguration) { c.ThinkingLevel = level })
}

// SetActiveTools sets the active tools alone, nil for all; the model need not be
// there.
func (l *Lane) SetActiveTools(ctx context.Context, names []string) error {
	names = slices.Clone(names)
	return l.configure(ctx, (*environment).missingTool, func(c *registers.LaneConfiguration) { c.ActiveToolNames = names })
}

// configure commits a change of the lane's configuration, unless it names what
// is not there.
func (l *Lane) configure(
	ctx context.Context, missing func(*environment, registers.LaneConfiguration) string, set func(*registers.LaneConfiguration),
) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	_, err := l.decide(ctx, func(p *position, _ mint, c *change) (*position, error) {
		env := l.h.env()
		config := owned(p.configuration(env))
		set(&config)
		config, err := env.complete(config)
		if err != nil {
			return nil, err
		}
		if name := missing(env, config); name != "" {
			return nil, fmt.Errorf("%w: %s", ErrMissingIdentities, name)
		}
		c.moved, c.configured = true, true
		c.tell(ConfigUpdate{p.about(""), owned(config)})
		next := *p
		next.config = &config
		return &next, nil
	})
	return err
}
