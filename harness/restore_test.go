package harness_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
)

// points are the rows at every point at rest of a stepped run.
func points(t *testing.T, script faux.Script) [][]pistore.Row {
	t.Helper()
	var all [][]pistore.Row
	stepThrough(newRig(t, config{script: script, drive: harness.Manual, seed: 7}), func(rows []pistore.Row) { all = append(all, rows) })
	return all
}

// stoppedAt are the rows of toolRun where it first stands in a phase, by the
// words of outlinePhase.
func stoppedAt(t *testing.T, phase string) []pistore.Row {
	t.Helper()
	for _, rows := range points(t, toolRun) {
		if run := openRun(t, rows); run != nil && strings.HasPrefix(outlinePhase(run.Phase), phase) {
			return rows
		}
	}
	t.Fatalf("no point stands at %s", phase)
	return nil
}

// edited returns rows with the registers of a namespace changed; a register
// whose value becomes empty is left out.
func edited(rows []pistore.Row, namespace string, change func(pistore.Register) pistore.JSON) []pistore.Row {
	var out []pistore.Row
	for _, row := range rows {
		if reg, ok := row.(pistore.Register); ok && reg.Namespace == namespace {
			if reg.Value = change(reg); reg.Value == "" {
				continue
			}
			row = reg
		}
		out = append(out, row)
	}
	return out
}

func replaced(old, new string) func(pistore.Register) pistore.JSON {
	return func(r pistore.Register) pistore.JSON {
		if !strings.Contains(string(r.Value), old) {
			panic("nothing to replace in " + string(r.Value))
		}
		return pistore.JSON(strings.ReplaceAll(string(r.Value), old, new))
	}
}

func gone(pistore.Register) pistore.JSON { return "" }

func newestSeq(rows []pistore.Row) (seq pistore.Seq) {
	for _, row := range rows {
		switch row := row.(type) {
		case pistore.Entry:
			seq = max(seq, row.Seq)
		case pistore.UsageRow:
			seq = max(seq, row.Seq)
		case pistore.Register:
			seq = max(seq, row.Seq)
		}
	}
	return seq
}

// added returns rows with one more behind them, and room for its seq.
func added(rows []pistore.Row, more func(pistore.Seq) pistore.Row) []pistore.Row {
	out := slices.Clone(rows)
	header := out[0].(pistore.Header)
	header.NextSeq += 10
	out[0] = header
	return append(out, more(newestSeq(rows)+1))
}

