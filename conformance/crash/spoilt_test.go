package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

// spoilt is the sound store with calls that do what no store may.
type spoilt struct {
	pistore.Backend
	create func(info pistore.Info) (pistore.Storage, error)
	commit func()
}

func (b *spoilt) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	if b.create != nil {
		return b.create(info)
	}
	st, err := b.Backend.Create(ctx, info)
	return spoiltSession{st, b}, err
}

type spoiltSession struct {
	pistore.Storage
	b *spoilt
}

func (s spoiltSession) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	if s.b.commit != nil {
		s.b.commit()
	}
	return s.Storage.Commit(ctx, tx)
}

// spoil runs rows of a spoilt store on a machine.
func spoil(s spoilt, only ...string) Report {
	return Check(Config{Only: only, Seed: 1, Levels: []pistore.Durability{pistore.Power}, OpenOn: func(at Place) (pistore.Backend, error) {
		b, err := store(sound)(at)
		own := s
		own.Backend = b
		return &own, err
	}})
}

// wantFailures: every row fails, and says so.
func wantFailures(t *testing.T, report Report, says ...string) {
	t.Helper()
	for _, r := range report.Results {
		for _, text := range says {
			if r.Outcome != conformance.Fail || !strings.Contains(r.Why, text) {
				t.Errorf("not failed for %q: %s", text, r)
			}
		}
	}
}

// Whatever a store does to its caller, in one goroutine or in several, it fails
// the row and ends nothing else.
func TestBrokenCallerFailsTheRow(t *testing.T) {
	rows := []string{"CUT-01", "CUT-02", "FLT-02"}
	wantFailures(t, spoil(spoilt{commit: func() { panic("out of order") }}, rows...), "panic: out of order", adviceOnPanic)
	wantFailures(t, spoil(spoilt{commit: runtime.Goexit}, rows...), "runtime.Goexit", adviceOnPanic)
}

// Of a store that hangs there is a verdict, and what it leaves undone is said.
func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		report := spoil(spoilt{commit: func() { <-release }}, "CUT-01", "CUT-02", "FLT-01", "FLT-02")
		close(release)
		synctest.Wait()
		if report.Failed != 2 || report.Skipped != 2 || !strings.Contains(report.Results[0].Why, "does not return") ||
			!strings.Contains(report.Results[3].Why, "hangs in CUT-01 at power and CUT-02 at power") {
			t.Errorf("%s", report)
		}
	})
}

// A store that keeps its files elsewhere than on the kit's file system says
// nothing by passing, and one that gives nothing is named for it.
func TestStoreBesideTheKit(t *testing.T) {
	elsewhere := map[disk.FS]*disk.Memory{}
	report := Check(Config{Only: []string{"CUT-01", "BYT-01"}, Seed: 1, OpenOn: func(at Place) (pistore.Backend, error) {
		own := elsewhere[at.FS]
		if own == nil {
			own = disk.NewMemory()
			elsewhere[at.FS] = own
			if err := own.Mkdir(storeDir); err != nil {
				return nil, err
			}
		}
		at.FS = own
		return store(sound)(at)
	}})
	wantFailures(t, report, "no call on Place.FS")
	wantFailures(t, spoil(spoilt{create: func(pistore.Info) (pistore.Storage, error) { return nil, nil }}, "CUT-01", "BYT-01"), "nil and no error")
}

// A panic of the store while a check looks for an error is no pass.
func TestPanicInTryFails(t *testing.T) {
	p := &probe{}
	v := p.run(func(p *probe) { _ = p.try(func() { panic("out of order") }) })
	if v.outcome != conformance.Fail {
		t.Errorf("%+v", v)
	}
}

func TestMisusePanics(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"no way to open":        func(c *Config) { c.OpenOn = nil },
		"no level":              func(c *Config) { c.Levels = []pistore.Durability{} },
		"an unknown level":      func(c *Config) { c.Levels = []pistore.Durability{99} },
		"an unknown row":        func(c *Config) { c.Only = []string{"CUT-99"} },
		"an unknown capability": func(c *Config) { c.Lacks = []conformance.Capability{"rewriting"} },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "crash: ") {
					t.Errorf("panic %v, want one with the package's name", r)
				}
			}()
			cfg := Config{OpenOn: store(sound), Only: []string{"CUT-01"}}
			spoil(&cfg)
			Check(cfg)
		})
	}
}

func TestReplayQuotesNames(t *testing.T) {
	got := Config{Seed: 1}.replay("CUT-01", pistore.Power, "TestCrash/it's (new)")
	if want := `'^TestCrash$/^it'\''s \(new\)$/^CUT-01$/^power$'`; !strings.Contains(got, want) {
		t.Errorf("%s, want it with %s", got, want)
	}
}

// One session is no several at once.
func TestOneSessionSkipsTheCrowd(t *testing.T) {
	for _, cfg := range []Config{{Sessions: 1}, {Lacks: []conformance.Capability{conformance.NoSessions}}} {
		cfg.OpenOn, cfg.Only = store(sound), []string{"CUT-02", "FLT-02"}
		for _, r := range Check(cfg).Results {
			if r.Outcome != conformance.Skip || r.Why == "" {
				t.Errorf("%s", r)
			}
		}
	}
}

// TestForgottenChild: a child that does not call Child says what to do.
func TestForgottenChild(t *testing.T) {
	report := Check(Config{Only: []string{"KIL-01"}, Seed: 1, Levels: []pistore.Durability{pistore.Power}, Open: store(sound),
		Child: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), defectEnv+"="+forgetful)
			return cmd
		}})
	wantFailures(t, report, "the child wrote", "call crash.Child first of all in TestMain")
}

// TestOneFailureEndsTheWork: other sessions do not hide it.
func TestOneFailureEndsTheWork(t *testing.T) {
	b, err := store(sound)(Place{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("bad")
	failing := &spoilt{Backend: b, create: func(info pistore.Info) (pistore.Storage, error) {
		if info.ID == sessionID(0) {
			return nil, bad
		}
		return b.Create(context.Background(), info)
	}}
	if err := (orders{Program: "commit", Sessions: 2}).work(context.Background(), failing, newKnown()); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
}
