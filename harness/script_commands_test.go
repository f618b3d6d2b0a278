package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// told shows what a call returned if it failed.
func (s *scripted) told(err error) string {
	if err == nil {
		return ""
	}
	for _, sentinel := range []error{
		harness.ErrLaneBusy, harness.ErrNoActiveRun, harness.ErrNoActiveOperation, harness.ErrNothingToCompact,
		harness.ErrInvalidNavigation, harness.ErrUnknownTarget, harness.ErrLaneExists, harness.ErrInvalidLane, harness.ErrMissingIdentities, harness.ErrNothingToResume, harness.ErrInvalidMessage, harness.ErrNotParked,
		pistore.ErrInvalid, pistore.ErrClosed, pistore.ErrFaulted,
	} {
		if errors.Is(err, sentinel) {
			return "\nerror: " + sentinel.Error()
		}
	}
	s.d.Fatalf(s.t, "%v", err)
	return ""
}

// calling is the command of a public call, which is not the drive's.
func calling(call func(*scripted, *rig) error) func(*scripted) string {
	return func(s *scripted) string {
		before := len(s.rig.store.commits())
		err := call(s, s.rig)
		s.count.calls += len(s.rig.store.commits()) - before
		s.rig.check(s.rig.lane.Settle(s.rig.ctx))
		return s.told(err)
	}
}

func (s *scripted) queue(into func(context.Context, harness.Prompt) ([]pistore.ID, error)) error {
	_, err := into(s.rig.ctx, harness.Prompt{Text: s.words()})
	return err
}

func (s *scripted) cancel() string {
	cancelled := false
	out := calling(func(s *scripted, r *rig) (err error) {
		cancelled, err = r.lane.CancelQueued(r.ctx, s.n.id(s.words()))
		return err
	})(s)
	if !cancelled {
		return out + "\nit does not wait any more"
	}
	return out
}

// abort counts the effects that it refuses, which had their intents, and the
// drive that it starts on an operation that is suspended.
func (s *scripted) abort(r *rig) error {
	for _, e := range r.lane.Peek() {
		if e.Kind != harness.EffectCommit {
			s.count.effects++
		}
	}
	if len(r.lane.Peek()) == 0 {
		s.count.resumes++
	}
	_, err := r.lane.Abort(r.ctx)
	return err
}

// accepting is the command of a call that accepts an operation.
func accepting(call func(*scripted, *rig) (*harness.Handle, error)) func(*scripted) string {
	return func(s *scripted) string {
		_, err := call(s, s.rig)
		s.rig.check(s.rig.lane.Settle(s.rig.ctx))
		if err == nil {
			s.count.operations++
			s.count.commits++
		}
		return s.told(err)
	}
}

func (s *scripted) navigate(r *rig) (*harness.Handle, error) {
	var nav harness.Navigation
	for i, word := range strings.Fields(s.words()) {
		label, labelled := strings.CutPrefix(word, "label=")
		switch {
		case i == 0:
			nav.TargetID = s.n.id(word)
		case labelled:
			nav.Label = label
		default:
			nav.Summarize = word == "summarize"
		}
	}
	return r.lane.Navigate(r.ctx, nav)
}

// compacted matches requests whose context begins with a summary.
func compacted(req provider.Request) bool {
	first, ok := req.Messages[0].(*session.UserMessage)
	return ok && !asksForSummary(req) && strings.Contains(session.JoinText(first.Content), "SUMMARY")
}

// expanded is a text, where "words N" stands for as many.
func expanded(text string) string {
	if n, ok := strings.CutPrefix(text, "words "); ok {
		if count, err := strconv.Atoi(n); err == nil {
			return words(count)
		}
	}
	return text
}

// step releases effects, and shows those that are no commits.
func (s *scripted) step() string {
	var b strings.Builder
	times, kind := 1, ""
	if word := s.words(); word != "" {
		n, err := strconv.Atoi(word)
		if err != nil {
			kind = word
		} else {
			times = n
		}
	}
	for range times {
		s.release(&b, kind)
	}
	return b.String()
}

func (s *scripted) run() string {
	var b strings.Builder
	for len(s.rig.lane.Peek()) > 0 {
		s.release(&b, "")
	}
	return b.String()
}

