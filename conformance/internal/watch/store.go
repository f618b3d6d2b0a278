package watch

import (
	"context"
	"iter"
	"reflect"

	"pistore"
)

// Backend watches a backend that a call has given.
func (w *Watch) Backend(call string, b pistore.Backend, err error) (pistore.Backend, error) {
	if err = w.given(call, b, err); err != nil {
		return nil, err
	}
	return backend{b, w}, nil
}

// given is why there is nothing to work with.
func (w *Watch) given(call string, what any, err error) error {
	if v := reflect.ValueOf(what); err != nil || v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return err
	}
	return w.note(&Fault{
		What:   call + " returned nil without an error",
		Advice: "give what was asked for or an error that says why not; of what is not there that is ErrNotFound. A nil pointer in an interface is nil too",
	})
}

func (w *Watch) session(call string, st pistore.Storage, err error) (pistore.Storage, error) {
	if err = w.given(call, st, err); err != nil {
		return nil, err
	}
	return session{st, w}, nil
}

// Rows watches the iterator that a call has given.
func Rows[T any](w *Watch, call string, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	var none T
	if rows == nil {
		fault := w.note(&Fault{
			What:   call + " returned a nil iterator",
			Advice: "return an iterator in any case: one that yields nothing where there is nothing, or an error as its only pair",
		})
		return func(yield func(T, error) bool) { yield(none, fault) }
	}
	return func(yield func(T, error) bool) {
		c := w.begin(call, true)
		defer w.end(c)
		for row, err := range rows {
			if n := c.rows.Add(1); w.MaxRows > 0 && n > w.MaxRows {
				yield(none, w.endless(call))
				return
			}
			c.move(true)
			if !yield(row, err) {
				return
			}
			c.move(false)
		}
	}
}

func (w *Watch) endless(call string) *Fault {
	return w.note(&Fault{
		What:    "the iterator of " + call + " does not end",
		Advice:  "an iterator returns behind its last row, and when yield gives false: look at what ends the loop of " + call,
		Endless: true,
	})
}

// backend is a backend whose calls are watched.
type backend struct {
	of pistore.Backend
	w  *Watch
}

func (b backend) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	defer b.w.Begin("Create")()
	st, err := b.of.Create(ctx, info)
	return b.w.session("Create", st, err)
}

func (b backend) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	defer b.w.Begin("Open")()
	st, err := b.of.Open(ctx, id, mode)
	return b.w.session("Open", st, err)
}

func (b backend) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	defer b.w.Begin("Load")()
	return b.of.Load(ctx, rows)
}

func (b backend) Rewrite(ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	defer b.w.Begin("Rewrite")()
	return b.of.Rewrite(ctx, id, func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
		if b.w.given("Rewrite", old, nil) != nil {
			fault := b.w.note(&Fault{What: "Rewrite called make with nil", Advice: "call make with the session as it is, open for reading"})
			return func(yield func(pistore.Row, error) bool) { yield(nil, fault) }
		}
		return make(session{old, b.w})
	})
}

func (b backend) List(ctx context.Context) iter.Seq2[pistore.Info, error] {
	defer b.w.Begin("List")()
	return Rows(b.w, "List", b.of.List(ctx))
}

func (b backend) Delete(ctx context.Context, id pistore.SessionID) error {
	defer b.w.Begin("Delete")()
	return b.of.Delete(ctx, id)
}

func (b backend) Close() error {
	defer b.w.Begin("Backend.Close")()
	return b.of.Close()
}

// session is a session whose calls are watched.
type session struct {
	of pistore.Storage
	w  *Watch
}

// Unwrap is part of [pistore.Decorator].
func (s session) Unwrap() pistore.Storage { return s.of }

func (s session) Info() pistore.Info {
	defer s.w.Begin("Info")()
	return s.of.Info()
}

func (s session) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	defer s.w.Begin("Commit")()
	return s.of.Commit(ctx, tx)
}

func (s session) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	defer s.w.Begin("Entries")()
	return s.of.Entries(ctx, ids)
}

func (s session) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	defer s.w.Begin("Registers")()
	return s.of.Registers(ctx, at)
}

func (s session) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	defer s.w.Begin("RegistersByPrefix")()
	return Rows(s.w, "RegistersByPrefix", s.of.RegistersByPrefix(ctx, namespace, prefix))
}

func (s session) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	defer s.w.Begin("Branch")()
	return Rows(s.w, "Branch", s.of.Branch(ctx, q))
}

func (s session) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	defer s.w.Begin("ScanEntries")()
	return Rows(s.w, "ScanEntries", s.of.ScanEntries(ctx, q))
}

func (s session) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	defer s.w.Begin("ScanUsage")()
	return Rows(s.w, "ScanUsage", s.of.ScanUsage(ctx, q))
}

func (s session) Stats(ctx context.Context) (pistore.Stats, error) {
	defer s.w.Begin("Stats")()
	return s.of.Stats(ctx)
}

func (s session) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	defer s.w.Begin("Export")()
	return Rows(s.w, "Export", s.of.Export(ctx))
}

func (s session) Close() error {
	defer s.w.Begin("Close")()
	return s.of.Close()
}