// What the registers of a lane name and is not there, or is not what it must
// be, is corruption with its place. Nothing is written.
func TestRestoreCorruption(t *testing.T) {
	checkpoint, pending, batch := stoppedAt(t, "checkpoint"), stoppedAt(t, "assistant effect_pending"), stoppedAt(t, "tools")
	run := openRun(t, batch)
	tools := run.Phase.(*registers.Tools)
	intent := openRun(t, pending).Phase.(*registers.AssistantPending)
	idle := points(t, toolRun)
	last := idle[len(idle)-1]
	foreign := `"0190d5f0-0000-7000-8000-000000000000"`
	for _, tt := range []struct {
		name  string
		rows  []pistore.Row
		place string // the namespace that is named
	}{
		{"no op.state", edited(checkpoint, registers.OpStateNS, gone), registers.OpStateNS},
		{"no op.meta", edited(checkpoint, registers.OpMetaNS, gone), registers.OpMetaNS},
		{"no lane.state", edited(checkpoint, registers.LaneStateNS, gone), registers.LaneStateNS},
		{"no lane.leaf", edited(checkpoint, registers.LaneLeafNS, gone), registers.LaneLeafNS},
		{"op.state is no object", edited(checkpoint, registers.OpStateNS, func(pistore.Register) pistore.JSON { return "[]" }), registers.OpStateNS},
		{"op.state of an unknown member", edited(checkpoint, registers.OpStateNS, replaced(`"resumes":0`, `"resumes":0,"more":1`)), registers.OpStateNS},
		{"op.state of an unknown phase", edited(checkpoint, registers.OpStateNS, replaced(`"kind":"checkpoint"`, `"kind":"dream"`)), registers.OpStateNS},
		{"op.meta is null", edited(checkpoint, registers.OpMetaNS, func(pistore.Register) pistore.JSON { return "null" }), registers.OpMetaNS},
		{"op.meta of another lane", edited(checkpoint, registers.OpMetaNS, replaced(`"lane":"main"`, `"lane":"side"`)), registers.OpMetaNS},
		{"op.meta of another operation", edited(checkpoint, registers.OpMetaNS, replaced(`"operationId":"`, `"operationId":"x`)), registers.OpMetaNS},
		{"op.meta of another kind", edited(checkpoint, registers.OpMetaNS, func(r pistore.Register) pistore.JSON {
			m, err := registers.DecodeOpMeta(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			m.Intent = registers.Intent{Kind: registers.KindCompaction}
			return registers.EncodeOpMeta(m)
		}), registers.OpMetaNS},
		{"op.meta names an entry that is not there", edited(checkpoint, registers.OpMetaNS, replaced(`"promptEntryIds":["`, `"promptEntryIds":[`+foreign+`,"`)), registers.OpStateNS},
		{"lane.state is a number", edited(checkpoint, registers.LaneStateNS, func(pistore.Register) pistore.JSON { return "7" }), registers.LaneStateNS},
		{"lane.leaf is no id", edited(checkpoint, registers.LaneLeafNS, func(pistore.Register) pistore.JSON { return `""` }), registers.LaneLeafNS},
		{"lane.config is a list", edited(checkpoint, registers.LaneConfigNS, func(pistore.Register) pistore.JSON { return "[]" }), registers.LaneConfigNS},
		{"the leaf is not there", edited(checkpoint, registers.LaneLeafNS, func(pistore.Register) pistore.JSON { return pistore.JSON(foreign) }), registers.OpStateNS},
		{"the leaf of an idle lane is not there", edited(last, registers.LaneLeafNS, func(pistore.Register) pistore.JSON { return pistore.JSON(foreign) }), registers.LaneLeafNS},
		{"a queued input is not there", edited(last, registers.LaneStateNS, replaced(`"pendingNextRun":[]`, `"pendingNextRun":[`+foreign+`]`)), registers.PendingEntryNS},
		{"the trigger is not there", edited(pending, registers.OpStateNS, replaced(string(intent.Context.TriggerEntryID), foreign[1:37])), registers.OpStateNS},
		{"the reserved response exists", edited(pending, registers.OpStateNS, replaced(string(intent.ResponseEntryID), string(pending[1].(pistore.Entry).ID))), registers.OpStateNS},
		{"a reserved result exists", added(batch, func(seq pistore.Seq) pistore.Row {
			return pistore.Entry{ID: tools.Calls[0].ResultEntryID, Seq: seq, Type: pistore.TypeCustom, CustomType: "x", Payload: "{}"}
		}), registers.OpStateNS},
		{"no arguments of a running call", edited(batch, registers.OpToolArgsNS, gone), registers.OpToolArgsNS},
		{"arguments that are a list", edited(batch, registers.OpToolArgsNS, func(pistore.Register) pistore.JSON { return "[1]" }), registers.OpToolArgsNS},
		{"output that is none", added(batch, func(seq pistore.Seq) pistore.Row {
			key := registers.ToolKey(pistore.ID(opOf(batch)), tools.StepID, 0)
			return pistore.Register{Namespace: registers.OpToolOutputNS, Key: key, Value: `{"tail":1}`, Seq: seq}
		}), registers.OpToolOutputNS},
		{"fewer calls than the response makes", edited(batch, registers.OpStateNS, func(pistore.Register) pistore.JSON {
			less, phase := *run, *tools
			phase.Calls = phase.Calls[:2]
			less.Phase = &phase
			return registers.EncodeOpState(&less)
		}), registers.OpStateNS},
		{"a batch of a response that is none", edited(batch, registers.OpStateNS, replaced(string(tools.AssistantEntryID), string(batch[1].(pistore.Entry).ID))), registers.OpStateNS},
		{"a call beyond the response", edited(batch, registers.OpStateNS, replaced(`"sourceIndex":2`, `"sourceIndex":5`)), registers.OpStateNS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, config{script: toolRun, rows: tt.rows, noLane: true})
			for range 2 {
				_, err := r.h.Lane(r.ctx, "main")
				var corrupt *pistore.CorruptError
				if !errors.Is(err, pistore.ErrCorrupt) || !errors.As(err, &corrupt) {
					t.Fatalf("%v", err)
				}
				if !strings.Contains(corrupt.Place, tt.place) || corrupt.Session != "s" || corrupt.Problem == "" {
					t.Errorf("placed at %q: %v", corrupt.Place, err)
				}
			}
			if n := len(r.store.commits()); n != 0 {
				t.Errorf("%d commits", n)
			}
		})
	}
}

