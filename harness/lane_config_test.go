package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
)

// A lane is created in one transaction, where it is to stand, and runs at once.
func TestCreateLane(t *testing.T) {
	var created []harness.LaneCreated
	r := newRig(t, config{script: echo, active: []string{"append"}, onEvent: func(ev harness.Event) {
		if ev, ok := ev.(harness.LaneCreated); ok {
			created = append(created, ev)
		}
	}})
	r.completed(r.prompt("go"))
	anchor := r.lane.Leaf()
	before := len(r.store.commits())
	side, err := r.h.CreateLane(r.ctx, "side", anchor)
	r.check(err)
	if diff := cmp.Diff([]string{"lane.leaf; lane.config; lane.state=idle"}, r.outlines(before)); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	empty, err := r.h.CreateLane(r.ctx, "empty", "")
	r.check(err)
	if diff := cmp.Diff([]harness.LaneCreated{{About: harness.About{Lane: "side"}, Leaf: anchor}, {About: harness.About{Lane: "empty"}}}, created); diff != "" {
		t.Errorf("events: %s", diff)
	}
	before = len(r.store.commits())
	for name, want := range map[string]error{"side": harness.ErrLaneExists, "main": harness.ErrLaneExists, "a\x00": harness.ErrInvalidLane} {
		if _, err := r.h.CreateLane(r.ctx, name, ""); !errors.Is(err, want) {
			t.Errorf("lane %q: %v", name, err)
		}
	}
	if _, err := r.h.CreateLane(r.ctx, "lost", "nowhere"); !errors.Is(err, harness.ErrUnknownTarget) {
		t.Errorf("an unknown anchor: %v", err)
	}
	if n := len(r.store.commits()) - before; n != 0 {
		t.Errorf("rejections made %d commits", n)
	}
	if _, err := r.h.Lane(r.ctx, "lost"); !errors.Is(err, harness.ErrUnknownLane) {
		t.Errorf("a lane that was not created: %v", err)
	}
	for _, lane := range []*harness.Lane{side, empty} {
		same, err := r.h.Lane(r.ctx, lane.Name())
		r.check(err)
		if same != lane {
			t.Errorf("lane %s is another one", lane.Name())
		}
		r.lane = lane
		r.completed(r.prompt("go"))
	}
	verifyClean(t, r.store)

	// Made by another owner first, it exists.
	other := newRig(t, config{script: echo, rows: r.rows(), seed: 1})
	if _, err := other.h.CreateLane(other.ctx, "side", ""); !errors.Is(err, harness.ErrLaneExists) {
		t.Errorf("a lane that exists in the store: %v", err)
	}
}

// A listener that hears of a lane may change the settings, and make another.
func TestListenerOfANewLane(t *testing.T) {
	var r *rig
	heard := make(chan error, 2)
	r = newRig(t, config{script: echo, onEvent: func(ev harness.Event) {
		if ev, ok := ev.(harness.LaneCreated); ok && ev.Lane == "first" {
			heard <- r.h.ChangeSettings(r.ctx, func(s harness.Settings) harness.Settings { return s })
			_, err := r.h.CreateLane(r.ctx, "second", "")
			heard <- err
		}
	}})
	_, err := r.h.CreateLane(r.ctx, "first", "")
	r.check(err)
	for range 2 {
		r.check(await(r, heard))
	}
}

// Names that nobody made a lane of are not kept in memory.
func TestUnknownLanesAreForgotten(t *testing.T) {
	r := newRig(t, config{script: echo})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if _, err := r.h.Lane(r.ctx, fmt.Sprint("lane ", i%8)); !errors.Is(err, harness.ErrUnknownLane) {
				t.Error(err)
			}
			if _, err := r.h.CreateLane(r.ctx, fmt.Sprint("lane ", i%8), "nowhere"); !errors.Is(err, harness.ErrUnknownTarget) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if names := harness.KnownLanes(r.h); len(names) != 1 {
		t.Errorf("lanes %q are kept", names)
	}
}

