package harness_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// closedCalls checks that nothing is admitted any more.
func closedCalls(r *rig, want error) {
	r.t.Helper()
	_, promptErr := r.lane.Prompt(r.ctx, harness.Prompt{Text: "more"})
	_, resumeErr := r.lane.Resume(r.ctx)
	_, laneErr := r.h.Lane(r.ctx, "main")
	for what, err := range map[string]error{
		"prompt": promptErr, "resume": resumeErr, "lane": laneErr,
		"set configuration": r.lane.SetConfiguration(r.ctx, r.lane.Configuration()),
	} {
		if !errors.Is(err, want) {
			r.t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
}

// Close at every point of a run, parked effects and all, leaves what a kill
// would have left: the rows as they stood.
func TestCloseWhileParked(t *testing.T) {
	for steps := 0; ; steps++ {
		r := newRig(t, config{script: toolRun, drive: harness.Manual})
		run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		for range steps {
			_, err := r.lane.Step(r.ctx)
			r.check(err)
		}
		r.check(r.lane.Settle(r.ctx))
		if len(r.lane.Peek()) == 0 {
			if steps < 10 {
				t.Fatalf("the run ended behind %d steps", steps)
			}
			return
		}
		before := r.rows()
		r.check(r.h.Close(r.ctx))
		r.check(r.h.Close(r.ctx))
		if diff := cmp.Diff(before, r.rows()); diff != "" {
			t.Fatalf("behind %d steps Close changed the store: %s", steps, diff)
		}
		if _, err := run.Wait(r.ctx); !errors.Is(err, pistore.ErrClosed) {
			t.Errorf("wait: %v", err)
		}
		if _, err := r.lane.Step(r.ctx); !errors.Is(err, harness.ErrNotParked) {
			t.Errorf("step: %v", err)
		}
		if _, err := r.lane.RunToCompletion(r.ctx); !errors.Is(err, pistore.ErrClosed) {
			t.Errorf("run to completion: %v", err)
		}
		closedCalls(r, pistore.ErrClosed)
	}
}

// Close cancels what runs. The request that it cancels stays in flight, and so
// does the call: no aborted response, no result.
func TestCloseCancelsHandlers(t *testing.T) {
	t.Run("provider", func(t *testing.T) {
		p, called := hanging()
		r := newRig(t, config{provider: p})
		run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		await(r, called)
		before := r.rows()
		r.check(r.h.Close(r.ctx))
		if diff := cmp.Diff(before, r.rows()); diff != "" {
			t.Errorf("Close changed the store: %s", diff)
		}
		if got := outlinePhase(openRun(t, before).Phase); got != "assistant effect_pending attempt 1" {
			t.Errorf("the run stands at %s", got)
		}
		if _, err := run.Wait(r.ctx); !errors.Is(err, pistore.ErrClosed) {
			t.Errorf("wait: %v", err)
		}
	})
	t.Run("tool", func(t *testing.T) {
		started := make(chan struct{})
		r := newRig(t, config{
			script: faux.Script{{Turns: faux.Turns(calls("slow"), faux.Text("Done."))}},
			extra: []tool.Tool{{Name: "slow", Parameters: anyObject, Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				close(started)
				<-ctx.Done()
				return tool.Text("gave up"), nil
			}}},
		})
		_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		await(r, started)
		before := r.rows()
		r.check(r.h.Close(r.ctx))
		if diff := cmp.Diff(before, r.rows()); diff != "" {
			t.Errorf("Close changed the store: %s", diff)
		}
	})
	t.Run("sleep", func(t *testing.T) {
		sleeping := make(chan struct{})
		r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Fail("overloaded", true))}}, options: func(o *harness.Options) {
			o.Sleep = func(ctx context.Context, _ pistore.UnixMS) error {
				close(sleeping)
				<-ctx.Done()
				return ctx.Err()
			}
		}})
		_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		await(r, sleeping)
		r.check(r.h.Close(r.ctx))
		if got := outlinePhase(openRun(t, r.rows()).Phase); got != "assistant retry_wait 2" {
			t.Errorf("the run stands at %s", got)
		}
	})
}

