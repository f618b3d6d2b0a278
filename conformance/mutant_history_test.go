package conformance

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"

	"pistore"
)

// tape is the history of a session. Its zero defect is none.
type tape struct {
	mu      sync.Mutex // guards the rest
	all     []pistore.Transaction
	changed chan struct{}
}

// historyDefect is one thing that a history or a follower does wrong.
type historyDefect struct {
	record  func(t pistore.Transaction) []pistore.Transaction
	refused bool // records what was refused too
	empty   bool // and what wrote nothing
	from    func(pistore.Seq) pistore.Seq
	closed  bool // goes on after Close
	ctx     bool // goes on after the context
	skip    bool // a follower starts with the next commit
}

type tapes struct {
	pistore.Backend
	defect historyDefect
	mu     sync.Mutex // guards the rest
	of     map[pistore.SessionID]*tape
}

func (b *tapes) hand(s pistore.Storage, err error) (pistore.Storage, error) {
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[s.Info().ID]
	if t == nil {
		t = &tape{changed: make(chan struct{})}
		b.of[s.Info().ID] = t
	}
	return &taped{Storage: s, tape: t, defect: b.defect, done: make(chan struct{})}, nil
}

func (b *tapes) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	return b.hand(b.Backend.Create(ctx, info))
}

func (b *tapes) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	return b.hand(b.Backend.Open(ctx, id, mode))
}

// taped is a session with a history.
type taped struct {
	pistore.Storage
	*tape
	defect historyDefect
	once   sync.Once
	done   chan struct{}
}

func (s *taped) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	r, err := s.Storage.Commit(ctx, tx)
	t := pistore.Transaction{FirstSeq: r.FirstSeq, Seqs: r.Seqs, Timestamp: r.Timestamp, Writes: tx.Writes}
	if err != nil && !s.defect.refused || err == nil && len(tx.Writes) == 0 && !s.defect.empty {
		return r, err
	}
	add := []pistore.Transaction{t}
	if s.defect.record != nil {
		add = s.defect.record(t)
	}
	s.mu.Lock()
	s.all = append(s.all, add...)
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	return r, err
}

func (s *taped) Close() error {
	s.once.Do(func() { close(s.done) })
	return s.Storage.Close()
}

func (s *taped) over(ctx context.Context) error {
	if ctx.Err() != nil && !s.defect.ctx {
		return ctx.Err()
	}
	select {
	case <-s.done:
		if !s.defect.closed {
			return pistore.ErrClosed
		}
	default:
	}
	return nil
}

func (s *taped) History(ctx context.Context, from pistore.Seq) iter.Seq2[pistore.Transaction, error] {
	return func(yield func(pistore.Transaction, error) bool) {
		if s.defect.from != nil {
			from = s.defect.from(from)
		}
		s.mu.Lock()
		all := slices.Clone(s.all)
		s.mu.Unlock()
		for _, t := range all {
			if err := s.over(ctx); err != nil {
				yield(pistore.Transaction{}, err)
				return
			}
			if (len(t.Seqs) == 0 || t.Seqs[len(t.Seqs)-1] >= from) && !yield(t, nil) {
				return
			}
		}
	}
}

func (s *taped) Follow(ctx context.Context, after pistore.Seq) iter.Seq2[pistore.Transaction, error] {
	return func(yield func(pistore.Transaction, error) bool) {
		n := 0
		for first := true; ; first = false {
			s.mu.Lock()
			if first && s.defect.skip {
				n = len(s.all)
			}
			rest, changed := s.all[n:], s.changed
			n = len(s.all)
			s.mu.Unlock()
			for _, t := range rest {
				if t.Seqs[len(t.Seqs)-1] > after && !yield(t, nil) {
					return
				}
			}
			select {
			case <-changed:
				continue
			case <-s.done:
			case <-ctx.Done():
			}
			if err := s.over(ctx); err != nil || s.defect.ctx || s.defect.closed {
				if err != nil {
					yield(pistore.Transaction{}, err)
				}
				return
			}
		}
	}
}

func apart(t pistore.Transaction) (rows []pistore.Transaction) {
	for i := range t.Writes {
		rows = append(rows, pistore.Transaction{FirstSeq: t.Seqs[i], Seqs: t.Seqs[i : i+1], Timestamp: t.Timestamp, Writes: t.Writes[i : i+1]})
	}
	return rows
}

// historyMutant is a defect of the abilities Historian and Follower, which no
// other mutant has, and the rows that have to notice.
type historyMutant struct {
	name   string
	defect historyDefect
	rows   []string
}

func historyMutants() []historyMutant {
	twice := func(t pistore.Transaction) []pistore.Transaction { return []pistore.Transaction{t, t} }
	return []historyMutant{
		{"takes transactions apart", historyDefect{record: apart}, []string{"HIS-01", "HIS-02", "FOL-01"}},
		{"tells each transaction twice", historyDefect{record: twice}, []string{"HIS-01", "HIS-02", "FOL-01"}},
		{"tells what wrote nothing", historyDefect{empty: true}, []string{"HIS-01", "HIS-02"}},
		{"starts behind the seq", historyDefect{from: func(seq pistore.Seq) pistore.Seq { return seq + 1 }}, []string{"HIS-02"}},
		{"goes on after Close", historyDefect{closed: true}, []string{"HIS-02", "FOL-02"}},
		{"goes on after the context", historyDefect{ctx: true}, []string{"HIS-02", "FOL-01", "FOL-02"}},
		{"follows from now on only", historyDefect{skip: true}, []string{"FOL-01"}},
	}
}

// TestHistoryMutants: each row of history can fail, and a sound store passes all.
func TestHistoryMutants(t *testing.T) {
	for _, m := range append(historyMutants(), historyMutant{name: "sound"}) {
		t.Run(m.name, func(t *testing.T) {
			cfg := inMemory()
			sound := cfg.Open
			cfg.Open = func(dir string) (pistore.Backend, error) {
				b, err := sound(dir)
				return &tapes{Backend: b, defect: m.defect, of: map[pistore.SessionID]*tape{}}, err
			}
			cfg.Only = []string{"HIS-01", "HIS-02", "FOL-01", "FOL-02"}
			report := Check(cfg)
			if report.Skipped > 0 {
				t.Errorf("rows were skipped:\n%s", report)
			}
			if got := report.FailedIDs(); !slices.Equal(got, m.rows) {
				t.Errorf("failing rows %q instead of %q", got, m.rows)
			}
		})
	}
}
