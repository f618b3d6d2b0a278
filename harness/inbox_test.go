package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// echo answers every turn with its number.
var echo = faux.Script{{Rest: func(_ provider.Request, at faux.Position) faux.Step {
	return faux.Text(fmt.Sprintf("answer %d", at.Turn))
}}}

// toolThenEcho calls a tool first.
var toolThenEcho = faux.Script{{Turns: faux.Turns(faux.Call("append", `{"text":"one"}`)), Rest: echo[0].Rest}}

// failThenEcho fails for good first.
var failThenEcho = faux.Script{
	{Name: "later", Match: func(req provider.Request) bool { return len(req.Messages) > 1 }, Rest: echo[0].Rest},
	{Turns: faux.Turns(faux.Fail("no such key", false))},
}

func steer(texts ...string) func(*rig) {
	return func(r *rig) { r.queue(r.lane.Steer, texts...) }
}

func followUp(texts ...string) func(*rig) {
	return func(r *rig) { r.queue(r.lane.FollowUp, texts...) }
}

func (r *rig) queue(into func(ctx context.Context, in harness.Prompt) ([]pistore.ID, error), texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		ids, err := into(r.ctx, harness.Prompt{Text: text})
		r.check(err)
		if len(ids) != 1 {
			r.t.Fatalf("%d ids", len(ids))
		}
	}
}

func write(texts ...string) func(*rig) {
	return func(r *rig) {
		for _, text := range texts {
			_, err := r.lane.AppendMessage(r.ctx, &session.CustomMessage{CustomType: "info", Content: session.TextContent(text)})
			r.check(err)
		}
	}
}

func note(r *rig) {
	_, err := r.lane.AppendCustom(r.ctx, "note", `{"n":1}`)
	r.check(err)
}

func all(calls ...func(*rig)) func(*rig) {
	return func(r *rig) {
		for _, call := range calls {
			call(r)
		}
	}
}

func modes(steering, following registers.QueueMode) func(*harness.Options) {
	return func(o *harness.Options) { o.SteeringMode, o.FollowUpMode = steering, following }
}

