package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pistore"
)

func TestRowsAreNamed(t *testing.T) {
	id := regexp.MustCompile(`^[A-Z]{2,3}-[0-9]{2}$`)
	seen := map[string]bool{}
	covered := map[int]bool{}
	for _, r := range rows() {
		if !id.MatchString(r.id) || seen[r.id] || r.title == "" || r.advice == "" || r.check == nil {
			t.Errorf("row %q: id, title, advice and check have to be there, the id once", r.id)
		}
		seen[r.id] = true
		for _, n := range r.inv {
			covered[n] = true
		}
	}
	for _, n := range []int{1, 2, 3, 4, 10} {
		if !covered[n] {
			t.Errorf("no row covers invariant %d", n)
		}
	}
}

func TestLacksSkips(t *testing.T) {
	all := []Capability{NoReadOnly, NoOwnership, NoReopen, NoLoad, NoDelete, NoList, NoExport, NoLarge}
	cfg := inMemory()
	cfg.Transactions = 100
	cfg.Lacks = all
	report := Check(cfg)
	if !report.OK() {
		t.Fatalf("a store that lacks everything fails:\n%s", report)
	}
	for _, r := range report.Results {
		if r.Outcome == Skip && !strings.Contains(r.Why, "lack") && !strings.Contains(r.Why, "volatile") {
			t.Errorf("%s was skipped for %q", r.ID, r.Why)
		}
	}
	if report.Skipped == 0 || !strings.Contains(report.String(), "skip RO-01") {
		t.Errorf("what was skipped is not said:\n%s", report)
	}
}

// A failing program is small, and its seed finds it again.
func TestShrinkingAndReplay(t *testing.T) {
	i := slices.IndexFunc(mutants(), func(m mutant) bool { return m.name == "leaks registers of a refused transaction" })
	cfg := mutants()[i].config()
	cfg.Only = []string{"MOD-01"}
	first := Check(cfg).Results[0]
	if n := strings.Count(first.Why, "commit\n"); n < 1 || n > 2 {
		t.Errorf("the program has %d commits, want one or two:\n%s", n, first.Why)
	}
	if n := len(regexp.MustCompile(`(?m)^ {6}(entry|usage|set|delete|expect) `).FindAllString(first.Why, -1)); n > 4 {
		t.Errorf("the program has %d writes and conditions, want four at most:\n%s", n, first.Why)
	}
	if first.Replay == nil {
		t.Fatalf("nothing that replays:\n%s", first.Why)
	}
	cfg, err := cfg.replayed(first.Replay.String())
	if err != nil {
		t.Fatal(err)
	}
	if again := Check(cfg).Results[0]; again.Why != first.Why || *again.Replay != *first.Replay {
		t.Errorf("the replay fails differently:\n%s\nfirst:\n%s", again, first)
	}
}

