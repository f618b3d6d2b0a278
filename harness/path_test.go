package harness_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/session"
)

// readCounter counts every read of a session, whichever way it is made, and
// fails walks of a branch when it is told to.
type readCounter struct {
	pistore.Storage
	reads  atomic.Int64
	broken atomic.Bool
}

func (c *readCounter) Unwrap() pistore.Storage { return c.Storage }

func (c *readCounter) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	c.reads.Add(1)
	return c.Storage.Entries(ctx, ids)
}

func (c *readCounter) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	c.reads.Add(1)
	return c.Storage.Registers(ctx, at)
}

func (c *readCounter) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	c.reads.Add(1)
	return c.Storage.RegistersByPrefix(ctx, namespace, prefix)
}

var errBroken = errors.New("the cable is out")

func (c *readCounter) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	c.reads.Add(1)
	if c.broken.Load() {
		return func(yield func(pistore.Entry, error) bool) { yield(pistore.Entry{}, errBroken) }
	}
	return c.Storage.Branch(ctx, q)
}

func (c *readCounter) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	c.reads.Add(1)
	return c.Storage.ScanEntries(ctx, q)
}

func (c *readCounter) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	c.reads.Add(1)
	return c.Storage.ScanUsage(ctx, q)
}

func (c *readCounter) Stats(ctx context.Context) (pistore.Stats, error) {
	c.reads.Add(1)
	return c.Storage.Stats(ctx)
}

func (c *readCounter) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	c.reads.Add(1)
	return c.Storage.Export(ctx)
}

func unchecked(o *harness.Options) { o.Check = false }

// A run reads nothing between its acceptance and its end, and neither does a
// resumed one once Resume has returned.
func TestRunReadsNothing(t *testing.T) {
	var c *readCounter
	wrap := func(s pistore.Storage) pistore.Storage {
		c = &readCounter{Storage: s}
		return c
	}
	script := append(faux.Script{{Match: faux.Prompt("go on"), Turns: toolRun[0].Turns}}, toolRun...)
	first := newRig(t, config{script: script, drive: harness.Manual, wrap: wrap, options: unchecked})
	var crashed []pistore.Row
	for _, text := range []string{"go", "go on"} {
		_, err := first.lane.Prompt(first.ctx, harness.Prompt{Text: text})
		first.check(err)
		before := c.reads.Load()
		if text == "go on" {
			crashed = first.rows()
			before = c.reads.Load()
		}
		first.completed(first.finish())
		if n := c.reads.Load() - before; n != 0 {
			t.Errorf("the run %q made %d reads", text, n)
		}
	}

	second := newRig(t, config{script: script, drive: harness.Manual, wrap: wrap, rows: crashed, seed: 1, options: unchecked})
	_, err := second.lane.Resume(second.ctx)
	second.check(err)
	before := c.reads.Load()
	second.completed(second.finish())
	if n := c.reads.Load() - before; n != 0 {
		t.Errorf("the resumed run made %d reads", n)
	}
	if diff := cmp.Diff(first.transcript(), second.transcript()); diff != "" {
		t.Errorf("transcripts (-first +resumed):\n%s", diff)
	}
}

// An idle lane keeps a short conversation in memory, and no long one.
func TestIdleLaneKeepsNoLongPath(t *testing.T) {
	for size, kept := range map[int]bool{1 << 10: true, 64 << 10: false} {
		r := newRig(t, config{script: toolRun})
		_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go" + strings.Repeat(" ", size)})
		r.check(err)
		r.completed(r.finish())
		if harness.HoldsPath(r.lane) != kept {
			t.Errorf("with %d bytes the path is kept: %v", size, !kept)
		}
	}
}

// What a request holds is what a projection of the store gives at that moment,
// for entries of every kind.
func TestRequestsEqualTheStoredProjection(t *testing.T) {
	var r *rig
	var diffs []string
	texts := func(messages []session.Message) (out []string) {
		for _, m := range messages {
			out = append(out, string(session.EncodeMessage(m)))
		}
		return out
	}
	turn := 0
	p := &funcProvider{stream: func(ctx context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
		projected, err := session.ProjectBranch(ctx, r.store, leafOf(r), stampProjector)
		r.check(err)
		var want []session.Message
		for _, m := range projected {
			switch m := m.Message.(type) {
			case *session.CustomMessage:
				want = append(want, &session.UserMessage{Content: m.Content, Timestamp: m.Timestamp})
			default:
				want = append(want, m)
			}
		}
		diffs = append(diffs, cmp.Diff(texts(want), texts(req.Messages)))
		msg := provider.Empty(req, "", session.StopStop, "")
		if turn++; turn%2 == 1 {
			msg.Content = []session.Block{session.ToolCall{ID: "c", Name: "append", Arguments: `{ "text" : "x" }`}}
			msg.StopReason = session.StopToolUse
		}
		return provider.Response{Message: msg}
	}}
	r = newRig(t, config{provider: p, options: func(o *harness.Options) { o.Projectors = stampProjector }})
	for range 3 {
		_, err := r.other().Append(r.ctx, "main", session.CustomContent(pistore.ID("note"+string(rune('a'+turn))), "note", `{"n": 1}`))
		r.check(err)
		// Another writer moved the leaf: the first prompt meets a conflict.
		r.completed(r.prompt("go"))
	}
	if len(diffs) != 6 {
		t.Fatalf("%d requests", len(diffs))
	}
	for i, diff := range diffs {
		if diff != "" {
			t.Errorf("request %d (-stored +sent):\n%s", i, diff)
		}
	}
}

// stampProjector tells seq and time of a custom entry, which a path in memory
// must know too.
var stampProjector = session.Projectors{"note": func(e pistore.Entry) (session.Message, bool) {
	return &session.CustomMessage{CustomType: "note", Content: session.TextContent(string(e.Payload)), Timestamp: e.Timestamp + pistore.UnixMS(e.Seq)}, true
}}

func leafOf(r *rig) pistore.ID {
	lane, err := r.other().Lane(r.ctx, "main")
	r.check(err)
	return lane.Leaf
}

// A path that cannot be read refuses the call that needs it; nothing is
// written, and nothing is broken for later.
func TestUnreadablePathRefuses(t *testing.T) {
	var c *readCounter
	wrap := func(s pistore.Storage) pistore.Storage {
		c = &readCounter{Storage: s}
		return c
	}
	script := faux.Script{{Turns: faux.Turns(faux.Text("One."), faux.Text("Two."))}}
	first := newRig(t, config{script: script, drive: harness.Manual})
	first.completed(first.prompt("one"))
	r := newRig(t, config{script: script, wrap: wrap, drive: harness.Manual, rows: first.rows(), seed: 1}) // has no path yet
	commits := len(r.store.commits())
	c.broken.Store(true)
	if _, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "two"}); !errors.Is(err, errBroken) {
		t.Fatalf("prompt: %v", err)
	}
	if n := len(r.store.commits()); n != commits {
		t.Fatalf("the refused prompt made %d commits", n-commits)
	}
	c.broken.Store(false)
	_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "two"})
	r.check(err)

	again := newRig(t, config{script: script, wrap: wrap, rows: r.rows(), seed: 2})
	c.broken.Store(true)
	if _, err := again.lane.Resume(again.ctx); !errors.Is(err, errBroken) {
		t.Fatalf("resume: %v", err)
	}
	c.broken.Store(false)
	resumeThrough(again, nil)
	if want := []string{"user: one", "assistant: One.", "user: two", "assistant: Two."}; !slices.Equal(want, again.transcript()) {
		t.Errorf("transcript %q", again.transcript())
	}
}
