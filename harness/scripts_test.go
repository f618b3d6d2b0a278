package harness_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// Traces are scripts that drive a lane and show every transaction in the
// notation of the design (see notation). `go test ./harness -run TestTraces
// -rewrite` writes what comes out into them, to be read as a diff.
//
//	new [tools=sequential] [attempts=N] [base=MS] [active=(a, b)] …
//	    a session with one lane; the lines below say what the model answers, a
//	    turn a line (see turn); behind a line "behind WORDS", what it answers to
//	    a message with these words, behind a line "summaries" to one that asks for
//	    a summary, and behind "compacted" where the context holds one
//	prompt TEXT     accept a run
//	steer, followup, nextrun TEXT; append TEXT; note DATA; cancel ENTRY
//	                queue input; append a message or a custom entry; take back
//	tools NAME…     set the lane's active tools
//	thinking LEVEL; settings NAME=VALUE…
//	                set the lane's thinking level; change settings of all lanes
//	lane NAME [ENTRY]; spend USAGE
//	                create another lane; record usage
//	compact [TEXT]; navigate ENTRY [summarize] [label=TEXT]
//	abort; finalize OUTCOME
//	step [N | KIND] release an effect: the oldest, the oldest of a kind, or N of them
//	run             release effects until nothing is parked
//	parked          what waits to be released
//	crash [without TOOL]
//	                drop everything in memory and open what is stored, in a process
//	                that may lack a tool
//	resume; automatic
//	                continue a suspended operation, by hand or as a host does
//	result          what Wait returns
const tracesDir = "testdata/traces"

func TestTraces(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(tracesDir, "*"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	counts := map[string]traceCount{}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { counts[filepath.Base(path)] = runTrace(t, path) })
	}
	if len(counts) < len(files) || t.Failed() {
		return // by -run
	}
	checkCommitCounts(t, counts)
}

// Writing the traces anew changes nothing.
func TestTracesRegenerate(t *testing.T) {
	rewrite := flag.Lookup("rewrite").Value
	was := rewrite.String()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(tracesDir)); err != nil {
		t.Fatal(err)
	}
	if err := rewrite.Set("true"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rewrite.Set(was) }()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	for _, path := range files {
		runTrace(t, path)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(tracesDir, filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-checked in +written anew):\n%s", filepath.Base(path), diff)
		}
	}
}

// traceCount is what a trace cost.
type traceCount struct {
	operations, resumes int
	effects             int // requests, calls and waits
	hooks               int
	commits             int // acceptances and what the drive commits
	calls               int // commits of calls beside the drive
	reads               int // of the store, by the drive
}

// checkCommitCounts holds the promise of at most N + 2 commits for an operation
// with N effects, hooks among them, and one more for each Resume, which settles
// what a crash left; and that of no read of the store between acceptance and end.
// The counts of all traces are generated.
func checkCommitCounts(t *testing.T, counts map[string]traceCount) {
	t.Helper()
	const path = "testdata/commits.txt"
	const header, line = "%-28s%11s%9s%9s%9s%9s%9s%9s\n", "%-28s%11d%9d%9d%9d%9d%9d%9d\n"
	text := fmt.Sprintf(header, "trace", "operations", "resumes", "effects", "hooks", "commits", "calls", "reads")
	for _, name := range slices.Sorted(mapKeys(counts)) {
		c := counts[name]
		text += fmt.Sprintf(line, name, c.operations, c.resumes, c.effects, c.hooks, c.commits, c.calls, c.reads)
		if c.reads > 0 {
			t.Errorf("%s: %d reads between acceptance and end", name, c.reads)
		}
		if most := c.effects + c.hooks + 2*c.operations + c.resumes; c.commits > most {
			t.Errorf("%s: %d commits for %d effects, %d hooks and %d resumes of %d operations", name, c.commits, c.effects, c.hooks, c.resumes, c.operations)
		}
	}
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("commits per trace (-%s +now); -rewrite writes it anew:\n%s", path, diff)
	}
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func runTrace(t *testing.T, path string) traceCount {
	t.Helper()
	s := &scripted{t: t}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		s.t = t
		return s.command(d)
	})
	s.finish()
	return s.count
}

// scripted is the state of a script.
type scripted struct {
	t      *testing.T
	d      *datadriven.TestData
	config config
	rig    *rig
	n      *notation
	shown  int          // of the rig's commits
	reads  *readCounter // of the rig
	count  traceCount
}

