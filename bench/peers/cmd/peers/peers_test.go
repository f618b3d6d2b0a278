package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistore/bench/peers"
	"pistore/bench/peers/page"
	"pistore/bench/peers/rows"
)

func TestMain(m *testing.M) {
	if os.Getenv(childStore) != "" || os.Getenv(sideOrders) != "" { // a run has started this program again
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// possible are the rows that can be measured here. Without Node there are fewer,
// and the others are skipped.
func possible(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range rows.Names() {
		err := request{rows: []string{name}, dir: t.TempDir(), node: defaultNode(t)}.ready()
		if err == nil {
			names = append(names, name)
			continue
		}
		t.Run("row "+name, func(t *testing.T) { t.Skip(err) })
	}
	return names
}

func defaultNode(t *testing.T) string {
	t.Helper()
	folder, err := peers.DefaultNode()
	if err != nil {
		t.Skip(err)
	}
	return folder
}

// The command measures every row, each table of it with all sides and checks, and
// writes the page; a row that was interrupted is measured when the run goes on,
// and nothing else.
func TestPageOfQuickRows(t *testing.T) {
	dir := t.TempDir()
	names := possible(t)
	args := []string{"page", "--quick", "--dir", dir}
	for _, name := range names {
		args = append(args, "--row", name)
	}
	if err := run(t.Context(), args, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
	out := filepath.Join(dir, "peers-quick")
	results, err := kept(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(names) {
		t.Errorf("%d results of %d rows", len(results), len(names))
	}
	for _, r := range results {
		row, _ := rows.Find(r.Row)
		for _, table := range row.In(rows.Quick).Tables {
			m, ok := r.Of(table)
			if !ok || m.Failed != "" {
				t.Errorf("row %s, %s: %v, %s", r.Row, table.Name, ok, m.Failed)
				continue
			}
			for _, c := range table.Checks {
				if v, ok := m.Judge(c); !ok || len(v.Pairs) != 1 {
					t.Errorf("row %s, %s: %v of %+v", r.Row, table.Name, v, c)
				}
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "BENCHMARKS.md"))
	if err != nil || !bytes.Contains(text, []byte("figures say nothing")) {
		t.Errorf("the page: %v", err)
	}
	goesOn(t, out, append(args, "--continue"), results)
}

// goesOn takes a row away and holds that the run goes on with it alone.
func goesOn(t *testing.T, out string, args []string, before []rows.Result) {
	t.Helper()
	gone := filepath.Join(out, filepath.FromSlash(resultsFolder), fileOf("13", rows.Quick))
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	var progress strings.Builder
	if err := run(t.Context(), args, io.Discard, &progress); err != nil {
		t.Error(err)
	}
	if !strings.Contains(progress.String(), "1 rows") {
		t.Errorf("it says\n%s", &progress)
	}
	after, err := kept(out)
	if err != nil || len(after) != len(before) {
		t.Fatal(len(after), err)
	}
	for i, r := range after {
		if r.Run != before[i].Run || (r.Row != "13" && !r.Measured.Equal(before[i].Measured)) {
			t.Errorf("row %s is of run %s, measured %v", r.Row, r.Run, r.Measured)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 1 {
		t.Errorf("beside the page there is %v, %v", entries, err)
	}
}

// The page and the charts in the repository are what the results in it render to.
func TestPageIsOfItsResults(t *testing.T) {
	repository := filepath.Join("..", "..", "..", "..")
	results, err := kept(repository)
	if err != nil {
		t.Fatal(err)
	}
	var charts []string
	for _, f := range page.Render(results) {
		text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(f.Path)))
		if err != nil || !bytes.Equal(text, f.Text) {
			t.Errorf("%s is stale (%v): run `go run ./cmd/peers page --render` in bench/peers", f.Path, err)
		}
		charts = append(charts, filepath.Base(f.Path))
	}
	there, err := filepath.Glob(filepath.Join(repository, "docs", "benchmarks", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if !slices.Contains(charts, filepath.Base(path)) {
			t.Errorf("%s is of no row", path)
		}
	}
	for _, r := range results {
		if missing := page.MissingReason(r); missing {
			t.Errorf("row %s is not reached, and page/reasons.go does not say why", r.Row)
		}
	}
}

// What is wrong with a command line is said before anything is measured.
func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"--row", "16"}, {"--row", "x"}, {"measure"}, {"install", "--row", "1"}, {"page", "--quick", "--gib"}, {"page", "--render", "--row", "1"},
		{"--gib", "--row", "9"}, {"page", "--json"}, {"--dir", "nowhere"}, {"--row", "1", "--row", "6", "--node", t.TempDir()}, {"page", "--row", "1"},
		{"page", "--quick", "--continue", "--dir", t.TempDir()},
	} {
		var progress strings.Builder
		if err := run(t.Context(), args, io.Discard, &progress); err == nil || progress.Len() > 0 {
			t.Errorf("%q: %v, and before it %q", args, err, &progress)
		}
	}
}

// A side that fails is told, without the folder that it worked in; the rows after
// it are measured.
func TestFailureIsAResult(t *testing.T) {
	dir := t.TempDir()
	q := request{dir: dir, form: rows.Quick, node: t.TempDir(), rows: []string{"6", "9", "13"}}
	var got []rows.Result
	err := q.measureAll(t.Context(), io.Discard, func(r rows.Result) error { got = append(got, r); return nil })
	if !errors.Is(err, errNotAll) || len(got) != 3 {
		t.Fatalf("%v with %d results", err, len(got))
	}
	m := got[0].Tables[0] // of which jsonl needs a program that was not built, and the other side Node
	if m.Failed == "" || strings.Contains(m.Failed, dir) || m.Rounds() != 0 {
		t.Errorf("row 6: %+v", m)
	}
	m = got[1].Tables[0] // which has all sides but Node's
	if row, _ := rows.Find("9"); m.Failed == "" || len(m.Sides[0].Reports) != 1 || len(m.Sides[3].Reports) != 0 || m.Sides[3].Label != row.Tables[0].Sides[3].Label {
		t.Errorf("row 9: %+v", m)
	}
	if m = got[2].Tables[0]; m.Failed != "" || len(m.Sides[0].Reports) != 1 {
		t.Errorf("row 13: %+v", m)
	}
}
