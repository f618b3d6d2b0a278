package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"pistore"
)

// rebuilt changes an export of the session each time it is opened for writing.
func rebuilt(change func(h *pistore.Header, rows []pistore.Row) []pistore.Row) defect {
	return defect{open: func(b *brokenBackend, ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
		s, err := b.Backend.Open(ctx, id, mode)
		if err != nil || mode == pistore.ReadOnly {
			return s, err
		}
		all, err := drain(s.Export(ctx))
		if err := errors.Join(err, s.Close(), b.Backend.Delete(ctx, id)); err != nil {
			return nil, err
		}
		h := all[0].(pistore.Header)
		rows := change(&h, all[1:])
		if _, err := b.Backend.Load(ctx, sequence(append([]pistore.Row{h}, rows...))); err != nil {
			return nil, err
		}
		return b.Backend.Open(ctx, id, mode)
	}}
}

// reopeningRows are the rows that read after reopening what was committed last.
var reopeningRows = []string{
	"TX-16", "TX-18", "LED-10", "JSN-01", "JSN-02", "JSN-03", "JSN-04", "JSN-05", "JSN-06", "JSN-07", "LIM-01", "CLO-03",
	"REO-01", "REO-02", "REO-05", "REO-06", "EXP-03", "RO-02", "OWN-03", "BAK-03", "BAK-05", "LOD-01", "LOD-04", "LOD-05", "LOD-06",
	"LOD-07", "LOD-08", "LOD-09", "LOD-10", "LOD-11", "LOD-12", "LOD-13", "RWR-01", "RWR-03",
}

func handleMutants() []mutant {
	type ctx = context.Context
	return []mutant{
		{name: "loses the last row on reopening", model: true, reopened: true, rows: reopeningRows,
			defect: rebuilt(func(_ *pistore.Header, rows []pistore.Row) []pistore.Row { return rows[:max(0, len(rows)-1)] })},
		{name: "takes nextSeq from the rows on reopening", model: true, reopened: true, rows: []string{"REO-02", "REO-03", "LOD-01", "LOD-03", "RWR-02", "RWR-03"},
			defect: rebuilt(func(h *pistore.Header, rows []pistore.Row) []pistore.Row {
				h.NextSeq = 1
				return rows
			})},
		{name: "stores a lone register only with what follows", model: true, reopened: true, rows: []string{"REO-02", "BAK-05"}, defect: lazyRegister},
		{name: "mints a generation on reopening", model: false, rows: []string{"REO-04", "LOD-02", "RWR-02", "RWR-03"},
			defect: rebuilt(func(h *pistore.Header, rows []pistore.Row) []pistore.Row {
				h.Info.Generation = ""
				return rows
			})},
		{name: "closes once only", model: false, rows: []string{"CLO-01"},
			defect: defect{close: func(s *broken) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.n++; s.n > 1 {
					return pistore.ErrClosed
				}
				return s.Storage.Close()
			}}},
		{name: "answers a closed session with nothing", model: false, rows: []string{"CLO-02"},
			defect: defect{registers: func(s *broken, c ctx, at []pistore.Address) ([]pistore.Register, error) {
				all, err := s.Storage.Registers(c, at)
				if errors.Is(err, pistore.ErrClosed) {
					err = nil
				}
				return all, err
			}}},
		{name: "acknowledges what Close cut off", model: false, rows: []string{"CLO-02", "CLO-03", "CLO-04"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				if errors.Is(err, pistore.ErrClosed) {
					err = nil
				}
				return r, err
			}}},
		{name: "ends a read that Close cut off without an error", model: false, rows: []string{"CLO-02", "CLO-05"},
			defect: defect{usage: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.UsageRow, error) {
				all, err := drain(s.Storage.ScanUsage(c, q))
				if errors.Is(err, pistore.ErrClosed) {
					err = nil
				}
				return all, err
			}}},
		{name: "reads although the context has ended", model: false, rows: []string{"CTX-02"},
			defect: defect{usage: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.UsageRow, error) {
				return drain(s.Storage.ScanUsage(context.WithoutCancel(c), q))
			}}},
		{name: "lets a second owner in", model: false, plain: true, rows: []string{"OWN-01", "OWN-03", "OWN-04", "RWR-04"},
			defect: defect{open: func(b *brokenBackend, c ctx, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
				s, err := b.Backend.Open(c, id, mode)
				if errors.Is(err, pistore.ErrLocked) {
					return b.Backend.Open(c, id, pistore.ReadOnly)
				}
				return s, err
			}}},
		{name: "leaks a lock with every opening, and has two of them", model: true, reopened: true, rows: []string{"REO-02", "REO-03", "REO-05", "OWN-02", "RWR-01"},
			defect: defect{open: func(b *brokenBackend, c ctx, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
				s, err := b.Backend.Open(c, id, mode)
				b.mu.Lock()
				defer b.mu.Unlock()
				if err == nil && mode == pistore.ReadWrite {
					if b.opened[id]++; b.opened[id] > 2 {
						return nil, errors.Join(pistore.ErrLocked, s.Close())
					}
				}
				return s, err
			}}},
		{name: "has one lock for all sessions", model: false, rows: []string{"OWN-05", "BAK-05", "BAK-08", "LOD-02"}, defect: lockingAll()},
		{name: "takes ownership when opened read-only", model: false, rows: []string{"RO-02", "RO-03", "RO-04", "RWR-05"},
			defect: defect{open: func(b *brokenBackend, c ctx, id pistore.SessionID, _ pistore.Mode) (pistore.Storage, error) {
				return b.Backend.Open(c, id, pistore.ReadWrite)
			}}},
		{name: "creates what it is asked to open read-only", model: false, rows: []string{"RO-05"},
			defect: defect{open: func(b *brokenBackend, c ctx, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
				s, err := b.Backend.Open(c, id, mode)
				if mode == pistore.ReadOnly && errors.Is(err, pistore.ErrNotFound) {
					return b.Backend.Create(c, pistore.Info{ID: id})
				}
				return s, err
			}}},
	}
}

