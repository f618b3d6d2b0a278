package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pistore"
	"pistore/harness"
	"pistore/memstore"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// hang is a guard against a test that never ends, far above what any takes.
const hang = 60 * time.Second

// fakeClock stands still until it is moved; sleeping moves it.
type fakeClock struct {
	mu  sync.Mutex
	now pistore.UnixMS
}

func newClock() *fakeClock { return &fakeClock{now: 1_700_000_000_000} }

func (c *fakeClock) read() pistore.UnixMS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) sleep(ctx context.Context, until pistore.UnixMS) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, until)
	return ctx.Err()
}

// recorder is a Storage that keeps every transaction it committed, and has each
// judged.
type recorder struct {
	pistore.Storage
	oracle *oracle

	mu  sync.Mutex // guards txs
	txs []pistore.Tx
}

func (r *recorder) Unwrap() pistore.Storage { return r.Storage }

func (r *recorder) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	v := r.oracle.begin(tx)
	receipt, err := r.Storage.Commit(ctx, tx)
	if err == nil {
		v.judge()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.txs = append(r.txs, tx)
	}
	return receipt, err
}

func (r *recorder) commits() []pistore.Tx {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]pistore.Tx(nil), r.txs...)
}

// trace renders transactions with ids replaced by E1, U1, O1, S1, … in the
// order in which they first appear, so that traces can be read and compared.
func trace(txs []pistore.Tx) string {
	names := map[string]string{}
	var b strings.Builder
	for i, tx := range txs {
		fmt.Fprintf(&b, "%d TX\n", i+1)
		for _, w := range tx.Writes {
			fmt.Fprintf(&b, "  %s\n", renderWrite(w))
		}
	}
	return renameIDs(b.String(), names)
}

func renderWrite(w pistore.Write) string {
	switch w := w.(type) {
	case pistore.InsertEntry:
		return fmt.Sprintf("entry %s under %q: %s", w.ID, w.ParentID, w.Payload)
	case pistore.InsertUsage:
		return fmt.Sprintf("usage %s of %s: %s %s", w.ID, w.EntryID, w.Usage, w.Details)
	case pistore.SetRegister:
		return fmt.Sprintf("set %s %s = %s", w.Namespace, w.Key, w.Value)
	case pistore.DeleteRegister:
		return fmt.Sprintf("delete %s %s", w.Namespace, w.Key)
	default:
		panic(fmt.Sprintf("write %T", w))
	}
}

