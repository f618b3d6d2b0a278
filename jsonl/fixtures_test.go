package jsonl

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

const fixtures = "testdata/sessions"

// oracle is what the two real programs made of a fixture.
type oracle struct {
	Path          string
	PiCodingAgent struct {
		Open         string
		EntryCount   int
		CountsByType map[string]int64
		LeafID       string `json:"leafId"`
		Name         *string
		Labels       map[string]string
		Context      struct {
			Messages []struct{ Role, Source, TextSha256 string }
		}
		Stats struct {
			Tokens struct{ Input, Output, CacheRead, CacheWrite, Total float64 }
			Cost   float64
		}
	}
	PiAgentCore struct {
		Open          string
		EntryCount    int
		CountsByType  map[string]int64
		MainTip       *string
		Labels        map[string]string
		LabelCount    int
		EntriesSha256 string
		Stats         struct {
			Usage struct {
				Input, Output, CacheRead, CacheWrite, TotalTokens float64
				Cost                                              struct{ Input, Output, CacheRead, CacheWrite, Total float64 }
			}
		}
		BranchContext map[string]struct {
			Roles, TextSha256 []string
		}
	}
}

func oracles(t *testing.T) []oracle {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixtures, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Files []oracle }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest.Files
}

func openFixture(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(t.Context(), filepath.Join(fixtures, path), pistore.ReadOnly, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// differences are the places where the projected context of a sound fixture is
// not that of its oracle, each with the reason.
var differences = map[string]struct {
	reason  string
	without []int          // messages of the oracle's context that ours leaves out
	with    map[int]string // messages of ours, as role and source, that it does not have
}{
	"v3/agent-session-tree.jsonl": {
		reason: "a compaction's systemMessage is kept (page 3); agent core loses it",
		with:   map[int]string{0: "system ebc94a40"},
	},
	"v3/compaction-kept.jsonl": {
		reason: "a compaction's systemMessage is kept (page 3); agent core loses it",
		with:   map[int]string{0: "system d0e26d80"},
	},
	"v3/compaction-twice.jsonl": {
		reason:  "an older compaction in the kept range gives nothing (page 3); agent core gives its summary again",
		without: []int{1},
	},
	"v3/error-stops.jsonl": {
		reason: "the last call has no result and gets a synthetic one (page 4, step 6)",
		with:   map[int]string{5: "toolResult 36002e14 synthetic"},
	},
	"v3/null-content.jsonl": {
		reason:  "a result without its call is dropped (page 4, step 6)",
		without: []int{11},
	},
}

func TestFixturesAgreeWithTheRealPrograms(t *testing.T) {
	n := 0
	for _, o := range oracles(t) {
		if dir := filepath.Dir(o.Path); dir != "v1" && dir != "v2" && dir != "v3" {
			continue
		}
		n++
		t.Run(o.Path, func(t *testing.T) {
			f := openFixture(t, o.Path)
			r := f.Report()
			if r.Errors != 0 {
				t.Errorf("errors in a sound file: %v", r.Faults)
			}
			for _, ft := range r.Faults {
				t.Logf("%s: %s", ft.Kind, ft.Error())
			}
			if diff := cmp.Diff(o.PiCodingAgent.CountsByType, r.RecordsByType); diff != "" {
				t.Errorf("records by type: %s", diff)
			}
			if r.LeafID != o.PiCodingAgent.LeafID {
				t.Errorf("leaf %q instead of %q", r.LeafID, o.PiCodingAgent.LeafID)
			}
			checkFacts(t, f, o)
			checkTree(t, f, o)
			checkTotals(t, f, o)
			checkContext(t, f, o)
		})
	}
	if n != 40 {
		t.Errorf("%d sound files", n)
	}
}

func legacyIDs(t *testing.T, f *File) map[pistore.ID]string {
	t.Helper()
	ids := map[pistore.ID]string{}
	for e, err := range f.ScanEntries(t.Context(), pistore.ScanQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids[e.ID], _ = f.LegacyID(e.ID)
	}
	return ids
}

func checkFacts(t *testing.T, f *File, o oracle) {
	t.Helper()
	s := session.New(f)
	name, _, err := s.Name(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	if o.PiCodingAgent.Name != nil {
		want = *o.PiCodingAgent.Name
	}
	if name != want {
		t.Errorf("name %q instead of %q", name, want)
	}
	if read, err := ReadName(t.Context(), filepath.Join(fixtures, o.Path)); err != nil || read != want {
		t.Errorf("ReadName: %q, %v", read, err)
	}
	labels, err := s.Labels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	legacy := legacyIDs(t, f)
	got := map[string]string{}
	for id, label := range labels {
		got[legacy[id]] = label
	}
	wantLabels := map[string]string{}
	for target, label := range o.PiCodingAgent.Labels {
		if _, retained := got[target]; retained || slices.Contains(values(legacy), target) {
			wantLabels[target] = label
		}
	}
	switch {
	case o.PiAgentCore.Labels != nil:
		wantLabels = o.PiAgentCore.Labels // those on discarded records are moved
	case o.PiCodingAgent.Labels == nil: // too many for the manifest
		if len(got) != o.PiAgentCore.LabelCount {
			t.Errorf("%d labels instead of %d", len(got), o.PiAgentCore.LabelCount)
		}
		return
	}
	if diff := cmp.Diff(wantLabels, got); diff != "" {
		t.Errorf("labels: %s", diff)
	}
}

func values[K comparable](m map[K]string) []string {
	var all []string
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// checkTree compares the entries that agent core retained, and their parents.
func checkTree(t *testing.T, f *File, o oracle) {
	t.Helper()
	if o.PiAgentCore.Open != "ok" {
		return
	}
	legacy := legacyIDs(t, f)
	got, hash := 0, sha256.New()
	for e := range f.ScanEntries(t.Context(), pistore.ScanQuery{}) {
		parent := "null"
		if e.ParentID != "" {
			parent = legacy[e.ParentID]
		}
		fmt.Fprintf(hash, "%s\t%s\t%s\n", e.Type, legacy[e.ID], parent)
		got++
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != o.PiAgentCore.EntriesSha256 {
		t.Error("the tree has other types, ids or parents, or another order")
	}
	if got != o.PiAgentCore.EntryCount {
		t.Errorf("%d entries instead of %d", got, o.PiAgentCore.EntryCount)
	}
	tip := ""
	if o.PiAgentCore.MainTip != nil {
		tip = *o.PiAgentCore.MainTip
	}
	if r := f.Report(); r.LegacyLeafID != tip {
		t.Errorf("resolved leaf %q instead of %q", r.LegacyLeafID, tip)
	}
}

func checkTotals(t *testing.T, f *File, o oracle) {
	t.Helper()
	stats, err := f.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u := stats.Usage
	same := func(what string, got pistore.Decimal, want float64) {
		t.Helper()
		n, err := strconv.ParseFloat(string(got), 64)
		if err != nil || math.Abs(n-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s %s instead of %v", what, got, want)
		}
	}
	a := o.PiCodingAgent.Stats
	same("input", u.Input, a.Tokens.Input)
	same("output", u.Output, a.Tokens.Output)
	same("cacheRead", u.CacheRead, a.Tokens.CacheRead)
	same("cacheWrite", u.CacheWrite, a.Tokens.CacheWrite)
	same("cost", u.Cost.Total, a.Cost)
	if o.PiAgentCore.Open != "ok" {
		return
	}
	c := o.PiAgentCore.Stats.Usage
	same("totalTokens", u.TotalTokens, c.TotalTokens)
	same("cost input", u.Cost.Input, c.Cost.Input)
	same("cost output", u.Cost.Output, c.Cost.Output)
	same("cost cacheRead", u.Cost.CacheRead, c.Cost.CacheRead)
	same("cost cacheWrite", u.Cost.CacheWrite, c.Cost.CacheWrite)
	same("cost total", u.Cost.Total, c.Cost.Total)
}

// projected returns the context at the leaf, each message as its role, its
// source and a hash of its text.
func projected(t *testing.T, f *File) []string {
	t.Helper()
	lane, err := session.New(f).Lane(t.Context(), registers.MainLane)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := session.ProjectBranch(t.Context(), f, lane.Leaf, nil)
	if err != nil {
		t.Fatal(err)
	}
	legacy := legacyIDs(t, f)
	var out []string
	for _, m := range messages {
		source := legacy[m.Source]
		if m.LegacySource != "" {
			source = legacy[pistore.ID(m.LegacySource)]
		}
		if m.Synthetic {
			source += " synthetic"
		}
		out = append(out, string(m.Role)+" "+source+" "+textHash(m.Message))
	}
	return out
}

// textHash is the hash that the manifest describes.
func textHash(m session.Message) string {
	text := ""
	switch m := m.(type) {
	case *session.UserMessage:
		text = session.JoinText(m.Content)
	case *session.AssistantMessage:
		text = session.JoinText(m.Content)
	case *session.ToolResultMessage:
		text = session.JoinText(m.Content)
	case *session.SystemMessage:
		text = session.JoinText(m.Content)
	case *session.CustomMessage:
		text = session.JoinText(m.Content)
	case *session.BashMessage:
		text = m.Command
	case *session.SummaryMessage:
		text = m.Summary
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// checkContext compares roles and texts with the oracle, which is agent core
// where it opened the file, and sources with the coding agent, the only one that
// tells them.
func checkContext(t *testing.T, f *File, o oracle) {
	t.Helper()
	var want []string
	sources := map[string]bool{}
	for _, m := range o.PiCodingAgent.Context.Messages {
		want = append(want, m.Role+" "+m.TextSha256)
		sources[m.Role+" "+m.Source+" "+m.TextSha256] = true
	}
	if main, ok := o.PiAgentCore.BranchContext["main"]; ok {
		want = nil
		for i, role := range main.Roles {
			want = append(want, role+" "+main.TextSha256[i])
		}
	}
	d := differences[o.Path]
	for _, i := range slices.Backward(d.without) {
		want = slices.Delete(want, i, i+1)
	}
	var got []string
	for i, m := range projected(t, f) {
		where, hash := m[:strings.LastIndexByte(m, ' ')], m[strings.LastIndexByte(m, ' '):]
		if want, ok := d.with[i]; ok {
			if where != want {
				t.Errorf("message %d is %q instead of %q: %s", i, where, want, d.reason)
			}
			continue
		}
		if !sources[m] {
			t.Errorf("message %d, %q, has another source", i, where)
		}
		role, _, _ := strings.Cut(where, " ")
		got = append(got, role+hash)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("context: %s", diff)
	}
}