func (s *scripted) release(b *strings.Builder, kind string) {
	r := s.rig
	parked := r.lane.Peek()
	i := 0
	if kind != "" {
		i = slices.IndexFunc(parked, func(e harness.Effect) bool { return strings.HasPrefix(s.describe(e), kind) })
	}
	if i < 0 || len(parked) == 0 {
		s.d.Fatalf(s.t, "no %s is parked", kind)
	}
	before := s.reads.reads.Load()
	effect, err := r.lane.StepEffect(r.ctx, parked[i].ID)
	r.check(err)
	s.count.reads += int(s.reads.reads.Load() - before)
	switch effect.Kind {
	case harness.EffectHook:
		s.count.hooks++
		b.WriteString("\n> " + s.describe(effect))
	case harness.EffectCommit:
		s.count.commits += len(r.store.commits()) - s.shown
	default:
		s.count.effects++
		b.WriteString("\n> " + s.describe(effect))
	}
	b.WriteString(s.news())
}

// describe shows an effect as a person would name it.
func (s *scripted) describe(e harness.Effect) string {
	v := parseValue(e.Detail)
	switch e.Kind {
	case harness.EffectCommit:
		return "commit"
	case harness.EffectRequest:
		if v.member("attempt").raw == "" || v.member("responseEntryId").text() == "" {
			return "request " + s.n.value("", v)
		}
		return fmt.Sprintf("request %s, attempt %s", s.n.value("", v.member("responseEntryId")), v.member("attempt").raw)
	case harness.EffectTool:
		return fmt.Sprintf("tool %s %s → %s", v.member("toolName").text(), v.member("arguments").compact(), s.n.value("", v.member("resultEntryId")))
	case harness.EffectHook:
		text := "hook " + v.member("hook").text()
		if of := v.member("of"); !of.empty() {
			text += " " + s.n.value("", of)
		}
		return text
	case harness.EffectSleep:
		return "sleep until " + s.n.value("", v.member("until"))
	default:
		return string(e.Kind) + " " + s.n.value("", v)
	}
}

func (s *scripted) parked() string {
	var b strings.Builder
	for _, e := range s.rig.lane.Peek() {
		b.WriteString("\n" + s.describe(e))
	}
	return b.String()
}

// crash abandons the process: what is stored is opened by another one.
func (s *scripted) crash() string {
	s.config.rows = s.rig.rows()
	s.config.seed++
	next := s.config
	if name, lacking := strings.CutPrefix(s.words(), "without "); lacking {
		next.options = func(o *harness.Options) {
			s.config.options(o)
			others := slices.DeleteFunc(s.config.world.tools(), func(t tool.Tool) bool { return t.Name == name })
			var err error
			o.Tools, err = tool.NewSet(others...)
			s.rig.check(err)
		}
	}
	s.rig, s.shown = newRig(s.t, next), 0
	handle := s.rig.lane.Handle()
	if handle == nil {
		return "\nidle"
	}
	return s.result()
}

// resuming is the command of a call that resumes, or leaves it.
func resuming(call func(*harness.Lane, context.Context) (*harness.Handle, error)) func(*scripted) string {
	return func(s *scripted) string {
		_, err := call(s.rig.lane, s.rig.ctx)
		s.rig.check(s.rig.lane.Settle(s.rig.ctx))
		if err != nil {
			return s.told(err)
		}
		if len(s.rig.lane.Peek()) == 0 { // it stays where it is
			return s.result()
		}
		s.count.resumes++
		return ""
	}
}

// settings changes those that its words name.
func (s *scripted) settings(r *rig) error {
	return r.h.ChangeSettings(r.ctx, func(to harness.Settings) harness.Settings {
		for _, word := range strings.Fields(s.words()) {
			switch name, value, _ := strings.Cut(word, "="); name {
			case "tools":
				to.ToolExecution = registers.ToolExecution(value)
			case "steering":
				to.SteeringMode = registers.QueueMode(value)
			case "attempts":
				to.RetryPolicy.MaxAttempts = s.number(value)
			case "thinking":
				to.Configuration.ThinkingLevel = value
			case "options":
				to.StreamOptions = pistore.JSON(value)
			default:
				s.d.Fatalf(s.t, "what is setting %s?", name)
			}
		}
		return to
	})
}

func (s *scripted) result() string {
	result, err := s.rig.lane.Handle().Wait(s.rig.ctx)
	if err != nil {
		return s.told(err)
	}
	if r := result.Suspended; r != nil {
		return strings.TrimRight(fmt.Sprintf("\nsuspended: %s %s", r.Reason, r.Detail), " ")
	}
	text := fmt.Sprintf("\nended: %s", result.Ended.Outcome)
	if result.Ended.Error != nil {
		text += " " + result.Ended.Error.Code
	}
	return text
}