// inboxScenes are runs whose inbox is used, with what they write behind the
// prompt and what a model would see at their end.
var inboxScenes = []struct {
	name       string
	scene      scene
	commits    []string
	transcript []string
}{{
	name:  "steering waits for the end of the batch",
	scene: scene{config: config{script: toolThenEcho}, calls: map[int]func(*rig){1: steer("and this")}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer",
		"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never] with steer",
		"entry toolResult; entry user; lane.leaf; delete op.tool_args; delete pending.entry; op.state assistant effect_pending attempt 1",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	},
	transcript: []string{"user: go", `assistant:  [append {"text":"one"}]`, `result of append: append did "one"`, "user: and this", "assistant: answer 1"},
}, {
	name:  "steering behind the prompt waits for its turn",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){0: steer("a", "b")}},
	commits: []string{
		"pending.entry; op.state checkpoint need_assistant skipInboxOnce with steer",
		"pending.entry; op.state checkpoint need_assistant skipInboxOnce with steer, steer",
		"op.state assistant effect_pending attempt 1 with steer, steer",
		"entry assistant stop; usage; entry user; lane.leaf; delete pending.entry; op.state assistant effect_pending attempt 1 with steer",
		"entry assistant stop; usage; entry user; lane.leaf; delete pending.entry; op.state assistant effect_pending attempt 1",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	},
	transcript: []string{"user: go", "assistant: answer 0", "user: a", "assistant: answer 1", "user: b", "assistant: answer 2"},
}, {
	name:  "all of the steering at once",
	scene: scene{config: config{script: echo, options: modes(registers.All, "")}, calls: map[int]func(*rig){1: steer("a", "b", "c")}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer, steer",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer, steer, steer",
		"entry assistant stop; usage; entry user; entry user; entry user; lane.leaf; delete pending.entry; delete pending.entry; delete pending.entry; op.state assistant effect_pending attempt 1",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	},
	transcript: []string{"user: go", "assistant: answer 0", "user: a", "user: b", "user: c", "assistant: answer 1"},
}, {
	name:  "steering comes before a follow-up, one at a time",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){1: all(followUp("later", "last"), steer("now"))}},
	transcript: []string{"user: go", "assistant: answer 0", "user: now", "assistant: answer 1",
		"user: later", "assistant: answer 2", "user: last", "assistant: answer 3"},
}, {
	name:       "all follow-ups at once",
	scene:      scene{config: config{script: echo, options: modes("", registers.All)}, calls: map[int]func(*rig){1: followUp("later", "last")}},
	transcript: []string{"user: go", "assistant: answer 0", "user: later", "user: last", "assistant: answer 1"},
}, {
	name:  "a write that enters the context owes a turn, and steering waits behind it",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){1: all(steer("now"), write("fact"))}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer, write",
		"entry assistant stop; usage; entry custom; lane.leaf; delete pending.entry; op.state assistant effect_pending attempt 1 with steer",
		"entry assistant stop; usage; entry user; lane.leaf; delete pending.entry; op.state assistant effect_pending attempt 1",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	},
	transcript: []string{"user: go", "assistant: answer 0", "custom: fact", "assistant: answer 1", "user: now", "assistant: answer 2"},
}, {
	name:  "a write that does not enter the context changes nothing else",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){1: all(note, note)}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with write",
		"pending.entry; op.state assistant effect_pending attempt 1 with write, write",
		"entry assistant stop; usage; entry custom; entry custom; lane.leaf; delete pending.entry; delete pending.entry; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	},
	transcript: []string{"user: go", "assistant: answer 0"},
}, {
	name:  "a write waits behind the prompt too",
	scene: scene{config: config{script: toolThenEcho}, calls: map[int]func(*rig){0: note}},
	commits: []string{
		"pending.entry; op.state checkpoint need_assistant skipInboxOnce with write",
		"op.state assistant effect_pending attempt 1 with write",
		"entry assistant toolUse; lane.leaf; usage; op.tool_args; op.state tools [effect_pending never] with write",
		"entry toolResult; entry custom; lane.leaf; delete op.tool_args; delete pending.entry; op.state assistant effect_pending attempt 1",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	},
	transcript: []string{"user: go", `assistant:  [append {"text":"one"}]`, `result of append: append did "one"`, "assistant: answer 1"},
}, {
	name:  "a run that failed goes on with what waits",
	scene: scene{config: config{script: failThenEcho}, calls: map[int]func(*rig){1: all(followUp("later"), note, steer("now"))}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with follow-up",
		"pending.entry; op.state assistant effect_pending attempt 1 with follow-up, write",
		"pending.entry; op.state assistant effect_pending attempt 1 with steer, follow-up, write",
		"entry assistant error; usage; entry custom; entry user; lane.leaf; delete pending.entry; delete pending.entry; op.state assistant effect_pending attempt 1 with follow-up",
		"entry assistant stop; usage; entry user; lane.leaf; delete pending.entry; op.state assistant effect_pending attempt 1",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle",
	},
	transcript: []string{"user: go", "user: now", "assistant: answer 0", "user: later", "assistant: answer 0"},
}, {
	name:  "a run that failed fails behind a write that does not enter the context",
	scene: scene{config: config{script: failThenEcho}, calls: map[int]func(*rig){1: note}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; op.state assistant effect_pending attempt 1 with write",
		"entry assistant error; usage; entry custom; lane.leaf; delete pending.entry; delete op.meta; delete op.state; lane.lastResult failed ; lane.state=idle",
	},
	transcript: []string{"user: go"},
}, {
	name: "what is taken back is not placed",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){
		1: all(steer("a", "b"), followUp("c"), note),
		2: func(r *rig) {
			q := r.lane.Queues()
			for _, id := range []pistore.ID{q.Steer[0], q.FollowUp[0], q.Writes[0]} {
				r.cancelQueued(id, true)
				r.cancelQueued(id, false)
			}
		},
	}},
	transcript: []string{"user: go", "assistant: answer 0", "user: b", "assistant: answer 1"},
}, {
	name: "input for the next run stays behind the end of this one",
	scene: scene{config: config{script: echo}, calls: map[int]func(*rig){
		1: func(r *rig) { r.queue(r.lane.NextRun, "next") },
	}},
	commits: []string{
		"op.state assistant effect_pending attempt 1",
		"pending.entry; lane.state=open with next",
		"entry assistant stop; lane.leaf; usage; delete op.meta; delete op.state; lane.lastResult completed assistant; lane.state=idle with next",
	},
	transcript: []string{"user: go", "assistant: answer 0"},
}}

func (r *rig) cancelQueued(id pistore.ID, want bool) {
	r.t.Helper()
	before := len(r.store.commits())
	got, err := r.lane.CancelQueued(r.ctx, id)
	r.check(err)
	if got != want || len(r.store.commits())-before != map[bool]int{true: 1}[want] {
		r.t.Errorf("taking %s back: %v with %d commits", id, got, len(r.store.commits())-before)
	}
}