// Handlers that ignore their context are abandoned and named. They tell and
// commit nothing any more.
func TestCloseAbandonsHandlers(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, 2)
	heard := make(chan struct{}, 2) // the last news of each lane
	var mu sync.Mutex
	closed, late := false, 0
	p := &funcProvider{stream: func(_ context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
		if session.JoinText(req.Messages[0].(*session.UserMessage).Content) != "hang" {
			m := provider.Empty(req, "", session.StopToolUse, "")
			m.Content = []session.Block{session.ToolCall{ID: "c", Name: "stubborn", Arguments: "{}"}}
			return provider.Response{Message: m}
		}
		started <- struct{}{}
		<-release
		deltas(provider.TextDelta{Text: "too late"})
		return provider.Response{Message: provider.Empty(req, "", session.StopStop, "")}
	}}
	r := newRig(t, config{
		provider: p,
		extra: []tool.Tool{{Name: "stubborn", Parameters: anyObject, Execute: func(_ context.Context, c tool.Call) (tool.Result, error) {
			started <- struct{}{}
			<-release
			c.Progress("too late")
			return tool.Text("did"), nil
		}}},
		onEvent: func(ev harness.Event) {
			mu.Lock()
			defer mu.Unlock()
			if closed {
				late++
			}
			start, begun := ev.(harness.MessageStart)
			if _, called := ev.(harness.ToolStart); called || begun && start.Lane == "side" {
				heard <- struct{}{}
			}
		},
	})
	r.check(r.other().CreateLane(r.ctx, "side", "", r.lane.Configuration()))
	side, err := r.h.Lane(r.ctx, "side")
	r.check(err)
	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "call"})
	r.check(err)
	_, err = side.Prompt(r.ctx, harness.Prompt{Text: "hang"})
	r.check(err)
	for range 2 {
		await(r, started)
		await(r, heard)
	}
	before := r.rows()
	soon, cancel := context.WithCancel(r.ctx)
	cancel()
	err = r.h.Close(soon)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "provider faux, tool stubborn") {
		t.Fatalf("close: %v", err)
	}
	mu.Lock()
	closed = true
	mu.Unlock()
	closedCalls(r, pistore.ErrClosed)
	close(release)
	r.check(r.h.Close(r.ctx))
	if diff := cmp.Diff(before, r.rows()); diff != "" {
		t.Errorf("an abandoned handler changed the store: %s", diff)
	}
	if late != 0 {
		t.Errorf("%d events behind Close", late)
	}
}

// gated is a Storage whose next commit waits until it is let through.
type gated struct {
	pistore.Storage
	mu      sync.Mutex
	armed   bool
	arrived chan struct{}
	through chan struct{}
}

func (g *gated) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	g.mu.Lock()
	armed := g.armed
	g.armed = false
	g.mu.Unlock()
	if armed {
		close(g.arrived)
		<-g.through
	}
	return g.Storage.Commit(ctx, tx)
}

// Close waits for a Prompt that was admitted, and a run that it accepts starts
// nothing.
func TestCloseWaitsForAdmittedCalls(t *testing.T) {
	g := &gated{arrived: make(chan struct{}), through: make(chan struct{})}
	r := newRig(t, config{script: toolRun, wrap: func(s pistore.Storage) pistore.Storage { g.Storage = s; return g }})
	g.mu.Lock()
	g.armed = true
	g.mu.Unlock()
	type accepted struct {
		run *harness.Handle
		err error
	}
	done := make(chan accepted, 1)
	go func() {
		run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		done <- accepted{run, err}
	}()
	await(r, g.arrived)
	soon, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := r.h.Close(soon); err == nil {
		t.Error("Close returned while a commit was under way")
	}
	close(g.through)
	r.check(r.h.Close(r.ctx))
	commits := len(r.store.commits())
	got := await(r, done)
	r.check(got.err)
	if _, err := got.run.Wait(r.ctx); !errors.Is(err, pistore.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
	if len(r.store.commits()) != commits || len(r.faux.Requests()) != 0 {
		t.Errorf("%d commits and %d requests behind Close", len(r.store.commits())-commits, len(r.faux.Requests()))
	}
	if got := outlinePhase(openRun(t, r.rows()).Phase); got != "checkpoint need_assistant skipInboxOnce" {
		t.Errorf("the run stands at %s", got)
	}
}

// Prompt, Resume and setters meet Close in any order: each is refused or done,
// and nothing is committed behind Close.
func TestCloseRaces(t *testing.T) {
	rows := stoppedAt(t, "tools")
	for i := range 40 {
		c := config{script: toolRun, seed: uint64(i)}
		if i%2 == 0 {
			c.rows = rows
		}
		r := newRig(t, c)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := r.lane.Resume(r.ctx)
				if err != nil && !errors.Is(err, pistore.ErrClosed) && !errors.Is(err, harness.ErrNothingToResume) {
					t.Errorf("resume: %v", err)
				}
			})
			wg.Go(func() {
				run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
				if err == nil {
					_, err = run.Wait(r.ctx)
				}
				if err != nil && !errors.Is(err, pistore.ErrClosed) && !errors.Is(err, harness.ErrLaneBusy) {
					t.Errorf("prompt: %v", err)
				}
			})
			wg.Go(func() {
				if err := r.lane.SetConfiguration(r.ctx, r.lane.Configuration()); err != nil && !errors.Is(err, pistore.ErrClosed) {
					t.Errorf("set configuration: %v", err)
				}
			})
		}
		wg.Go(func() {
			r.check(r.h.Close(r.ctx))
			commits := len(r.store.commits())
			closedCalls(r, pistore.ErrClosed)
			if n := len(r.store.commits()) - commits; n != 0 {
				t.Errorf("%d commits behind Close", n)
			}
		})
		wg.Wait()
		verifyClean(t, r.store)
	}
}

