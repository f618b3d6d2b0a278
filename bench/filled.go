package bench

import (
	"context"
	"errors"
	"fmt"

	"pistore"
)

// filled is a store that holds one session with a History.
type filled struct {
	store   pistore.Backend
	history *History
	session pistore.Storage // open for writing; nil while it is closed
}

// fill makes a store with a history and opens the session.
func (r *run) fill(ctx context.Context) (f *filled, err error) {
	r.Progress.enter("making the history")
	f = &filled{history: &History{Turns: r.Turns, Lanes: max(1, r.Lanes), Seed: r.Seed}}
	if f.store, err = r.open(r.Dir); err != nil {
		return nil, err
	}
	f.session, err = makeSession(ctx, f.store, f.history, sessionID(0))
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	r.report.Metrics[LogicalTotal] = float64(f.history.LogicalBytes())
	return f, nil
}

// intoTables closes and opens a store that reads blocks of tables, so that a
// history is in tables however short it is.
func (r *run) intoTables(ctx context.Context, f *filled) (err error) {
	if _, ok := f.store.(BlockReader); !ok {
		return nil
	}
	if err := f.close(); err != nil {
		return err
	}
	f.session = nil
	if f.store, err = r.open(r.Dir); err != nil {
		return err
	}
	f.session, err = f.store.Open(ctx, sessionID(0), pistore.ReadWrite)
	return err
}

// makeSession makes a session with a history: by a load, or by commits if the store
// has none.
func makeSession(ctx context.Context, store pistore.Backend, h *History, id pistore.SessionID) (pistore.Storage, error) {
	_, err := store.Load(ctx, h.Rows(id))
	if err == nil {
		return store.Open(ctx, id, pistore.ReadWrite)
	}
	if !errors.Is(err, pistore.ErrUnsupported) {
		return nil, err
	}
	s, err := store.Create(ctx, pistore.Info{ID: id})
	if err != nil {
		return nil, err
	}
	return s, commitRows(h.Rows(id), func(tx pistore.Tx) error {
		_, err := s.Commit(ctx, tx)
		return err
	})
}

func (f *filled) close() error {
	var err error
	if f.session != nil {
		err = f.session.Close()
	}
	if f.store != nil {
		err = errors.Join(err, f.store.Close())
	}
	return err
}

// measured repeats one operation over a filled store and reports. The session is
// open for writing unless closed is set.
func (r *run) measured(ctx context.Context, closed bool, operation func(*filled) *worker) (err error) {
	f, err := r.fill(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if r.workload.tables {
		if err := r.intoTables(ctx, f); err != nil {
			return err
		}
	}
	if closed {
		s := f.session
		f.session = nil
		if err := s.Close(); err != nil {
			return err
		}
	}
	w := operation(f)
	if err := w.prepare(); err != nil {
		return err
	}
	if err := w.do(ctx); err != nil { // warm, and right
		return err
	}
	r.Progress.enter(r.workload.Op)
	used := newGauge(f.store)
	if err := r.repeat(ctx, []*worker{w}); err != nil {
		return err
	}
	used.report(r.report, allocations{})
	if size := folderBytes(r.Dir, anyFile); size > 0 {
		r.report.Metrics[DiskBytes] = float64(size)
	}
	return nil
}

// expect is an error unless a store gave as much as it holds.
func expect(got, want int, what string) error {
	if got != want {
		return fmt.Errorf("the store gave %d %s instead of %d", got, what, want)
	}
	return nil
}