// opOf is the id of the open operation among rows.
func opOf(rows []pistore.Row) string {
	for _, row := range rows {
		if reg, ok := row.(pistore.Register); ok && reg.Namespace == registers.OpStateNS {
			return reg.Key
		}
	}
	return ""
}

// States that are not executed here are suspended as unsupported, however often
// they are resumed, and stay byte for byte as they are.
func TestUnsupportedStatesAreLeftAlone(t *testing.T) {
	pending := stoppedAt(t, "assistant effect_pending")
	for name, rows := range map[string][]pistore.Row{
		"a run that a request asked for": edited(pending, registers.OpMetaNS, func(r pistore.Register) pistore.JSON {
			m, err := registers.DecodeOpMeta(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			m.RequestID = "q1"
			return registers.EncodeOpMeta(m)
		}),
	} {
		for _, drive := range []harness.Drive{harness.Automatic, harness.Manual} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, config{script: toolRun, rows: rows, drive: drive})
				before := r.rows()
				unsupported := func(result harness.Result, err error) {
					t.Helper()
					r.check(err)
					if result.Suspended == nil || result.Suspended.Reason != harness.SuspendUnsupported || result.Suspended.Detail == "" {
						t.Fatalf("the operation came to %s", describe(result))
					}
				}
				unsupported(r.lane.Handle().Wait(r.ctx))
				for range 2 {
					_, err := r.lane.Resume(r.ctx)
					r.check(err)
					unsupported(r.lane.RunToCompletion(r.ctx))
				}
				_, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "more"})
				if !errors.Is(err, harness.ErrLaneBusy) {
					t.Errorf("prompt: %v", err)
				}
				r.check(r.h.Close(r.ctx))
				if diff := cmp.Diff(before, r.rows()); diff != "" {
					t.Errorf("the store changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// An operation whose model or tool is missing is suspended and says which; a
// process that has it goes on.
func TestMissingIdentities(t *testing.T) {
	noModel := func(o *harness.Options) { o.Providers = nil }
	noTools := func(o *harness.Options) { o.Tools = nil }
	for _, tt := range []struct {
		name, phase string
		without     func(*harness.Options)
		detail      string
		commits     int // by a Resume that ends in the suspension
	}{
		{"model at a checkpoint", "checkpoint", noModel, "model faux/faux-1", 0},
		{"tool at a checkpoint", "checkpoint", noTools, "tool append", 0},
		{"model behind an intent", "assistant effect_pending", noModel, "model faux/faux-1", 1}, // the attempt is spent
		{"model in a retry wait", "assistant retry_wait", noModel, "model faux/faux-1", 1},      // the wait is over
		{"tool of a planned call", "tools [effect_pending never, planned", noTools, "tool lookup", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := toolRun
			var rows []pistore.Row
			stepThrough(newRig(t, config{script: script, drive: harness.Manual, tools: registers.Sequential, seed: 7}), func(at []pistore.Row) {
				if run := openRun(t, at); rows == nil && run != nil && strings.HasPrefix(outlinePhase(run.Phase), tt.phase) {
					rows = at
				}
			})
			r := newRig(t, config{script: script, rows: rows, options: tt.without, seed: 1})
			_, err := r.lane.Resume(r.ctx)
			r.check(err)
			result := r.finish()
			if s := result.Suspended; s == nil || s.Reason != harness.SuspendMissingIdentities || s.Detail != tt.detail {
				t.Fatalf("the run came to %s", describe(result))
			}
			if n := len(r.store.commits()); n != tt.commits {
				t.Errorf("%d commits, now at %s", n, outlinePhase(openRun(t, r.rows()).Phase))
			}
			// A Resume that finds no change changes nothing more.
			before := r.rows()
			_, err = r.lane.Resume(r.ctx)
			r.check(err)
			if result := r.finish(); result.Suspended == nil {
				t.Fatalf("the second time the run came to %s", describe(result))
			}
			if diff := cmp.Diff(before, r.rows()); diff != "" {
				t.Errorf("the second Resume changed the store: %s", diff)
			}

			whole := newRig(t, config{script: script, rows: before, seed: 2})
			_, err = whole.lane.Resume(whole.ctx)
			whole.check(err)
			result = whole.finish()
			whole.completed(result)
			checkEnded(whole, result)
		})
	}
}

// A lane that is not restored tells why, and may be restored later.
func TestLaneIsRestoredLater(t *testing.T) {
	r := newRig(t, config{script: toolRun})
	_, err := r.h.Lane(r.ctx, "side")
	if !errors.Is(err, harness.ErrUnknownLane) {
		t.Fatalf("%v", err)
	}
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := r.h.Lane(ended, "side"); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	r.check(r.other().CreateLane(r.ctx, "side", "", registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}}))
	side, err := r.h.Lane(r.ctx, "side")
	r.check(err)
	again, err := r.h.Lane(r.ctx, "side")
	r.check(err)
	if side != again || side.Name() != "side" || side.Leaf() != "" || side.Handle() != nil {
		t.Errorf("lane %+v", side)
	}
}

