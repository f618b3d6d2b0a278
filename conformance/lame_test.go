package conformance

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pistore"
	"pistore/conformance/internal/watch"
)

// A hang of the model row is replayed with what the run was asked for, and what is
// said of it holds for a store in another process too.
func TestHangReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cfg := lame(func(s *lameSession) { s.stats = func() { <-release } })
		cfg.Only, cfg.Transactions, cfg.Seed = []string{"MOD-01"}, 70, 3
		r := Check(cfg).Results[0]
		close(release)
		synctest.Wait()
		if want := "row=MOD-01 seed=3 transactions=70"; r.Replay == nil || r.Replay.String() != want {
			t.Errorf("replay %v, want %s", r.Replay, want)
		}
		if !strings.Contains(r.Why, "Stats has not returned for 1m") || strings.Contains(r.Why, "goroutine") {
			t.Errorf("%s", r)
		}
	})
}

// lameSession is a session that gives what no caller can work with. A function that
// is nil leaves its call alone.
type lameSession struct {
	pistore.Storage
	stats    func()
	usage    func() iter.Seq2[pistore.UsageRow, error]
	entries  func() iter.Seq2[pistore.Entry, error]
	registry func() iter.Seq2[pistore.Register, error]
}

func (s lameSession) Stats(ctx context.Context) (pistore.Stats, error) {
	if s.stats != nil {
		s.stats()
	}
	return s.Storage.Stats(ctx)
}

func (s lameSession) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	if s.usage != nil {
		return s.usage()
	}
	return s.Storage.ScanUsage(ctx, q)
}

func (s lameSession) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	if s.entries != nil {
		return s.entries()
	}
	return s.Storage.ScanEntries(ctx, q)
}

func (s lameSession) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	if s.registry != nil {
		return s.registry()
	}
	return s.Storage.RegistersByPrefix(ctx, namespace, prefix)
}

type lameBackend struct {
	pistore.Backend
	spoil  func(*lameSession)
	absent func() pistore.Storage // for a session that is not there; nil: an error
	list   bool                   // is nil
}

func (b lameBackend) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	return b.spoilt(b.Backend.Create(ctx, info))
}

func (b lameBackend) spoilt(st pistore.Storage, err error) (pistore.Storage, error) {
	if err != nil {
		return nil, err
	}
	s := &lameSession{Storage: st}
	b.spoil(s)
	return s, nil
}

func (b lameBackend) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	st, err := b.Backend.Open(ctx, id, mode)
	if errors.Is(err, pistore.ErrNotFound) && b.absent != nil {
		return b.absent(), nil
	}
	return b.spoilt(st, err)
}

func (b lameBackend) List(ctx context.Context) iter.Seq2[pistore.Info, error] {
	if b.list {
		return nil
	}
	return b.Backend.List(ctx)
}

// A follower that panics, or is none, fails its rows and ends nothing else.
func TestLameFollower(t *testing.T) {
	for want, follow := range map[string]func() iter.Seq2[pistore.Transaction, error]{
		"panic: out of order": func() iter.Seq2[pistore.Transaction, error] {
			return func(func(pistore.Transaction, error) bool) { panic("out of order") }
		},
		"Follow returned a nil iterator": func() iter.Seq2[pistore.Transaction, error] { return nil },
	} {
		cfg := lame(func(s *lameSession) { s.Storage = lameFollower{s.Storage, follow} })
		cfg.Only = []string{"FOL-01", "FOL-02"}
		for _, r := range Check(cfg).Results {
			if r.Outcome != Fail || !strings.Contains(r.Why, want) {
				t.Errorf("%s, want %q", r, want)
			}
		}
	}
}

type lameFollower struct {
	pistore.Storage
	follow func() iter.Seq2[pistore.Transaction, error]
}

func (f lameFollower) Follow(context.Context, pistore.Seq) iter.Seq2[pistore.Transaction, error] {
	return f.follow()
}

// Unwrap is part of [pistore.Decorator].
func (s lameSession) Unwrap() pistore.Storage { return s.Storage }

