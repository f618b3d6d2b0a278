package harness_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// eventLog writes events down, a line each.
type eventLog struct {
	mu     sync.Mutex
	lines  []string
	events []harness.Event
	inside bool
	beside bool // two events came at once
	before func(harness.Event)
}

func (l *eventLog) hear(ev harness.Event) {
	l.mu.Lock()
	l.beside = l.beside || l.inside
	l.inside = true
	l.lines = append(l.lines, renderEvent(ev))
	l.events = append(l.events, ev)
	l.mu.Unlock()
	if l.before != nil {
		l.before(ev)
	}
	l.mu.Lock()
	l.inside = false
	l.mu.Unlock()
}

func eventName(ev harness.Event) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", ev), "harness.")
}

func renderEvent(ev harness.Event) string {
	about := reflect.ValueOf(ev).FieldByName("About").Interface().(harness.About)
	line := fmt.Sprintf("%s lane=%s op=%s turn=%s", eventName(ev), about.Lane, about.OperationID, about.TurnID)
	switch ev := ev.(type) {
	case harness.RunEnd:
		line += " " + string(ev.Result.Outcome)
	case harness.RunSuspend:
		line += " " + string(ev.Reason)
	case harness.RetryScheduled:
		line += fmt.Sprintf(" next=%d", ev.NextAttempt)
	case harness.RetryStart:
		line += fmt.Sprintf(" attempt=%d", ev.Attempt)
	case harness.RetryEnd:
		line += fmt.Sprintf(" attempt=%d %q", ev.Attempt, ev.Error)
	case harness.MessageStart:
		line += fmt.Sprintf(" %s attempt=%d", ev.EntryID, ev.Attempt)
	case harness.MessageUpdate:
		line += fmt.Sprintf(" %s %T", ev.EntryID, ev.Delta)
	case harness.MessageEnd:
		line += fmt.Sprintf(" %s %s", ev.EntryID, ev.Message.StopReason)
	case harness.ToolStart:
		line += fmt.Sprintf(" %s %s", ev.ResultEntryID, ev.Call.Name)
	case harness.ToolUpdate:
		line += fmt.Sprintf(" %s %q", ev.ResultEntryID, ev.Text)
	case harness.ToolEnd:
		line += fmt.Sprintf(" %s %v", ev.ResultEntryID, ev.IsError)
	case harness.EntryAdded:
		line += " " + string(ev.Entry.ID)
	case harness.UsageAdded:
		line += fmt.Sprintf(" of %s", ev.Row.EntryID)
	case harness.HandlerError:
		line += " " + ev.Handler
	}
	return line
}

