package harness_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pistore"
	"pistore/harness"
	"pistore/logstore"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
	"pistore/verify"
)

var (
	kills    = flag.Int("kills", 30, "rounds of the kill test")
	killSeed = flag.Uint64("killseed", 0, "seed of the kill test; 0: by the clock")
)

const killChildEnv = "PISTORE_KILL_TEST_CHILD"

func TestMain(m *testing.M) {
	if place := os.Getenv(killChildEnv); place != "" {
		dir, id, _ := strings.Cut(place, "#")
		if err := killChild(dir, pistore.SessionID(id)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// killScript answers for ever: two calls, an error and then a call of the never
// tool, an answer.
var killScript = faux.Script{{Rest: func(_ provider.Request, at faux.Position) faux.Step {
	call := func(name string) session.Block {
		return session.ToolCall{Name: name, Arguments: pistore.JSON(fmt.Sprintf(`{"text":"turn %d"}`, at.Turn))}
	}
	switch {
	case at.Turn%3 == 0:
		return faux.Step{Content: []session.Block{call("never"), call("safe")}}
	case at.Turn%3 == 1 && at.Attempt == 1:
		return faux.Fail("overloaded", true)
	case at.Turn%3 == 1:
		return faux.Step{Content: []session.Block{call("never")}}
	default:
		return faux.Text("That is done.")
	}
}}}

// killHarness opens the session with tools that leave their traces in files of
// the folder beside the store. Every commit is reported to w.
func killHarness(dir string, id pistore.SessionID, w io.Writer) (*harness.Harness, *logstore.Store, *reporter, error) {
	store, err := logstore.Open(filepath.Join(dir, "store"), logstore.Options{})
	if err != nil {
		return nil, nil, nil, err
	}
	ctx := context.Background()
	s, err := store.Open(ctx, id, pistore.ReadWrite)
	if errors.Is(err, pistore.ErrNotFound) {
		s, err = store.Create(ctx, pistore.Info{ID: id})
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, store.Close())
	}
	leave := func(name string) func(context.Context, tool.Call) (tool.Result, error) {
		return func(_ context.Context, call tool.Call) (tool.Result, error) {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				return tool.Result{}, err
			}
			// The model's own id of the call: a harness that started it anew under
			// another reserved id would be seen.
			_, err = fmt.Fprintf(f, "%s/%s\n", id, call.ID)
			time.Sleep(time.Millisecond) // a tool takes its time, so that some are killed inside
			return tool.Text("left a line in " + name), errors.Join(err, f.Close())
		}
	}
	tools, err := tool.NewSet(
		tool.Tool{Name: "never", Parameters: anyObject, Execute: leave("never")},
		tool.Tool{Name: "safe", Parameters: anyObject, Replay: registers.ReplaySafe, Execute: leave("safe")},
	)
	if err != nil {
		return nil, nil, nil, errors.Join(err, store.Close())
	}
	r := &reporter{Storage: s, w: w}
	h, err := harness.New(r, harness.Options{
		Providers:     provider.NewSet(faux.New(faux.Options{Script: killScript, Forget: true})),
		Tools:         tools,
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}},
		RetryPolicy:   registers.RetryPolicy{MaxAttempts: 5, BaseDelayMS: 1},
	})
	return h, store, r, err
}

// reporter tells of every commit on both sides: "begin", then "ack" with the
// ids of its entries and usage rows, then "step" with the attempt of the step
// that op.state is at.
type reporter struct {
	pistore.Storage
	mu sync.Mutex
	w  io.Writer
}

func (r *reporter) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	r.say("begin")
	receipt, err := r.Storage.Commit(ctx, tx)
	if err != nil {
		return receipt, err
	}
	line := "ack"
	for _, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			line += " " + string(w.ID)
		case pistore.SetRegister:
			if step, attempt := attemptOf(w); step != "" {
				defer r.say(fmt.Sprintf("step %s %d", step, attempt))
			}
		}
	}
	r.say(line)
	return receipt, nil
}

func (r *reporter) say(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.w, line)
}

// attemptOf returns the step and the attempt that an op.state is at.
func attemptOf(w pistore.SetRegister) (pistore.ID, int64) {
	if w.Namespace != registers.OpStateNS {
		return "", 0
	}
	state, err := registers.DecodeOpState(w.Value)
	if err != nil {
		return "", 0
	}
	run, ok := state.(*registers.RunState)
	if !ok {
		return "", 0
	}
	switch ph := run.Phase.(type) {
	case *registers.AssistantPending:
		return ph.Context.StepID, ph.Attempt
	case *registers.AssistantRetryWait:
		return ph.Context.StepID, ph.NextAttempt
	default:
		return "", 0
	}
}

// killChild runs prompt after prompt until it is killed.
func killChild(dir string, id pistore.SessionID) error {
	ctx := context.Background()
	h, _, r, err := killHarness(dir, id, os.Stdout)
	if err != nil {
		return err
	}
	lane, err := h.Lane(ctx, "main")
	if err != nil {
		return err
	}
	r.say("ready")
	for {
		run, err := lane.Resume(ctx)
		if errors.Is(err, harness.ErrNothingToResume) {
			run, err = lane.Prompt(ctx, harness.Prompt{Text: "go on"})
		}
		if err != nil {
			return err
		}
		if _, err := run.Wait(ctx); err != nil {
			return err
		}
	}
}

// killed is what the parent knows of a session from outside.
type killed struct {
	mu       sync.Mutex // guards what follows
	acked    []pistore.ID
	attempts map[string]int64
	open     bool // a commit was begun and not acknowledged
	backward []string
}

