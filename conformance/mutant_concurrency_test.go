package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"pistore"
)

// unsettled is what a session shows that does not make commits visible at one
// instant: the reads that answer as if the commits under way had not begun.
type unsettled struct {
	commits  int                // under way
	looks    int                // listings made so far
	listing  []pistore.Register // from before the commits
	listings int                // made since
}

// meeting lets a defect wait for others, so that what depends on two calls at once
// shows whatever the scheduler does. It waits in the rows for which the mutant says
// so, and until it has met once; in others nobody would come.
type meeting struct {
	patient bool
	met     bool
	changed *sync.Cond // of the session's mu
}

// hang ends a meeting to which nobody comes; the mutant then goes unnoticed.
const hang = 30 * time.Second

// meet waits, with s.mu held, until others have done something. Whoever does it
// calls s.came.
func (s *broken) meet(done func() bool) {
	if !s.meeting.patient || s.meeting.met {
		return
	}
	guard := time.AfterFunc(hang, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.meeting.met = true
		s.meeting.changed.Broadcast()
	})
	defer guard.Stop()
	for !s.meeting.met && !done() {
		s.meeting.changed.Wait()
	}
	s.meeting.met = true
	s.meeting.changed.Broadcast()
}

func (s *broken) came() { s.meeting.changed.Broadcast() }

// slowly commits and returns when others have looked at what it did.
func slowly(s *broken, ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	s.mu.Lock()
	if s.early.commits == 0 {
		s.early.listing, _ = drain(s.Storage.RegistersByPrefix(ctx, "ns", ""))
		s.early.listings = 0
	}
	s.early.commits++
	s.mu.Unlock()
	r, err := s.Storage.Commit(ctx, tx)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.early.looks
	s.meet(func() bool { return s.early.looks >= seen+12 })
	s.early.commits--
	return r, err
}

// fromBefore answers a listing from before the commits under way, if the defect
// says so of the n-th listing since they began.
func fromBefore(when func(n int) bool) defect {
	return defect{commit: slowly, prefix: func(s *broken, ctx context.Context, ns, prefix string) ([]pistore.Register, error) {
		all, err := drain(s.Storage.RegistersByPrefix(ctx, ns, prefix))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.early.looks++
		s.early.listings++
		s.came()
		if s.early.commits > 0 && ns == "ns" && prefix == "" && err == nil && when(s.early.listings) {
			return slices.Clone(s.early.listing), nil
		}
		return all, err
	}}
}

func concurrencyMutants() []mutant {
	type ctx = context.Context
	return []mutant{
		{name: "lists registers as they were before the commits under way", rows: []string{"CON-05"}, meets: []string{"CON-05"},
			defect: fromBefore(func(int) bool { return true })},
		{name: "shows a commit, and then not until it is acknowledged", rows: []string{"CON-05"}, meets: []string{"CON-05"},
			defect: fromBefore(func(n int) bool { return n%2 == 0 })},
		{name: "tests ids in front of the critical section", rows: []string{"CON-04"}, meets: []string{"CON-04"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				if len(tx.Writes) != 1 {
					return s.Storage.Commit(c, tx)
				}
				there := s.has(c, idOf(tx.Writes[0]))
				s.othersToo()
				r, err := s.Storage.Commit(c, tx)
				if errors.Is(err, pistore.ErrDuplicateID) && !there {
					return pistore.Receipt{FirstSeq: 1, Seqs: []pistore.Seq{1}}, nil
				}
				return r, err
			}}},
	}
}

// othersToo waits until another one has come this far.
func (s *broken) othersToo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	n := s.n
	s.came()
	s.meet(func() bool { return s.n > n })
}

// idOf returns the id that a write inserts, if it inserts one.
func idOf(w pistore.Write) pistore.ID {
	switch w := w.(type) {
	case pistore.InsertEntry:
		return w.ID
	case pistore.InsertUsage:
		return w.ID
	default:
		return ""
	}
}

// has reports whether an id is in use.
func (s *broken) has(ctx context.Context, id pistore.ID) bool {
	entries, _ := s.Storage.Entries(ctx, []pistore.ID{id})
	usage, _ := drain(s.Storage.ScanUsage(ctx, pistore.ScanQuery{}))
	return len(entries) > 0 || slices.ContainsFunc(usage, func(u pistore.UsageRow) bool { return u.ID == id })
}
