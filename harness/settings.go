package harness

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Settings are what a harness gives to all its lanes. They are what the fields
// of Options of the same names are at first.
type Settings struct {
	Configuration registers.LaneConfiguration
	ToolExecution registers.ToolExecution
	SteeringMode  registers.QueueMode
	FollowUpMode  registers.QueueMode
	RetryPolicy   registers.RetryPolicy
	Compaction    Compaction
	StreamOptions pistore.JSON
}

// Compaction is how a context is kept small. A compaction replaces the older
// part of a conversation, for the model, by a summary.
type Compaction struct {
	// ByHand leaves it to [Lane.Compact]: a run neither compacts when its context
	// fills up nor when a provider finds it too large.
	ByHand bool
	// ReserveTokens is what of a model's context window is to stay free: a
	// context that is larger is compacted. 0: 16,384; at most half of the window.
	ReserveTokens int64
	// KeepRecentTokens is how much of the newest part stays as it is. 0: 20,000;
	// at most half of what the reserve leaves.
	KeepRecentTokens int64
}

func (o Compaction) settings() (registers.CompactionSettings, error) {
	s := registers.CompactionSettings{Enabled: !o.ByHand, ReserveTokens: o.ReserveTokens, KeepRecentTokens: o.KeepRecentTokens}
	if s.ReserveTokens == 0 {
		s.ReserveTokens = 16384
	}
	if s.KeepRecentTokens == 0 {
		s.KeepRecentTokens = 20000
	}
	if s.ReserveTokens != storable(s.ReserveTokens) || s.KeepRecentTokens != storable(s.KeepRecentTokens) {
		return s, fmt.Errorf("%w: compaction with a reserve of %d and %d kept tokens", pistore.ErrInvalid, s.ReserveTokens, s.KeepRecentTokens)
	}
	return s, nil
}

// Settings returns the settings in force, defaults filled in. The slices are
// the caller's.
func (h *Harness) Settings() Settings {
	env := h.env()
	c := env.settings.Compaction
	return Settings{
		Configuration: owned(env.seed),
		ToolExecution: env.settings.ToolExecution, SteeringMode: env.settings.SteeringMode, FollowUpMode: env.settings.FollowUpMode,
		RetryPolicy: env.retryPolicy, StreamOptions: env.streamOptions,
		Compaction: Compaction{ByHand: !c.Enabled, ReserveTokens: c.ReserveTokens, KeepRecentTokens: c.KeepRecentTokens},
	}
}

// ChangeSettings replaces the settings by what change makes of them; of calls
// that meet, each sees what the one before it left. A run keeps what it captured
// when it was accepted, a step what it captured when it started, and a lane that
// has a configuration keeps that. change must not call into the harness. Errors
// match pistore.ErrInvalid; nothing changed.
func (h *Harness) ChangeSettings(ctx context.Context, change func(Settings) Settings) error {
	if err := h.takeSettings(ctx); err != nil {
		return err
	}
	defer h.giveSettings()
	next := *h.env()
	if err := next.set(change(h.Settings())); err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	h.environment.Store(&next)
	return nil
}

// env is the environment in force. A decision reads it once.
func (h *Harness) env() *environment { return h.environment.Load() }

func (h *Harness) takeSettings(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case h.settings <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := h.admit(); err != nil {
		<-h.settings
		return err
	}
	return nil
}

func (h *Harness) giveSettings() {
	<-h.settings
	h.leave()
}

// newEnvironment fills in the defaults and checks what can be checked.
func newEnvironment(o Options) (*environment, error) {
	env := &environment{providers: o.Providers, tools: o.Tools, projectors: o.Projectors, hooks: o.Hooks.own()}
	for name, p := range o.Providers {
		if v := reflect.ValueOf(p); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("%w: provider %.80q is nil", pistore.ErrInvalid, name)
		}
	}
	if err := o.Hooks.check(); err != nil {
		return nil, err
	}
	if o.SystemPrompt != "" {
		env.system = session.TextContent(o.SystemPrompt)
	}
	return env, env.set(Settings{
		Configuration: o.Configuration, ToolExecution: o.ToolExecution, SteeringMode: o.SteeringMode, FollowUpMode: o.FollowUpMode,
		RetryPolicy: o.RetryPolicy, Compaction: o.Compaction, StreamOptions: o.StreamOptions,
	})
}

// set makes settings those of an environment.
func (env *environment) set(s Settings) error {
	env.settings = registers.Settings{SteeringMode: s.SteeringMode, FollowUpMode: s.FollowUpMode, ToolExecution: s.ToolExecution}
	var err error
	if env.settings.Compaction, err = s.Compaction.settings(); err != nil {
		return err
	}
	for _, mode := range []*registers.QueueMode{&env.settings.SteeringMode, &env.settings.FollowUpMode} {
		switch *mode {
		case "":
			*mode = registers.OneAtATime
		case registers.OneAtATime, registers.All:
		default:
			return fmt.Errorf("%w: queue mode %q", pistore.ErrInvalid, *mode)
		}
	}
	switch s.ToolExecution {
	case "":
		env.settings.ToolExecution = registers.Parallel
	case registers.Parallel, registers.Sequential:
	default:
		return fmt.Errorf("%w: tool execution %q", pistore.ErrInvalid, s.ToolExecution)
	}
	if env.seed, err = env.complete(s.Configuration); err != nil {
		return err
	}
	if env.retryPolicy = s.RetryPolicy; env.retryPolicy == (registers.RetryPolicy{}) {
		env.retryPolicy = registers.RetryPolicy{MaxAttempts: 4, BaseDelayMS: 2000}
	}
	if p := env.retryPolicy; p.MaxAttempts < 1 || p.MaxAttempts > pistore.MaxSeq || p.BaseDelayMS < 0 || p.BaseDelayMS > pistore.MaxSeq {
		return fmt.Errorf("%w: retry policy of %d attempts from %d ms", pistore.ErrInvalid, p.MaxAttempts, p.BaseDelayMS)
	}
	return env.setStreamOptions(s.StreamOptions)
}

func (env *environment) setStreamOptions(given pistore.JSON) error {
	if env.streamOptions = "{}"; given == "" {
		return nil
	}
	options, err := pistore.CompactJSON(string(given))
	if err != nil {
		return fmt.Errorf("stream options: %w", err)
	}
	if !options.IsObject() {
		return fmt.Errorf("%w: stream options are not a JSON object", pistore.ErrInvalid)
	}
	env.streamOptions = options
	return nil
}

// complete returns a configuration with what was left out filled in, and its
// words as the store gives them back. The slice is the caller's.
func (env *environment) complete(c registers.LaneConfiguration) (registers.LaneConfiguration, error) {
	if c.ActiveToolNames == nil {
		c.ActiveToolNames = env.tools.Names()
	}
	if c = owned(c); c.ThinkingLevel == "" {
		c.ThinkingLevel = "off"
	}
	c.ThinkingLevel = storedText(c.ThinkingLevel)
	for i, name := range c.ActiveToolNames {
		if slices.Contains(c.ActiveToolNames[:i], name) {
			return c, fmt.Errorf("%w: tool %.80q is named twice among the active ones", pistore.ErrInvalid, name)
		}
	}
	return c, nil
}

// owned returns a configuration whose slice is the caller's.
func owned(c registers.LaneConfiguration) registers.LaneConfiguration {
	c.ActiveToolNames = append([]string{}, c.ActiveToolNames...)
	return c
}
