package conformance

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"

	"pistore"
)

// defect is one thing that a broken store does wrong. Each function replaces the
// call of its name and gets the sound store to work with.
type defect struct {
	commit    func(s *broken, ctx context.Context, tx pistore.Tx) (pistore.Receipt, error)
	registers func(s *broken, ctx context.Context, at []pistore.Address) ([]pistore.Register, error)
	prefix    func(s *broken, ctx context.Context, ns, prefix string) ([]pistore.Register, error)
	branch    func(s *broken, ctx context.Context, q pistore.BranchQuery) ([]pistore.Entry, error)
	scan      func(s *broken, ctx context.Context, q pistore.ScanQuery) ([]pistore.Entry, error)
	usage     func(s *broken, ctx context.Context, q pistore.ScanQuery) ([]pistore.UsageRow, error)
	entries   func(s *broken, ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error)
	stats     func(s *broken, st pistore.Stats) pistore.Stats
	close     func(s *broken) error
	wrap      func(s *broken, q pistore.ScanQuery, rows iter.Seq2[pistore.Entry, error]) iter.Seq2[pistore.Entry, error]

	create  func(b *brokenBackend, ctx context.Context, info pistore.Info) (pistore.Storage, error)
	open    func(b *brokenBackend, ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error)
	rewrite func(b *brokenBackend, ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error)
	load    func(b *brokenBackend, ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error)
	shut    func(b *brokenBackend) error
	delete  func(b *brokenBackend, ctx context.Context, id pistore.SessionID) error
	list    func([]pistore.Info) []pistore.Info
}

// brokenBackend is a backend with a defect.
type brokenBackend struct {
	pistore.Backend
	defect
	patient bool // defects wait for others to come

	mu     sync.Mutex // guards the rest
	owned  map[pistore.SessionID]bool
	opened map[pistore.SessionID]int
}

func (b *brokenBackend) wrapped(s pistore.Storage, err error) (pistore.Storage, error) {
	if err != nil {
		return nil, err
	}
	broken := &broken{Storage: s, b: b, defect: b.defect, meeting: meeting{patient: b.patient}}
	broken.meeting.changed = sync.NewCond(&broken.mu)
	return broken, nil
}

func (b *brokenBackend) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	if b.create != nil {
		return b.wrapped(b.create(b, ctx, info))
	}
	return b.wrapped(b.Backend.Create(ctx, info))
}

func (b *brokenBackend) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	if b.open != nil {
		return b.wrapped(b.open(b, ctx, id, mode))
	}
	return b.wrapped(b.Backend.Open(ctx, id, mode))
}

func (b *brokenBackend) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	if b.load != nil {
		return b.load(b, ctx, rows)
	}
	return b.Backend.Load(ctx, rows)
}

func (b *brokenBackend) Rewrite(ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	if b.rewrite != nil {
		return b.rewrite(b, ctx, id, make)
	}
	return b.Backend.Rewrite(ctx, id, make)
}

func (b *brokenBackend) Delete(ctx context.Context, id pistore.SessionID) error {
	if b.delete != nil {
		return b.delete(b, ctx, id)
	}
	return b.Backend.Delete(ctx, id)
}

func (b *brokenBackend) List(ctx context.Context) iter.Seq2[pistore.Info, error] {
	if b.list == nil {
		return b.Backend.List(ctx)
	}
	return func(yield func(pistore.Info, error) bool) {
		all, err := drain(b.Backend.List(ctx))
		yieldAll(b.list(all), err, yield)
	}
}

func (b *brokenBackend) Close() error {
	if b.shut != nil {
		return b.shut(b)
	}
	return b.Backend.Close()
}

// broken is a session with a defect.
type broken struct {
	pistore.Storage
	b *brokenBackend
	defect

	mu    sync.Mutex // guards what defects remember
	last  []pistore.Write
	given []pistore.Write
	seqs  []pistore.Seq
	ids   []pistore.ID
	cache []pistore.Entry
	n     int
	lone  *pistore.DeleteRegister

	early   unsettled
	meeting meeting
}

func (s *broken) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	var r pistore.Receipt
	var err error
	if s.commit != nil {
		r, err = s.commit(s, ctx, tx)
	} else {
		r, err = s.Storage.Commit(ctx, tx)
	}
	if s.stats != nil && err == nil {
		r.Stats = s.stats(s, r.Stats)
	}
	return r, err
}

func (s *broken) Stats(ctx context.Context) (pistore.Stats, error) {
	st, err := s.Storage.Stats(ctx)
	if s.stats != nil && err == nil {
		st = s.stats(s, st)
	}
	return st, err
}

func (s *broken) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	if s.registers != nil {
		return s.registers(s, ctx, at)
	}
	return s.Storage.Registers(ctx, at)
}

