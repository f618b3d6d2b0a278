package harness

import (
	"context"
	"fmt"
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Prompt is what a run starts from: text and images of the user, and messages
// of any other kind that a user may send, which come first.
type Prompt struct {
	Messages []session.Message // *UserMessage, *CustomMessage, *BashMessage or *SystemMessage
	Text     string
	Images   []session.Image
}

// messages returns the prompt as messages to store.
func (in Prompt) messages(now pistore.UnixMS) ([]session.Message, error) {
	out := slices.Clone(in.Messages)
	var content []session.Block
	if in.Text != "" {
		content = append(content, session.Text{Text: in.Text})
	}
	for _, img := range in.Images {
		content = append(content, img)
	}
	if content != nil {
		out = append(out, &session.UserMessage{Content: content, Timestamp: now})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: the prompt is empty", ErrInvalidMessage)
	}
	return out, checkInput(out)
}

// checkInput refuses messages that no prompt holds.
func checkInput(messages []session.Message) error {
	for i, m := range messages {
		switch m.(type) {
		case *session.UserMessage, *session.CustomMessage, *session.BashMessage, *session.SystemMessage:
		default:
			return fmt.Errorf("%w: a prompt holds no %T", ErrInvalidMessage, m)
		}
		if _, err := readBack(m); err != nil {
			return fmt.Errorf("%w: message %d: %w", ErrInvalidMessage, i, err)
		}
	}
	return nil
}

// Prompt accepts a run and returns when it is durable; nothing was tried yet
// then. Errors: ErrLaneBusy, ErrMissingIdentities, ErrInvalidMessage, those of
// a commit, and the context's before admission; nothing was written.
func (l *Lane) Prompt(ctx context.Context, in Prompt) (*Handle, error) {
	messages, err := in.messages(l.h.clock.Read())
	if err != nil {
		return nil, fmt.Errorf("harness: lane %s: %w", l.name, err)
	}
	if messages, err = l.beforeRun(ctx, messages); err != nil {
		return nil, err
	}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.give()
	p, err := l.decide(ctx, func(p *position, m mint, c *change) (*position, error) {
		if err := accepts(p, l.h.env()); err != nil {
			return nil, err
		}
		p, err := l.h.withPath(ctx, p)
		if err != nil {
			return nil, err
		}
		c.moved = true
		return accept(p, messages, l.h.env(), m, c), nil
	})
	if err != nil {
		return nil, err
	}
	handle := newHandle(p.op.meta.OperationID, l.name)
	l.adopt(handle)
	l.start(ctx, handle, false)
	return handle, nil
}

// accepts says why a lane takes no prompt, or nil.
func accepts(p *position, env *environment) error {
	if p.op != nil {
		return busy(p.op)
	}
	if name := env.missing(p.configuration(env)); name != "" {
		return fmt.Errorf("%w: %s", ErrMissingIdentities, name)
	}
	return nil
}

func busy(op *operation) error {
	return fmt.Errorf("%w: operation %s is open", ErrLaneBusy, op.meta.OperationID)
}

// accept is the accepting row: it turns an idle position into an open run. What
// waited for it comes first.
func accept(p *position, messages []session.Message, env *environment, m mint, c *change) *position {
	op := &operation{meta: registers.OpMeta{
		OperationID: m.New(), Lane: p.lane, SourceLeafID: p.leaf, StartedAt: m.Now(),
		Intent: registers.Intent{Kind: registers.KindRun},
	}}
	for _, id := range p.state.PendingNextRun {
		op.meta.Intent.PromptEntryIDs = append(op.meta.Intent.PromptEntryIDs, id)
		p = c.placeQueued(p, id)
	}
	for _, msg := range messages {
		id := m.New()
		op.meta.Intent.PromptEntryIDs = append(op.meta.Intent.PromptEntryIDs, id)
		p = c.placeMessage(p, id, msg)
	}
	op.state = &registers.RunState{Settings: env.settings, Phase: &registers.Checkpoint{
		Continuation: &registers.NeedAssistant{}, TriggerEntryID: p.leaf, SkipInboxOnce: true,
	}}
	open := *p
	open.op = op
	open.state = registers.LaneState{CurrentOperationID: op.meta.OperationID}
	if open.config == nil {
		seed := env.seed
		open.config, c.configured = &seed, true
	}
	c.tell(RunStart{open.about("")})
	return &open
}
