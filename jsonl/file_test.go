package jsonl

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/memstore"
	"pistore/verify"
)

func TestIDsAreDerived(t *testing.T) {
	derived := func(ms int64, session, legacy string) pistore.ID {
		sum := sha256.Sum256([]byte("pistore-import-1" + session + "\x00" + legacy))
		return pistore.UUIDv7(pistore.UnixMS(ms), sum[:10])
	}
	text := v3(
		`{'type':'message','id':'a','parentId':null,'timestamp':'2026-01-01T00:00:05.123+01:00','message':{'role':'assistant','usage':{'input':1}}}`,
		`{'type':'label','id':'l','parentId':'a','timestamp':1767225607000,'targetId':'a'}`,
		`{'type':'custom','id':'b','parentId':'l','timestamp':'never','customType':'c'}`,
		`{'type':'custom','id':'a','parentId':'b','timestamp':-1,'customType':'c'}`,
		`{'type':'custom','id':'c','parentId':null,'customType':'c'}`,
		`{'type':'custom','id':'v3-import','parentId':null,@,'customType':'c'}`,
	)
	f, _ := importText(t, text)
	const header, third = 1767225600000, 1767225607000
	want := []pistore.ID{
		derived(1767222005123, "s", "a"), derived(third, "s", "b"), derived(third, "s", "a#2"), derived(header, "s", "c"),
		derived(1767225601000, "s", "v3-import"),
	}
	var got []pistore.ID
	for e := range f.ScanEntries(t.Context(), pistore.ScanQuery{}) {
		got = append(got, e.ID)
		if at, ok := e.ID.Time(); !ok || at != e.Timestamp {
			t.Errorf("entry %s at %d", e.ID, e.Timestamp)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("ids %v instead of %v", got, want)
	}
	for u := range f.ScanUsage(t.Context(), pistore.ScanQuery{}) {
		if want := derived(1767225601000, "s", "v3-import#2"); u.ID != want {
			t.Errorf("adjustment %s instead of %s", u.ID, want)
		}
	}

	// Without a header id the start of the file stands in for it, so that ids stay
	// when the file grows.
	text = strings.Replace(text, `"id":"s",`, "", 1) + `{"type":"custom","id":"pad","parentId":null,"customType":"c","data":"` + strings.Repeat("x", 5000) + `"}` + "\n"
	sum := sha256.Sum256([]byte(text[:4096]))
	for _, longer := range []string{text, text + `{"type":"custom","id":"z","parentId":"a","customType":"c"}` + "\n"} {
		f, _ := importText(t, longer)
		id := hex.EncodeToString(sum[:])
		if string(f.Info().ID) != id {
			t.Errorf("session %s instead of %s", f.Info().ID, id)
		}
		if found, err := f.Entries(t.Context(), []pistore.ID{derived(1767222005123, id, "a")}); err != nil || len(found) != 1 {
			t.Errorf("the first entry has another id: %v", err)
		}
	}
}

func TestReportOfSettings(t *testing.T) {
	change := func(id, parent, rest string) string {
		return `{'type':'` + rest + `,'id':'` + id + `','parentId':` + parent + `,@}`
	}
	lines := []string{
		change("m", "null", `model_change','provider':'p','modelId':'x'`),
		change("t", "'m'", `thinking_level_change','thinkingLevel':'low'`),
		change("u", "'t'", `active_tools_change','activeToolNames':['r','w']`),
		change("n", "'u'", `model_change','provider':'p','modelId':'y'`),
		userLine("a", "n"),
		change("o", "'a'", `model_change','provider':'other','modelId':'z'`),
		userLine("b", "a"),
	}
	_, r := importText(t, v3(lines...))
	if r.Model == nil || *r.Model != (Model{"p", "y"}) || r.ThinkingLevel != "low" || !slices.Equal(r.ActiveTools, []string{"r", "w"}) {
		t.Errorf("%+v %q %v", r.Model, r.ThinkingLevel, r.ActiveTools)
	}
	_, r = importText(t, v3(append(lines, change("q", "'b'", `model_change','provider':7`))...))
	if r.Model != nil {
		t.Errorf("an older model %+v where the nearest cannot be read", r.Model)
	}
}

func TestLeaf(t *testing.T) {
	base := []string{`{'type':'message','id':'a','parentId':null,@,'message':{'role':'user'}}`, userLine("b", "a"), userLine("c", "b"), userLine("x", "a")}
	label := func(parent string) string {
		return `{'type':'label','id':'l','parentId':'` + parent + `',@,'targetId':'a','label':'L'}`
	}
	for _, tt := range []struct {
		last, leaf, resolved, longer string
	}{
		{label("a"), "l", "a", "c"},
		{label("x"), "l", "x", ""},
		{label("b"), "l", "b", "c"},
		{userLine("d", "a"), "d", "d", ""},
		{`{'type':'custom','id':'d','parentId':'a',@,'customType':'c'}`, "d", "d", ""},
		{`{'type':'session_info','id':'d','parentId':null,@}`, "d", "", ""},
	} {
		f, r := importText(t, v3(append(base[:4:4], tt.last)...))
		longer := ""
		if r.LongerBranch != nil {
			longer = r.LongerBranch.LegacyTipID
		}
		if r.LeafID != tt.leaf || r.LegacyLeafID != tt.resolved || longer != tt.longer || (longer != "") != (r.Warnings == 1) {
			t.Errorf("%s: leaf %q, %q, longer %q, faults %v", tt.last, r.LeafID, r.LegacyLeafID, longer, r.Faults)
		}
		if resolved := tt.resolved; resolved == "" {
			if all := rows(t, f); !slices.Contains(all, "lane.leaf/main = null") {
				t.Errorf("rows %v", all)
			}
		}
	}
}

func TestParentSession(t *testing.T) {
	dir := t.TempDir()
	parent := filepath.Join(dir, "parent.jsonl")
	write(t, parent, v3())
	child := func(path string) pistore.Info {
		t.Helper()
		name := filepath.Join(dir, "child")
		write(t, name, strings.Replace(v3(), `"cwd"`, fmt.Sprintf(`"parentSession":%q,"cwd"`, path), 1))
		f, err := OpenFile(t.Context(), name, pistore.ReadOnly, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return f.Info()
	}
	if info := child(parent); info.ParentSessionID != "s" || info.LegacyParentPath != "" {
		t.Errorf("%+v", info)
	}
	if info := child("parent.jsonl"); info.ParentSessionID != "s" {
		t.Errorf("a relative path: %+v", info)
	}
	v4, err := filepath.Abs(filepath.Join(fixtures, "v4", "header-only.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if info := child(v4); info.ParentSessionID == "" || info.LegacyParentPath != "" {
		t.Errorf("a parent of format 4: %+v", info)
	}
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		if info := child(path); info.ParentSessionID != "" || info.LegacyParentPath != path {
			t.Errorf("%+v", info)
		}
	}
}

func TestHeader(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		text   string
		want   pistore.Info
		faults string
	}{
		{v3(), pistore.Info{Format: string(Pi3), ID: "s", CreatedAt: 1767225600000, CWD: "/w", LegacyParentPath: "", StorageVersion: 1}, "[]"},
		{`{"type":"session","id":"x","timestamp":"?","cwd":7,"parentSession":"/p"}` + "\n", pistore.Info{Format: string(Pi1), ID: "x", CreatedAt: 0, CWD: "", LegacyParentPath: "/p", StorageVersion: 1}, "[header-field@1 header-field@1]"},
		{`{"type":"session","version":2,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"a\u0000b","parentSession":1}` + "\n",
			pistore.Info{Format: string(Pi2), ID: "x", CreatedAt: 1767225600000, CWD: "", LegacyParentPath: "", StorageVersion: 1}, "[header-field@1 header-field@1]"},
		{`{"type":"session","version":3,"id":"a\nb","timestamp":"2026-01-01T00:00:00Z","cwd":""}` + "\n",
			pistore.Info{Format: string(Pi3), ID: "", CreatedAt: 1767225600000, CWD: "", LegacyParentPath: "", StorageVersion: 1}, "[unusable-header@1]"},
		{"\n \r\ngarbage\n" + v3(), pistore.Info{Format: string(Pi3), ID: "s", CreatedAt: 1767225600000, CWD: "/w", LegacyParentPath: "", StorageVersion: 1}, "[blank-line@1 not-an-object@3]"},
	} {
		path := filepath.Join(dir, "f")
		write(t, path, tt.text)
		got, err := ReadInfo(t.Context(), path)
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v", tt.text, got, err)
		}
		f, r := importText(t, tt.text)
		if s := fmt.Sprint(faultsOf(r)); s != tt.faults && !(tt.faults == "[]" && s == "[]") {
			t.Errorf("%s: faults %s", tt.text, s)
		}
		if info := f.Info(); info.CWD != tt.want.CWD || info.CreatedAt != tt.want.CreatedAt || info.Format != tt.want.Format {
			t.Errorf("%s: %+v", tt.text, info)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOpeningChangesNothing opens every fixture twice: the same rows, the same
// rows again when they are loaded elsewhere, no invariant broken there that the
// report does not know, and the folder as it was.
func TestOpeningChangesNothing(t *testing.T) {
	for _, dir := range []string{"v1", "v2", "v3", "v4", "broken"} {
		before := listing(t, filepath.Join(fixtures, dir))
		files, err := filepath.Glob(filepath.Join(fixtures, dir, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, path := range files {
			first, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
			if err != nil {
				continue // verdicts are checked elsewhere
			}
			second, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if digest(t, first) != digest(t, second) {
				t.Errorf("%s: two openings differ", path)
			}
			b := memstore.New(memstore.Options{})
			info, err := b.Load(t.Context(), first.Export(t.Context()))
			if err != nil {
				t.Errorf("%s: load: %v", path, err)
				continue
			}
			loaded, err := b.Open(t.Context(), info.ID, pistore.ReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			if digest(t, first) != digest(t, loaded) {
				t.Errorf("%s: what was loaded differs", path)
			}
			report, err := verify.Check(t.Context(), loaded, verify.Options{Deep: true})
			if err != nil || !report.OK() {
				t.Errorf("%s: verify: %v %v", path, report.Faults, err)
			}
			report, err = verify.Check(t.Context(), first, verify.Options{})
			if err != nil || report.Errors != first.Report().Errors {
				t.Errorf("%s: verify of the view: %v %v", path, report.Faults, err)
			}
		}
		if after := listing(t, filepath.Join(fixtures, dir)); before != after {
			t.Errorf("the folder changed:\n%s\n%s", before, after)
		}
	}
}

// listing describes a folder: names, sizes, times and contents.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %s %x\n", f.Name(), info.Size(), info.ModTime(), sha256.Sum256(text))
	}
	return b.String()
}

func TestHandle(t *testing.T) {
	f := openFixture(t, "v3/linear-chat.jsonl")
	if _, err := f.Commit(t.Context(), pistore.Tx{}); !errors.Is(err, pistore.ErrReadOnly) {
		t.Errorf("commit: %v", err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	_, commitErr := f.Commit(t.Context(), pistore.Tx{})
	_, statsErr := f.Stats(t.Context())
	_, entriesErr := f.Entries(t.Context(), nil)
	_, registersErr := f.Registers(t.Context(), nil)
	var exportErr error
	for _, err := range f.Export(t.Context()) {
		exportErr = err
	}
	for _, err := range []error{commitErr, statsErr, entriesErr, registersErr, exportErr} {
		if !errors.Is(err, pistore.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if f.Info().ID == "" || f.Report().Version != 3 {
		t.Error("Info and Report end with Close")
	}
}