func (s *broken) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	if s.entries != nil {
		return s.entries(s, ctx, ids)
	}
	return s.Storage.Entries(ctx, ids)
}

// lazily calls an answer when its rows are ranged over.
func lazily[T any](answer func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := answer()
		yieldAll(all, err, yield)
	}
}

func (s *broken) RegistersByPrefix(ctx context.Context, ns, prefix string) iter.Seq2[pistore.Register, error] {
	if s.prefix == nil {
		return s.Storage.RegistersByPrefix(ctx, ns, prefix)
	}
	return lazily(func() ([]pistore.Register, error) { return s.prefix(s, ctx, ns, prefix) })
}

func (s *broken) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	if s.branch == nil {
		return s.Storage.Branch(ctx, q)
	}
	return lazily(func() ([]pistore.Entry, error) { return s.branch(s, ctx, q) })
}

func (s *broken) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	switch {
	case s.wrap != nil:
		return s.wrap(s, q, s.Storage.ScanEntries(ctx, q))
	case s.scan == nil:
		return s.Storage.ScanEntries(ctx, q)
	}
	return lazily(func() ([]pistore.Entry, error) { return s.scan(s, ctx, q) })
}

func (s *broken) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	if s.usage == nil {
		return s.Storage.ScanUsage(ctx, q)
	}
	return lazily(func() ([]pistore.UsageRow, error) { return s.usage(s, ctx, q) })
}

func (s *broken) Close() error {
	if s.close != nil {
		return s.close(s)
	}
	return s.Storage.Close()
}

// mutant is a broken store and the rows that have to notice, no others. Whether
// the model rows notice is told apart.
type mutant struct {
	name     string
	rows     []string
	races    []string // rows that may notice too, depending on the scheduler
	model    bool     // MOD-01 finds it too
	reopened bool     // so does MOD-02, which is not asked about others
	large    bool     // worth the rows of large data
	plain    bool     // made of the plain store, whose content outlives Close
	meets    []string // rows in which the defect waits for other calls to come
	defect   defect
}

// config is for the rows that are given; without any for all that are worth it.
func (m mutant) config(only ...string) Config {
	cfg := inMemory()
	if m.plain {
		cfg = plain()
	}
	sound := cfg.Open
	patient := len(only) > 0
	cfg.Open = func(dir string) (pistore.Backend, error) {
		b, err := sound(dir)
		return &brokenBackend{Backend: b, defect: m.defect, patient: patient, owned: map[pistore.SessionID]bool{}, opened: map[pistore.SessionID]int{}}, err
	}
	cfg.Only = only
	for _, r := range rows() {
		large := r.id == "JSN-09" || slices.Contains(r.needs, NoLarge)
		if !patient && (m.large || !large) && !slices.Contains(m.meets, r.id) {
			cfg.Only = append(cfg.Only, r.id)
		}
	}
	cfg.Transactions = 2000
	return cfg
}

// check runs the kit against the mutant and returns the rows that fail, in order.
func (m mutant) check() []Result {
	results := Check(m.config()).Results
	if len(m.meets) > 0 {
		results = append(results, Check(m.config(m.meets...)).Results...)
	}
	failed := slices.DeleteFunc(results, func(r Result) bool { return r.Outcome != Fail })
	ids := RowIDs()
	slices.SortFunc(failed, func(a, b Result) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return failed
}

// TestMutants: a check that has never failed is not a check yet.
func TestMutants(t *testing.T) {
	for i, m := range mutants() {
		if (testing.Short() || underRace) && i%5 != 0 && len(m.meets) == 0 {
			continue // said below
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var rows []string
			model, reopened := false, false
			for _, result := range m.check() {
				switch {
				case result.ID == "MOD-01":
					model = true
					t.Logf("%s", result.Why)
				case result.ID == "MOD-02":
					reopened = true
				case slices.Contains(m.races, result.ID):
				default:
					rows = append(rows, result.ID)
					if !slices.Contains(m.rows, result.ID) {
						t.Logf("%s", result)
					}
				}
			}
			if !slices.Equal(rows, m.rows) {
				t.Errorf("rows that fail:\n%q, want\n%q", rows, m.rows)
			}
			if model != m.model {
				t.Errorf("the model row fails: %t, want %t", model, m.model)
			}
			if m.reopened && !reopened {
				t.Errorf("the model row of reopened sessions does not fail")
			}
		})
	}
	if testing.Short() || underRace {
		t.Logf("of %d mutants one in five was tried, and those that need calls at once", len(mutants()))
	}
}

func mutants() []mutant {
	return slices.Concat(commitMutants(), inputMutants(), readMutants(), concurrencyMutants(), handleMutants(), backendMutants(), rewriteMutants())
}