// command executes one command and returns what it shows.
func (s *scripted) command(d *datadriven.TestData) string {
	s.t.Helper()
	s.d = d
	if s.rig != nil {
		s.rig.t = s.t
	}
	run, known := traceCommands[d.Cmd]
	if !known {
		d.Fatalf(s.t, "unknown command %s", d.Cmd)
	}
	if d.Cmd != "new" && s.rig == nil {
		d.Fatalf(s.t, "a script starts with new")
	}
	out := run(s)
	return strings.TrimPrefix(out+s.news(), "\n")
}

// traceCommands are the commands of a script; what each returns comes before
// the transactions that it led to.
var traceCommands = map[string]func(*scripted) string{
	"new": (*scripted).open,
	"prompt": accepting(func(s *scripted, r *rig) (*harness.Handle, error) {
		return r.lane.Prompt(r.ctx, harness.Prompt{Text: expanded(s.words())})
	}),
	"steer":    calling(func(s *scripted, r *rig) error { return s.queue(r.lane.Steer) }),
	"followup": calling(func(s *scripted, r *rig) error { return s.queue(r.lane.FollowUp) }),
	"nextrun":  calling(func(s *scripted, r *rig) error { return s.queue(r.lane.NextRun) }),
	"append": calling(func(s *scripted, r *rig) error {
		_, err := r.lane.AppendMessage(r.ctx, &session.CustomMessage{CustomType: "info", Content: session.TextContent(s.words())})
		return err
	}),
	"note": calling(func(s *scripted, r *rig) error {
		_, err := r.lane.AppendCustom(r.ctx, "note", pistore.JSON(s.words()))
		return err
	}),
	"cancel": (*scripted).cancel,
	"lane": calling(func(s *scripted, r *rig) error {
		name, anchor, _ := strings.Cut(s.words(), " ")
		_, err := r.h.CreateLane(r.ctx, name, s.n.id(anchor))
		return err
	}),
	"spend": calling(func(s *scripted, r *rig) error {
		_, err := r.lane.RecordUsage(r.ctx, harness.Spent{Usage: pistore.JSON(s.words())})
		return err
	}),
	"compact":  accepting(func(s *scripted, r *rig) (*harness.Handle, error) { return r.lane.Compact(r.ctx, s.words()) }),
	"navigate": accepting((*scripted).navigate),
	"abort":    calling((*scripted).abort),
	"finalize": calling(func(s *scripted, r *rig) error {
		_, err := r.lane.Finalize(r.ctx, registers.Outcome(s.words()))
		return err
	}),
	"tools": calling(func(s *scripted, r *rig) error {
		c := r.lane.Configuration()
		c.ActiveToolNames = strings.Fields(s.words())
		return r.lane.SetConfiguration(r.ctx, c)
	}),
	"thinking":  calling(func(s *scripted, r *rig) error { return r.lane.SetThinkingLevel(r.ctx, s.words()) }),
	"settings":  calling((*scripted).settings),
	"step":      (*scripted).step,
	"run":       (*scripted).run,
	"parked":    (*scripted).parked,
	"crash":     (*scripted).crash,
	"resume":    resuming((*harness.Lane).Resume),
	"automatic": resuming((*harness.Lane).ResumeAutomatically),
	"result":    (*scripted).result,
}

// words are the arguments of a command as they were written.
func (s *scripted) words() string {
	_, rest, _ := strings.Cut(s.d.String(), " ")
	rest, _, _ = strings.Cut(rest, "\n")
	return strings.TrimSpace(rest)
}

// news are the transactions since the last time.
func (s *scripted) news() string {
	var b strings.Builder
	txs := s.rig.store.commits()
	for _, tx := range txs[s.shown:] {
		b.WriteString("\n" + s.n.tx(tx))
	}
	s.shown = len(txs)
	return b.String()
}

