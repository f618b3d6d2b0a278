package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/memstore"
	"pistore/registers"
	. "pistore/session"
)

var bg = context.Background()

func newStorage(t *testing.T) (*memstore.Backend, pistore.Storage) {
	t.Helper()
	b := memstore.New(memstore.Options{})
	storage, err := b.Create(bg, pistore.Info{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, storage
}

func newSession(t *testing.T) *Session {
	t.Helper()
	_, storage := newStorage(t)
	s, err := Open(bg, storage)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// must fails the test on an error and returns the value.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func appendUser(t *testing.T, s *Session, lane string, ids ...pistore.ID) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Append(bg, lane, MessageContent(id, &UserMessage{Content: TextContent(string(id))})); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenMakesTheMainLaneOnce(t *testing.T) {
	b, storage := newStorage(t)
	wantErr(t, "no lane yet", second(New(storage).Lane(bg, "main")), pistore.ErrNotFound)
	frozen := must(b.Open(bg, storage.Info().ID, pistore.ReadOnly))(t)
	if _, err := Open(bg, frozen); err != nil {
		t.Errorf("read-only without a lane: %v", err)
	}
	for range 2 {
		s := must(Open(bg, storage))(t)
		l := must(s.Lane(bg, registers.MainLane))(t)
		if diff := cmp.Diff(Lane{Name: "main", LeafSeq: 1, StateSeq: 2}, l); diff != "" {
			t.Error(diff)
		}
		if !l.Idle() {
			t.Error("a new lane is not idle")
		}
	}
	wantErr(t, "init again", Init(bg, storage), pistore.ErrConflict)
	rows := must(storage.Registers(bg, []pistore.Address{{Namespace: "lane.leaf", Key: "main"}, {Namespace: "lane.state", Key: "main"}, {Namespace: "lane.config", Key: "main"}}))(t)
	slices.SortFunc(rows, func(a, b pistore.Register) int { return int(a.Seq - b.Seq) })
	want := []pistore.Register{
		{Namespace: "lane.leaf", Key: "main", Value: "null", Seq: 1},
		{Namespace: "lane.state", Key: "main", Value: `{"currentOperationId":null,"pendingNextRun":[]}`, Seq: 2},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
}

func second[T any](_ T, err error) error { return err }

func TestLanes(t *testing.T) {
	s := newSession(t)
	config := registers.LaneConfiguration{Model: registers.ModelRef{Provider: "p", ModelID: "m"}, ThinkingLevel: "off", ActiveToolNames: []string{"read"}}
	appendUser(t, s, "main", "E1", "E2")
	for name, anchor := range map[string]pistore.ID{"thread 7": "E1", "a": "", "b:c": "E2"} {
		if err := s.CreateLane(bg, name, anchor, config); err != nil {
			t.Fatal(err)
		}
		l := must(s.Lane(bg, name))(t)
		if l.Leaf != anchor || !l.Idle() || l.Config == nil || cmp.Diff(config, *l.Config) != "" {
			t.Errorf("lane %q: %+v", name, l)
		}
	}
	if diff := cmp.Diff([]string{"a", "b:c", "main", "thread 7"}, must(s.Lanes(bg))(t)); diff != "" {
		t.Error(diff)
	}
	wantErr(t, "a name in use", s.CreateLane(bg, "a", "E1", config), pistore.ErrConflict)
	wantErr(t, "main again", s.CreateLane(bg, "main", "E1", config), pistore.ErrConflict)
	wantErr(t, "unknown anchor", s.CreateLane(bg, "d", "E9", config), pistore.ErrNotFound)
	wantErr(t, "empty name", s.CreateLane(bg, "", "E1", config), pistore.ErrInvalid)
	wantErr(t, "bad name", second(s.Lane(bg, "a\n")), pistore.ErrInvalid)
	wantErr(t, "no such lane", second(s.Lane(bg, "d")), pistore.ErrNotFound)

	// Two lanes at one leaf part at the next append.
	appendUser(t, s, "thread 7", "E3")
	appendUser(t, s, "b:c", "E4")
	leaves := map[string]pistore.ID{"main": "E2", "thread 7": "E3", "b:c": "E4", "a": ""}
	for name, leaf := range leaves {
		if got := must(s.Lane(bg, name))(t).Leaf; got != leaf {
			t.Errorf("lane %q stands on %q, want %q", name, got, leaf)
		}
	}

	before := must(s.Lane(bg, "a"))(t)
	config.ThinkingLevel = "high"
	if err := s.SetConfiguration(bg, before, config); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "configuration from an old view", s.SetConfiguration(bg, before, config), pistore.ErrConflict)
	if got := must(s.Lane(bg, "a"))(t); got.Config.ThinkingLevel != "high" {
		t.Errorf("configuration %+v", got.Config)
	}
	main := must(s.Lane(bg, "main"))(t)
	if err := s.SetConfiguration(bg, main, config); err != nil { // its first
		t.Error(err)
	}
}

func TestLaneRegistersThatCannotBeRead(t *testing.T) {
	for name, w := range map[string]pistore.Write{
		"leaf":     pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: "main", Value: "7"},
		"state":    pistore.SetRegister{Namespace: registers.LaneStateNS, Key: "main", Value: "{}"},
		"config":   pistore.SetRegister{Namespace: registers.LaneConfigNS, Key: "main", Value: "null"},
		"no state": pistore.DeleteRegister{Namespace: registers.LaneStateNS, Key: "main"},
		"no leaf":  pistore.DeleteRegister{Namespace: registers.LaneLeafNS, Key: "main"},
	} {
		s := newSession(t)
		must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{w}}))(t)
		wantErr(t, name, second(s.Lane(bg, "main")), pistore.ErrCorrupt)
		wantErr(t, name, second(Open(bg, s.Storage())), pistore.ErrCorrupt)
	}
}

