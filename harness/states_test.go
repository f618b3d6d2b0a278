package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/registers"
)

// standing is a state of an open operation, and a point at which a process can
// die in it.
type standing struct {
	state string // as stateName names it
	point string
	world scenario
	// where narrows the points of the scenario that stand in the state; nil: the
	// first.
	where func(registers.OpState) bool
	// from is the state of the scenario that spoil turns into this one, for states
	// that the machine folds into others.
	from  string
	spoil func(*testing.T, []pistore.Row) []pistore.Row
	trace string // the script that shows it, if any
}

// scenario is what an operation works with, and how it begins.
type scenario struct {
	config config
	scenes []faux.Scene // with a small model, behind a turn that fills its window to a half
	begin  func(*rig) error
}

func (s scenario) rig(t *testing.T, c config) *rig {
	t.Helper()
	full := s.config
	full.drive, full.seed, full.rows = c.drive, c.seed, c.rows
	if s.scenes != nil {
		return newSummaryRig(t, full, s.scenes...)
	}
	return newRig(t, full)
}

func prompted(text string) func(*rig) error {
	return func(r *rig) error {
		_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: text})
		return err
	}
}

func withHooks(set func(*harness.Hooks)) func(*harness.Options) {
	return func(o *harness.Options) { set(&o.Hooks) }
}

var (
	summarized  = summaryScene(faux.Text("SUMMARY"))
	answering   = scenario{config: config{script: echo}, begin: prompted("go")}
	calling2    = scenario{config: config{script: twoCalls, tools: registers.Sequential}, begin: prompted("go")}
	laterPolled = scenario{config: config{script: laterRun}, begin: prompted("go")}
	threshold   = scenario{scenes: []faux.Scene{fill, done, summarized}, begin: prompted(full)}
	overflow    = scenario{scenes: append([]faux.Scene{fill, summarized}, overflowing...), begin: prompted("over")}
	compacting  = scenario{scenes: []faux.Scene{fill, summarized}, begin: func(r *rig) error {
		_, err := r.lane.Compact(r.ctx, "be brief")
		return err
	}}
	navigating = scenario{scenes: []faux.Scene{fill}, begin: func(r *rig) error {
		_, err := r.lane.Navigate(r.ctx, harness.Navigation{TargetID: r.entry(0), Label: "start"})
		return err
	}}
	leaving = scenario{scenes: []faux.Scene{fill, summarized}, begin: func(r *rig) error {
		_, err := r.lane.Navigate(r.ctx, harness.Navigation{TargetID: r.entry(0), Summarize: true})
		return err
	}}
)

// with returns the scenario with another configuration.
func (s scenario) with(change func(*config)) scenario {
	change(&s.config)
	return s
}

// standings are the states of operations and where a process dies in them.
var standings = append([]standing{
	{state: "run: checkpoint need_assistant", point: "behind the acceptance", world: answering, trace: "killed_after_acceptance"},
	{state: "run: checkpoint need_assistant", point: "with steering and a follow-up waiting", world: answering,
		from: "run: checkpoint need_assistant", spoil: queueing},
	{state: "run: checkpoint may_finish", point: "nothing is owed", trace: "hooks_run_end",
		world: answering.with(func(c *config) {
			c.options = withHooks(func(h *harness.Hooks) { h.BeforeRunEnd = append(h.BeforeRunEnd, unchanged[harness.RunEnding]) })
		})},
	{state: "run: assistant ready", point: "before the intent", trace: "hooks_request",
		world: answering.with(func(c *config) {
			c.options = withHooks(func(h *harness.Hooks) { h.BeforeRequest = append(h.BeforeRequest, unchanged[harness.RequestPlan]) })
		})},
	{state: "run: assistant effect_pending", point: "behind the intent, attempts left", world: answering, trace: "worked_killed_after_2"},
	{state: "run: assistant effect_pending", point: "behind the intent of the last attempt", trace: "worked_killed_at_the_cap",
		world: answering.with(func(c *config) { c.retry = registers.RetryPolicy{MaxAttempts: 1, BaseDelayMS: 1} })},
	{state: "run: assistant retry_wait", point: "while it waits", trace: "retry_killed_in_wait",
		world: scenario{config: config{script: faux.Script{{Turns: []faux.Turn{{faux.Fail("overloaded", true), faux.Text("Done.")}}}}}, begin: prompted("go")}},
	{state: "run: tools", point: "every call is planned", trace: "hooks_tool", where: everyCall(registers.CallPlanned),
		world: calling2.with(func(c *config) {
			c.options = withHooks(func(h *harness.Hooks) { h.BeforeTool = append(h.BeforeTool, unchanged[harness.ToolPlan]) })
		})},
	{state: "run: tools", point: "a call runs that may not run twice", world: calling2, trace: "worked_killed_after_3", where: runs(registers.ReplayNever)},
	{state: "run: tools", point: "a call runs that is safe to repeat", world: calling2, trace: "killed_safe_tool", where: runs(registers.ReplaySafe)},
	{state: "run: tools", point: "one call is settled, another runs", trace: "killed_between_tools",
		world: calling2.with(func(c *config) { c.tools = registers.Parallel }),
		where: func(s registers.OpState) bool {
			return runs(registers.ReplaySafe)(s) && !runs(registers.ReplayNever)(s)
		}},
	{state: "run: deferred suspended", point: "before the first poll", world: laterPolled, trace: "deferred"},
	{state: "run: deferred effect_pending", point: "behind the intent of a poll", world: laterPolled, trace: "deferred_killed"},
	{state: "run: failure_drain response", point: "nothing waits", world: answering, from: "run: assistant effect_pending", spoil: failed},
	{state: "run: failure_drain response", point: "with steering and a follow-up waiting", world: answering, from: "run: assistant effect_pending",
		spoil: func(t *testing.T, rows []pistore.Row) []pistore.Row { return queueing(t, failed(t, rows)) }, trace: "failure_drain"},
	{state: "run: failure_drain summary", point: "nothing waits", world: threshold, from: "run: compaction threshold, effect_pending", spoil: failed},
	{state: "navigation", point: "behind the acceptance", world: navigating, trace: "navigation"},
}, slices.Concat(
	summaryStates("run: compaction threshold", threshold, "compaction_threshold"),
	summaryStates("run: compaction overflow", overflow, "compaction_overflow"),
	summaryStates("compaction", compacting, "compaction"),
	summaryStates("navigation", leaving, "navigation_summary"),
)...)