func TestReplayVariable(t *testing.T) {
	got, err := Config{Transactions: 7}.replayed("row=MOD-02 seed=3 reopen-every=1")
	if err != nil || got.Seed != 3 || got.Transactions != 7 || got.ReopenEvery != 1 || !slices.Equal(got.Only, []string{"MOD-02"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"row=TX-99", "seed=x", "seed", "transactions=-1", "colour=red"} {
		if _, err := (Config{}).replayed(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestGenerationIsReproducibleAndPrefixStable(t *testing.T) {
	long, short := generate(7, 100), generate(7, 30)
	if got, want := short.String(), long.String(); !strings.HasPrefix(want, got) {
		t.Errorf("a shorter program is no prefix of a longer one:\n%s\n%s", got, want)
	}
}

// Generated programs are worth running only if most of them succeed and each
// refusal occurs.
func TestGeneratedMix(t *testing.T) {
	classes := map[string]int{}
	for seed := range int64(30) {
		g := generator{Rand: newRand(uint64(seed)), m: newModel()}
		for range 60 {
			s := g.step()
			may, _ := g.m.judge(s.resolve(g.m))
			class := "success"
			if len(may) > 0 {
				class = may[0].Error()
			}
			classes[class]++
			g.follow(s)
		}
	}
	for _, class := range []error{pistore.ErrInvalid, pistore.ErrTooLarge, pistore.ErrConflict, pistore.ErrDuplicateID, pistore.ErrMissingParent} {
		if classes[class.Error()] == 0 {
			t.Errorf("no transaction is refused for %v: %v", class, classes)
		}
	}
	if classes["success"] < 900 {
		t.Errorf("of 1,800 transactions only %d succeed: %v", classes["success"], classes)
	}
}

type panicking struct{ pistore.Backend }

func (panicking) Create(context.Context, pistore.Info) (pistore.Storage, error) {
	panic("out of order")
}

func TestPanicFailsTheRow(t *testing.T) {
	cfg := inMemory()
	sound := cfg.Open
	cfg.Open = func(dir string) (pistore.Backend, error) {
		b, err := sound(dir)
		return panicking{b}, err
	}
	cfg.Only = []string{"TX-01", "MOD-01"}
	cfg.Transactions = 10
	report := Check(cfg)
	if report.Failed != 2 || !strings.Contains(report.Results[0].Why, "out of order") {
		t.Errorf("a backend that panics: %s", report)
	}
}

// Of a store that hangs there is a verdict, and what it leaves undone is said.
func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cfg := inMemory()
		sound := cfg.Open
		cfg.Open = func(dir string) (pistore.Backend, error) {
			<-release
			return sound(dir)
		}
		cfg.Only = []string{"TX-01", "TX-02", "TX-03", "MOD-01"}
		report := Check(cfg)
		close(release)
		synctest.Wait()
		if report.Failed != 2 || report.Skipped != 2 || !strings.Contains(report.Results[0].Why, "Config.Open has not returned for 1m") ||
			!strings.Contains(report.Results[3].Why, "hangs in TX-01 and TX-02") {
			t.Errorf("%s", report)
		}
	})
}

// What a session with a plain id loses, too, is not lost for its id.
func TestOddIDsAreNotBlamed(t *testing.T) {
	all := mutants()
	m := all[slices.IndexFunc(all, func(m mutant) bool { return m.name == "stores a lone register only with what follows" })]
	if why := Check(m.config("BAK-05")).Results[0].Why; !strings.Contains(why, "not about ids") || strings.Contains(why, "escape") {
		t.Error(why)
	}
}

// A call that ends the goroutine is no call that succeeds.
func TestGoexitFailsTheRow(t *testing.T) {
	cfg := inMemory()
	sound := cfg.Open
	cfg.Open = func(dir string) (pistore.Backend, error) {
		b, err := sound(dir)
		return leaving{b}, err
	}
	cfg.Only = []string{"TX-01", "CON-02"}
	for _, r := range Check(cfg).Results {
		if r.Outcome != Fail || !strings.Contains(r.Why, "runtime.Goexit") || !strings.Contains(r.Why, adviceOnPanic) {
			t.Errorf("a backend that ends its callers: %s", r)
		}
	}
}

type leaving struct{ pistore.Backend }

func (b leaving) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	st, err := b.Backend.Create(ctx, info)
	return leavingSession{st}, err
}

type leavingSession struct{ pistore.Storage }

func (leavingSession) Commit(context.Context, pistore.Tx) (pistore.Receipt, error) {
	runtime.Goexit()
	return pistore.Receipt{}, nil
}

func TestRunPattern(t *testing.T) {
	got := RunPattern("TestStore/it's (new)/a|b", "TX-01")
	if want := `'^TestStore$/^it'\''s \(new\)$/^a\|b$/^TX-01$'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReportIsForMachines holds the verdict on a broken store, byte for byte: a
// row that passes, one that fails and one that is skipped.
func TestReportIsForMachines(t *testing.T) {
	const name = "testdata/verdict.json"
	all := mutants()
	m := all[slices.IndexFunc(all, func(m mutant) bool { return m.name == "tests only the first precondition" })]
	cfg := inMemory()
	memory := cfg.Open
	cfg.Open = func(place string) (pistore.Backend, error) {
		b, err := memory(place)
		return &brokenBackend{Backend: b, defect: m.defect}, err
	}
	cfg.Only = []string{"TX-21", "TX-22", "OWN-04"}
	report := Check(cfg)
	got, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(name, append(got, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != strings.TrimSuffix(string(want), "\n") || report.OK() {
		t.Errorf("the verdict is\n%s", got)
	}
	cfg.Only = cfg.Only[2:]
	if report := Check(cfg); report.OK() {
		t.Error("a run in which all is skipped is in order")
	}
}

func TestMisusePanics(t *testing.T) {
	unknown := inMemory()
	unknown.Only = []string{"TX-99"}
	lacking := inMemory()
	lacking.Lacks = []Capability{"rewriting"}
	for name, cfg := range map[string]Config{"no Open": {}, "an unknown row": unknown, "an unknown capability": lacking} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "conformance: ") {
					t.Errorf("panic %v, want one with the package's name", r)
				}
			}()
			Check(cfg)
		})
	}
}
