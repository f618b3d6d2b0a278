package crash

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"pistore"
	"pistore/conformance"
	"pistore/conformance/internal/watch"
	"pistore/disk"
)

// spoilt is the sound store with calls that do what no store may.
type spoilt struct {
	pistore.Backend
	create func(info pistore.Info) (pistore.Storage, error)
	commit func()
	open   func() (pistore.Storage, error)
	usage  func() iter.Seq2[pistore.UsageRow, error]
}

func (b *spoilt) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	if b.open != nil {
		return b.open()
	}
	st, err := b.Backend.Open(ctx, id, mode)
	return spoiltSession{st, b}, err
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

func (s spoiltSession) Unwrap() pistore.Storage { return s.Storage }

func (s spoiltSession) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	if s.b.usage != nil {
		return s.b.usage()
	}
	return s.Storage.ScanUsage(ctx, q)
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
		if report.Failed != 2 || report.Skipped != 2 || !strings.Contains(report.Results[0].Why, "Commit has not returned for 1m") ||
			!strings.Contains(report.Results[3].Why, "hangs in CUT-01 at power and CUT-02 at power") {
			t.Errorf("%s", report)
		}
	})
}

// A store that keeps its files elsewhere than on the kit's file system says
// nothing by passing, and one that gives nothing is named for it.
func TestStoreBesideTheKit(t *testing.T) {
	for name, tt := range map[string]struct {
		on   func(at *Place) error
		says string
	}{
		"in memory": {func(at *Place) error {
			m, err := machineWith(at.Dir)
			if err == nil {
				at.FS = m.memory
			}
			return err
		}, "no call on Place.FS"},
		"on the real disk": {func(at *Place) error {
			at.FS = disk.OS
			return nil
		}, "no call on Place.FS"},
		"on the real disk and the kit's": {func(at *Place) error {
			_, err := at.FS.Stat(at.Dir)
			at.FS = disk.OS
			return err
		}, "to the real disk, beside Place.FS"},
	} {
		t.Run(name, func(t *testing.T) {
			opened, place := 0, t.TempDir()
			report := Check(Config{Only: []string{"CUT-01", "FLT-01", "BYT-01"}, Seed: 1, Dir: place, OpenOn: func(at Place) (pistore.Backend, error) {
				opened++
				if err := tt.on(&at); err != nil {
					return nil, err
				}
				return store(sound)(at)
			}})
			wantFailures(t, report, tt.says, adviceOnFS)
			if left, err := os.ReadDir(place); opened != 1 || err != nil || len(left) > 0 {
				t.Errorf("opened %d times, and left %v, %v", opened, left, err)
			}
		})
	}
}

// Nothing in place of a session or an iterator is said as that.
func TestNothingGiven(t *testing.T) {
	nothing := func() (pistore.Storage, error) { return nil, nil }
	wantFailures(t, spoil(spoilt{create: func(pistore.Info) (pistore.Storage, error) { return nothing() }}, "CUT-01", "BYT-01"), "Create returned nil without an error")
	wantFailures(t, spoil(spoilt{open: nothing}, "CUT-01", "BYT-03"), "Open returned nil without an error")
	wantFailures(t, spoil(spoilt{usage: func() iter.Seq2[pistore.UsageRow, error] { return nil }}, "CUT-01", "BYT-03"), "ScanUsage returned a nil iterator")
	wantFailures(t, Check(Config{Only: []string{"CUT-01"}, OpenOn: func(Place) (pistore.Backend, error) { return nil, nil }}), "Config.OpenOn returned nil without an error")
}

// An iterator without an end counts like a hang.
func TestEndlessIterator(t *testing.T) {
	report := spoil(spoilt{usage: func() iter.Seq2[pistore.UsageRow, error] {
		return func(yield func(pistore.UsageRow, error) bool) {
			for yield(pistore.UsageRow{}, nil) {
			}
		}
	}}, "CUT-01", "CUT-08", "FLT-01", "FLT-03")
	if report.Failed != 2 || report.Skipped != 2 || !strings.Contains(report.Results[0].Why, "what to look at: an iterator returns") ||
		!strings.Contains(report.Results[3].Why, "an iterator of the store does not end in CUT-01 at power and CUT-08 at power") {
		t.Errorf("%s", report)
	}
}

// As many cuts are made as were asked for, whether a story has more calls or fewer.
func TestExactCuts(t *testing.T) {
	for _, cuts := range []int{1, 20, 150} {
		report := Check(Config{Only: []string{"CUT-01", "CUT-02", "CUT-03"}, Seed: 1, Cuts: cuts, Levels: []pistore.Durability{pistore.Power}, OpenOn: store(sound)})
		for _, r := range report.Results {
			if r.Outcome != conformance.Pass || r.Depth.Cuts != int64(cuts) {
				t.Errorf("%d cuts, want %d: %s", r.Depth.Cuts, cuts, r)
			}
		}
	}
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
	if err := (orders{Program: "commit", Sessions: 2}).work(context.Background(), failing, &watch.Watch{}, newKnown()); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
}
