package harness

import (
	"errors"
	"fmt"
	"testing"

	"pistore"
	"pistore/memstore"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
)

// unsound makes of a position what cannot go on.
var unsound = map[string]func(*position) *position{
	"no plan": func(*position) *position { panic("no plan") },
	"no form": func(p *position) *position {
		return p.withRun(func(run *registers.RunState) { run.Settings.Compaction.KeepRecentTokens = -1 })
	},
}

// A change that cannot be planned, or that has no stored form, is a fault of the
// harness and not the end of its process, whoever decides on it. What is stored
// stays as it was.
func TestUnsoundChangesAreFaults(t *testing.T) {
	for name, spoil := range unsound {
		for _, drive := range []Drive{Automatic, Manual} {
			t.Run(fmt.Sprint("drive ", drive, " has ", name), func(t *testing.T) {
				h, lane, faults := unsoundLane(t, drive)
				sound := h.planner.apply
				h.planner.apply = func(p *position, ev event, env *environment, m mint, c *change) *position {
					if p = sound(p, ev, env, m, c); p.op != nil {
						p = spoil(p)
					}
					return p
				}
				handle, err := lane.Prompt(t.Context(), Prompt{Text: "go"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := handle.Wait(t.Context()); !errors.Is(err, pistore.ErrFaulted) {
					t.Errorf("wait: %v", err)
				}
				checkUnsound(t, h, faults)
			})
		}
		t.Run("a call has "+name, func(t *testing.T) {
			h, lane, faults := unsoundLane(t, Manual)
			if _, err := lane.Prompt(t.Context(), Prompt{Text: "go"}); err != nil {
				t.Fatal(err)
			}
			if err := lane.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := lane.decide(t.Context(), func(p *position, _ mint, c *change) (*position, error) {
				c.moved = true
				return spoil(p), nil
			})
			lane.give()
			if !errors.Is(err, pistore.ErrFaulted) {
				t.Errorf("decide: %v", err)
			}
			checkUnsound(t, h, faults)
		})
	}
}

func unsoundLane(t *testing.T, drive Drive) (*Harness, *Lane, chan Fault) {
	t.Helper()
	s, err := memstore.New(memstore.Options{}).Create(t.Context(), pistore.Info{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	faults := make(chan Fault, 10)
	h, err := New(s, Options{
		Providers: provider.NewSet(faux.New(faux.Options{Script: faux.Script{{Turns: faux.Turns(faux.Text("Hi."))}}})), Drive: drive,
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}},
		OnEvent: func(ev Event) {
			if ev, ok := ev.(Fault); ok {
				faults <- ev
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	lane, err := h.Lane(t.Context(), registers.MainLane)
	if err != nil {
		t.Fatal(err)
	}
	return h, lane, faults
}

// checkUnsound expects one fault, and the run where it was accepted.
func checkUnsound(t *testing.T, h *Harness, faults chan Fault) {
	t.Helper()
	if err := h.Close(t.Context()); err != nil { // behind which everything is told
		t.Error(err)
	}
	if len(faults) != 1 {
		t.Fatalf("%d faults are told", len(faults))
	}
	if fault := <-faults; !errors.Is(fault.Err, errUnsound) {
		t.Errorf("the fault is %v", fault.Err)
	}
	again, err := New(h.storage, Options{})
	if err != nil {
		t.Fatal(err)
	}
	lane, err := again.Lane(t.Context(), registers.MainLane)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := lane.position().op.phase().(*registers.Checkpoint); !ok {
		t.Errorf("the run stands in %T", lane.position().op.phase())
	}
}
