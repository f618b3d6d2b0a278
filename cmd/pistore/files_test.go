package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/memstore"
	"pistore/session"
	"pistore/verify"
)

// sessionsDir holds session files and, in manifest.json, what the two real
// programs made of each.
const sessionsDir = "../../jsonl/testdata/sessions"

// oracle is the record of one file.
type oracle struct {
	Path          string
	PiCodingAgent struct {
		CountsByType map[string]int64
		LeafID       string
		Name         *string
		Labels       map[string]string
		Context      struct {
			Messages []struct{ Role, Source, TextSha256 string }
		}
		Stats struct {
			Tokens struct{ Input, Output, CacheRead, CacheWrite float64 }
			Cost   float64
		}
		CostByModel [][3]any
	}
	PiAgentCore struct {
		Open          string
		MainTip       *string
		Labels        map[string]string
		LabelCount    int
		Stats         struct{ Usage struct{ TotalTokens float64 } }
		BranchContext map[string]struct{ Roles, TextSha256 []string }
	}
}

func oracles(t *testing.T, dirs ...string) []oracle {
	t.Helper()
	var manifest struct{ Files []oracle }
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(sessionsDir, "manifest.json"))), &manifest); err != nil {
		t.Fatal(err)
	}
	found := slices.DeleteFunc(manifest.Files, func(o oracle) bool { return !slices.Contains(dirs, filepath.Dir(o.Path)) })
	if len(found) == 0 {
		t.Fatal("no files")
	}
	return found
}

// difference is a place where a projected context is not that of its oracle.
type difference struct {
	reason  string
	without []int          // messages of the oracle's context that ours leaves out
	with    map[int]string // messages of ours, as role and source, that it does not have
}

// differencesOf reads the table of differences where it stands, beside the tests
// of package jsonl, so that there is one only.
func differencesOf(t *testing.T) map[string]difference {
	t.Helper()
	file := must[*ast.File](t)(parser.ParseFile(token.NewFileSet(), "../../jsonl/fixtures_test.go", nil, 0))
	text := func(e ast.Expr) string { return must[string](t)(strconv.Unquote(e.(*ast.BasicLit).Value)) }
	number := func(e ast.Expr) int { return must[int](t)(strconv.Atoi(e.(*ast.BasicLit).Value)) }
	table := map[string]difference{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "differences" {
			return true
		}
		for _, row := range spec.Values[0].(*ast.CompositeLit).Elts {
			row := row.(*ast.KeyValueExpr)
			d := difference{with: map[int]string{}}
			for _, field := range row.Value.(*ast.CompositeLit).Elts {
				field := field.(*ast.KeyValueExpr)
				switch field.Key.(*ast.Ident).Name {
				case "reason":
					d.reason = text(field.Value)
				case "without":
					for _, e := range field.Value.(*ast.CompositeLit).Elts {
						d.without = append(d.without, number(e))
					}
				case "with":
					for _, e := range field.Value.(*ast.CompositeLit).Elts {
						e := e.(*ast.KeyValueExpr)
						d.with[number(e.Key)] = text(e.Value)
					}
				}
			}
			table[text(row.Key)] = d
		}
		return false
	})
	if len(table) < 5 {
		t.Fatalf("%d differences", len(table))
	}
	return table
}

// ran runs the program in this process and returns its exit code and output.
func ran(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	out := must[*os.File](t)(os.Create(filepath.Join(dir, "out")))
	errs := must[*os.File](t)(os.Create(filepath.Join(dir, "err")))
	code = run(t.Context(), args, out, errs)
	if err := errors.Join(out.Close(), errs.Close()); err != nil {
		t.Fatal(err)
	}
	return code, string(must[[]byte](t)(os.ReadFile(out.Name()))), string(must[[]byte](t)(os.ReadFile(errs.Name())))
}

// jsonOf runs a command that ends well and prints JSON.
func jsonOf[T any](t *testing.T, args ...string) T {
	t.Helper()
	var v T
	code, stdout, stderr := ran(t, args...)
	if code != exitFine {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stdout)
	}
	return v
}

// inspection is what the tests look at of the JSON of inspect.
type inspection struct {
	Format  string
	Session struct{ ID, Name string }
	Lanes   []struct{ Name, LegacyLeafID string }
	Facts   struct {
		Labels []struct{ EntryID, Label string }
	}
	Usage struct {
		Input, Output, CacheRead, CacheWrite, TotalTokens float64
		Cost                                              struct{ Total float64 }
		ByModel                                           []struct {
			Provider, ModelID string
			Cost              struct{ Total float64 }
		}
	}
	Legacy struct {
		Version       int
		RecordsByType map[string]int64
		LeafID        string
	}
	Faults []struct {
		Severity, Kind string
		Line           int64
		Offset         *int64
	}
	Tree []struct{ ID, LegacyID string }
}

