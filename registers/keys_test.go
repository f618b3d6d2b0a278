package registers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	. "pistore/registers"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range Namespaces() {
		if seen[n.Name] {
			t.Errorf("%s is declared twice", n.Name)
		}
		seen[n.Name] = true
		if n.KeyForm == "" || n.Lifetime == "" || !strings.HasSuffix(n.Doc, ".") {
			t.Errorf("%s is declared in part only", n.Name)
		}
		if got, ok := Lookup(n.Name); !ok || got.Name != n.Name {
			t.Errorf("Lookup(%s) = %v, %v", n.Name, got.Name, ok)
		}
	}
	if len(seen) != 18 {
		t.Errorf("%d namespaces, want those of the design, 18", len(seen))
	}
	for name, want := range map[string]bool{"app.": false, "app.x": true, "app": false, "App.x": false, "op": false, "": false} {
		if _, ok := Lookup(name); ok != want {
			t.Errorf("Lookup(%q) = %v", name, ok)
		}
	}
}

func TestKeyGrammars(t *testing.T) {
	long := strings.Repeat("x", 257)
	for _, r := range []struct {
		namespace, key string
		ok             bool
	}{
		{LaneLeafNS, "main", true}, {LaneLeafNS, "a thread: 7/é", true}, {LaneLeafNS, "", false}, {LaneLeafNS, long[:256], true},
		{LaneLeafNS, long, false}, {LaneLeafNS, "a\nb", false}, {LaneLeafNS, "\u0085", false}, {LaneLeafNS, "\xff", false},
		{OpMetaNS, "O", true}, {OpMetaNS, "O:1", false}, {OpStateNS, "", false},
		{OpToolArgsNS, ToolKey("O", "S", 12), true}, {OpToolArgsNS, "O:S:", false}, {OpToolArgsNS, "O:S:01", false}, {OpToolArgsNS, "O:S:+1", false},
		{OpToolArgsNS, "O:S:-1", false}, {OpToolArgsNS, "O:S", false}, {OpToolArgsNS, ":S:0", false}, {OpToolOutputNS, "O::0", false},
		{OpToolOutputNS, "O:S:0:1", false}, {OpToolOutputNS, "O:S:9223372036854775808", false},
		{OpPreparationNS, PreparationKey("O", "T"), true}, {OpPreparationNS, "O", false}, {OpPreparationNS, "O:", false}, {OpPreparationNS, "O:T:1", false},
		{PendingEntryNS, "E:1", true}, {PendingEntryNS, "", false}, {PendingEntryNS, long[:129], false},
		{FactNameNS, "", true}, {FactNameNS, "x", false}, {FactLabelNS, "E1", true}, {FactLabelNS, "", false},
		{FactCustomNS, "", true}, {FactCustomNS, "any\nthing", true}, {FactCustomNS, "\x00", false},
		{RequestNS, "r1", true}, {RequestNS, "", false},
		{DocNS, DocKey("todo", ""), true}, {DocNS, DocKey("todo", "main"), true}, {DocNS, DocKey("todo", "a:b"), true}, {DocNS, "s:", false},
		{DocNS, "s:a:b", false}, {DocNS, "l:todo", false}, {DocNS, "l:todo:", false}, {DocNS, "l::main", false}, {DocNS, "x:todo", false}, {DocNS, "", false},
		{TaskMetaNS, "t1", true}, {TaskStateNS, "", false},
		{TimerNS, TimerKey(1700000000000, "t1"), true}, {TimerNS, "0000018bcfe56800:", false}, {TimerNS, "0000018BCFE56800:t", false},
		{TimerNS, "18bcfe56800:t", false}, {TimerNS, "ffffffffffffffff:t", false}, {TimerNS, "+000018bcfe56800:t", false}, {TimerNS, "", false},
	} {
		n, _ := Lookup(r.namespace)
		err := n.CheckKey(r.key)
		if (err == nil) != r.ok {
			t.Errorf("%s %.40q: error %v, want ok %v", r.namespace, r.key, err, r.ok)
		}
		if err != nil && !errors.Is(err, pistore.ErrInvalid) && !errors.Is(err, pistore.ErrTooLarge) {
			t.Errorf("%s %.40q: untyped error %v", r.namespace, r.key, err)
		}
	}
}

