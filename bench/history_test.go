package bench_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"pistore"
	"pistore/bench"
	"pistore/memstore"
	"pistore/verify"
)

// A history is a store without a fault, the same every time, with what it says
// it has.
func TestHistory(t *testing.T) {
	for _, h := range []bench.History{{Turns: 1, Lanes: 1}, {Turns: 2, Lanes: 3}, {Turns: 250, Lanes: 1, Seed: 3}, {Turns: 120, Lanes: 4, Seed: 3}} {
		b := memstore.New(memstore.Options{})
		if _, err := b.Load(t.Context(), h.Rows("s")); err != nil {
			t.Fatal(err)
		}
		s, err := b.Open(t.Context(), "s", pistore.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		report, err := verify.Check(t.Context(), s, verify.Options{Deep: true})
		if err != nil || !report.OK() || report.Warnings > 0 {
			t.Errorf("%+v: %v, %v", h, report.Faults, err)
		}
		if want := int64(h.Turns*h.Lanes - (h.Lanes - 1)); report.Checked.Entries != want {
			t.Errorf("%d entries, want %d", report.Checked.Entries, want)
		}
		n := 0
		for e, err := range s.Branch(t.Context(), pistore.BranchQuery{Start: h.Leaf()}) {
			if err != nil {
				t.Fatal(err)
			}
			if n == 50 && e.Seq != h.Behind() {
				t.Errorf("behind is seq %d, not %d", h.Behind(), e.Seq)
			}
			n++
		}
		if n != h.Turns {
			t.Errorf("the branch has %d entries, want %d", n, h.Turns)
		}
		if got, err := s.Entries(t.Context(), h.Sample()); err != nil || len(got) != min(100, h.Turns) {
			t.Errorf("the sample has %d entries, %v", len(got), err)
		}
		first, err := pistore.DigestRows(h.Rows("s"))
		if err != nil {
			t.Fatal(err)
		}
		if second, err := pistore.DigestRows(h.Rows("s")); err != nil || second != first {
			t.Errorf("%s and then %s, %v", first, second, err)
		}
	}
}

// A run that needs another process says so without one, and says what is wrong
// with one that does not obey.
func TestChildIsNeeded(t *testing.T) {
	var m memory
	c := bench.Config{Workload: "open", Ops: 1, Turns: 3, Dir: t.TempDir()}
	if _, err := bench.Run(t.Context(), m.candidate(), c); !errors.Is(err, pistore.ErrInvalid) {
		t.Error(err)
	}
	c.Child = func(string) *exec.Cmd { return exec.Command(os.Args[0], "-test.run=^$") }
	if _, err := bench.Run(t.Context(), m.candidate(), c); err == nil {
		t.Error("a process that does not obey passes")
	}
	if err := bench.Obey(t.Context(), "{}", m.candidate().Open, os.Stderr); !errors.Is(err, pistore.ErrInvalid) {
		t.Error(err)
	}
}