func TestFilesAgreeWithTheRealPrograms(t *testing.T) {
	differences := differencesOf(t)
	files := oracles(t, "v1", "v2", "v3")
	for _, o := range files {
		t.Run(o.Path, func(t *testing.T) {
			path := filepath.Join(sessionsDir, o.Path)
			v := jsonOf[inspection](t, "inspect", path, "--json", "--entries")
			checkRecords(t, o, v)
			checkUsage(t, o, v)
			checkContext(t, o, path, differences[o.Path])
		})
	}
	if len(files) != 40 {
		t.Errorf("%d files", len(files))
	}
}

func checkRecords(t *testing.T, o oracle, v inspection) {
	t.Helper()
	if want := "jsonl-" + o.Path[1:2]; v.Format != want || v.Legacy.Version != int(o.Path[1]-'0') {
		t.Errorf("format %s, version %d", v.Format, v.Legacy.Version)
	}
	if diff := cmp.Diff(o.PiCodingAgent.CountsByType, v.Legacy.RecordsByType); diff != "" {
		t.Errorf("records by type: %s", diff)
	}
	if v.Legacy.LeafID != o.PiCodingAgent.LeafID {
		t.Errorf("leaf %q instead of %q", v.Legacy.LeafID, o.PiCodingAgent.LeafID)
	}
	if tip := o.PiAgentCore.MainTip; o.PiAgentCore.Open == "ok" && tip != nil && v.Lanes[0].LegacyLeafID != *tip {
		t.Errorf("resolved leaf %q instead of %q", v.Lanes[0].LegacyLeafID, *tip)
	}
	if name := o.PiCodingAgent.Name; name != nil && v.Session.Name != *name || name == nil && v.Session.Name != "" {
		t.Errorf("name %q", v.Session.Name)
	}
	legacy, labels := map[string]string{}, map[string]string{}
	for _, e := range v.Tree {
		legacy[e.ID] = e.LegacyID
	}
	retained := slices.Collect(maps.Values(legacy))
	for _, l := range v.Facts.Labels {
		labels[legacy[l.EntryID]] = l.Label
	}
	want := map[string]string{}
	for target, label := range o.PiCodingAgent.Labels {
		if slices.Contains(retained, target) {
			want[target] = label
		}
	}
	switch {
	case o.PiAgentCore.Labels != nil:
		want = o.PiAgentCore.Labels // those on discarded records are moved
	case o.PiCodingAgent.Labels == nil: // too many for the manifest
		if len(labels) != o.PiAgentCore.LabelCount {
			t.Errorf("%d labels instead of %d", len(labels), o.PiAgentCore.LabelCount)
		}
		return
	}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
}

// checkUsage compares totals, which the real programs add up as binary doubles.
func checkUsage(t *testing.T, o oracle, v inspection) {
	t.Helper()
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s %v instead of %v", what, got, want)
		}
	}
	s := o.PiCodingAgent.Stats
	same("input", v.Usage.Input, s.Tokens.Input)
	same("output", v.Usage.Output, s.Tokens.Output)
	same("cacheRead", v.Usage.CacheRead, s.Tokens.CacheRead)
	same("cacheWrite", v.Usage.CacheWrite, s.Tokens.CacheWrite)
	same("cost", v.Usage.Cost.Total, s.Cost)
	if o.PiAgentCore.Open == "ok" {
		same("totalTokens", v.Usage.TotalTokens, o.PiAgentCore.Stats.Usage.TotalTokens)
	}
	cost := map[string]float64{}
	for _, m := range v.Usage.ByModel {
		name := m.Provider + "/" + m.ModelID
		if m.ModelID == "" {
			name = "Tools/summaries"
		}
		cost[name] = m.Cost.Total
	}
	if len(cost) != len(o.PiCodingAgent.CostByModel) {
		t.Errorf("models %v instead of %v", cost, o.PiCodingAgent.CostByModel)
	}
	for _, m := range o.PiCodingAgent.CostByModel {
		same("cost of "+m[0].(string), cost[m[0].(string)], m[2].(float64))
	}
}