// open starts a session. Its first commit makes the lane main.
func (s *scripted) open() string {
	s.config = config{drive: harness.Manual, seed: 1, clock: newClock(), world: newWorld()}
	s.option(func(o *harness.Options) { o.Check = false }) // its reads are not the drive's
	s.config.wrap = func(storage pistore.Storage) pistore.Storage {
		s.reads = &readCounter{Storage: storage}
		return s.reads
	}
	for _, arg := range s.d.CmdArgs {
		switch value := arg.Vals; arg.Key {
		case "tools":
			s.config.tools = registers.ToolExecution(value[0])
		case "steering":
			s.option(func(o *harness.Options) { o.SteeringMode = registers.QueueMode(value[0]) })
		case "followups":
			s.option(func(o *harness.Options) { o.FollowUpMode = registers.QueueMode(value[0]) })
		case "hooks":
			s.option(func(o *harness.Options) { s.hooks(&o.Hooks, value) })
		case "active":
			s.config.active = value
		case "attempts":
			s.config.retry.MaxAttempts = s.number(value[0])
		case "output":
			s.config.models = []provider.Model{faux.DefaultModel}
			s.config.models[0].MaxOutputTokens = s.number(value[0])
		case "small": // see smallModel
			s.config.models = []provider.Model{smallModel}
			s.option(func(o *harness.Options) {
				o.Compaction = harness.Compaction{ReserveTokens: 4000, KeepRecentTokens: 1200}
			})
		case "resumes":
			s.option(func(o *harness.Options) { o.MaxResumes = s.number(value[0]) })
		case "base":
			s.config.retry.BaseDelayMS = s.number(value[0])
		default:
			s.d.Fatalf(s.t, "unknown argument %s", arg.Key)
		}
	}
	if s.config.active == nil {
		s.config.active = []string{}
	}
	s.config.script = faux.Script{{}}
	for line := range strings.Lines(s.d.Input) {
		if about, ok := strings.CutPrefix(strings.TrimSpace(line), "behind "); ok {
			s.config.script = append(faux.Script{{Match: faux.Contains(about)}}, s.config.script...)
			continue
		}
		if match := map[string]func(provider.Request) bool{"summaries": asksForSummary, "compacted": compacted}[strings.TrimSpace(line)]; match != nil {
			s.config.script = append(faux.Script{{Match: match}}, s.config.script...)
			continue
		}
		scene := &s.config.script[0]
		scene.Turns = append(scene.Turns, s.turn(strings.TrimSpace(line)))
	}
	s.n = newNotation()
	s.rig, s.shown = newRig(s.t, s.config), 0
	return ""
}

// option adds to what is done to the options of every rig of the script.
func (s *scripted) option(set func(*harness.Options)) {
	before := s.config.options
	s.config.options = func(o *harness.Options) {
		if before != nil {
			before(o)
		}
		set(o)
	}
}

// hooks registers functions that change nothing, but what is said here.
func (s *scripted) hooks(h *harness.Hooks, names []string) {
	for _, name := range names {
		switch harness.HookName(name) {
		case harness.HookBeforeResume:
			h.BeforeResume = append(h.BeforeResume, unchanged[harness.Resuming])
		case harness.HookBeforeRequest:
			h.BeforeRequest = append(h.BeforeRequest, unchanged[harness.RequestPlan])
		case harness.HookTransformContext:
			h.TransformContext = append(h.TransformContext, unchanged[harness.ContextView])
		case harness.HookBeforePayload:
			h.BeforePayload = append(h.BeforePayload, unchanged[harness.Payload])
		case harness.HookAfterResponse:
			h.AfterResponse = append(h.AfterResponse, unchanged[harness.ResponseReview])
		case harness.HookBeforeTool: // blocks what is forbidden
			h.BeforeTool = append(h.BeforeTool, func(_ context.Context, q harness.ToolPlan) (harness.ToolPlan, error) {
				if strings.Contains(string(q.Call.Arguments), "forbidden") {
					q.Block = "This is forbidden."
				}
				return q, nil
			})
		case harness.HookAfterTool:
			h.AfterTool = append(h.AfterTool, unchanged[harness.ToolOutcome])
		case harness.HookBeforeRunEnd: // asks once whether that is all
			asked := false
			h.BeforeRunEnd = append(h.BeforeRunEnd, func(_ context.Context, q harness.RunEnding) (harness.RunEnding, error) {
				if !asked {
					asked = true
					q.FollowUp = append(q.FollowUp, &session.UserMessage{Content: session.TextContent("Is that all?")})
				}
				return q, nil
			})
		case "decline_compaction", "supply_compaction":
			h.BeforeCompaction = append(h.BeforeCompaction, func(_ context.Context, q harness.SummaryPlan) (harness.SummaryPlan, error) {
				if q.Decline = name == "decline_compaction"; !q.Decline {
					q.Supplied = &harness.SuppliedSummary{Text: "SUPPLIED", Usage: `{"input":1}`}
				}
				return q, nil
			})
		default:
			s.d.Fatalf(s.t, "what is hook %s?", name)
		}
	}
}

func unchanged[T any](_ context.Context, q T) (T, error) { return q, nil }

func (s *scripted) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return n
}

// finish checks that a script leaves nothing parked.
func (s *scripted) finish() {
	if s.rig == nil {
		return
	}
	if parked := s.rig.lane.Peek(); len(parked) > 0 {
		s.t.Errorf("the script ends while %d effects are parked", len(parked))
	}
}
