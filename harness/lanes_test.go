package harness_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// open creates lanes beside main and returns all of them.
func (r *rig) open(names ...string) []*harness.Lane {
	r.t.Helper()
	lanes := []*harness.Lane{r.lane}
	for _, name := range names {
		r.check(r.other().CreateLane(r.ctx, name, r.lane.Leaf(), r.lane.Configuration()))
		lane, err := r.h.Lane(r.ctx, name)
		r.check(err)
		lanes = append(lanes, lane)
	}
	return lanes
}

// Two lanes at one leaf run at once, diverge, and see nothing of each other.
func TestTwoLanes(t *testing.T) {
	var met sync.WaitGroup
	met.Add(2)
	var once sync.Map
	p := faux.New(faux.Options{Script: faux.Script{{Rest: func(_ provider.Request, at faux.Position) faux.Step {
		return faux.Text(fmt.Sprintf("answer %d", at.Turn))
	}}}})
	meeting := &funcProvider{model: faux.DefaultModel, stream: func(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
		text := session.JoinText(req.Messages[len(req.Messages)-1].(*session.UserMessage).Content)
		if _, again := once.LoadOrStore(text, true); !again && text != "first" {
			met.Done()
			met.Wait() // both requests are out
		}
		return p.Stream(ctx, req, deltas)
	}}
	r := newRig(t, config{provider: meeting})
	r.completed(r.prompt("first"))
	lanes := r.open("side")
	var runs []*harness.Handle
	for _, lane := range lanes {
		run, err := lane.Prompt(r.ctx, harness.Prompt{Text: "to " + lane.Name()})
		r.check(err)
		runs = append(runs, run)
	}
	var results []harness.Result
	for _, run := range runs {
		result, err := run.Wait(r.ctx)
		r.check(err)
		r.completed(result)
		results = append(results, result)
	}
	for i, result := range results {
		r.lane = lanes[i]
		want := []string{"user: first", "assistant: answer 0", "user: to " + lanes[i].Name(), "assistant: answer 1"}
		if diff := cmp.Diff(want, r.transcript()); diff != "" {
			t.Errorf("lane %s: %s", lanes[i].Name(), diff)
		}
		checkEnded(r, result)
	}
}

// Many lanes run at once, with parallel tools, retries and setters.
func TestManyLanes(t *testing.T) {
	const n = 64
	r := newRig(t, config{script: toolRun, onEvent: func(harness.Event) {}})
	var names []string
	for i := range n - 1 {
		names = append(names, fmt.Sprintf("lane %d", i))
	}
	lanes := r.open(names...)
	var wg sync.WaitGroup
	for _, lane := range lanes {
		wg.Go(func() {
			run, err := lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			if err == nil {
				err = lane.SetConfiguration(r.ctx, lane.Configuration())
			}
			if err != nil {
				t.Error(err)
				return
			}
			result, err := run.Wait(r.ctx)
			if err != nil || result.Ended == nil || result.Ended.Outcome != registers.Completed {
				t.Errorf("lane %s: %+v, %v", lane.Name(), result, err)
			}
		})
	}
	wg.Wait()
	whole := newRig(t, config{script: toolRun, seed: 1})
	whole.completed(whole.prompt("go"))
	want := whole.transcript()
	for _, lane := range lanes {
		r.lane = lane
		if diff := cmp.Diff(want, r.transcript()); diff != "" {
			t.Errorf("lane %s: %s", lane.Name(), diff)
		}
	}
	verifyClean(t, r.store)
	if rows := len(r.usage()); rows != 3*n {
		t.Errorf("%d usage rows", rows)
	}
	if total, most := r.world.count("append"); total != n || most != 1 {
		t.Errorf("append ran %d times, one call %d", total, most)
	}
}

// Of prompts that meet on one lane one is accepted.
func TestPromptsMeet(t *testing.T) {
	p, called := hanging()
	r := newRig(t, config{provider: p})
	var mu sync.Mutex
	accepted, busy := 0, 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				accepted++
			case isError(err, harness.ErrLaneBusy):
				busy++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	await(r, called)
	if accepted != 1 || busy != 15 || len(r.store.commits()) > 3 {
		t.Errorf("%d accepted, %d busy, %d commits", accepted, busy, len(r.store.commits()))
	}
}

// A setter between two steps: a step that has begun keeps its snapshot, with
// every retry, and the next one has the new configuration.
func TestConfigurationRace(t *testing.T) {
	script := faux.Script{{Turns: []faux.Turn{{faux.Fail("overloaded", true), calls("append")}, {faux.Text("Done.")}}}}
	for _, tt := range []struct {
		name  string
		steps int
		want  []string // thinking levels of the requests
	}{
		{"before the step begins", 0, []string{"high", "high", "high"}},
		{"once it has begun", 1, []string{"off", "off", "high"}},
		{"between its attempts", 3, []string{"off", "off", "high"}},
		{"while its call is parked", 7, []string{"off", "off", "high"}},
		{"before the commit that begins the next", 8, []string{"off", "off", "high"}},
		{"once that has begun", 9, []string{"off", "off", "off"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, config{script: script, drive: harness.Manual})
			_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			r.check(err)
			for range tt.steps {
				_, err := r.lane.Step(r.ctx)
				r.check(err)
			}
			c := r.lane.Configuration()
			c.ThinkingLevel = "high"
			r.check(r.lane.SetConfiguration(r.ctx, c))
			c.ActiveToolNames[0] = "changed behind the call"
			r.completed(r.finish())
			var got []string
			for _, req := range r.faux.Requests() {
				got = append(got, req.ThinkingLevel)
				if req.Tools[0].Name != "append" {
					t.Errorf("the first tool is %s", req.Tools[0].Name)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			verifyClean(t, r.store)
		})
	}
}

// The seed is stored by the first prompt, and a later harness with another one
// keeps what is stored.
func TestSeed(t *testing.T) {
	names := []string{"append"}
	first := newRig(t, config{script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}, active: names})
	names[0] = "changed behind New"
	if got := first.register(registers.LaneConfigNS, "main"); got != "" {
		t.Errorf("a lane that was not prompted has the configuration %s", got)
	}
	first.completed(first.prompt("go"))
	again := newRig(t, config{script: toolRun, rows: first.rows(), active: []string{"lookup"}, seed: 1})
	want := registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ThinkingLevel: "off", ActiveToolNames: []string{"append"}}
	if diff := cmp.Diff(want, again.lane.Configuration()); diff != "" {
		t.Errorf("configuration: %s", diff)
	}
	var rows []pistore.Row = again.rows()
	if len(rows) != len(first.rows()) {
		t.Error("reopening wrote")
	}
}
