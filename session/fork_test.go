package session_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// forkable writes a session with two lanes, a run that is open in main, and a
// register of every kind.
func forkable(t *testing.T, b pistore.Backend) {
	t.Helper()
	meta := registers.EncodeOpMeta(registers.OpMeta{
		OperationID: "O", Lane: "main", StartedAt: 1, Intent: registers.Intent{Kind: registers.KindRun, PromptEntryIDs: []pistore.ID{"a"}},
	})
	state := registers.EncodeOpState(&registers.RunState{
		Settings: registers.Settings{
			Compaction:   registers.CompactionSettings{Enabled: true, ReserveTokens: 1, KeepRecentTokens: 1},
			SteeringMode: registers.OneAtATime, FollowUpMode: registers.OneAtATime, ToolExecution: registers.Parallel,
		},
		Phase: &registers.Checkpoint{Continuation: &registers.NeedAssistant{}, TriggerEntryID: "b"},
	})
	write(t, b, "s",
		[]pistore.Write{said("a", "", "one"), said("b", "a", "two"), pistore.InsertUsage{ID: "u", Usage: `{"input":1}`}},
		[]pistore.Write{said("x", "a", "aside"), said("y", "x", "further")},
		append(laneAt("main", "b", "O"), laneAt("side:1", "y", "")...),
		[]pistore.Write{
			cell(registers.LaneLastResultNS, "side:1", registers.EncodeLastResult(registers.LastResult{
				OperationID: "P", Kind: registers.KindRun, Outcome: registers.Aborted, LeafID: "y",
			})),
			cell(registers.OpMetaNS, "O", meta), cell(registers.OpStateNS, "O", state),
			cell(registers.FactNameNS, "", `"name"`), cell(registers.FactCustomNS, "k", `null`),
			cell(registers.FactLabelNS, "a", `"start"`), cell(registers.FactLabelNS, "y", `"aside"`), cell(registers.FactLabelNS, "gone", `"x"`),
			cell(registers.DocNS, "s:plan", `{"version":1,"fork":"copy","value":1}`), cell(registers.DocNS, "s:sandbox", `{"version":1,"fork":"initial","value":1}`),
			cell(registers.DocNS, "l:todo:main", `{"version":1,"fork":"copy","value":2}`), cell(registers.DocNS, "l:todo:side:1", `{"version":1,"fork":"copy","value":3}`),
			cell(registers.RequestNS, "r", `{}`), cell(registers.TaskMetaNS, "t", `{}`), cell(registers.TaskStateNS, "t", `{}`),
			cell(registers.TimerNS, "0000000000000001:t", `{}`), cell("app.mine", "k", `[1.0]`), cell("foreign", "k", `1`),
		})
}

func TestFork(t *testing.T) {
	always := []string{"app.mine/k", "doc/l:todo:main", "doc/s:plan", "fact.custom/k", "fact.name/", "lane.config/main", "lane.leaf/main", "lane.state/main"}
	both := append([]string{"fact.label/y", "lane.config/side:1", "lane.leaf/side:1", "lane.state/side:1", "doc/l:todo:side:1", "fact.label/a"}, always...)
	labelled := append([]string{"fact.label/a"}, always...)
	for name, test := range map[string]struct {
		o       session.ForkOptions
		entries []pistore.ID
		leaf    pistore.JSON // of main
		cells   []string
	}{
		"where main stands": {session.ForkOptions{}, []pistore.ID{"a", "b"}, `"b"`, labelled},
		"at":                {session.ForkOptions{At: "x"}, []pistore.ID{"a", "x"}, `"x"`, labelled},
		"at another tip":    {session.ForkOptions{At: "y"}, []pistore.ID{"a", "x", "y"}, `"y"`, append([]string{"fact.label/y"}, labelled...)},
		"before":            {session.ForkOptions{Before: "y"}, []pistore.ID{"a", "x"}, `"x"`, labelled},
		"before a root":     {session.ForkOptions{Before: "a"}, nil, `null`, always},
		"tree":              {session.ForkOptions{Tree: true}, []pistore.ID{"a", "b", "x", "y"}, `"b"`, both},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, open func(*testing.T) pistore.Backend) {
				b, to := open(t), engines["logstore"](t)
				forkable(t, b)
				src := opened(t, b, "s")
				before, err := pistore.Digest(t.Context(), src)
				if err != nil {
					t.Fatal(err)
				}
				o := test.o
				o.ID, o.CreatedAt = "fork", 2000
				c, err := session.Fork(t.Context(), src, to, o)
				if err != nil {
					t.Fatal(err)
				}
				if c.Info.ParentSessionID != "s" || c.Info.CreatedAt != 2000 || c.Info.CWD != "/w" || c.Info.Generation == src.Info().Generation {
					t.Errorf("info %+v", c.Info)
				}
				if after, err := pistore.Digest(t.Context(), src); err != nil || after != before {
					t.Errorf("the source was changed: %v", err)
				}
				wantFork(t, src, opened(t, to, "fork"), test.entries, test.cells, test.leaf)
				sound(t, to, "fork")
			})
		})
	}
}