// The events of a run, in order: for a response start, updates and end, then
// what became durable; each of them in its own turn.
func TestEventOrder(t *testing.T) {
	log := &eventLog{}
	chatty := tool.Tool{Name: "chatty", Parameters: anyObject, Execute: func(_ context.Context, c tool.Call) (tool.Result, error) {
		c.Progress("half")
		return tool.Result{Content: session.TextContent("did"), Usage: `{"input":1}`}, nil
	}}
	r := newRig(t, config{
		script: faux.Script{{Turns: []faux.Turn{{calls("chatty")}, {faux.Fail("overloaded", true), faux.Text("Done.")}}}},
		extra:  []tool.Tool{chatty}, onEvent: log.hear, drive: harness.Manual,
	})
	r.completed(r.prompt("go"))
	r.check(r.h.Close(r.ctx))
	got := renameIDs(strings.Join(log.lines, "\n"), map[string]string{})
	want := strings.Join([]string{
		"RunStart lane=main op=#1 turn=",
		"EntryAdded lane=main op=#1 turn= #2",
		"TurnStart lane=main op=#1 turn=#3",
		"MessageStart lane=main op=#1 turn=#3 #4 attempt=1",
		"MessageUpdate lane=main op=#1 turn=#3 #4 provider.ToolCallStart",
		"MessageUpdate lane=main op=#1 turn=#3 #4 provider.ToolArgumentsDelta",
		"MessageEnd lane=main op=#1 turn=#3 #4 toolUse",
		"EntryAdded lane=main op=#1 turn=#3 #4",
		"UsageAdded lane=main op=#1 turn=#3 of #4",
		"ToolStart lane=main op=#1 turn=#3 #5 chatty",
		`ToolUpdate lane=main op=#1 turn=#3 #5 "half"`,
		"ToolEnd lane=main op=#1 turn=#3 #5 false",
		"EntryAdded lane=main op=#1 turn=#3 #5",
		"UsageAdded lane=main op=#1 turn=#3 of #5",
		"TurnEnd lane=main op=#1 turn=#3",
		"TurnStart lane=main op=#1 turn=#6",
		"MessageStart lane=main op=#1 turn=#6 #7 attempt=1",
		"MessageEnd lane=main op=#1 turn=#6 #7 error",
		"EntryAdded lane=main op=#1 turn=#6 #7",
		"UsageAdded lane=main op=#1 turn=#6 of #7",
		"RetryScheduled lane=main op=#1 turn=#6 next=2",
		"RetryStart lane=main op=#1 turn=#6 attempt=2",
		"MessageStart lane=main op=#1 turn=#6 #8 attempt=2",
		"MessageUpdate lane=main op=#1 turn=#6 #8 provider.TextDelta",
		"MessageEnd lane=main op=#1 turn=#6 #8 stop",
		"EntryAdded lane=main op=#1 turn=#6 #8",
		"UsageAdded lane=main op=#1 turn=#6 of #8",
		`RetryEnd lane=main op=#1 turn=#6 attempt=2 ""`,
		"TurnEnd lane=main op=#1 turn=#6",
		"RunEnd lane=main op=#1 turn= completed",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Each retry has its start and its end, whatever comes of it.
func TestRetriesAreTold(t *testing.T) {
	busy := faux.Fail("overloaded", true)
	for name, tt := range map[string]struct {
		turn  faux.Turn
		abort bool // while the second request is parked
		want  []string
	}{
		"it fails again": {faux.Turn{busy, busy, busy}, false, []string{
			"RetryScheduled 2", "RetryStart 2", `RetryEnd 2 "overloaded"`, "RetryScheduled 3", "RetryStart 3", `RetryEnd 3 "overloaded"`}},
		"it is the last one that is good": {faux.Turn{busy, busy, faux.Text("Done.")}, false, []string{
			"RetryScheduled 2", "RetryStart 2", `RetryEnd 2 "overloaded"`, "RetryScheduled 3", "RetryStart 3", `RetryEnd 3 ""`}},
		"it is aborted": {faux.Turn{busy, faux.Text("Done.")}, true, []string{
			"RetryScheduled 2", "RetryStart 2", `RetryEnd 2 "The run was aborted before the request was made."`}},
		"there is none": {faux.Turn{faux.Text("Done.")}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			r := newRig(t, config{script: faux.Script{{Turns: []faux.Turn{tt.turn}}}, retry: registers.RetryPolicy{MaxAttempts: 3, BaseDelayMS: 1},
				drive: harness.Manual, onEvent: func(ev harness.Event) {
					switch ev := ev.(type) {
					case harness.RetryScheduled:
						told = append(told, fmt.Sprint("RetryScheduled ", ev.NextAttempt))
					case harness.RetryStart:
						told = append(told, fmt.Sprint("RetryStart ", ev.Attempt))
					case harness.RetryEnd:
						told = append(told, fmt.Sprintf("RetryEnd %d %q", ev.Attempt, ev.Error))
					}
				}})
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			r.check(err)
			if tt.abort {
				drainUntil(r, harness.EffectSleep)
				for range 2 { // the wait, and the intent
					_, err := r.lane.Step(r.ctx)
					r.check(err)
				}
				abort(r)
			}
			checkEnded(r, r.finish())
			r.check(r.h.Close(r.ctx))
			if diff := cmp.Diff(tt.want, told); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// EntryAdded and UsageAdded are what the store holds, and come when it does.
func TestEventsProveDurability(t *testing.T) {
	var r *rig
	log := &eventLog{before: func(ev harness.Event) {
		if ev, ok := ev.(harness.EntryAdded); ok {
			found, err := r.store.Entries(context.Background(), []pistore.ID{ev.Entry.ID})
			if err != nil || len(found) != 1 || found[0] != ev.Entry {
				t.Errorf("added %+v, stored %+v, %v", ev.Entry, found, err)
			}
		}
	}}
	r = newRig(t, config{script: toolRun, onEvent: log.hear, noLane: true})
	var err error
	r.lane, err = r.h.Lane(r.ctx, "main")
	r.check(err)
	r.completed(r.prompt("go"))
	r.check(r.h.Close(r.ctx))
	if log.beside {
		t.Error("two events came at once")
	}
	entries, rows := 0, 0
	for _, ev := range log.events {
		switch ev := ev.(type) {
		case harness.EntryAdded:
			entries++
		case harness.UsageAdded:
			if want := r.usage()[rows]; want != ev.Row {
				t.Errorf("added %+v, stored %+v", ev.Row, want)
			}
			rows++
		}
	}
	stats, err := r.store.Stats(r.ctx)
	r.check(err)
	if int64(entries) != stats.Entries || rows != len(r.usage()) {
		t.Errorf("%d entries and %d usage rows were told, %d and %d are stored", entries, rows, stats.Entries, len(r.usage()))
	}
}

// A listener may call back into its lane from every event.
func TestListenerCallsBack(t *testing.T) {
	everything := func(r *rig, lane *harness.Lane) {
		_ = lane.Leaf()
		if _, err := lane.LastResult(r.ctx); err != nil {
			t.Errorf("last result: %v", err)
		}
		if _, err := r.h.Lane(r.ctx, "main"); err != nil {
			t.Errorf("lane: %v", err)
		}
		if err := lane.SetConfiguration(r.ctx, lane.Configuration()); err != nil {
			t.Errorf("set configuration: %v", err)
		}
		if _, err := lane.Prompt(r.ctx, harness.Prompt{Text: "another"}); err != nil && !errors.Is(err, harness.ErrLaneBusy) {
			t.Errorf("prompt: %v", err)
		}
		if _, err := lane.Resume(r.ctx); err != nil && !errors.Is(err, harness.ErrNothingToResume) {
			t.Errorf("resume: %v", err)
		}
	}
	var names []string
	heard := &eventLog{before: func(ev harness.Event) { names = append(names, eventName(ev)) }}
	probe := newRig(t, config{script: toolRun, onEvent: heard.hear})
	probe.completed(probe.prompt("go"))
	probe.check(probe.h.Close(probe.ctx))
	slices.Sort(names)
	names = slices.Compact(names)
	for _, drive := range []harness.Drive{harness.Automatic, harness.Manual} {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				var r *rig
				called := make(chan struct{})
				once := sync.Once{}
				script := faux.Script{{Turns: toolRun[0].Turns, Rest: func(provider.Request, faux.Position) faux.Step { return faux.Text("Hi.") }}}
				r = newRig(t, config{script: script, drive: drive, noLane: true, onEvent: func(ev harness.Event) {
					if eventName(ev) == name {
						once.Do(func() { everything(r, r.lane); close(called) })
					}
				}})
				var err error
				r.lane, err = r.h.Lane(r.ctx, "main")
				r.check(err)
				r.completed(r.prompt("go"))
				await(r, called)
				if again := r.lane.Handle(); again != nil { // the prompt of the listener
					_, err := r.lane.RunToCompletion(r.ctx)
					r.check(err)
				}
			})
		}
	}
}

// From RunEnd the lane takes the next prompt, from RunSuspend a Resume, from
// Fault nothing.
func TestListenerGoesOn(t *testing.T) {
	t.Run("RunEnd", func(t *testing.T) {
		const runs = 20
		var r *rig
		var chain []*harness.Handle
		done := make(chan struct{})
		r = newRig(t, config{script: faux.Script{{Rest: func(provider.Request, faux.Position) faux.Step { return faux.Text("Hi.") }}}, noLane: true, onEvent: func(ev harness.Event) {
			if _, ok := ev.(harness.RunEnd); !ok {
				return
			}
			if len(chain) == runs {
				close(done)
				return
			}
			run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "next"})
			if err != nil {
				t.Errorf("prompt: %v", err)
				close(done)
			}
			chain = append(chain, run)
		}})
		var err error
		r.lane, err = r.h.Lane(r.ctx, "main")
		r.check(err)
		r.completed(r.prompt("go"))
		await(r, done)
		for _, run := range chain {
			result, err := run.Wait(r.ctx)
			r.check(err)
			r.completed(result)
		}
	})
	t.Run("RunSuspend", func(t *testing.T) {
		var r *rig
		resumed := 0
		done := make(chan struct{})
		r = newRig(t, config{script: toolRun, rows: stoppedAt(t, "checkpoint"), noLane: true,
			options: func(o *harness.Options) { o.Tools = nil },
			onEvent: func(ev harness.Event) {
				if _, ok := ev.(harness.RunSuspend); !ok {
					return
				}
				if resumed++; resumed == 20 {
					close(done)
				} else if _, err := r.lane.Resume(r.ctx); err != nil {
					t.Errorf("resume: %v", err)
				}
			}})
		var err error
		r.lane, err = r.h.Lane(r.ctx, "main")
		r.check(err)
		_, err = r.lane.Resume(r.ctx)
		r.check(err)
		await(r, done)
		result, err := r.lane.Handle().Wait(r.ctx)
		r.check(err)
		if result.Suspended == nil {
			t.Errorf("the run came to %s", describe(result))
		}
	})
}

// A slow listener keeps no call: each returns while it is busy with an event.
func TestSlowListenerKeepsNobody(t *testing.T) {
	busy, release := make(chan struct{}), make(chan struct{})
	log := &eventLog{before: func(ev harness.Event) {
		if _, ok := ev.(harness.MessageStart); ok {
			select {
			case <-busy:
			default:
				close(busy)
				<-release
			}
		}
	}}
	r := newRig(t, config{script: toolRun, onEvent: log.hear, noLane: true})
	started := make(chan struct{})
	second := make(chan error, 1)
	var err error
	r.lane, err = r.h.Lane(r.ctx, "main")
	r.check(err)
	run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	await(r, busy)
	go func() {
		close(started)
		_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "again"})
		second <- err
	}()
	await(r, started)
	if err := await(r, second); err != nil && !errors.Is(err, harness.ErrLaneBusy) { // nil: the run has ended meanwhile
		t.Errorf("prompt beside a busy listener: %v", err)
	}
	r.check(r.lane.SetConfiguration(r.ctx, r.lane.Configuration()))
	close(release)
	result, err := run.Wait(r.ctx)
	r.check(err)
	r.completed(result)
	r.check(r.h.Close(r.ctx))
	if log.beside {
		t.Error("two events came at once")
	}
	if !slices.ContainsFunc(log.events, func(ev harness.Event) bool { _, end := ev.(harness.RunEnd); return end }) {
		t.Error("Close returned before the end was told")
	}
}

