package harness

import (
	"context"
	"fmt"
	"strings"

	"pistore"
	"pistore/registers"
)

// The calls that ask for a summary or a move of the leaf.

// maxWishBytes bounds what a caller may add in words: the state of the operation
// repeats it with each commit.
const maxWishBytes = 64 << 10

// Compact replaces the older part of the lane's conversation, for the model, by
// a summary; what was said stays in the store. It returns when that is accepted:
// what is to be summarized is fixed then, and the lane is taken until the summary
// is written. instructions may be empty. Errors: ErrLaneBusy,
// ErrNothingToCompact, ErrMissingIdentities, ErrInvalidMessage for instructions
// that are too long, those of a read and of a commit; nothing was written.
func (l *Lane) Compact(ctx context.Context, instructions string) (*Handle, error) {
	if len(instructions) > maxWishBytes {
		return nil, fmt.Errorf("harness: lane %s: %w: instructions of %d bytes, more than %d", l.name, ErrInvalidMessage, len(instructions), maxWishBytes)
	}
	instructions = storedText(instructions)
	return l.beginOperation(ctx, func(p *position, ids mint, c *change) (*position, error) {
		env := l.h.env()
		if name := env.missingModel(p.configuration(env)); name != "" {
			return nil, fmt.Errorf("%w: %s", ErrMissingIdentities, name)
		}
		p, err := l.h.withPath(ctx, p)
		if err != nil {
			return nil, err
		}
		messages, err := env.project(p.path.views())
		if err != nil {
			return nil, err
		}
		prep := prepareCompaction(messages, contextTokens(p, p.path, env), limitsOf(env.settings.Compaction, env.window(p)).keep)
		if prep == nil {
			return nil, ErrNothingToCompact
		}
		if err := checkPreparation(prep); err != nil {
			return nil, err
		}
		return acceptCompaction(p, prep, instructions, env, ids, c), nil
	})
}

// storedText is a text as it comes back from the store.
func storedText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Navigation is a move of a lane's leaf.
type Navigation struct {
	TargetID pistore.ID // an entry of the session, not the one that the lane stands on
	// Label, if any, is set on the entry that the lane stands on afterwards.
	Label string
	// Summarize leaves a summary of the branch that is left under the target, if
	// there is anything on it to summarize.
	Summarize bool
	// CustomInstructions for the summary; optional.
	CustomInstructions string
}

// Navigate moves the leaf of the lane. It returns when that is accepted. Errors:
// ErrLaneBusy, ErrInvalidNavigation, ErrUnknownTarget, ErrMissingIdentities for
// a summary, those of a read and of a commit; nothing was written.
func (l *Lane) Navigate(ctx context.Context, nav Navigation) (*Handle, error) {
	if n := max(len(nav.CustomInstructions), len(nav.Label)); n > maxWishBytes {
		return nil, fmt.Errorf("harness: lane %s: %w: a label or instructions of %d bytes, more than %d", l.name, ErrInvalidNavigation, n, maxWishBytes)
	}
	if err := nav.TargetID.Check(); err != nil {
		return nil, fmt.Errorf("harness: lane %s: %w: target: %w", l.name, ErrInvalidNavigation, err)
	}
	nav.Label, nav.CustomInstructions = storedText(nav.Label), storedText(nav.CustomInstructions)
	return l.beginOperation(ctx, func(p *position, ids mint, c *change) (*position, error) {
		if nav.TargetID == p.leaf {
			return nil, fmt.Errorf("%w: the lane stands on %s already", ErrInvalidNavigation, p.leaf)
		}
		found, err := l.h.storage.Entries(ctx, []pistore.ID{nav.TargetID})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%w: %s", ErrUnknownTarget, nav.TargetID)
		}
		prep, err := l.prepareNavigation(ctx, p, nav)
		if err != nil {
			return nil, err
		}
		return acceptNavigation(p, nav, prep, l.h.env(), ids, c), nil
	})
}

// prepareNavigation takes what a navigation is to leave a summary of; nil if
// none is asked for, or there is nothing.
func (l *Lane) prepareNavigation(ctx context.Context, p *position, nav Navigation) (*registers.Preparation, error) {
	if !nav.Summarize || p.leaf == "" {
		return nil, nil
	}
	left, ancestor, err := l.h.leftBranch(ctx, p.leaf, nav.TargetID)
	if err != nil {
		return nil, err
	}
	messages, err := l.h.env().project(left)
	if err != nil {
		return nil, err
	}
	prep := prepareBranch(messages, p.leaf, ancestor)
	if prep == nil {
		return nil, nil
	}
	if name := l.h.env().missingModel(p.configuration(l.h.env())); name != "" {
		return nil, fmt.Errorf("%w: %s", ErrMissingIdentities, name)
	}
	return prep, checkPreparation(prep)
}

// beginOperation accepts an operation on an idle lane and drives it. plan decides on the
// line, and again if the lane changed in the store meanwhile. Whoever wants to
// write to the lane comes before it or after: what it read is what it decides
// from.
func (l *Lane) beginOperation(ctx context.Context, plan func(*position, mint, *change) (*position, error)) (*Handle, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.give()
	p, err := l.decide(ctx, func(p *position, ids mint, c *change) (*position, error) {
		if p.op != nil {
			return nil, busy(p.op)
		}
		c.moved = true
		return plan(p, ids, c)
	})
	if err != nil {
		return nil, err
	}
	handle := newHandle(p.op.meta.OperationID, l.name)
	l.adopt(handle)
	l.start(ctx, handle, false)
	return handle, nil
}

// open makes an operation of an idle position.
func open(p *position, intent registers.Intent, env *environment, m mint, c *change) *position {
	next := *p
	next.op = &operation{meta: registers.OpMeta{
		OperationID: m.New(), Lane: p.lane, SourceLeafID: p.leaf, StartedAt: m.Now(), Intent: intent,
	}}
	next.state.CurrentOperationID = next.op.meta.OperationID
	if next.config == nil {
		seed := env.seed
		next.config, c.configured = &seed, true
	}
	return &next
}

// acceptCompaction is the accepting row of a compaction.
func acceptCompaction(p *position, prep *registers.Preparation, instructions string, env *environment, m mint, c *change) *position {
	p = open(p, registers.Intent{Kind: registers.KindCompaction, CustomInstructions: instructions}, env, m, c)
	p.op.state = &registers.CompactionState{
		CustomInstructions: instructions, Summary: beginSummary(p.op.meta.OperationID, prep, m, c),
	}
	p.op.summary.preparation = prep
	c.tell(CompactionStart{About: p.about("")})
	return p
}

// acceptNavigation is the accepting row of a navigation; prep is nil for one
// that leaves no summary.
func acceptNavigation(p *position, nav Navigation, prep *registers.Preparation, env *environment, m mint, c *change) *position {
	intent := registers.Intent{Kind: registers.KindNavigation, TargetID: nav.TargetID}
	if prep != nil {
		intent.Summarize, intent.CustomInstructions = true, nav.CustomInstructions
	}
	p = open(p, intent, env, m, c)
	state := &registers.NavigationState{TargetID: nav.TargetID, Label: nav.Label}
	if prep != nil {
		sum := beginSummary(p.op.meta.OperationID, prep, m, c)
		state.Summary, p.op.summary.preparation = &sum, prep
	}
	p.op.state = state
	c.tell(NavigationStart{p.about(""), nav.TargetID})
	return p
}
