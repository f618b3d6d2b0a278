package fuzz

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
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
	"pistore/verify"
)

// FuzzRestore restores a lane from whatever registers, beside the entries of a
// real run, of which the first so many are there. Registers are lines of
// namespace, key and value, parted by tabs. A lane is restored or is damaged at
// a named place; what is restored goes on to an end or is suspended, in few
// commits. A session in which nothing is wrong is restored, and stays so.
func FuzzRestore(f *testing.F) {
	points := runPoints(f)
	for _, p := range points {
		f.Add(uint8(len(p.entries)), p.registers)
	}
	whole := points[len(points)-1].entries
	f.Fuzz(func(t *testing.T, entries uint8, cells string) {
		st := sessionOf(t, whole[:min(int(entries), len(whole))], cells)
		if st == nil {
			return
		}
		sound := verified(t, st)
		h := newHarness(t, st, answers{}, harness.Automatic)
		defer closeHarness(t, h)
		lane, err := h.Lane(t.Context(), registers.MainLane)
		if err != nil {
			checkNotRestored(t, err, sound)
			return
		}
		if lane.Handle() == nil {
			return // an idle lane
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a guard against a hang
		defer cancel()
		run, err := lane.Resume(ctx)
		if err != nil {
			checkNotRestored(t, err, sound)
			return
		}
		_, err = run.Wait(ctx)
		if err != nil && (sound || !errors.Is(err, pistore.ErrFaulted)) {
			t.Fatalf("sound before: %v; the run came to %v", sound, err)
		}
		if sound && !verified(t, st) {
			t.Fatal("a sound session is none any more")
		}
	})
}

func checkNotRestored(t *testing.T, err error, sound bool) {
	t.Helper()
	var corrupt *pistore.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Place == "" || corrupt.Problem == "" {
		t.Fatalf("damage without its place: %v", err)
	}
	if sound {
		t.Fatalf("nothing is wrong with the session, and its lane is not restored: %v", err)
	}
}

// verified reports whether nothing is wrong with a session.
func verified(t *testing.T, st pistore.Storage) bool {
	t.Helper()
	report, err := verify.Check(t.Context(), st, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report.OK()
}

// bounded is a session that takes no more than so many commits.
type bounded struct {
	pistore.Storage
	t       testing.TB
	commits atomic.Int64
}

const maxCommits = 300

func (b *bounded) Unwrap() pistore.Storage { return b.Storage }

func (b *bounded) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	if b.commits.Add(1) > maxCommits {
		b.t.Errorf("the lane does not come to rest")
		return pistore.Receipt{}, fmt.Errorf("%w: too many commits", pistore.ErrFaulted)
	}
	return b.Storage.Commit(ctx, tx)
}

// sessionOf is a session of entries and of registers in lines, nil if there can
// be none.
func sessionOf(t *testing.T, entries []pistore.Entry, cells string) pistore.Storage {
	t.Helper()
	var rows []pistore.Row
	seq := pistore.Seq(0)
	for _, e := range entries {
		rows = append(rows, e)
		seq = e.Seq
	}
	for line := range strings.SplitSeq(cells, "\n") {
		parts := strings.SplitN(line, "\t", 3)
		if len(parts) < 3 {
			continue
		}
		value, err := pistore.CompactJSON(parts[2])
		if err != nil {
			continue
		}
		seq++
		rows = append(rows, pistore.Register{Namespace: parts[0], Key: parts[1], Value: value, Seq: seq})
	}
	rows = append([]pistore.Row{pistore.Header{Info: pistore.Info{ID: "s"}, NextSeq: seq + 1}}, rows...)
	b := memstore.New(memstore.Options{Clock: newClock().read})
	if _, err := b.Load(t.Context(), sequence(rows)); err != nil {
		return nil
	}
	st, err := b.Open(t.Context(), "s", pistore.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	return &bounded{Storage: st, t: t}
}

func sequence(rows []pistore.Row) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// clock stands still until someone sleeps.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(1_700_000_000_000)
	return c
}

func (c *clock) read() pistore.UnixMS { return pistore.UnixMS(c.now.Load()) }

func (c *clock) sleep(ctx context.Context, until pistore.UnixMS) error {
	c.now.Store(max(c.now.Load(), int64(until)))
	return ctx.Err()
}

// answers is a provider that answers every request with a word.
type answers struct{}

func (answers) Name() string { return "faux" }

func (answers) Model(id string) (provider.Model, bool) {
	return faux.DefaultModel, id == faux.DefaultModel.ID
}

func (answers) Stream(_ context.Context, req provider.Request, _ func(provider.Delta)) provider.Response {
	m := provider.Empty(req, "faux", session.StopStop, "")
	m.Content = session.TextContent("Done.")
	return provider.Response{Message: m}
}

// tools are made once, since compiling their schemas takes longer than a run.
var tools = sync.OnceValues(func() (*tool.Set, error) {
	did := func(context.Context, tool.Call) (tool.Result, error) { return tool.Text("did"), nil }
	const parameters = `{"type":"object","properties":{"text":{"type":"string"}}}`
	return tool.NewSet(
		tool.Tool{Name: "append", Description: "Appends.", Parameters: parameters, Execute: did},
		tool.Tool{Name: "lookup", Description: "Looks up.", Parameters: parameters, Replay: registers.ReplaySafe, Execute: did},
	)
})

func newHarness(t testing.TB, st pistore.Storage, p provider.Provider, drive harness.Drive) *harness.Harness {
	t.Helper()
	set, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	c := newClock()
	h, err := harness.New(st, harness.Options{
		Providers: provider.NewSet(p), Tools: set, Drive: drive,
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: faux.DefaultModel.ID}},
		Clock:         c.read, Sleep: c.sleep, Rand: rand.NewChaCha8([32]byte{2, byte(drive)}), // ids that no other one mints
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func closeHarness(t testing.TB, h *harness.Harness) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

// point is where a run stands.
type point struct {
	entries   []pistore.Entry
	registers string
}

// runPoints are all the points at which a run with tools and a retry rests. They
// are the same each time.
func runPoints(f *testing.F) (points []point) {
	f.Helper()
	check := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	b := memstore.New(memstore.Options{Clock: newClock().read, Rand: rand.NewChaCha8([32]byte{3})})
	st, err := b.Create(f.Context(), pistore.Info{ID: "s"})
	check(err)
	h := newHarness(f, st, faux.New(faux.Options{Script: faux.Script{{Turns: []faux.Turn{
		{{Content: []session.Block{
			session.Text{Text: "Working."},
			session.ToolCall{Name: "append", Arguments: `{"text":"one"}`},
			session.ToolCall{Name: "lookup", Arguments: `{"text":"two"}`},
			session.ToolCall{Name: "append", Arguments: `{"text":3}`},
		}}},
		{faux.Fail("overloaded", true), faux.Text("Done.")},
	}}}}), harness.Manual)
	defer closeHarness(f, h)
	lane, err := h.Lane(f.Context(), registers.MainLane)
	check(err)
	_, err = lane.Prompt(f.Context(), harness.Prompt{Text: "go"})
	check(err)
	for {
		check(lane.Settle(f.Context()))
		points = append(points, pointOf(f, st))
		if len(lane.Peek()) == 0 {
			return points
		}
		_, err := lane.Step(f.Context())
		check(err)
	}
}

func pointOf(f *testing.F, st pistore.Storage) (p point) {
	f.Helper()
	for row, err := range st.Export(f.Context()) {
		if err != nil {
			f.Fatal(err)
		}
		switch row := row.(type) {
		case pistore.Entry:
			p.entries = append(p.entries, row)
		case pistore.Register:
			p.registers += row.Namespace + "\t" + row.Key + "\t" + string(row.Value) + "\n"
		}
	}
	return p
}