// Prompt returns although events come in faster than its listener takes them.
func TestPromptIsNotKeptDelivering(t *testing.T) {
	p := &funcProvider{stream: func(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
		for ctx.Err() == nil {
			deltas(provider.TextDelta{Text: "x"})
		}
		return provider.Response{Message: provider.Empty(req, "", session.StopAborted, "")}
	}}
	slow := func(ev harness.Event) {
		if _, ok := ev.(harness.RunStart); ok {
			// Let the stream begin before this event is done.
			for range 100_000 {
				_ = fmt.Sprint()
			}
		}
	}
	r := newRig(t, config{provider: p, onEvent: slow})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	r.check(r.h.Close(r.ctx))
}

// A listener that panics, or ends its goroutine, is told of it, and nothing else
// changes.
func TestListenerThrows(t *testing.T) {
	for name, throw := range map[string]func(){"panic": func() { panic("out of cheese") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) { testListenerThrows(t, name, throw) })
	}
}

func testListenerThrows(t *testing.T, word string, throw func()) {
	quiet := newRig(t, config{script: toolRun, tools: registers.Sequential})
	quiet.completed(quiet.prompt("go"))
	errs := 0
	r := newRig(t, config{script: toolRun, tools: registers.Sequential, onEvent: func(ev harness.Event) {
		if ev, ok := ev.(harness.HandlerError); ok {
			errs++
			if ev.Handler != "listener" || ev.Lane != "main" || !strings.Contains(ev.Err.Error(), word) {
				t.Errorf("heard %+v", ev)
			}
		}
		throw()
	}})
	r.completed(r.prompt("go"))
	r.check(r.h.Close(r.ctx))
	if errs == 0 {
		t.Error("no panic was told")
	}
	if diff := cmp.Diff(trace(quiet.store.commits()), trace(r.store.commits())); diff != "" {
		t.Errorf("commits differ: %s", diff)
	}
}

