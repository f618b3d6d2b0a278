package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oracle4 is what the real program makes of a file of format 4.
type oracle4 struct {
	Path        string
	PiAgentCore struct {
		Metadata      struct{ ID string }
		CountsByType  map[string]int64
		Branches      map[string]*string
		Name          *string
		Labels        map[string]string
		ValueCounts   map[string]int64
		Stats         struct{ Usage totals4 }
		UsageRowCount int64
		BranchContext map[string]context4
	}
}

type context4 struct {
	Roles, TextSha256 []string // absent where there are too many for the manifest
	MessageCount      int
}

type totals4 struct {
	Input, Output, CacheRead, CacheWrite, TotalTokens float64
	Cost                                              struct{ Total float64 }
}

// inspection4 is what the tests look at of inspect for format 4.
type inspection4 struct {
	Format  string
	Session struct{ ID, Name string }
	Entries struct {
		ByType map[string]int64
	}
	Lanes []struct {
		Name, LeafID string
		Operation    any
	}
	Facts struct {
		Labels []struct{ EntryID, Label string }
	}
	Usage struct {
		Rows int64
		totals4
	}
	Size    struct{ Bytes, LiveBytes, DeadBytes, TornBytes *int64 }
	Legacy  any
	LeftOut map[string]int64
	Faults  []struct{ Severity, Kind string }
}

// TestFormat4OfOthers holds what the commands say about files of another
// program against what that program says.
func TestFormat4OfOthers(t *testing.T) {
	var manifest struct{ Files []oracle4 }
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(sessionsDir, "manifest.json"))), &manifest); err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, o := range manifest.Files {
		if filepath.Dir(o.Path) != "v4" {
			continue
		}
		files++
		t.Run(filepath.Base(o.Path), func(t *testing.T) {
			path := filepath.Join(sessionsDir, o.Path)
			v := jsonOf[inspection4](t, "inspect", path, "--json")
			checkFormat4(t, o, v)
			for name, want := range o.PiAgentCore.BranchContext {
				checkContext4(t, path, name, want)
			}
			for _, args := range [][]string{{"verify", path}, {"show", path}, {"usage", path}, {"inspect", path, "--tree", "--registers"}} {
				if code, stdout, stderr := ran(t, args...); code != exitFine || stdout == "" || stderr != "" {
					t.Errorf("%v: exit code %d: %s", args, code, stderr)
				}
			}
		})
	}
	if files != 31 {
		t.Errorf("%d files", files)
	}
}