func newKilled() *killed { return &killed{attempts: map[string]int64{}} }

// Write takes the lines of a reporter.
func (k *killed) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		k.line(strings.TrimSpace(line))
	}
	return len(p), nil
}

func (k *killed) line(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fields := strings.Fields(line)
	switch {
	case len(fields) == 0:
	case fields[0] == "begin":
		k.open = true
	case fields[0] == "ack":
		k.open = false
		for _, id := range fields[1:] {
			k.acked = append(k.acked, pistore.ID(id))
		}
	case fields[0] == "step" && len(fields) == 3:
		attempt, _ := strconv.ParseInt(fields[2], 10, 64)
		if attempt < k.attempts[fields[1]] {
			k.backward = append(k.backward, line)
		}
		k.attempts[fields[1]] = attempt
	}
}

// A process that drives runs on logstore is killed at random instants. After
// each kill the store is verified and the run resumed to its end.
func TestKillHarness(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay: go test ./harness -run TestKillHarness -kills %d -killseed %d", *kills, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	const roundsPerSession = 5
	openCommits, resumed := 0, 0
	var k *killed
	for round := range *kills {
		if round%roundsPerSession == 0 {
			k = newKilled()
		}
		id := pistore.SessionID(fmt.Sprintf("s%d", round/roundsPerSession))
		killOnce(t, dir, id, k, time.Duration(random.Int64N(int64(80*time.Millisecond))))
		if k.open {
			openCommits++
		}
		k.open = false
		if recoverKilled(t, dir, id, k) {
			resumed++
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	t.Logf("%d kills: %d hit an open commit, %d left a run to resume", *kills, openCommits, resumed)
	if openCommits == 0 {
		t.Errorf("no kill hit an open commit")
	}
}

// killOnce starts a child and kills it some time after it is ready.
func killOnce(t *testing.T, dir string, id pistore.SessionID, k *killed, after time.Duration) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), killChildEnv+"="+dir+"#"+string(id))
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(hang, func() { _ = child.Process.Kill() })
	defer killer.Stop()
	ready := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			ready = true
			time.AfterFunc(after, func() { _ = child.Process.Kill() })
			continue
		}
		// The last line may be cut by the kill; a cut acknowledgement is none,
		// and a whole line is never shorter than its first word.
		k.line(lines.Text())
	}
	_ = child.Wait() // killed
	if !ready || stderr.Len() > 0 {
		t.Fatalf("the child failed: %s", stderr.String())
	}
}

// recoverKilled opens what the child left, verifies it, resumes it to the end
// and checks every promise. It reports whether there was a run to resume.
func recoverKilled(t *testing.T, dir string, id pistore.SessionID, k *killed) (resumed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	h, store, r, err := killHarness(dir, id, k)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(h.Close(ctx), store.Close()); err != nil {
			t.Error(err)
		}
	}()
	verifyClean(t, r)
	found, err := r.Entries(ctx, k.acked)
	if err != nil {
		t.Fatal(err)
	}
	there := map[pistore.ID]bool{}
	for _, e := range found {
		there[e.ID] = true
	}
	for _, id := range k.acked {
		if !there[id] {
			t.Errorf("acknowledged entry %s is lost", id)
		}
	}
	lane, err := h.Lane(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	run, err := lane.Resume(ctx)
	if err == nil {
		resumed = true
		if result, err := run.Wait(ctx); err != nil || result.Ended == nil {
			t.Errorf("the resumed run came to %+v, %v", result, err)
		}
	} else if !errors.Is(err, harness.ErrNothingToResume) {
		t.Fatal(err)
	}
	verifyClean(t, r)
	checkOutside(t, filepath.Join(dir, "never"))
	checkInside(t, r)
	if len(k.backward) > 0 {
		t.Errorf("the attempt count went back: %v", k.backward)
	}
	return resumed
}

func verifyClean(t *testing.T, s pistore.Storage) {
	t.Helper()
	report, err := verify.Check(context.Background(), s, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Faults {
		t.Errorf("verify: %+v", f)
	}
}

// checkOutside counts the starts of the never tool where it left its traces.
func checkOutside(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	slices.Sort(lines)
	if unique := slices.Compact(slices.Clone(lines)); len(unique) != len(lines) {
		t.Errorf("a never tool ran twice: %d starts of %d calls", len(lines), len(unique))
	}
}

// checkInside checks that every call has one result and every settled attempt
// one usage row.
func checkInside(t *testing.T, s pistore.Storage) {
	t.Helper()
	ctx := context.Background()
	calls, responses := map[string]int{}, map[pistore.ID]int{}
	for e, err := range s.ScanEntries(ctx, pistore.ScanQuery{Type: pistore.TypeMessage}) {
		if err != nil {
			t.Fatal(err)
		}
		m, err := session.EntryMessage(e)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *session.AssistantMessage:
			responses[e.ID] += 0
			if m.StopReason == session.StopError || m.StopReason == session.StopAborted {
				continue // no request ever holds its calls
			}
			for _, c := range m.ToolCalls() {
				calls[c.ID] += 0
			}
		case *session.ToolResultMessage:
			calls[m.ToolCallID]++
		}
	}
	for row, err := range s.ScanUsage(ctx, pistore.ScanQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		responses[row.EntryID]++
	}
	for id, n := range calls {
		if n != 1 {
			t.Errorf("call %s has %d results", id, n)
		}
	}
	for id, n := range responses {
		if n != 1 {
			t.Errorf("response %s has %d usage rows", id, n)
		}
	}
}