func TestKeysComeApart(t *testing.T) {
	if op, step, index, err := ParseToolKey(ToolKey("O", "S", 3)); op != "O" || step != "S" || index != 3 || err != nil {
		t.Error(op, step, index, err)
	}
	if op, sum, err := ParsePreparationKey(PreparationKey("O", "T")); op != "O" || sum != "T" || err != nil {
		t.Error(op, sum, err)
	}
	if due, id, err := ParseTimerKey(TimerKey(1700000000000, "a:b")); due != 1700000000000 || id != "a:b" || err != nil {
		t.Error(due, id, err)
	}
	for _, lane := range []string{"", "main", "a:b"} {
		if kind, got, err := ParseDocKey(DocKey("todo", lane)); kind != "todo" || got != lane || err != nil {
			t.Error(kind, got, err)
		}
	}
	if TimerKey(255, "z") >= TimerKey(256, "a") {
		t.Error("timer keys do not sort by due time")
	}
}

func TestWhatAStateNames(t *testing.T) {
	type named struct{ Required, MayBe, Entries, Reserved string }
	list := func(ids []pistore.ID) string {
		var out []string
		for _, id := range ids {
			out = append(out, string(id))
		}
		return strings.Join(out, " ")
	}
	keys := func(at []pistore.Address) string {
		var out []string
		for _, a := range at {
			if a.Namespace != OpMetaNS && a.Namespace != OpStateNS {
				out = append(out, a.Namespace+"/"+a.Key)
			}
		}
		return strings.Join(out, " ")
	}
	want := map[string]named{
		"checkpoint-need-assistant": {Entries: "E1"},
		"checkpoint-may-finish":     {Entries: "E2"},
		"checkpoint-queues": {
			Required: "pending.entry/P1 pending.entry/P2 pending.entry/P3 pending.entry/P4", Entries: "E0 E1", Reserved: "P1 P2 P3 P4",
		},
		"assistant-ready":          {Entries: "E1"},
		"assistant-effect-pending": {Entries: "E1", Reserved: "E2 U1"},
		"assistant-retry-wait":     {Entries: "E1"},
		"tools": {
			Required: "op.tool_args/O:S1:1 op.tool_args/O:S1:4",
			MayBe:    "op.tool_output/O:S1:1 op.tool_args/O:S1:2 op.tool_args/O:S1:3 op.tool_output/O:S1:4",
			Entries:  "E2 E5 E6", Reserved: "E3 E4 E7",
		},
		"run-compaction-overflow":  {Required: "op.preparation/O:T1", Entries: "E1", Reserved: "E9 U3"},
		"run-compaction-threshold": {Required: "op.preparation/O:T1", Entries: "E1"},
		"deferred-suspended":       {Entries: "E2"},
		"deferred-effect-pending":  {Entries: "E2", Reserved: "E3 U2"},
		"failure-drain-response":   {Entries: "E2"},
		"failure-drain-summary":    {},
		"cancel-requested": {
			Required: "pending.entry/P1 pending.entry/P2 pending.entry/P3", Entries: "E1", Reserved: "P1 P2 P3 E2 U1",
		},
		"compaction-deciding": {Required: "op.preparation/O:T1"},
		"compaction-ready":    {Required: "op.preparation/O:T1", Reserved: "E9"},
		"compaction-pending":  {Required: "op.preparation/O:T1", Entries: "E1", Reserved: "E9"},
		"compaction-retry-wait": {
			Required: "op.preparation/O:T1 pending.entry/P1 pending.entry/P2 pending.entry/P3", Entries: "E1", Reserved: "P1 P2 P3 E9",
		},
		"navigation":         {Entries: "E1"},
		"navigation-summary": {Required: "op.preparation/O:T1", Entries: "E1", Reserved: "E9"},
	}
	for name, s := range shapes() {
		required, all := RequiredKeys("O", s), Keys("O", s)
		got := named{keys(required), keys(all[len(required):]), list(EntryIDs(s)), list(ReservedIDs(s))}
		if diff := cmp.Diff(want[name], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if all[0] != (pistore.Address{Namespace: OpMetaNS, Key: "O"}) || all[1] != (pistore.Address{Namespace: OpStateNS, Key: "O"}) {
			t.Errorf("%s: starts with %v", name, all[:2])
		}
		if cmp.Diff(required, all[:len(required)]) != "" {
			t.Errorf("%s: the required keys do not come first", name)
		}
	}
	m := OpMeta{SourceLeafID: "E0", Intent: Intent{Kind: KindRun, PromptEntryIDs: []pistore.ID{"E1", "E2"}}}
	if got := list(m.EntryIDs()); got != "E0 E1 E2" {
		t.Error(got)
	}
}