// lame is the config of a store whose sessions are spoilt.
func lame(spoil func(*lameSession)) Config { return lameAs(lameBackend{spoil: spoil}) }

func lameAs(b lameBackend) Config {
	cfg := inMemory()
	sound := cfg.Open
	cfg.Open = func(dir string) (pistore.Backend, error) {
		inner, err := sound(dir)
		own := b
		own.Backend = inner
		return own, err
	}
	return cfg
}

// An iterator without an end counts like a hang: after two rows it is enough. What
// is advised is about the iterator.
func TestEndlessIterator(t *testing.T) {
	cfg := lame(func(s *lameSession) {
		s.usage = func() iter.Seq2[pistore.UsageRow, error] {
			return func(yield func(pistore.UsageRow, error) bool) {
				for yield(pistore.UsageRow{ID: "u", Usage: `{}`}, nil) {
				}
			}
		}
	})
	cfg.Only = []string{"TX-12", "TX-17", "REO-01", "MOD-01"}
	cfg.Transactions = 100
	began := time.Now()
	report := Check(cfg)
	if took := time.Since(began); took > watch.Patience {
		t.Errorf("it took %v", took)
	}
	first, last := report.Results[0], report.Results[3]
	if report.Failed != 2 || report.Skipped != 1 || !strings.Contains(first.Why, "the iterator of ScanUsage does not end") ||
		!strings.Contains(first.Why, "what to do: an iterator returns") || !strings.Contains(last.Why, "an iterator of the store does not end in TX-12 and REO-01") {
		t.Errorf("%s", report)
	}
	cfg.Only = []string{"MOD-01"} // whose program is not shrunk, each replay being long
	if r := Check(cfg).Results[0]; !strings.Contains(r.Why, "the iterator of ScanUsage does not end") {
		t.Errorf("%s", r)
	}
}

// Nothing in place of what was asked for is said as that, and fails the row.
func TestNothingGiven(t *testing.T) {
	for name, tt := range map[string]struct {
		store lameBackend
		row   string
		want  string
	}{
		"no iterator of usage":     {lameBackend{spoil: func(s *lameSession) { s.usage = func() iter.Seq2[pistore.UsageRow, error] { return nil } }}, "TX-12", "ScanUsage returned a nil iterator"},
		"no iterator of entries":   {lameBackend{spoil: func(s *lameSession) { s.entries = func() iter.Seq2[pistore.Entry, error] { return nil } }}, "CON-01", "ScanEntries returned a nil iterator"},
		"no iterator of registers": {lameBackend{spoil: func(s *lameSession) { s.registry = func() iter.Seq2[pistore.Register, error] { return nil } }}, "MOD-01", "RegistersByPrefix returned a nil iterator"},
		"no list":                  {lameBackend{spoil: func(*lameSession) {}, list: true}, "BAK-07", "List returned a nil iterator"},
		"no session":               {lameBackend{spoil: func(*lameSession) {}, absent: func() pistore.Storage { return nil }}, "RO-05", "Open returned nil without an error"},
		"a nil pointer":            {lameBackend{spoil: func(*lameSession) {}, absent: func() pistore.Storage { return (*lameSession)(nil) }}, "BAK-04", "Open returned nil without an error"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := lameAs(tt.store)
			cfg.Only, cfg.Transactions = []string{tt.row}, 20
			r := Check(cfg).Results[0]
			advised, _, _ := strings.Cut(r.Why, "what to do: ")
			if r.Outcome != Fail || !strings.Contains(advised, tt.want) || strings.Contains(r.Why, "panic") {
				t.Errorf("%s, want %q", r, tt.want)
			}
			for _, row := range rows() {
				if row.id == tt.row && strings.Contains(r.Why, row.advice) {
					t.Errorf("the advice is that of the row: %s", r)
				}
			}
		})
	}
	cfg := inMemory()
	cfg.Only = []string{"TX-01"}
	cfg.Open = func(string) (pistore.Backend, error) { return nil, nil }
	if why := Check(cfg).Results[0].Why; !strings.Contains(why, "Config.Open returned nil without an error") {
		t.Error(why)
	}
}