// checkContext compares roles and texts with agent core where it opened the
// file, else with the coding agent, and sources with the latter, the only one
// that tells them.
func checkContext(t *testing.T, o oracle, path string, d difference) {
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
	for _, i := range slices.Backward(d.without) {
		want = slices.Delete(want, i, i+1)
	}
	var got []string
	for i, m := range contextIn(t, path) {
		if with, ok := d.with[i]; ok {
			if m.where != with {
				t.Errorf("message %d is %q instead of %q: %s", i, m.where, with, d.reason)
			}
			continue
		}
		if !sources[m.where+" "+m.hash] {
			t.Errorf("message %d, %q, has another source", i, m.where)
		}
		role, _, _ := strings.Cut(m.where, " ")
		got = append(got, role+" "+m.hash)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("context: %s", diff)
	}
}

// contextIn reads the projected context by the command: role and source of each
// message, and the hash of its text.
func contextIn(t *testing.T, path string) (messages []struct{ where, hash string }) {
	t.Helper()
	c := jsonOf[struct {
		Messages []struct {
			Role, LegacySource string
			Synthetic          bool
			Message            json.RawMessage
		}
	}](t, "inspect", path, "--context", "main", "--json")
	for _, m := range c.Messages {
		where := m.Role + " " + m.LegacySource
		if m.Synthetic {
			where += " synthetic"
		}
		messages = append(messages, struct{ where, hash string }{where, textHash(t, m.Message)})
	}
	return messages
}

// TestFilesConvert converts every sound file and holds the copy against it: all
// into one open database, and one of each format by the command.
func TestFilesConvert(t *testing.T) {
	ctx := t.Context()
	db := must[*logstore.Store](t)(logstore.Open(filepath.Join(t.TempDir(), "all"), logstore.Options{}))
	copied := map[pistore.SessionID]string{} // session ids that are there already
	commanded := map[string]bool{}
	for _, o := range oracles(t, "v1", "v2", "v3") {
		path := filepath.Join(t.TempDir(), filepath.Base(o.Path))
		text := must[[]byte](t)(os.ReadFile(filepath.Join(sessionsDir, o.Path)))
		if err := os.WriteFile(path, text, 0o444); err != nil {
			t.Fatal(err)
		}
		before := listing(t, filepath.Dir(path))
		file := must[*jsonl.File](t)(jsonl.OpenFile(ctx, path, pistore.ReadOnly, jsonl.Options{}))
		again := must[*jsonl.File](t)(jsonl.OpenFile(ctx, path, pistore.ReadOnly, jsonl.Options{}))
		digest := must[string](t)(pistore.Digest(ctx, file))
		if d := must[string](t)(pistore.Digest(ctx, again)); d != digest {
			t.Errorf("%s: digests %s and %s", o.Path, digest, d)
		}
		if dir := filepath.Dir(o.Path); !commanded[dir] {
			commanded[dir] = true
			checkConvertCommand(t, path, digest)
		}
		id, dst := file.Info().ID, pistore.Backend(db)
		if twin, there := copied[id]; there { // another file of the same session
			if _, err := session.Convert(ctx, file, db, session.ConvertOptions{}); !errors.Is(err, pistore.ErrDuplicateID) {
				t.Errorf("%s after %s: %v", o.Path, twin, err)
			}
			dst = memstore.New(memstore.Options{})
		}
		made, err := session.Convert(ctx, file, dst, session.ConvertOptions{})
		if err != nil || made.Digest != digest || made.Info.ID != id {
			t.Errorf("%s: %+v, %v", o.Path, made, err)
		}
		copied[id] = o.Path
		s := must[pistore.Storage](t)(dst.Open(ctx, id, pistore.ReadOnly))
		if got := must[string](t)(pistore.Digest(ctx, s)); got != digest {
			t.Errorf("%s: the copy has the digest %s instead of %s", path, got, digest)
		}
		if r := must[verify.Report](t)(verify.Check(ctx, s, verify.Options{Deep: true})); len(r.Faults) > 0 {
			t.Errorf("%s: %v", path, r.Faults)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if after := listing(t, filepath.Dir(path)); after != before || !bytes.Equal(text, must[[]byte](t)(os.ReadFile(path))) {
			t.Errorf("%s changed", o.Path)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if len(commanded) != 3 || len(copied) < 25 {
		t.Errorf("%d formats, %d sessions", len(commanded), len(copied))
	}
}

func checkConvertCommand(t *testing.T, path, digest string) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "store")
	if r := jsonOf[convertReport](t, "convert", path, dst, "--json"); r.Digest != digest {
		t.Errorf("%s: digest %s instead of %s", path, r.Digest, digest)
	}
	if v := jsonOf[verifyReport](t, "verify", dst, "--json", "--deep"); !v.OK || len(v.Faults) > 0 {
		t.Errorf("%s: %v", path, v.Faults)
	}
}