// renameIDs replaces each UUID by a name in order of appearance.
func renameIDs(text string, names map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if i+36 <= len(text) {
			if _, ok := pistore.ID(text[i : i+36]).Time(); ok {
				id := text[i : i+36]
				if names[id] == "" {
					names[id] = fmt.Sprintf("#%d", len(names)+1)
				}
				b.WriteString(names[id])
				i += 36
				continue
			}
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// rig is a harness over a session in memory, with a script and tools.
type rig struct {
	t       *testing.T
	ctx     context.Context
	backend *memstore.Backend
	store   *recorder
	faux    *faux.Provider
	world   *world
	clock   *fakeClock
	h       *harness.Harness
	lane    *harness.Lane
}

// config says how a rig is built.
type config struct {
	script   faux.Script
	models   []provider.Model // of the script; nil: its default
	drive    harness.Drive
	tools    registers.ToolExecution
	retry    registers.RetryPolicy
	seed     uint64
	rows     []pistore.Row // what the session holds; nil: it is new
	world    *world        // nil: a new one
	clock    *fakeClock    // nil: a new one
	onEvent  func(harness.Event)
	provider provider.Provider // instead of the script's
	active   []string
	extra    []tool.Tool                           // beside those of the world
	options  func(*harness.Options)                // last word on the options
	wrap     func(pistore.Storage) pistore.Storage // around the session, inside the recorder
	spoiled  bool                                  // what the oracle finds is the test's doing
	noLane   bool                                  // main is not asked for
}

// funcProvider is a provider whose every response is made by a function.
type funcProvider struct {
	name   string // empty: faux
	model  provider.Model
	stream func(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response
}

func (p *funcProvider) Name() string {
	if p.name != "" {
		return p.name
	}
	return "faux"
}

func (p *funcProvider) Model(string) (provider.Model, bool) { return p.model, true }

func (p *funcProvider) Stream(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
	return p.stream(ctx, req, deltas)
}

// answer is a provider that gives this response to every request.
func answer(resp provider.Response) *funcProvider {
	return &funcProvider{stream: func(context.Context, provider.Request, func(provider.Delta)) provider.Response { return resp }}
}

// hanging is a provider whose requests last until they are cancelled; each is
// announced.
func hanging() (p *funcProvider, called chan provider.Request) {
	called = make(chan provider.Request, 100)
	return &funcProvider{stream: func(ctx context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
		called <- req
		<-ctx.Done()
		return provider.Response{Message: provider.Empty(req, "", session.StopAborted, "cancelled")}
	}}, called
}

// world is what tools change outside the store.
type world struct {
	mu      sync.Mutex
	started map[string]int           // executions by tool name and key
	waits   map[string]chan struct{} // by tool name: what its calls wait for
}

func newWorld() *world { return &world{started: map[string]int{}, waits: map[string]chan struct{}{}} }

func (w *world) start(name, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[name+" "+key]++
}

// wait returns what the calls of a tool wait for, by default nothing.
func (w *world) wait(name string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.waits[name]; ok {
		return c
	}
	c := make(chan struct{})
	close(c)
	return c
}

// hold makes the calls of a tool wait until the returned function is called.
func (w *world) hold(name string) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{})
	w.waits[name] = c
	return sync.OnceFunc(func() { close(c) })
}

// count returns how often the calls of a tool were started, and the most that
// one of them was.
func (w *world) count(name string) (total, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, n := range w.started {
		if strings.HasPrefix(k, name+" ") {
			total, most = total+n, max(most, n)
		}
	}
	return total, most
}

const anyObject pistore.JSON = `{"type":"object","properties":{"text":{"type":"string"}}}`

func (w *world) tools() []tool.Tool {
	run := func(name string) func(context.Context, tool.Call) (tool.Result, error) {
		return func(ctx context.Context, call tool.Call) (tool.Result, error) {
			w.start(name, call.IdempotencyKey)
			select {
			case <-w.wait(name):
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			}
			text, _ := call.Arguments.Member("text")
			return tool.Text(name + " did " + string(text)), nil
		}
	}
	return []tool.Tool{
		{Name: "append", Description: "Appends a line.", Parameters: anyObject, Execute: run("append")},
		{Name: "lookup", Description: "Looks up.", Parameters: anyObject, Replay: registers.ReplaySafe, Execute: run("lookup")},
		{Name: "alone", Description: "Runs alone.", Parameters: anyObject, Sequential: true, Execute: run("alone")},
		{Name: "finish", Description: "Ends the run.", Parameters: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Content: session.TextContent("done"), Terminate: true, Usage: `{"input":1,"cost":{"total":0.5}}`}, nil
		}},
		{Name: "fail", Description: "Fails.", Parameters: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, fmt.Errorf("the disk of the tool is full")
		}},
		{Name: "panic", Description: "Panics.", Parameters: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) {
			panic("out of cheese")
		}},
		{Name: "exit", Description: "Ends its goroutine.", Parameters: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) {
			runtime.Goexit()
			return tool.Result{}, nil
		}},
	}
}

func newRig(t *testing.T, c config) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, clock: c.clock, world: c.world}
	if r.clock == nil {
		r.clock = newClock()
	}
	if r.world == nil {
		r.world = newWorld()
	}
	var seed [32]byte
	seed[0], seed[1] = byte(c.seed), byte(c.seed>>8)
	random := rand.NewChaCha8(seed)
	r.backend = memstore.New(memstore.Options{Clock: r.clock.read, Rand: random})
	rows := c.rows
	if rows == nil {
		s, err := r.backend.Create(ctx, pistore.Info{ID: "s"})
		r.check(err)
		r.check(s.Close())
	} else {
		_, err := r.backend.Load(ctx, rowSeq(rows))
		r.check(err)
	}
	s, err := r.backend.Open(ctx, "s", pistore.ReadWrite)
	r.check(err)
	inner := s
	if c.wrap != nil {
		inner = c.wrap(s)
	}
	oracle := &oracle{t: t, store: s}
	if c.spoiled {
		oracle.found = func(string) {}
	}
	r.store = &recorder{Storage: inner, oracle: oracle}
	var p provider.Provider = c.provider
	if p == nil {
		r.faux = faux.New(faux.Options{Script: c.script, Models: c.models})
		p = r.faux
	}
	set, err := tool.NewSet(append(r.world.tools(), c.extra...)...)
	r.check(err)
	seed[31] = 1
	o := harness.Options{
		Providers:     provider.NewSet(p),
		Tools:         set,
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ActiveToolNames: c.active},
		ToolExecution: c.tools, RetryPolicy: c.retry, Drive: c.drive, OnEvent: c.onEvent, Tracer: oracle, Check: true,
		Clock: r.clock.read, Sleep: r.clock.sleep, Rand: rand.NewChaCha8(seed),
	}
	if c.options != nil {
		c.options(&o)
	}
	r.h, err = harness.New(r.store, o)
	r.check(err)
	t.Cleanup(func() {
		r.check(r.h.Close(ctx))
		r.check(s.Close())
	})
	if !c.noLane {
		r.lane, err = r.h.Lane(ctx, "main")
		r.check(err)
	}
	return r
}