// summaryStates are the states of the summary of an operation. Only that in
// which its request is under way is always durable; the others fold into it.
func summaryStates(of string, world scenario, trace string) []standing {
	pending := of + ", effect_pending"
	turned := func(change func(*registers.Summary)) func(*testing.T, []pistore.Row) []pistore.Row {
		return func(t *testing.T, rows []pistore.Row) []pistore.Row {
			return inEach(t, rows, func(s registers.OpState) { change(registers.SummaryOf(s)) })
		}
	}
	generation := func(g registers.Generation) func(*registers.Summary) {
		return func(sum *registers.Summary) { sum.Generating.Generation = g }
	}
	return []standing{
		{state: of + ", deciding", point: "the input is frozen", world: world, from: pending, trace: trace,
			spoil: turned(func(sum *registers.Summary) { sum.Generating = nil })},
		{state: of + ", ready", point: "before the intent", world: world, from: pending, spoil: turned(generation(&registers.GenerationReady{NextAttempt: 1}))},
		{state: pending, point: "behind the intent", world: world, trace: trace + "_killed"},
		{state: of + ", between requests", point: "a request of several is settled", world: world, from: pending,
			spoil: turned(generation(&registers.GenerationPending{Attempt: 1}))},
		{state: of + ", retry_wait", point: "while it waits", world: world, from: pending,
			spoil: turned(generation(&registers.GenerationRetryWait{NextAttempt: 2, NotBefore: newClock().now + 2000, ErrorMessage: "overloaded"}))},
	}
}

// next is what a Resume does first: its commits, and the effect behind them.
func (d standing) next(t *testing.T, rows []pistore.Row) string {
	t.Helper()
	r := d.world.rig(t, config{rows: rows, seed: 2, drive: harness.Manual})
	result, err := r.lane.Handle().Wait(r.ctx)
	r.check(err)
	if result.Suspended == nil || len(r.store.commits()) > 0 || len(r.lane.Peek()) > 0 {
		t.Fatalf("restoring starts something: %s", describe(result))
	}
	_, err = r.lane.Resume(r.ctx)
	r.check(err)
	var does []string
	for range 5 {
		r.check(r.lane.Settle(r.ctx))
		parked := r.lane.Peek()
		if len(parked) == 0 {
			if result := r.finish(); result.Suspended != nil {
				does = append(does, "suspended: "+string(result.Suspended.Reason))
			}
			break
		}
		if parked[0].Kind != harness.EffectCommit {
			does = append(does, effectWords(parked[0]))
			break
		}
		n := len(r.store.commits())
		_, err := r.lane.StepEffect(r.ctx, parked[0].ID)
		r.check(err)
		for _, tx := range r.store.commits()[n:] {
			does = append(does, "TX["+strings.Join(outline(tx), "; ")+"]")
		}
	}
	return strings.ReplaceAll(strings.Join(does, ", then "), " ;", ";")
}

func effectWords(e harness.Effect) string {
	v := parseValue(e.Detail)
	for _, name := range []string{"hook", "toolName"} {
		if text := v.member(name).text(); text != "" {
			return string(e.Kind) + " " + text
		}
	}
	return string(e.Kind)
}