// wantFork compares a fork with its source, row by row.
func wantFork(t *testing.T, src, fork pistore.Storage, ids []pistore.ID, addresses []string, leaf pistore.JSON) {
	t.Helper()
	rows := map[string]pistore.Row{}
	for row, err := range src.Export(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch r := row.(type) {
		case pistore.Entry:
			rows[string(r.ID)] = r
		case pistore.Register:
			rows[r.Namespace+"/"+r.Key] = r
		}
	}
	for row, err := range fork.Export(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		name, want := "", pistore.Row(nil)
		switch r := row.(type) {
		case pistore.Header:
			continue
		case pistore.Entry:
			name = string(r.ID)
			want = rows[name]
		case pistore.Register:
			name = r.Namespace + "/" + r.Key
			have, _ := rows[name].(pistore.Register)
			switch {
			case name == "lane.leaf/main":
				have.Value = leaf
			case r.Namespace == registers.LaneStateNS:
				have.Value = registers.EncodeLaneState(registers.LaneState{})
			}
			want = have
		}
		if diff := cmp.Diff(want, row); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	entries, cells, usage := contentOf(t, fork)
	if got := slices.Sorted(maps.Keys(entries)); !slices.Equal(got, ids) || usage != 0 {
		t.Errorf("entries %v, %d usage rows", got, usage)
	}
	got, want := slices.Sorted(maps.Keys(cells)), slices.Sorted(slices.Values(addresses))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registers (-want +got)\n%s", diff)
	}
}

func TestForkRefusals(t *testing.T) {
	b := newBackend(t)
	forkable(t, b)
	src := opened(t, b, "s")
	fault := &pistore.CorruptError{Backend: "x", Problem: "y"}
	for name, test := range map[string]struct {
		src  pistore.Storage
		o    session.ForkOptions
		want error
	}{
		"no id":                {src, session.ForkOptions{}, pistore.ErrInvalid},
		"at and before":        {src, session.ForkOptions{ID: "f", At: "a", Before: "b"}, pistore.ErrInvalid},
		"the tree at an entry": {src, session.ForkOptions{ID: "f", At: "a", Tree: true}, pistore.ErrInvalid},
		"an unknown entry":     {src, session.ForkOptions{ID: "f", At: "nobody"}, pistore.ErrNotFound},
		"before unknown":       {src, session.ForkOptions{ID: "f", Before: "u"}, pistore.ErrNotFound},
		"its own id":           {src, session.ForkOptions{ID: "s"}, pistore.ErrDuplicateID},
		"a damaged source":     {broken{src, fault, 99}, session.ForkOptions{ID: "f"}, fault},
		"a torn source":        {broken{src, nil, 5}, session.ForkOptions{ID: "f"}, errTorn},
	} {
		if _, err := session.Fork(t.Context(), test.src, b, test.o); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if ids := sessionIDs(t, b); len(ids) != 1 {
			t.Errorf("%s leaves %v", name, ids)
		}
	}
}

// TestForkBesideWriter forks a session that grows: what a fork has is of one
// moment, in which the label named the leaf of main.
func TestForkBesideWriter(t *testing.T) {
	onEach(t, func(t *testing.T, open func(*testing.T) pistore.Backend) {
		b, to := open(t), newBackend(t)
		s, err := b.Create(t.Context(), pistore.Info{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		parent, stop, ended := pistore.ID(""), make(chan struct{}), make(chan error, 1)
		started := make(chan struct{})
		go func() {
			for n := range 2000 { // enough for the forks, and bounded for a fast engine
				id := pistore.ID(pistore.UUIDv7(pistore.UnixMS(n), make([]byte, 10)))
				writes := []pistore.Write{
					said(id, parent, "x"), cell(registers.LaneLeafNS, "main", registers.EncodeLaneLeaf(id)),
					cell(registers.LaneStateNS, "main", registers.EncodeLaneState(registers.LaneState{})),
					cell(registers.FactNameNS, "", pistore.QuoteJSON(string(id))),
				}
				if _, err := s.Commit(t.Context(), pistore.Tx{Writes: writes}); err != nil {
					ended <- err
					return
				}
				if parent = id; n == 0 {
					close(started)
				}
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
			}
			ended <- nil
		}()
		<-started
		for n := range 8 {
			id := pistore.SessionID(rune('a' + n))
			if _, err := session.Fork(t.Context(), s, to, session.ForkOptions{ID: id, Tree: n%2 == 1}); err != nil {
				t.Fatal(err)
			}
			_, cells, _ := contentOf(t, opened(t, to, id))
			if cells["lane.leaf/main"] != cells["fact.name/"] {
				t.Errorf("main stands on %s where the newest entry was %s", cells["lane.leaf/main"], cells["fact.name/"])
			}
			sound(t, to, id)
		}
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