// A listener that closes cannot wait for itself: it gives Close an end, and is
// named.
func TestCloseFromListener(t *testing.T) {
	var h *harness.Harness
	errs := make(chan error, 1)
	once := sync.Once{}
	// The call lasts until Close ends it, however late the listener hears of it.
	waits := tool.Tool{Name: "wait", Parameters: anyObject, Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	script := faux.Script{{Turns: faux.Turns(calls("wait"), faux.Text("Done."))}}
	r := newRig(t, config{script: script, extra: []tool.Tool{waits}, onEvent: func(ev harness.Event) {
		if _, ok := ev.(harness.ToolStart); ok {
			once.Do(func() {
				soon, cancel := context.WithCancel(context.Background())
				cancel()
				errs <- h.Close(soon)
			})
		}
	}, tools: registers.Sequential, noLane: true})
	h = r.h
	var err error
	r.lane, err = h.Lane(r.ctx, "main")
	r.check(err)
	run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	if err := await(r, errs); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "listener") {
		t.Errorf("close: %v", err)
	}
	if _, err := run.Wait(r.ctx); !errors.Is(err, pistore.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
	r.check(h.Close(r.ctx))
	if got := outlinePhase(openRun(t, r.rows()).Phase); !strings.HasPrefix(got, "tools [effect_pending never") {
		t.Errorf("the run stands at %s", got)
	}
}

// faulty is a Storage whose nth commit fails behind its admission, with or
// without having become durable, and which fails ever after.
type faulty struct {
	pistore.Storage
	mu      sync.Mutex // guards what follows
	left    int        // commits until the failure
	durable bool       // of the one that fails
	later   int        // calls behind it
}

func (f *faulty) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left > 0 {
		return f.Storage.Commit(ctx, tx)
	}
	if f.left < 0 {
		f.later++
	} else if f.durable {
		if _, err := f.Storage.Commit(ctx, tx); err != nil {
			return pistore.Receipt{}, err
		}
	}
	return pistore.Receipt{}, errors.Join(pistore.ErrFaulted, syscall.EIO)
}

// A commit whose outcome is unknown stops everything: Wait fails, one Fault is
// told, nothing more is written, and reopening goes on from what is there.
func TestFaults(t *testing.T) {
	whole := newRig(t, config{script: toolRun})
	whole.completed(whole.prompt("go"))
	for at := 2; at <= len(whole.store.commits()); at++ { // the first makes the lane
		for _, durable := range []bool{false, true} {
			f := &faulty{left: at, durable: durable}
			var faults []harness.Fault
			var h *harness.Harness
			r := newRig(t, config{script: toolRun, wrap: func(s pistore.Storage) pistore.Storage { f.Storage = s; return f }, noLane: true,
				onEvent: func(ev harness.Event) {
					if ev, ok := ev.(harness.Fault); ok {
						faults = append(faults, ev)
						// The lane's line is free.
						if lane, err := h.Lane(context.Background(), "main"); !errors.Is(err, pistore.ErrFaulted) {
							t.Errorf("from the listener: %v, %v", lane, err)
						}
					}
				}})
			h = r.h
			var err error
			r.lane, err = h.Lane(r.ctx, "main")
			r.check(err)
			run, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			if err == nil {
				_, err = run.Wait(r.ctx)
			}
			if !errors.Is(err, pistore.ErrFaulted) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("commit %d: %v", at, err)
			}
			closedCalls(r, pistore.ErrFaulted)
			r.check(h.Close(r.ctx))
			if len(faults) != 1 || faults[0].Lane != "main" || !errors.Is(faults[0].Err, syscall.EIO) {
				t.Errorf("commit %d: faults %+v", at, faults)
			}
			if f.later != 0 {
				t.Errorf("commit %d: %d commits were tried behind it", at, f.later)
			}
			again := newRig(t, config{script: toolRun, rows: r.rows(), world: r.world, seed: 1})
			if _, err := again.lane.Resume(again.ctx); err == nil {
				again.completed(again.finish())
			}
			if _, most := r.world.count("append"); most > 1 {
				t.Errorf("commit %d: a call ran twice", at)
			}
			verifyClean(t, again.store)
		}
	}
}