// What each use of the inbox writes, in which order, and what becomes of it.
func TestInbox(t *testing.T) {
	for _, tt := range inboxScenes {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.scene.rig(t, 0, nil)
			checkEnded(r, tt.scene.play(r, nil))
			if diff := cmp.Diff(tt.commits, r.outlines(2)); tt.commits != nil && diff != "" {
				t.Errorf("commits (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.transcript, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInboxRecoversFromEveryPoint(t *testing.T) {
	for _, tt := range inboxScenes {
		t.Run(tt.name, tt.scene.recovers)
	}
}

// A prompt starts with what waited for it, in one transaction.
func TestNextRunIsCaptured(t *testing.T) {
	r := newRig(t, config{script: echo})
	r.queue(r.lane.NextRun, "one", "two", "three")
	r.cancelQueued(r.lane.Queues().NextRun[1], true)
	again := newRig(t, config{script: echo, rows: r.rows(), seed: 1})
	if n := len(again.lane.Queues().NextRun); n != 2 {
		t.Fatalf("%d inputs wait behind a restart", n)
	}
	result := again.prompt("go")
	again.completed(result)
	checkEnded(again, result)
	want := []string{"user: one", "user: three", "user: go", "assistant: answer 0"}
	if diff := cmp.Diff(want, again.transcript()); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	wantFirst := "entry user; entry user; entry user; lane.leaf; delete pending.entry; delete pending.entry; op.meta; " +
		"op.state checkpoint need_assistant skipInboxOnce; lane.config; lane.state=open"
	if got := again.outlines(0)[0]; got != wantFirst {
		t.Errorf("the prompt wrote %s", got)
	}
}

// An idle lane takes entries at once.
func TestAppendToIdleLane(t *testing.T) {
	r := newRig(t, config{script: echo})
	id, err := r.lane.AppendMessage(r.ctx, &session.UserMessage{Content: session.TextContent("by the way")})
	r.check(err)
	if r.lane.Leaf() != id {
		t.Errorf("the leaf is %s", r.lane.Leaf())
	}
	note(r)
	r.completed(r.prompt("go"))
	want := []string{"entry user; lane.leaf", "entry custom; lane.leaf"}
	if diff := cmp.Diff(want, r.outlines(1)[:2]); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"user: by the way", "user: go", "assistant: answer 0"}, r.transcript()); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	verifyClean(t, r.store)
}

// A projector makes a custom entry one that enters the context; output of a
// command that is kept out of it does not.
func TestWhatEntersTheContext(t *testing.T) {
	projectors := session.Projectors{"note": func(pistore.Entry) (session.Message, bool) { return nil, false }}
	for _, tt := range []struct {
		name     string
		write    func(*rig)
		requests int
	}{
		{"a custom entry with a projector", note, 2},
		{"a command", func(r *rig) {
			_, err := r.lane.AppendMessage(r.ctx, &session.BashMessage{Command: "ls"})
			r.check(err)
		}, 2},
		{"a command that is kept out", func(r *rig) {
			_, err := r.lane.AppendMessage(r.ctx, &session.BashMessage{Command: "ls", ExcludeFromContext: true})
			r.check(err)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := scene{config: config{script: echo, options: func(o *harness.Options) { o.Projectors = projectors }}, calls: map[int]func(*rig){1: tt.write}}
			r := s.rig(t, 0, nil)
			r.completed(s.play(r, nil))
			if n := len(r.faux.Requests()); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
		})
	}
}

func TestInboxRejections(t *testing.T) {
	r := newRig(t, config{script: echo, drive: harness.Manual, options: unchecked})
	before := len(r.store.commits())
	reject := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	in := harness.Prompt{Text: "more"}
	_, err := r.lane.Steer(r.ctx, in)
	reject("steering an idle lane", err, harness.ErrNoActiveRun)
	_, err = r.lane.FollowUp(r.ctx, in)
	reject("following up an idle lane", err, harness.ErrNoActiveRun)
	_, err = r.lane.NextRun(r.ctx, harness.Prompt{})
	reject("nothing for the next run", err, harness.ErrInvalidMessage)
	_, err = r.lane.AppendMessage(r.ctx, &session.AssistantMessage{})
	reject("a response", err, harness.ErrInvalidMessage)
	_, err = r.lane.AppendCustom(r.ctx, "", `{}`)
	reject("no customType", err, harness.ErrInvalidMessage)
	_, err = r.lane.AppendCustom(r.ctx, "note", `{"n":`)
	reject("data that is no JSON", err, harness.ErrInvalidMessage)
	r.cancelQueued("nothing", false)
	if n := len(r.store.commits()) - before; n != 0 {
		t.Errorf("rejections made %d commits", n)
	}

	_, err = r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	for range 1000 {
		_, err = r.lane.NextRun(r.ctx, in)
		r.check(err)
	}
	before = len(r.store.commits())
	for _, into := range []func(context.Context, harness.Prompt) ([]pistore.ID, error){r.lane.Steer, r.lane.FollowUp, r.lane.NextRun} {
		_, err = into(r.ctx, in)
		reject("one too many", err, pistore.ErrTooLarge)
	}
	_, err = r.lane.AppendMessage(r.ctx, &session.UserMessage{Content: session.TextContent("more")})
	reject("one too many", err, pistore.ErrTooLarge)
	if n := len(r.store.commits()) - before; n != 0 {
		t.Errorf("rejections made %d commits", n)
	}
	r.completed(r.finish())
	if n := len(r.lane.Queues().NextRun); n != 1000 {
		t.Errorf("%d inputs wait", n)
	}
}

// Both orders of the races around what waits.
func TestInboxRaces(t *testing.T) {
	for _, tt := range []struct {
		name          string
		steps         int // released before the second call
		first, second func(*rig)
		want          []string
	}{
		{"taken back before it is consumed", 1, steer("now"), func(r *rig) { r.cancelQueued(r.lane.Queues().Steer[0], true) },
			[]string{"user: go", "assistant: answer 0"}},
		{"taken back while its consumption is parked", 2, steer("now"), func(r *rig) { r.cancelQueued(r.lane.Queues().Steer[0], true) },
			[]string{"user: go", "assistant: answer 0"}},
		{"steering while the end is parked", 2, nil, steer("now"), []string{"user: go", "assistant: answer 0", "user: now", "assistant: answer 1"}},
		{"taken back once it is consumed", 3, steer("now"), func(r *rig) {
			ids, _ := r.messages()
			r.cancelQueued(ids[len(ids)-1], false)
		}, []string{"user: go", "assistant: answer 0", "user: now", "assistant: answer 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, config{script: echo, drive: harness.Manual})
			handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
			r.check(err)
			if tt.first != nil {
				tt.first(r)
			}
			for range tt.steps {
				_, err := r.lane.Step(r.ctx)
				r.check(err)
			}
			tt.second(r)
			r.completed(r.finish())
			result, err := handle.Wait(r.ctx)
			r.check(err)
			checkEnded(r, result)
			if diff := cmp.Diff(tt.want, r.transcript()); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

// Input for the next run that comes before a prompt is captured by its run;
// what comes behind it stays for the next.
func TestNextRunRace(t *testing.T) {
	r := newRig(t, config{script: echo, drive: harness.Manual})
	r.queue(r.lane.NextRun, "before")
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	r.queue(r.lane.NextRun, "behind")
	r.completed(r.finish())
	r.completed(r.prompt("again"))
	want := []string{"user: before", "user: go", "assistant: answer 0", "user: behind", "user: again", "assistant: answer 1"}
	if diff := cmp.Diff(want, r.transcript()); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	verifyClean(t, r.store)
}

// A run with an inbox leaves equal stores in both drives.
func TestInboxDrivesLeaveEqualStores(t *testing.T) {
	run := func(drive harness.Drive) string {
		var r *rig
		queued := false
		w := newWorld()
		release := w.hold("append")
		r = newRig(t, config{script: toolThenEcho, drive: drive, world: w, onEvent: func(ev harness.Event) {
			// Behind the durable response, while its call runs or is parked.
			if added, ok := ev.(harness.EntryAdded); ok && strings.Contains(string(added.Entry.Payload), `"toolUse"`) && !queued {
				queued = true
				steer("now")(r)
				followUp("later")(r)
				note(r)
				release()
			}
		}})
		handle, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		r.check(err)
		r.completed(r.finish())
		result, err := handle.Wait(r.ctx)
		r.check(err)
		checkEnded(r, result)
		return trace(r.store.commits())
	}
	if diff := cmp.Diff(run(harness.Automatic), run(harness.Manual)); diff != "" {
		t.Errorf("traces differ (-automatic +manual):\n%s", diff)
	}
}

// Of inputs that meet, none is lost and each is placed once.
func TestInputsMeet(t *testing.T) {
	r := newRig(t, config{script: echo, options: modes(registers.All, registers.All)})
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
	r.check(err)
	done := make(chan []string)
	for i := range 8 {
		go func() {
			var taken []string
			for j := range 8 {
				text := fmt.Sprintf("%d/%d", i, j)
				into := []func(context.Context, harness.Prompt) ([]pistore.ID, error){r.lane.Steer, r.lane.FollowUp, r.lane.NextRun}[j%3]
				if _, err := into(r.ctx, harness.Prompt{Text: text}); err == nil {
					taken = append(taken, "user: "+text)
				} else if !errors.Is(err, harness.ErrNoActiveRun) {
					t.Error(err)
				}
			}
			done <- taken
		}()
	}
	var taken []string
	for range 8 {
		taken = append(taken, await(r, done)...)
	}
	r.completed(r.finish())
	r.completed(r.prompt("last"))
	var got []string
	for _, line := range r.transcript() {
		if strings.Contains(line, "/") {
			got = append(got, line)
		}
	}
	slices.Sort(taken)
	slices.Sort(got)
	if diff := cmp.Diff(taken, got); diff != "" {
		t.Errorf("placed (-accepted +placed):\n%s", diff)
	}
	verifyClean(t, r.store)
}
