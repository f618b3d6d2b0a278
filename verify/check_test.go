package verify_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/registers"
	"pistore/verify"
)

const (
	user      = `{"message":{"role":"user","content":"hi"}}`
	calling   = `{"message":{"role":"assistant","content":[{"type":"toolCall","id":"c0","name":"bash","arguments":{}},{"type":"toolCall","id":"c1","name":"read","arguments":{}}],"stopReason":"toolUse"}}`
	result    = `{"message":{"role":"toolResult","toolCallId":"c0","toolName":"bash","content":"ok","isError":false}}`
	answering = `{"message":{"role":"assistant","content":"done","stopReason":"stop"}}`
	aborted   = `{"message":{"role":"assistant","content":"do","stopReason":"aborted"}}`
	queuedMsg = `{"type":"message","payload":{"message":{"role":"user","content":"later"}}}`
)

var config = registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ThinkingLevel: "off"}

// tools is the state of the open run: one call done, one started.
func tools() *registers.RunState {
	return &registers.RunState{
		Settings: registers.Settings{
			SteeringMode: registers.OneAtATime, FollowUpMode: registers.OneAtATime, ToolExecution: registers.Parallel,
		},
		Inbox:                  registers.Inbox{Steer: []pistore.ID{"P1"}},
		LatestAssistantEntryID: "E2",
		Phase: &registers.Tools{
			StepID: "S1", AssistantEntryID: "E2", Configuration: config,
			Calls: []registers.Call{
				{Status: registers.CallCompleted, SourceIndex: 0, ResultEntryID: "E3"},
				{Status: registers.CallEffectPending, SourceIndex: 1, ResultEntryID: "E4", Replay: registers.ReplayNever},
			},
		},
	}
}

func meta() registers.OpMeta {
	return registers.OpMeta{
		OperationID: "O1", Lane: "main", StartedAt: 1700000000000,
		Intent: registers.Intent{Kind: registers.KindRun, PromptEntryIDs: []pistore.ID{"E1"}},
	}
}

// whole is a store without a fault: lane main is in the middle of a batch of
// tools, lane side is idle with input for its next run.
func whole() *fake {
	f := &fake{header: pistore.Header{
		Info:    pistore.Info{ID: "session", CreatedAt: 1700000000000, StorageVersion: 1, Generation: "g", Format: "fake"},
		NextSeq: 1,
	}}
	f.addEntry("E1", "", pistore.TypeMessage, user)
	f.addEntry("E2", "E1", pistore.TypeMessage, calling)
	f.add(pistore.UsageRow{ID: "U1", Usage: `{"input":1,"cost":{"total":0.1}}`, EntryID: "E2", Details: `{"lane":"main"}`})
	f.addEntry("E3", "E2", pistore.TypeMessage, result)
	f.addRegister(registers.LaneLeafNS, "main", `"E3"`)
	f.addRegister(registers.LaneConfigNS, "main", registers.EncodeLaneConfiguration(config))
	f.addRegister(registers.LaneStateNS, "main", registers.EncodeLaneState(registers.LaneState{CurrentOperationID: "O1"}))
	f.addRegister(registers.OpMetaNS, "O1", registers.EncodeOpMeta(meta()))
	f.addRegister(registers.OpStateNS, "O1", registers.EncodeOpState(tools()))
	f.addRegister(registers.OpToolArgsNS, "O1:S1:0", `{}`)
	f.addRegister(registers.OpToolArgsNS, "O1:S1:1", `{"path":"a"}`)
	f.addRegister(registers.OpToolOutputNS, "O1:S1:1", `{"head":"so far"}`)
	f.addRegister(registers.PendingEntryNS, "P1", queuedMsg)
	f.addEntry("B1", "E1", pistore.TypeCompaction, `{"summary":"short","retainedTail":[{"role":"user","content":"x"}],"tokensBefore":7}`)
	f.addEntry("B2", "B1", pistore.TypeBranchSummary, `{"summary":"","fromId":"E2"}`)
	f.addEntry("B3", "B2", pistore.TypeMessage, answering)
	f.add(pistore.Entry{ID: "B4", ParentID: "B3", Type: pistore.TypeCustom, CustomType: "note"})
	f.addRegister(registers.LaneLeafNS, "side", `"B4"`)
	f.addRegister(registers.LaneStateNS, "side", registers.EncodeLaneState(registers.LaneState{PendingNextRun: []pistore.ID{"P2"}}))
	f.addRegister(registers.PendingEntryNS, "P2", queuedMsg)
	f.addRegister(registers.LaneLastResultNS, "side", `{"operationId":"O0","kind":"run","outcome":"completed","leafId":"B3","finalAssistantId":"B3","runCompletion":"assistant"}`)
	f.addRegister(registers.FactNameNS, "", `"a name"`)
	f.addRegister(registers.FactLabelNS, "E1", `"start"`)
	f.addRegister(registers.FactCustomNS, "k", `null`)
	f.addRegister("app.mine", "k", `[1]`)
	return f
}

// changed returns the whole store with another state of the open run.
func changed(change func(*registers.RunState)) *fake {
	f, s := whole(), tools()
	change(s)
	f.set(registers.OpStateNS, "O1", registers.EncodeOpState(s))
	return f
}