// A fault of one lane stops the others.
func TestFaultStopsOtherLanes(t *testing.T) {
	f := &faulty{left: 1 << 30}
	p, called := hanging()
	hang := p.stream
	p.stream = func(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
		if session.JoinText(req.Messages[0].(*session.UserMessage).Content) == "hang" {
			return hang(ctx, req, deltas)
		}
		return provider.Response{Message: provider.Empty(req, "", session.StopStop, "")}
	}
	r := newRig(t, config{provider: p, wrap: func(s pistore.Storage) pistore.Storage { f.Storage = s; return f }})
	r.check(r.other().CreateLane(r.ctx, "side", "", r.lane.Configuration()))
	side, err := r.h.Lane(r.ctx, "side")
	r.check(err)
	hangs, err := side.Prompt(r.ctx, harness.Prompt{Text: "hang"})
	r.check(err)
	await(r, called)
	before := r.rows()
	f.mu.Lock()
	f.left = 1
	f.mu.Unlock()
	if _, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"}); !errors.Is(err, pistore.ErrFaulted) {
		t.Errorf("prompt: %v", err)
	}
	if _, err := hangs.Wait(r.ctx); !errors.Is(err, pistore.ErrFaulted) {
		t.Errorf("wait of the other lane: %v", err)
	}
	r.check(r.h.Close(r.ctx)) // the hanging request was cancelled
	if diff := cmp.Diff(before, r.rows()); diff != "" {
		t.Errorf("behind the fault the store changed: %s", diff)
	}
}

// A refusal is no fault.
func TestRefusedPromptIsNoFault(t *testing.T) {
	r := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}})
	for name, p := range map[string]harness.Prompt{
		"nil message":          {Messages: []session.Message{(*session.UserMessage)(nil)}},
		"no message":           {Messages: []session.Message{nil}},
		"nil block":            {Messages: []session.Message{&session.UserMessage{Content: []session.Block{nil}}}},
		"pointer to a block":   {Messages: []session.Message{&session.UserMessage{Content: []session.Block{&session.Text{}}}}},
		"block of a response":  {Messages: []session.Message{&session.UserMessage{Content: []session.Block{session.Thinking{}}}}},
		"details that do not":  {Messages: []session.Message{&session.CustomMessage{CustomType: "x", Details: "{"}}},
		"a response":           {Text: "hi", Messages: []session.Message{&session.AssistantMessage{}}},
		"a result":             {Text: "hi", Messages: []session.Message{&session.ToolResultMessage{ToolCallID: "c"}}},
		"a summary":            {Text: "hi", Messages: []session.Message{&session.SummaryMessage{Kind: session.RoleBranchSummary}}},
		"a hidden tool's call": {Messages: []session.Message{&session.UserMessage{Content: []session.Block{session.UnknownBlock{Raw: `{"type":"toolCall","id":"c","name":"n"}`}}}}},
	} {
		if _, err := r.lane.Prompt(r.ctx, p); !errors.Is(err, harness.ErrInvalidMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(r.store.commits()); n != 1 {
		t.Errorf("%d commits", n)
	}
	r.completed(r.prompt("go"))
	if got := r.transcript(); !slices.Contains(got, "assistant: Hi.") {
		t.Errorf("transcript %q", got)
	}
}

// Options that could not be stored later are refused at once.
func TestOptions(t *testing.T) {
	for name, o := range map[string]harness.Options{
		"tool execution":      {ToolExecution: "sideways"},
		"no attempts":         {RetryPolicy: registers.RetryPolicy{BaseDelayMS: 1}},
		"too many attempts":   {RetryPolicy: registers.RetryPolicy{MaxAttempts: 1 << 60}},
		"negative delay":      {RetryPolicy: registers.RetryPolicy{MaxAttempts: 1, BaseDelayMS: -1}},
		"delay out of range":  {RetryPolicy: registers.RetryPolicy{MaxAttempts: 1, BaseDelayMS: 1 << 60}},
		"options of a list":   {StreamOptions: "[]"},
		"options of no JSON":  {StreamOptions: "{"},
		"options of a number": {StreamOptions: "7"},
	} {
		if _, err := harness.New(nil, o); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