// mutate changes one row of an export at random: it goes, or its value is
// another register's, or one of its parts is.
func mutate(rows []pistore.Row, random *rand.Rand) []pistore.Row {
	var at []int
	var pool []string // values to put elsewhere
	for i, row := range rows {
		switch row := row.(type) {
		case pistore.Register:
			at = append(at, i)
			pool = append(pool, string(row.Value))
			for part := range strings.FieldsFuncSeq(string(row.Value), func(r rune) bool { return strings.ContainsRune(`{}[]:,`, r) }) {
				pool = append(pool, part)
			}
		case pistore.Entry:
			pool = append(pool, `"`+string(row.ID)+`"`)
		}
	}
	pool = append(pool, "null", "0", "-1", "9007199254740991", "1e3", "true", "{}", "[]", `""`, `"a:b"`)
	out := slices.Clone(rows)
	i := at[random.IntN(len(at))]
	reg := out[i].(pistore.Register)
	value := string(reg.Value)
	if random.IntN(10) == 0 {
		return slices.Delete(out, i, i+1)
	}
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(`{}[]:,`, r) })
	if len(parts) == 0 || random.IntN(10) == 0 {
		reg.Value = pistore.JSON(pool[random.IntN(len(pool))])
	} else {
		reg.Value = pistore.JSON(strings.Replace(value, parts[random.IntN(len(parts))], pool[random.IntN(len(pool))], 1))
	}
	if _, err := pistore.CompactJSON(string(reg.Value)); err != nil {
		return mutate(rows, random)
	}
	out[i] = reg
	return out
}

// Whatever the registers say, restoring is a typed error or a lane, and resuming
// that is an end, a suspension or a fault: never a panic, never for ever.
func TestRestoreOfMutatedRows(t *testing.T) {
	all := points(t, toolRun)
	for seed := range uint64(600) {
		random := rand.New(rand.NewPCG(seed, 0))
		rows := all[random.IntN(len(all))]
		for range 1 + random.IntN(3) {
			rows = mutate(rows, random)
		}
		if !restoreAnything(t, rows) {
			t.Fatalf("seed %d", seed)
		}
	}
}

// restoreAnything restores and resumes rows that may be anything.
func restoreAnything(t *testing.T, rows []pistore.Row) (ok bool) {
	t.Helper()
	r := newRig(t, config{script: faux.Script{{Rest: func(_ provider.Request, _ faux.Position) faux.Step { return faux.Text("Done.") }}}, rows: rows, noLane: true})
	lane, err := r.h.Lane(r.ctx, "main")
	if err != nil {
		if !errors.Is(err, pistore.ErrCorrupt) {
			t.Errorf("restore: %v", err)
		}
		return !t.Failed()
	}
	run, err := lane.Resume(r.ctx)
	if errors.Is(err, harness.ErrNothingToResume) {
		run, err = lane.Prompt(r.ctx, harness.Prompt{Text: "go"})
		if errors.Is(err, harness.ErrMissingIdentities) {
			return true
		}
	}
	if err == nil {
		_, err = run.Wait(r.ctx)
	}
	if err != nil && !errors.Is(err, pistore.ErrFaulted) && !errors.Is(err, pistore.ErrUnsupported) {
		t.Errorf("resume: %v", err)
	}
	return !t.Failed()
}