// recovers checks that a recovery that is killed behind any of its commits ends
// as the one that is not.
func (d standing) recovers(t *testing.T, rows []pistore.Row) {
	t.Helper()
	came := func(r *rig, crashes ...[]pistore.Row) []string {
		last, err := r.lane.LastResult(r.ctx)
		r.check(err)
		if last == nil {
			t.Fatalf("nothing ended after a crash at %s", where(crashes[len(crashes)-1]))
		}
		for _, row := range r.rows() {
			if reg, ok := row.(pistore.Register); ok && (strings.HasPrefix(reg.Namespace, "op.") || reg.Namespace == registers.PendingEntryNS) {
				t.Errorf("register %s %s outlives its operation", reg.Namespace, reg.Key)
			}
		}
		verifyClean(t, r.store)
		end := string(last.Outcome) + " " + string(last.RunCompletion)
		if last.Error != nil {
			end += " " + last.Error.Code
		}
		return append(scene{}.softened(t, r.transcript(), crashes), end)
	}
	first := d.world.rig(t, config{rows: rows, seed: 3, drive: harness.Manual})
	var points [][]pistore.Row
	resumeAll(first, eachStore(func(again []pistore.Row) { points = append(points, again) }))
	for _, again := range points {
		second := d.world.rig(t, config{rows: again, seed: 4})
		resumeAll(second, nil)
		if diff := cmp.Diff(came(first, rows, again), came(second, rows, again)); diff != "" {
			t.Errorf("killed again at %s (-uninterrupted +killed):\n%s", where(again), diff)
		}
	}
}

// Every state of an operation is built, closed, reopened and resumed: the next
// action is the one in the table of docs/harness-states.md, and a recovery that
// is killed anywhere ends like the one that is not. The table is generated; a
// state that is not in it fails. -update writes it anew.
func TestStates(t *testing.T) {
	var lines []string
	covered := map[string]bool{}
	for _, d := range standings {
		name := d.state + ", " + d.point
		t.Run(name, func(t *testing.T) {
			rows := d.build(t)
			stopped := cancelled(t, rows)
			d.recovers(t, rows)
			d.recovers(t, stopped)
			test := "TestStates"
			if d.trace != "" {
				if _, err := os.Stat(filepath.Join(tracesDir, d.trace)); err != nil {
					t.Error(err)
				}
				test += ", trace `" + d.trace + "`"
			}
			lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", d.state, d.point, d.next(t, rows), d.next(t, stopped), test))
			covered[d.state] = true
		})
	}
	if t.Failed() || len(lines) < len(standings) {
		return
	}
	for _, name := range everyState(t) {
		if !covered[name] {
			t.Errorf("no test builds the state %s", name)
		}
	}
	checkStatesPage(t, lines)
}

// everyState names every state that op.state can hold: those of its shapes, and
// each summary at each of its points.
func everyState(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, shape := range shapes(t) {
		names = append(names, shape.state)
	}
	for _, of := range []string{"run: compaction threshold", "run: compaction overflow", "compaction", "navigation"} {
		for _, point := range []string{"deciding", "ready", "effect_pending", "between requests", "retry_wait"} {
			names = append(names, of+", "+point)
		}
	}
	return append(names, "navigation")
}

// opShape is a golden of op.state.
type opShape struct{ file, state string }

func shapes(t *testing.T) []opShape {
	t.Helper()
	files, err := filepath.Glob("../registers/testdata/op.state-*.json")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d shapes of op.state: %v", len(files), err)
	}
	var out []opShape
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		state, err := registers.DecodeOpState(pistore.JSON(strings.TrimSpace(string(text))))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, opShape{filepath.Base(path), stateName(state)})
	}
	return out
}

func checkStatesPage(t *testing.T, lines []string) {
	t.Helper()
	const path = "../docs/harness-states.md"
	var b strings.Builder
	b.WriteString(statesHead)
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(statesShapes)
	for _, s := range shapes(t) {
		fmt.Fprintf(&b, "| `%s` | [%s](../registers/testdata/%s) |\n", s.state, s.file, s.file)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), b.String()); diff != "" {
		t.Errorf("%s is stale; -update writes it anew (-page +states):\n%s", path, diff)
	}
}

const statesHead = `# States of the harness

This page is generated: ` + "`go test ./harness -run TestStates -update`" + `.

An open operation stands in one state, which the register ` + "`op.state`" + ` holds whole.
Whatever kills the process, the next one finds one of these. Opening starts
nothing: the operation is suspended, and ` + "`Resume`" + ` continues it. The table says
what that does first: the transactions up to the first effect, and that effect
(the words are those of [architecture.md](architecture.md)), and what it does if
the operation had been asked to stop. The test builds each state, closes the store,
opens it again, resumes, and kills the recovery behind each of its commits: it ends
as the uninterrupted one does. The traces in ` + "`harness/testdata/traces`" + ` show every
transaction.

| state | the process died | next action | next action, asked to stop | test |
|---|---|---|---|---|
`

const statesShapes = `
## Shapes

One example of each shape of ` + "`op.state`" + `, which its codec keeps byte for byte. A member
that is not of the shape is refused: what an open operation says is read whole or not
at all.

| state | example |
|---|---|
`