func checkFormat4(t *testing.T, o oracle4, v inspection4) {
	t.Helper()
	core := o.PiAgentCore
	if v.Session.ID != core.Metadata.ID || !strings.HasPrefix(v.Format, "jsonl-4") || v.Legacy != nil {
		t.Errorf("session %s of format %s, %v", v.Session.ID, v.Format, v.Legacy)
	}
	if core.Name == nil && v.Session.Name != "" || core.Name != nil && v.Session.Name != *core.Name {
		t.Errorf("name %q", v.Session.Name)
	}
	for kind, n := range v.Entries.ByType {
		if n != core.CountsByType[kind] {
			t.Errorf("%d entries of type %s instead of %d", n, kind, core.CountsByType[kind])
		}
	}
	lanes, labels := map[string]string{}, map[string]string{}
	for _, l := range v.Lanes {
		lanes[l.Name] = l.LeafID
		if l.Operation != nil {
			t.Errorf("lane %s has an operation", l.Name)
		}
	}
	for _, l := range v.Facts.Labels {
		labels[l.EntryID] = l.Label
	}
	want := map[string]string{}
	for name, tip := range core.Branches {
		if want[name] = ""; tip != nil {
			want[name] = *tip
		}
	}
	if diff := cmp.Diff(want, lanes); diff != "" {
		t.Errorf("lanes: %s", diff)
	}
	if diff := cmp.Diff(core.Labels, labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	if v.Usage.Rows != core.UsageRowCount || v.Usage.TotalTokens != core.Stats.Usage.TotalTokens {
		t.Errorf("usage %+v", v.Usage)
	}
	checkUsage4(t, core.Stats.Usage, v.Usage.totals4)
	leftOut := map[string]int64{}
	for name, n := range core.ValueCounts {
		if strings.HasPrefix(name, "pi.op.") || strings.HasPrefix(name, "pi.pending.") || name == "pi.result" {
			leftOut[name] = n
		}
	}
	for name, n := range leftOut {
		if v.LeftOut[name] != n {
			t.Errorf("%d registers of %s are left out instead of %d", v.LeftOut[name], name, n)
		}
	}
	warnings := 0
	for _, f := range v.Faults {
		if f.Severity != "warning" || f.Kind != "left-out" {
			t.Errorf("fault %v", f)
		}
		warnings++
	}
	if warnings != len(v.LeftOut) {
		t.Errorf("%d warnings about %v", warnings, v.LeftOut)
	}
}

// checkUsage4 compares totals, which the real program adds up as binary doubles.
func checkUsage4(t *testing.T, want, got totals4) {
	t.Helper()
	for name, pair := range map[string][2]float64{
		"input": {want.Input, got.Input}, "output": {want.Output, got.Output}, "cacheRead": {want.CacheRead, got.CacheRead},
		"cacheWrite": {want.CacheWrite, got.CacheWrite}, "cost": {want.Cost.Total, got.Cost.Total},
	} {
		if diff := pair[0] - pair[1]; diff > 1e-9*pair[0] || -diff > 1e-9*pair[0] {
			t.Errorf("%s %v instead of %v", name, pair[1], pair[0])
		}
	}
}

// checkContext4 compares a context. Two things are other here, as in files of
// formats 1 to 3: a call without a result gets one that stands in for it, and a
// result without a call is left out.
func checkContext4(t *testing.T, path, lane string, o context4) {
	t.Helper()
	c := jsonOf[struct {
		Messages []struct {
			Role      string
			Synthetic bool
			Message   json.RawMessage
		}
	}](t, "inspect", path, "--context", lane, "--json")
	var want, got []string
	for i, role := range o.Roles {
		want = append(want, role+" "+o.TextSha256[i])
	}
	for _, m := range c.Messages {
		if !m.Synthetic {
			got = append(got, m.Role+" "+textHash(t, m.Message))
		}
	}
	if filepath.Base(path) == "session-entry-types.jsonl" {
		want = slices.Delete(want, 5, 6) // the result of a call that nobody made
		o.MessageCount--
	}
	if len(got) != o.MessageCount || want != nil && !slices.Equal(want, got) {
		t.Errorf("context of %s: %s", lane, cmp.Diff(want, got))
	}
}

// TestFormat4OfOurs looks at a session that was written here, torn at its end.
func TestFormat4OfOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s1.jsonl")
	if err := makeFile(path, "worn"); err != nil {
		t.Fatal(err)
	}
	text := must[[]byte](t)(os.ReadFile(path))
	whole := int64(len(text))
	if err := os.WriteFile(path, append(text, `{"kind":"register"`...), 0o600); err != nil {
		t.Fatal(err)
	}
	v := jsonOf[inspection4](t, "inspect", path, "--json")
	if v.Format != "jsonl-4" || v.Session.Name != "Fix TestOpen" || v.Lanes[0].Operation == nil || v.Legacy != nil || v.LeftOut != nil {
		t.Errorf("%+v", v)
	}
	s := v.Size
	if *s.TornBytes != 18 || *s.DeadBytes <= 0 || *s.LiveBytes+*s.DeadBytes != whole || *s.Bytes != whole+18 {
		t.Errorf("%d bytes, %d live, %d dead, %d torn", *s.Bytes, *s.LiveBytes, *s.DeadBytes, *s.TornBytes)
	}
	_, words, _ := ran(t, "inspect", path)
	for _, want := range []string{"stored   jsonl-4, storage version 1, ", " are dead and 18\n           bytes at the end are torn\n", "run: tools — call 2 of 3 started (bash, replay never)"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is missing in\n%s", want, words)
		}
	}
	checked := jsonOf[verifyReport](t, "verify", path, "--json", "--deep")
	if !checked.OK || *checked.Checked.Transactions != 216 || *checked.TornBytes != 18 {
		t.Errorf("%+v", checked)
	}
}