// lockingAll opens no session while another one is open for writing.
func lockingAll() defect {
	own := func(b *brokenBackend, s pistore.Storage, err error) (pistore.Storage, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if err == nil {
			b.owned[s.Info().ID] = true
		}
		return s, err
	}
	return defect{
		create: func(b *brokenBackend, ctx context.Context, info pistore.Info) (pistore.Storage, error) {
			s, err := b.Backend.Create(ctx, info)
			return own(b, s, err)
		},
		open: func(b *brokenBackend, ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
			s, err := b.Backend.Open(ctx, id, mode)
			if err != nil || mode == pistore.ReadOnly {
				return s, err
			}
			b.mu.Lock()
			others := len(b.owned)
			b.mu.Unlock()
			if others > 0 {
				return nil, errors.Join(pistore.ErrLocked, s.Close())
			}
			return own(b, s, err)
		},
		close: func(s *broken) error {
			s.b.mu.Lock()
			delete(s.b.owned, s.Info().ID)
			s.b.mu.Unlock()
			return s.Storage.Close()
		},
	}
}

func backendMutants() []mutant {
	type ctx = context.Context
	return []mutant{
		{name: "closes the backend but not its sessions", model: false, plain: true, rows: []string{"CLO-04", "REO-07"},
			defect: defect{shut: func(*brokenBackend) error { return nil }}},
		{name: "deletes nothing", model: false, rows: []string{"CLO-04", "OWN-06", "BAK-08", "BAK-09", "RWR-04"},
			defect: defect{delete: func(*brokenBackend, ctx, pistore.SessionID) error { return nil }}},
		{name: "mints ids that are no UUIDs", model: false, rows: []string{"BAK-02"},
			defect: defect{create: func(b *brokenBackend, c ctx, info pistore.Info) (pistore.Storage, error) {
				if all, _ := drain(b.Backend.List(c)); info.ID == "" {
					info.ID = pistore.SessionID(fmt.Sprint("session-", len(all)))
				}
				return b.Backend.Create(c, info)
			}}},
		{name: "creates a session of an invalid Info", model: false, rows: []string{"BAK-04"},
			defect: defect{create: func(b *brokenBackend, c ctx, info pistore.Info) (pistore.Storage, error) {
				s, err := b.Backend.Create(c, info)
				if errors.Is(err, pistore.ErrInvalid) {
					return b.Backend.Create(c, pistore.Info{})
				}
				return s, err
			}}},
		{name: "cuts a working directory at U+2028", model: false, rows: []string{"BAK-01"},
			defect: defect{create: func(b *brokenBackend, c ctx, info pistore.Info) (pistore.Storage, error) {
				info.CWD, _, _ = strings.Cut(info.CWD, "\u2028")
				return b.Backend.Create(c, info)
			}}},
		{name: "opens what it is asked to create", model: false, rows: []string{"BAK-03"},
			defect: defect{create: func(b *brokenBackend, c ctx, info pistore.Info) (pistore.Storage, error) {
				s, err := b.Backend.Create(c, info)
				if errors.Is(err, pistore.ErrDuplicateID) {
					return b.Backend.Open(c, info.ID, pistore.ReadOnly)
				}
				return s, err
			}}},
		{name: "lists the newest session first", model: false, rows: []string{"BAK-07"},
			defect: defect{list: func(all []pistore.Info) []pistore.Info {
				slices.Reverse(all)
				return all
			}}},
		{name: "loads without nextSeq", model: false, rows: []string{"LOD-01", "LOD-03"},
			defect: defect{load: func(b *brokenBackend, c ctx, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
				return b.Backend.Load(c, changed(rows, func(h *pistore.Header) {
					if h.NextSeq <= pistore.MaxSeq {
						h.NextSeq = min(h.NextSeq, 1)
					}
				}))
			}}},
		{name: "loads with a generation of its own", model: false, rows: []string{"LOD-02"},
			defect: defect{load: func(b *brokenBackend, c ctx, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
				return b.Backend.Load(c, changed(rows, func(h *pistore.Header) { h.Info.Generation = "" }))
			}}},
		{name: "hides the error of a stream", model: false, rows: []string{"LOD-11"},
			defect: defect{load: func(b *brokenBackend, c ctx, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
				var fault error
				info, err := b.Backend.Load(c, func(yield func(pistore.Row, error) bool) {
					for row, err := range rows {
						if fault = err; !yield(row, err) {
							return
						}
					}
				})
				if fault != nil {
					err = errors.New("load failed")
				}
				return info, err
			}}},
		{name: "leaves what a refused load began", model: false, rows: []string{"LOD-06", "LOD-07", "LOD-08", "LOD-09", "LOD-10", "LOD-11", "LOD-13"},
			defect: defect{load: func(b *brokenBackend, c ctx, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
				var id pistore.SessionID
				info, err := b.Backend.Load(c, changed(rows, func(h *pistore.Header) { id = h.Info.ID }))
				if err != nil && id != "" {
					if s, createErr := b.Backend.Create(context.WithoutCancel(c), pistore.Info{ID: id}); createErr == nil {
						_ = s.Close() // the session stays
					}
				}
				return info, err
			}}},
	}
}

// changed changes the header of a stream.
func changed(rows iter.Seq2[pistore.Row, error], change func(*pistore.Header)) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		for row, err := range rows {
			if h, ok := row.(pistore.Header); ok {
				change(&h)
				row = h
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// lazyRegister forgets what the newest commit of a session has set, if that was
// one register and nothing else.
var lazyRegister = defect{
	commit: func(s *broken, c context.Context, tx pistore.Tx) (pistore.Receipt, error) {
		r, err := s.Storage.Commit(c, tx)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lone = nil
			if len(tx.Writes) == 1 {
				if set, ok := tx.Writes[0].(pistore.SetRegister); ok {
					s.lone = &pistore.DeleteRegister{Namespace: set.Namespace, Key: set.Key}
				}
			}
		}
		return r, err
	},
	close: func(s *broken) error {
		s.mu.Lock()
		lone := s.lone
		s.lone = nil
		s.mu.Unlock()
		if lone != nil {
			_, _ = s.Storage.Commit(context.Background(), pistore.Tx{Writes: []pistore.Write{*lone}}) // it may be read-only
		}
		return s.Storage.Close()
	},
}