// A lane that is stored otherwise than it was made is a fault, where commits are
// read back.
func TestCreateLaneChecks(t *testing.T) {
	s := &spoiler{spoil: func(w pistore.Write) pistore.Write {
		if set, ok := w.(pistore.SetRegister); ok && set.Namespace == registers.LaneConfigNS {
			set.Value = pistore.JSON(strings.Replace(string(set.Value), `"off"`, `"high"`, 1))
			return set
		}
		return w
	}}
	r := newRig(t, config{script: echo, spoiled: true, wrap: func(inner pistore.Storage) pistore.Storage { s.Storage = inner; return s }})
	if _, err := r.h.CreateLane(r.ctx, "side", ""); !errors.Is(err, pistore.ErrFaulted) || !errors.Is(err, pistore.ErrCorrupt) {
		t.Errorf("create: %v", err)
	}
}

// Of calls that meet one creates the lane.
func TestCreateLaneMeets(t *testing.T) {
	r := newRig(t, config{script: echo})
	var mu sync.Mutex
	made, refused := 0, 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := r.h.CreateLane(r.ctx, "side", "")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case errors.Is(err, harness.ErrLaneExists):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made != 1 || refused != 7 {
		t.Errorf("%d made, %d refused", made, refused)
	}
}

// Each setter sets its part; what it names must be there.
func TestSetters(t *testing.T) {
	r := newRig(t, config{script: echo})
	r.check(r.lane.SetThinkingLevel(r.ctx, "high"))
	names := []string{"lookup"}
	r.check(r.lane.SetActiveTools(r.ctx, names))
	names[0] = "changed behind the call"
	r.check(r.lane.SetModel(r.ctx, registers.ModelRef{Provider: "faux", ModelID: "faux-1"}))
	want := registers.LaneConfiguration{
		Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ThinkingLevel: "high", ActiveToolNames: []string{"lookup"},
	}
	if diff := cmp.Diff(want, r.lane.Configuration()); diff != "" {
		t.Errorf("configuration: %s", diff)
	}
	before := len(r.store.commits())
	for what, err := range map[string]error{
		"model": r.lane.SetModel(r.ctx, registers.ModelRef{Provider: "faux", ModelID: "none"}),
		"tool":  r.lane.SetActiveTools(r.ctx, []string{"none"}),
	} {
		if !errors.Is(err, harness.ErrMissingIdentities) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(r.store.commits()) - before; n != 0 {
		t.Errorf("rejections made %d commits", n)
	}
	again := newRig(t, config{script: echo, rows: r.rows(), seed: 1})
	if diff := cmp.Diff(want, again.lane.Configuration()); diff != "" {
		t.Errorf("configuration behind a restart: %s", diff)
	}
}

// What is left out of a configuration means the same to New and to a setter, and
// so does what is wrong with one.
func TestConfigurationsAreCompleted(t *testing.T) {
	r := newRig(t, config{script: echo})
	want := r.lane.Configuration()
	r.check(r.lane.SetActiveTools(r.ctx, []string{}))
	r.check(r.lane.SetActiveTools(r.ctx, nil))
	r.check(r.lane.SetThinkingLevel(r.ctx, "\xff"))
	if got := r.lane.Configuration().ThinkingLevel; got != "\uFFFD" {
		t.Errorf("the thinking level is %q", got)
	}
	r.check(r.lane.SetThinkingLevel(r.ctx, ""))
	if diff := cmp.Diff(want, r.lane.Configuration()); diff != "" {
		t.Errorf("parts: %s", diff)
	}
	r.check(r.lane.SetConfiguration(r.ctx, registers.LaneConfiguration{Model: want.Model}))
	if diff := cmp.Diff(want, r.lane.Configuration()); diff != "" {
		t.Errorf("whole: %s", diff)
	}
	twice := []string{"lookup", "lookup"}
	if err := r.lane.SetActiveTools(r.ctx, twice); !errors.Is(err, pistore.ErrInvalid) {
		t.Errorf("a tool named twice: %v", err)
	}
	for what, o := range map[string]harness.Options{
		"a tool named twice": {Configuration: registers.LaneConfiguration{ActiveToolNames: twice}},
		"a drive":            {Drive: 7},
		"a provider":         {Providers: provider.Set{"none": nil}},
		"a nil pointer":      {Providers: provider.Set{"faux": (*faux.Provider)(nil)}},
		"a hook": {Hooks: harness.Hooks{
			BeforeRequest: []func(context.Context, harness.RequestPlan) (harness.RequestPlan, error){nil},
		}},
	} {
		if _, err := harness.New(r.store, o); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Setters of different parts that meet lose nothing, another owner's included.
func TestSettersMeet(t *testing.T) {
	r := newRig(t, config{script: echo})
	r.completed(r.prompt("go"))
	r.configureBeside("low")
	r.check(r.lane.SetActiveTools(r.ctx, []string{"append"}))
	if c := r.lane.Configuration(); c.ThinkingLevel != "low" || len(c.ActiveToolNames) != 1 {
		t.Errorf("configuration %+v", c)
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.check(r.lane.SetThinkingLevel(r.ctx, "high")) })
	wg.Go(func() { r.check(r.lane.SetActiveTools(r.ctx, []string{"lookup"})) })
	wg.Wait()
	if c := r.lane.Configuration(); c.ThinkingLevel != "high" || c.ActiveToolNames[0] != "lookup" {
		t.Errorf("configuration %+v", c)
	}
}

// Settings reach what is captured behind the change, and nothing before it.
func TestChangeSettings(t *testing.T) {
	r := newRig(t, config{drive: harness.Manual, script: faux.Script{{Turns: []faux.Turn{
		{faux.Fail("overloaded", true), calls("append")}, {faux.Fail("overloaded", true), faux.Text("Done.")},
	}}}})
	change := func(f func(*harness.Settings)) {
		t.Helper()
		r.check(r.h.ChangeSettings(r.ctx, func(s harness.Settings) harness.Settings {
			f(&s)
			return s
		}))
	}
	change(func(s *harness.Settings) { s.ToolExecution = registers.Sequential })
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	if s := openRun(t, r.rows()).Settings; s.ToolExecution != registers.Sequential || s.SteeringMode != registers.OneAtATime {
		t.Errorf("the run captured %+v", s)
	}
	_, err = r.lane.Step(r.ctx)
	r.check(err)
	change(func(s *harness.Settings) {
		s.SteeringMode, s.RetryPolicy = registers.All, registers.RetryPolicy{MaxAttempts: 1}
		s.Configuration.ThinkingLevel, s.StreamOptions = "high", `{"a": 1}`
	})
	if run := openRun(t, r.rows()); run.Settings.SteeringMode != registers.OneAtATime {
		t.Errorf("the open run has %+v", run.Settings)
	}
	result := r.finish()
	r.failed(result, "provider_error") // the second step has one attempt
	if n := len(r.faux.Requests()); n != 3 || r.faux.Requests()[2].Options != `{"a":1}` {
		t.Errorf("%d requests", n)
	}
	side, err := r.h.CreateLane(r.ctx, "side", "")
	r.check(err)
	if main, made := r.lane.Configuration().ThinkingLevel, side.Configuration().ThinkingLevel; main != "off" || made != "high" {
		t.Errorf("main thinks %s, the new lane %s", main, made)
	}
	want := r.h.Settings()
	for name, f := range map[string]func(*harness.Settings){
		"mode":    func(s *harness.Settings) { s.FollowUpMode = "some" },
		"tools":   func(s *harness.Settings) { s.ToolExecution = "random" },
		"retry":   func(s *harness.Settings) { s.RetryPolicy.MaxAttempts = -1 },
		"options": func(s *harness.Settings) { s.StreamOptions = "[]" },
	} {
		err := r.h.ChangeSettings(r.ctx, func(s harness.Settings) harness.Settings {
			f(&s)
			return s
		})
		if !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(want, r.h.Settings()); diff != "" {
		t.Errorf("a refused change changed %s", diff)
	}
}

// Changes of settings that meet lose nothing.
func TestSettingsMeet(t *testing.T) {
	r := newRig(t, config{script: echo})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			r.check(r.h.ChangeSettings(r.ctx, func(s harness.Settings) harness.Settings {
				s.RetryPolicy.MaxAttempts++
				return s
			}))
			_, err := r.h.CreateLane(r.ctx, fmt.Sprint("lane ", i), "")
			r.check(err)
		})
	}
	wg.Wait()
	if n := r.h.Settings().RetryPolicy.MaxAttempts; n != 36 {
		t.Errorf("%d attempts", n)
	}
}