// Wait: its context ends the wait only; a new Wait behind a suspension follows
// the resumed run; many may wait.
func TestWait(t *testing.T) {
	p, called := hanging()
	finish := make(chan struct{})
	p.stream = func(ctx context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
		called <- req
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return provider.Response{Message: provider.Empty(req, "", session.StopStop, "")}
	}
	r := newRig(t, config{provider: p, rows: stoppedAt(t, "checkpoint")})
	run := r.lane.Handle()
	result, err := run.Wait(r.ctx)
	r.check(err)
	if result.Suspended == nil || result.Suspended.Reason != harness.SuspendRestored {
		t.Fatalf("restored as %s", describe(result))
	}
	same, err := r.lane.Resume(r.ctx)
	r.check(err)
	if same != run || r.lane.Handle() != run {
		t.Error("the handle changed")
	}
	await(r, called)
	soon, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := run.Wait(soon); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			result, err := run.Wait(r.ctx)
			if err != nil || result.Ended == nil || result.Ended.OperationID != run.OperationID() {
				t.Errorf("wait: %+v, %v", result, err)
			}
		})
	}
	close(finish)
	wg.Wait()
	r.check(r.h.Close(r.ctx))
	if result, err := run.Wait(r.ctx); err != nil || result.Ended == nil { // an end is an end
		t.Errorf("wait behind Close: %+v, %v", result, err)
	}
}
