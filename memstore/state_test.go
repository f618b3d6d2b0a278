package memstore_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pistore"
	"pistore/memstore"
)

func apply(s *memstore.State, first pistore.Seq, writes ...pistore.Write) pistore.Stats {
	t := pistore.Transaction{FirstSeq: first, Writes: writes}
	for i := range writes {
		t.Seqs = append(t.Seqs, first+pistore.Seq(i))
	}
	return s.Apply(t)
}

func TestStateFromReplay(t *testing.T) {
	s := memstore.NewState(pistore.Info{ID: "s"})
	s.RaiseNextSeq(42) // as a header says, whose rows stand below
	apply(s, 5, message("a", ""), set("k", 1))
	got := apply(s, 30, usage("u", 3), pistore.DeleteRegister{Namespace: "ns", Key: "k"}) // a gap is legal
	if got.Entries != 1 || got.Messages != 1 || got.Usage.Input != "3" {
		t.Errorf("stats %+v", got)
	}
	s.RaiseNextSeq(7)
	if got := s.NextSeq(); got != 42 {
		t.Errorf("nextSeq %d", got)
	}
	if seq, _ := s.RegisterSeq(pistore.Address{Namespace: "ns", Key: "k"}); seq != 0 {
		t.Errorf("a deleted register is at seq %d", seq)
	}
	for id, want := range map[pistore.ID][2]bool{"a": {true, true}, "u": {true, false}, "x": {false, false}} {
		has, _ := s.HasID(id)
		entry, _ := s.HasEntry(id)
		if has != want[0] || entry != want[1] {
			t.Errorf("%s: id %v, entry %v", id, has, entry)
		}
	}
}

func TestStatePanicsOnMisuse(t *testing.T) {
	for name, misuse := range map[string]func(*memstore.State){
		"a seq again":         func(s *memstore.State) { apply(s, 2, set("k", 1)) },
		"an id again":         func(s *memstore.State) { apply(s, 3, usage("a", 1)) },
		"a missing parent":    func(s *memstore.State) { apply(s, 3, message("b", "x")) },
		"a parent of usage":   func(s *memstore.State) { apply(s, 3, message("b", "u")) },
		"seqs for no writes":  func(s *memstore.State) { s.Apply(pistore.Transaction{Seqs: []pistore.Seq{3}}) },
		"a write of no known": func(s *memstore.State) { apply(s, 3, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := memstore.NewState(pistore.Info{})
			apply(s, 1, message("a", ""), usage("u", 1))
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "memstore: ") {
					t.Errorf("panic %q", p)
				}
			}()
			misuse(s)
		})
	}
}

// Registers against a map, with keys that share prefixes and bytes of every
// length of UTF-8.
func TestRegistersAgreeWithAMap(t *testing.T) {
	key := rapid.StringOfN(rapid.SampledFrom([]rune("ab/é￿𐀀")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		s := memstore.NewState(pistore.Info{})
		model := map[string]pistore.Register{}
		for i := range rapid.IntRange(0, 40).Draw(t, "writes") {
			seq, k := pistore.Seq(i+1), key.Draw(t, "key")
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				apply(s, seq, pistore.DeleteRegister{Namespace: "ns", Key: k})
				delete(model, k)
			} else {
				apply(s, seq, set(k, i))
				model[k] = pistore.Register{Namespace: "ns", Key: k, Value: pistore.JSON(fmt.Sprint(i)), Seq: seq}
			}
		}
		prefix := key.Draw(t, "prefix")
		var want []pistore.Register
		for _, k := range slices.Sorted(maps.Keys(model)) {
			if strings.HasPrefix(k, prefix) {
				want = append(want, model[k])
			}
		}
		var got []pistore.Register
		for r, err := range s.RegistersByPrefix(t.Context(), "ns", prefix) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("prefix %q: %s", prefix, diff)
		}
	})
}