func TestAppend(t *testing.T) {
	s := newSession(t)
	r := must(s.Append(bg, "main",
		MessageContent("E1", &UserMessage{Content: TextContent("hi"), Timestamp: 5}), CustomContent("E2", "note", `{"n":1}`), CustomContent("E3", "mark", ""),
	))(t)
	if len(r.Seqs) != 4 || r.Stats.Entries != 3 || r.Stats.Messages != 1 {
		t.Errorf("receipt %+v", r)
	}
	var got []string
	for e, err := range s.Storage().Branch(bg, pistore.BranchQuery{Start: must(s.Lane(bg, "main"))(t).Leaf, Order: pistore.Reversed}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.ID, " ", e.ParentID, " ", e.Type, " ", e.CustomType, " ", e.Payload))
	}
	want := []string{
		`E1  message  {"message":{"role":"user","content":"hi","timestamp":5}}`, `E2 E1 custom note {"data":{"n":1}}`, `E3 E2 custom mark {}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantErr(t, "an id in use", second(s.Append(bg, "main", CustomContent("E1", "note", ""))), pistore.ErrDuplicateID)
	wantErr(t, "nothing", second(s.Append(bg, "main")), pistore.ErrInvalid)
	wantErr(t, "no such lane", second(s.Append(bg, "other", CustomContent("E9", "note", ""))), pistore.ErrNotFound)
	wantErr(t, "no JSON", second(s.Append(bg, "main", CustomContent("E9", "note", "{"))), pistore.ErrInvalid)

	state := registers.EncodeLaneState(registers.LaneState{CurrentOperationID: "O"})
	must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: registers.LaneStateNS, Key: "main", Value: state}}}))(t)
	wantErr(t, "an open operation", second(s.Append(bg, "main", CustomContent("E9", "note", ""))), ErrLaneBusy)
	if got := must(s.Lane(bg, "main"))(t); got.Leaf != "E3" || got.Idle() {
		t.Errorf("lane %+v", got)
	}
}

// before runs a function once, at the start of a commit that has preconditions:
// between what the caller read and what it writes.
type before struct {
	pistore.Storage
	once sync.Once
	run  func()
}

func (b *before) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	if len(tx.Expect) > 0 {
		b.once.Do(b.run)
	}
	return b.Storage.Commit(ctx, tx)
}

func TestAppendConflicts(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, s *Session){
		"another append": func(t *testing.T, s *Session) { appendUser(t, s, "main", "E2") },
		"an operation": func(t *testing.T, s *Session) {
			state := registers.EncodeLaneState(registers.LaneState{CurrentOperationID: "O"})
			must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: registers.LaneStateNS, Key: "main", Value: state}}}))(t)
		},
		"a navigation": func(t *testing.T, s *Session) {
			must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: "main", Value: "null"}}}))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			appendUser(t, s, "main", "E1")
			raced := New(&before{Storage: s.Storage(), run: func() { meanwhile(t, s) }})
			_, err := raced.Append(bg, "main", CustomContent("E9", "note", ""))
			wantErr(t, "append", err, pistore.ErrConflict)
			if found := must(s.Storage().Entries(bg, []pistore.ID{"E9"}))(t); len(found) > 0 {
				t.Error("the entry was written")
			}
		})
	}
}

// TestConcurrentAppends: of appends that run beside each other each is placed
// once, on one chain, however often it had to be tried again.
func TestConcurrentAppends(t *testing.T) {
	s := newSession(t)
	const writers, each = 4, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := pistore.ID(fmt.Sprintf("E%d-%d", w, i))
				for {
					_, err := s.Append(bg, "main", CustomContent(id, "note", ""))
					if err == nil {
						break
					}
					if !errors.Is(err, pistore.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	tree := must(s.Tree(bg))(t)
	leaf := must(s.Lane(bg, "main"))(t).Leaf
	if got := len(tree.Path(leaf)); got != writers*each {
		t.Errorf("the path has %d entries, want %d", got, writers*each)
	}
}

func TestPlacement(t *testing.T) {
	s := newSession(t)
	queued := MessageContent("P1", &UserMessage{Content: TextContent("later")})
	w := must(Queue(queued))(t)
	must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{w}}))(t)
	found := must(s.Storage().Registers(bg, []pistore.Address{{Namespace: registers.PendingEntryNS, Key: "P1"}}))(t)
	if len(found) != 1 {
		t.Fatal("not queued")
	}
	back := must(QueuedContent(found[0]))(t)
	queued.Queued = true
	if diff := cmp.Diff(queued, back); diff != "" {
		t.Error(diff)
	}
	got := Place("main", "", back, CustomContent("E2", "note", ""))
	want := []pistore.Write{
		pistore.InsertEntry{ID: "P1", Type: pistore.TypeMessage, Payload: queued.Payload},
		pistore.InsertEntry{ID: "E2", ParentID: "P1", Type: pistore.TypeCustom, CustomType: "note", Payload: "{}"},
		pistore.DeleteRegister{Namespace: registers.PendingEntryNS, Key: "P1"},
		pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: "main", Value: `"E2"`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	must(s.Storage().Commit(bg, pistore.Tx{Writes: got}))(t)
	if Place("main", "E1") != nil {
		t.Error("placing nothing writes something")
	}
	wantErr(t, "payload with a structural member", second(Queue(Content{ID: "P", Type: pistore.TypeMessage, Payload: `{"id":"x"}`})), pistore.ErrInvalid)
	wantErr(t, "custom without type", second(Queue(Content{ID: "P", Type: pistore.TypeCustom})), pistore.ErrInvalid)
	wantErr(t, "empty id", second(Queue(Content{Type: pistore.TypeMessage, Payload: `{}`})), pistore.ErrInvalid)
	wantErr(t, "unreadable", second(QueuedContent(pistore.Register{Key: "P", Value: "7"})), pistore.ErrInvalid)
}

func TestFacts(t *testing.T) {
	s := newSession(t)
	appendUser(t, s, "main", "E1", "E2")
	leaf := must(s.Lane(bg, "main"))(t)

	text := func(v string, there bool, err error) string {
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprintf("%q %v", v, there)
	}
	check := func(what string, err error, got, want string) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %s, error %v; want %s", what, got, err, want)
		}
	}
	check("no name", nil, text(s.Name(bg)), `"" false`)
	check("a name", s.SetName(bg, "näme"), text(s.Name(bg)), `"näme" true`)
	check("an empty name", s.SetName(bg, ""), text(s.Name(bg)), `"" true`)
	check("unset", s.UnsetName(bg), text(s.Name(bg)), `"" false`)
	check("unset again", s.UnsetName(bg), text(s.Name(bg)), `"" false`)

	check("a label", s.SetLabel(bg, "E1", "here"), text(s.Label(bg, "E1")), `"here" true`)
	check("another", s.SetLabel(bg, "E2", "there"), text(s.Label(bg, "E2")), `"there" true`)
	wantErr(t, "label of nothing", s.SetLabel(bg, "E9", "x"), pistore.ErrNotFound)
	if diff := cmp.Diff(map[pistore.ID]string{"E1": "here", "E2": "there"}, must(s.Labels(bg))(t)); diff != "" {
		t.Error(diff)
	}
	check("unset label", s.UnsetLabel(bg, "E1"), text(s.Label(bg, "E1")), `"" false`)

	value := func(v pistore.JSON, there bool, err error) string { return text(string(v), there, err) }
	check("null is a value", s.SetFact(bg, "k", "null"), value(s.Fact(bg, "k")), `"null" true`)
	check("any JSON", s.SetFact(bg, "k", ` {"a" : 1.0}`), value(s.Fact(bg, "k")), `"{\"a\":1.0}" true`)
	check("a neighbour", s.SetFact(bg, "k2", "2"), value(s.Fact(bg, "k2")), `"2" true`)
	wantErr(t, "no JSON", s.SetFact(bg, "k", "{"), pistore.ErrInvalid)
	var keys []string
	for r, err := range s.Facts(bg, "k") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, r.Key)
	}
	check("listed", nil, fmt.Sprint(keys), "[k k2]")
	check("unset fact", s.UnsetFact(bg, "k"), value(s.Fact(bg, "k")), `"" false`)

	if now := must(s.Lane(bg, "main"))(t); now.LeafSeq != leaf.LeafSeq {
		t.Error("a fact moved the leaf")
	}
	must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: registers.FactLabelNS, Key: "E1", Value: "7"}}}))(t)
	_, _, err := s.Label(bg, "E1")
	wantErr(t, "a label that is no text", err, pistore.ErrCorrupt)
	wantErr(t, "labels", second(s.Labels(bg)), pistore.ErrCorrupt)
}

func TestApplicationRegisters(t *testing.T) {
	s := newSession(t)
	for _, ns := range []string{"lane.leaf", "app", "app.", "App.x", "", "fact.custom", "pi.ext"} {
		_, _, err := s.App(bg, ns, "k")
		wantErr(t, "read "+ns, err, pistore.ErrInvalid)
		wantErr(t, "set "+ns, s.SetApp(bg, ns, "main", "null"), pistore.ErrInvalid)
		wantErr(t, "delete "+ns, s.DeleteApp(bg, ns, "main"), pistore.ErrInvalid)
		for _, err := range s.Apps(bg, ns, "") {
			wantErr(t, "list "+ns, err, pistore.ErrInvalid)
		}
	}
	if err := s.SetApp(bg, "app.todo", "k", "null"); err != nil {
		t.Fatal(err)
	}
	if v, there, err := s.App(bg, "app.todo", "k"); v != "null" || !there || err != nil {
		t.Error(v, there, err)
	}
	n := 0
	for r, err := range s.Apps(bg, "app.todo", "") {
		if n++; r.Key != "k" || err != nil {
			t.Error(r, err)
		}
	}
	if n != 1 {
		t.Errorf("%d registers", n)
	}
	if err := s.DeleteApp(bg, "app.todo", "k"); err != nil {
		t.Error(err)
	}
	if _, there, err := s.App(bg, "app.todo", "k"); there || err != nil {
		t.Error(there, err)
	}
}

func TestRecordUsageAndLastResult(t *testing.T) {
	s := newSession(t)
	r := must(s.RecordUsage(bg, pistore.InsertUsage{ID: "U1", Usage: `{"input":3}`}))(t)
	if r.Stats.Usage.Input != "3" {
		t.Errorf("totals %+v", r.Stats.Usage)
	}
	wantErr(t, "an id in use", second(s.RecordUsage(bg, pistore.InsertUsage{ID: "U1", Usage: `{}`})), pistore.ErrDuplicateID)

	if _, there, err := s.LastResult(bg, "main"); there || err != nil {
		t.Error(there, err)
	}
	want := registers.LastResult{OperationID: "O", Kind: registers.KindRun, Outcome: registers.Aborted}
	set := func(v pistore.JSON) {
		must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: registers.LaneLastResultNS, Key: "main", Value: v}}}))(t)
	}
	set(registers.EncodeLastResult(want))
	if got, there, err := s.LastResult(bg, "main"); !there || err != nil || got != want {
		t.Error(got, there, err)
	}
	set("null")
	_, _, err := s.LastResult(bg, "main")
	wantErr(t, "unreadable", err, pistore.ErrCorrupt)
}

func TestTree(t *testing.T) {
	s := newSession(t)
	insert := func(id, parent pistore.ID) pistore.Write {
		return pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeCustom, CustomType: "note", Payload: `{"data":"large"}`}
	}
	must(s.Storage().Commit(bg, pistore.Tx{Writes: []pistore.Write{
		insert("A", ""), insert("B", "A"), insert("Z", ""), insert("C", "B"), insert("D", "B"), insert("E", "D"),
	}}))(t)
	if err := s.SetLabel(bg, "D", "fork"); err != nil {
		t.Fatal(err)
	}
	tree := must(s.Tree(bg))(t)
	type ids = []pistore.ID
	path := func(id pistore.ID) (out ids) {
		for _, e := range tree.Path(id) {
			if e.Payload != "" {
				t.Errorf("entry %s has a payload", e.ID)
			}
			out = append(out, e.ID)
		}
		return out
	}
	for _, r := range []struct {
		what      string
		got, want ids
	}{
		{"roots", tree.Roots(), ids{"A", "Z"}}, {"tips", tree.Tips(), ids{"Z", "C", "E"}}, {"children of B", tree.Children("B"), ids{"C", "D"}},
		{"children of a tip", tree.Children("E"), nil}, {"children of nothing", tree.Children("X"), nil},
		{"path", path("E"), ids{"A", "B", "D", "E"}}, {"path of a root", path("Z"), ids{"Z"}}, {"path of nothing", path("X"), nil},
	} {
		if diff := cmp.Diff(r.want, r.got); diff != "" {
			t.Errorf("%s: %s", r.what, diff)
		}
	}
	if e, ok := tree.Entry("D"); !ok || e.ParentID != "B" || tree.Label("D") != "fork" || tree.Label("E") != "" {
		t.Errorf("entry D: %v %v, labels %q %q", e, ok, tree.Label("D"), tree.Label("E"))
	}
	if _, ok := tree.Entry("X"); ok {
		t.Error("entry X")
	}
}

func TestProjectFromStorage(t *testing.T) {
	s := newSession(t)
	if p, err := s.Project(bg, "", nil); err != nil || len(p.Messages) > 0 {
		t.Error(p, err)
	}
	wantErr(t, "unknown leaf", second(s.Project(bg, "X", nil)), pistore.ErrNotFound)
	appendUser(t, s, "main", "E1")
	must(s.Append(bg, "main",
		Content{ID: "E2", Type: pistore.TypeCompaction, Payload: CompactionPayload(Compaction{Summary: "s", RetainedTail: []pistore.JSON{`{"role":"user","content":"k"}`}})},
		MessageContent("E3", answer("a", StopToolUse, "c1")), MessageContent("E4", output("c1", "x")),
		CustomContent("E5", ContextEditType, `{"targetId":"E1","replacement":null}`)))(t)
	p := must(s.Project(bg, "E5", nil))(t)
	want := "compactionSummary E2 s\nuser E2 k\nassistant E3 a ?c1\ntoolResult E4 =c1\n" +
		"note E5 a context edit of \"E1\", which is not on the path since the newest compaction\n"
	if diff := cmp.Diff(want, lines(p)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(p.Messages, must(ProjectBranch(bg, s.Storage(), "E5", nil))(t)); diff != "" {
		t.Error(diff)
	}
	if p := must(s.Project(bg, "E1", nil))(t); lines(p) != "user E1 E1\n" {
		t.Errorf("before the compaction: %s", lines(p))
	}
}

// orphaned shows entries without their first.
type orphaned struct{ pistore.Storage }

func (o orphaned) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	q.FromSeq = 4
	return o.Storage.ScanEntries(ctx, q)
}

func TestTreeOfADamagedStore(t *testing.T) {
	s := newSession(t)
	appendUser(t, s, "main", "E1", "E2")
	_, err := New(orphaned{s.Storage()}).Tree(bg)
	var damage *pistore.CorruptError
	if !errors.As(err, &damage) || damage.Invariant != 6 || damage.Place != "entry E2" {
		t.Errorf("error %v", err)
	}
}