// await receives from a channel unless the test hangs.
func await[T any](r *rig, c <-chan T) (v T) {
	r.t.Helper()
	select {
	case v = <-c:
	case <-r.ctx.Done():
		r.t.Fatal("the test hangs")
	}
	return v
}

// other is another writer of the same session.
func (r *rig) other() *session.Session { return session.New(r.store.Storage) }

// register reads a register, empty if it is absent.
func (r *rig) register(namespace, key string) pistore.JSON {
	r.t.Helper()
	found, err := r.store.Registers(r.ctx, []pistore.Address{{Namespace: namespace, Key: key}})
	r.check(err)
	if len(found) == 0 {
		return ""
	}
	return found[0].Value
}

// outlines names the writes of all commits from the nth on, a line per commit.
func (r *rig) outlines(from int) []string {
	var out []string
	for _, tx := range r.store.commits()[from:] {
		out = append(out, strings.Join(outline(tx), "; "))
	}
	return out
}

// messages are the stored messages of the session by seq.
func (r *rig) messages() (ids []pistore.ID, out []session.Message) {
	r.t.Helper()
	for e, err := range r.store.ScanEntries(r.ctx, pistore.ScanQuery{}) {
		r.check(err)
		m, err := session.EntryMessage(e)
		r.check(err)
		ids, out = append(ids, e.ID), append(out, m)
	}
	return ids, out
}

// usage are the rows of the ledger by seq.
func (r *rig) usage() []pistore.UsageRow {
	r.t.Helper()
	var out []pistore.UsageRow
	for row, err := range r.store.ScanUsage(r.ctx, pistore.ScanQuery{}) {
		r.check(err)
		out = append(out, row)
	}
	return out
}

// failed fails the test unless the run failed with a code.
func (r *rig) failed(result harness.Result, code string) {
	r.t.Helper()
	if result.Ended == nil || result.Ended.Outcome != registers.Failed || result.Ended.Error.Code != code {
		r.t.Fatalf("the run came to %s, want failed with %s", describe(result), code)
	}
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// rows is everything that the session holds now.
func (r *rig) rows() []pistore.Row {
	r.t.Helper()
	var rows []pistore.Row
	for row, err := range r.store.Export(r.ctx) {
		r.check(err)
		rows = append(rows, row)
	}
	return rows
}

func rowSeq(rows []pistore.Row) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// prompt accepts a run and drives it to its end or suspension.
func (r *rig) prompt(text string) harness.Result {
	r.t.Helper()
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: text})
	r.check(err)
	return r.finish()
}

// finish drives the lane's run to its end or suspension.
func (r *rig) finish() harness.Result {
	r.t.Helper()
	result, err := r.lane.RunToCompletion(r.ctx)
	r.check(err)
	return result
}

// completed fails the test unless the run ended well.
func (r *rig) completed(result harness.Result) {
	r.t.Helper()
	if result.Ended == nil || result.Ended.Outcome != registers.Completed {
		r.t.Fatalf("the run came to %s", describe(result))
	}
}

func describe(result harness.Result) string {
	if result.Suspended != nil {
		return fmt.Sprintf("suspended: %+v", *result.Suspended)
	}
	text := fmt.Sprintf("%+v", *result.Ended)
	if result.Ended.Error != nil {
		text += fmt.Sprintf(" %+v", *result.Ended.Error)
	}
	return text
}

// transcript is what a model would see next: role, text, tool and error mark of
// each projected message.
func (r *rig) transcript() []string {
	r.t.Helper()
	projected, err := session.ProjectBranch(r.ctx, r.store, r.lane.Leaf(), nil)
	r.check(err)
	var out []string
	for _, p := range projected {
		switch m := p.Message.(type) {
		case *session.UserMessage:
			out = append(out, "user: "+session.JoinText(m.Content))
		case *session.AssistantMessage:
			line := "assistant: " + session.JoinText(m.Content)
			for _, c := range m.ToolCalls() {
				line += fmt.Sprintf(" [%s %s]", c.Name, c.Arguments)
			}
			out = append(out, line)
		case *session.ToolResultMessage:
			line := "result of " + m.ToolName + ": " + session.JoinText(m.Content)
			switch {
			case m.IsError && strings.HasPrefix(session.JoinText(m.Content), "The process ended while tool"):
				line = "result of " + m.ToolName + ": interrupted"
			case m.IsError:
				line += " (error)"
			}
			out = append(out, line)
		case *session.CustomMessage:
			out = append(out, "custom: "+session.JoinText(m.Content))
		case *session.SummaryMessage:
			out = append(out, string(m.Kind)+": "+m.Summary)
		default:
			r.t.Fatalf("unexpected message %T", m)
		}
	}
	return out
}

func isError(err, target error) bool { return errors.Is(err, target) }