func check(t *testing.T, s pistore.Storage, deep bool) verify.Report {
	t.Helper()
	report, err := verify.Check(t.Context(), s, verify.Options{Deep: deep})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestWholeStore(t *testing.T) {
	for _, deep := range []bool{false, true} {
		f := whole()
		report := check(t, f, deep)
		for _, fault := range report.Faults {
			t.Errorf("deep %v: %+v", deep, fault)
		}
		if want := (verify.Counts{Entries: 7, Registers: 17, Usage: 1, Transactions: -1}); report.Checked != want {
			t.Errorf("checked %+v, want %+v", report.Checked, want)
		}
		if f.exports != 1 {
			t.Errorf("exported %d times", f.exports)
		}
	}
}

func TestEmptyStore(t *testing.T) {
	f := &fake{header: pistore.Header{Info: pistore.Info{ID: "empty"}, NextSeq: 1}}
	if r := check(t, f, true); len(r.Faults) != 0 {
		t.Errorf("%+v", r.Faults)
	}
}

// Each store breaks one invariant, which is found by its number and with no
// other beside it.
func TestBrokenStores(t *testing.T) {
	for _, test := range brokenStores {
		t.Run(fmt.Sprintf("%d %s", test.invariant, test.name), func(t *testing.T) {
			for _, deep := range []bool{false, true} {
				if test.deep && !deep {
					continue
				}
				report := check(t, test.store(), deep)
				if len(report.Faults) != 1 {
					t.Errorf("deep %v: %d faults", deep, len(report.Faults))
				}
				want := verify.Error
				if test.warning {
					want = verify.Warning
				}
				for _, f := range report.Faults {
					if f.Invariant != test.invariant || f.Severity != want || !strings.Contains(f.Place+" "+f.Message, test.says) {
						t.Errorf("deep %v: %+v", deep, f)
					}
				}
				if report.OK() != test.warning {
					t.Errorf("OK is %v", report.OK())
				}
			}
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	f := whole()
	for range 300 {
		f.addEntry("E1", "", pistore.TypeMessage, user)
	}
	f.drop(registers.OpMetaNS, "O1")
	r := check(t, f, false)
	if r.Errors != 301 || len(r.Faults) != 101 || r.Omitted() != 200 {
		t.Errorf("%d errors, %d kept, %d omitted", r.Errors, len(r.Faults), r.Omitted())
	}
}

func TestDamagedExport(t *testing.T) {
	f := whole()
	f.rows = f.rows[:8] // the rest would be missed
	f.exportErr = fmt.Errorf("wrapped: %w", &pistore.CorruptError{Backend: "fake", Place: "line 9", Problem: "bad checksum"})
	r := check(t, f, true)
	if len(r.Faults) != 1 || r.Faults[0].Place != "line 9" || r.Faults[0].Invariant != 0 || !r.Incomplete || r.OK() {
		t.Errorf("%+v", r)
	}
	f.exportErr = pistore.ErrClosed
	if _, err := verify.Check(t.Context(), f, verify.Options{}); !errors.Is(err, pistore.ErrClosed) {
		t.Errorf("a failing read: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := verify.Check(ctx, whole(), verify.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A commit between two reads makes them differ, which is no fault.
func TestCommitsInBetween(t *testing.T) {
	f := whole()
	f.stats = func(s *pistore.Stats) {
		s.Entries++
		f.header.NextSeq++
	}
	if _, err := verify.Check(t.Context(), f, verify.Options{}); !errors.Is(err, pistore.ErrBusy) {
		t.Errorf("%v", err)
	}
}

// able is a store with abilities, behind a decorator.
type able struct {
	*fake
	deep bool
}

type decorator struct{ pistore.Storage }

func (d decorator) Unwrap() pistore.Storage { return d.Storage }

func (a *able) VerifyStorage(_ context.Context, deep bool) iter.Seq2[*pistore.CorruptError, error] {
	a.deep = deep
	return func(yield func(*pistore.CorruptError, error) bool) {
		_ = yield(&pistore.CorruptError{Place: "key 1", Invariant: 10, Problem: "one"}, nil) &&
			yield(&pistore.CorruptError{Place: "key 2", Problem: "two"}, nil)
	}
}

func (a *able) History(context.Context, pistore.Seq) iter.Seq2[pistore.Transaction, error] {
	return yieldAll([]pistore.Transaction{{FirstSeq: 1, Seqs: []pistore.Seq{1, 2}}, {FirstSeq: 2, Seqs: []pistore.Seq{2, 3}}})
}

func TestAbilities(t *testing.T) {
	a := &able{fake: whole()}
	r := check(t, decorator{a}, true)
	var got []string
	for _, f := range r.Faults {
		got = append(got, fmt.Sprint(f.Invariant, " ", f.Place))
	}
	if !slices.Equal(got, []string{"2 transaction at seq 2", "10 key 1", "0 key 2"}) || r.Checked.Transactions != 2 || !a.deep {
		t.Errorf("%q %+v", got, r.Checked)
	}
}
