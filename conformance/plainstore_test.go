package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"pistore"
)

// plainStores is a backend made of the model: a second implementation of the
// contract, whose content outlives Close, by directory.
type plainStores struct {
	mu     sync.Mutex // guards everything below, sessions and handles included
	places map[string]map[pistore.SessionID]*plainSession
	minted int
}

type plainSession struct {
	info  pistore.Info
	m     *model
	next  pistore.Seq
	owner *plainStorage
}

type plainBackend struct {
	all      *plainStores
	sessions map[pistore.SessionID]*plainSession
	handles  []*plainStorage
	closed   bool
}

type plainStorage struct {
	all    *plainStores
	s      *plainSession
	mode   pistore.Mode
	closed bool
}

func plain() Config {
	all := &plainStores{places: map[string]map[pistore.SessionID]*plainSession{}}
	return Config{Open: all.open}
}

func (all *plainStores) open(dir string) (pistore.Backend, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.places[dir] == nil {
		all.places[dir] = map[pistore.SessionID]*plainSession{}
	}
	return &plainBackend{all: all, sessions: all.places[dir]}, nil
}

func (all *plainStores) mint() string {
	all.minted++
	return string(pistore.UUIDv7(pistore.UnixMS(all.minted), make([]byte, 10)))
}

func (b *plainBackend) hand(s *plainSession, mode pistore.Mode) pistore.Storage {
	h := &plainStorage{all: b.all, s: s, mode: mode}
	if mode == pistore.ReadWrite {
		s.owner = h
	}
	b.handles = append(b.handles, h)
	return h
}

func (b *plainBackend) usable(ctx context.Context) error {
	if b.closed {
		return pistore.ErrClosed
	}
	return ctx.Err()
}

func (b *plainBackend) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	if err := info.Check(); err != nil {
		return nil, err
	}
	if info.ID == "" {
		info.ID = pistore.SessionID(b.all.mint())
	}
	if b.sessions[info.ID] != nil {
		return nil, pistore.ErrDuplicateID
	}
	if info.CreatedAt == 0 {
		info.CreatedAt = 1
	}
	info.Generation, info.StorageVersion, info.Format = b.all.mint(), pistore.StorageVersion, "plain"
	s := &plainSession{info: info, m: newModel(), next: 1}
	b.sessions[info.ID] = s
	return b.hand(s, pistore.ReadWrite), nil
}

func (b *plainBackend) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	s := b.sessions[id]
	switch {
	case s == nil:
		return nil, pistore.ErrNotFound
	case mode == pistore.ReadWrite && s.owner != nil:
		return nil, pistore.ErrLocked
	}
	return b.hand(s, mode), nil
}

func (b *plainBackend) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return pistore.Info{}, err
	}
	var s *plainSession
	for row, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			s, err = b.loadRow(s, row)
		}
		if err != nil {
			return pistore.Info{}, err
		}
	}
	if s == nil {
		return pistore.Info{}, pistore.ErrInvalid
	}
	s.next = max(s.next, s.m.last+1)
	b.sessions[s.info.ID] = s
	return s.info, nil
}

func (b *plainBackend) Rewrite(ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	owner, err := b.Open(ctx, id, pistore.ReadWrite)
	if err != nil {
		return pistore.Info{}, err
	}
	old, err := b.Open(ctx, id, pistore.ReadOnly)
	if err != nil {
		return pistore.Info{}, errors.Join(err, owner.Close())
	}
	rows, err := drain(make(old))
	loaded := plainBackend{all: b.all, sessions: map[pistore.SessionID]*plainSession{}}
	if err == nil {
		_, err = loaded.Load(ctx, sequence(rows))
	}
	b.all.mu.Lock()
	s := loaded.sessions[id]
	if err == nil && s == nil {
		err = fmt.Errorf("%w: another session's rows", pistore.ErrInvalid)
	}
	if err == nil {
		s.info.Generation = b.all.mint()
		b.sessions[id] = s
	}
	b.all.mu.Unlock()
	if err = errors.Join(err, old.Close(), owner.Close()); err != nil {
		return pistore.Info{}, err
	}
	return s.info, nil
}

func (b *plainBackend) loadRow(s *plainSession, row pistore.Row) (*plainSession, error) {
	h, isHeader := row.(pistore.Header)
	switch {
	case isHeader != (s == nil):
		return nil, fmt.Errorf("%w: header", pistore.ErrInvalid)
	case !isHeader:
		return s, s.load(row)
	case h.NextSeq < 0 || h.NextSeq > pistore.MaxSeq+1:
		return nil, fmt.Errorf("%w: nextSeq", pistore.ErrInvalid)
	case b.sessions[h.Info.ID] != nil:
		return nil, pistore.ErrDuplicateID
	}
	if h.Info.Generation == "" {
		h.Info.Generation = b.all.mint()
	}
	h.Info.Format = "plain"
	return &plainSession{info: h.Info, m: newModel(), next: h.NextSeq}, h.Info.Check()
}

// load applies a row as the transaction that writes it.
func (s *plainSession) load(row pistore.Row) error {
	var w pistore.Write
	at := pistore.UnixMS(0)
	switch r := row.(type) {
	case pistore.Entry:
		at = r.Timestamp
		w = pistore.InsertEntry{ID: r.ID, ParentID: r.ParentID, Type: r.Type, CustomType: r.CustomType, Payload: r.Payload}
	case pistore.UsageRow:
		w = pistore.InsertUsage{ID: r.ID, Usage: r.Usage, EntryID: r.EntryID, Adjustment: r.Adjustment, Details: r.Details}
	case pistore.Register:
		if s.m.registers[r.Address()].Seq != 0 {
			return fmt.Errorf("%w: register twice", pistore.ErrInvalid)
		}
		w = pistore.SetRegister{Namespace: r.Namespace, Key: r.Key, Value: r.Value}
	default:
		return fmt.Errorf("%w: row %T", pistore.ErrInvalid, row)
	}
	if may, _ := s.m.judge(txOf(w)); len(may) > 0 {
		return may[0]
	}
	seq := seqOf(row)
	if err := s.m.apply(txOf(w), pistore.Receipt{FirstSeq: seq, Seqs: []pistore.Seq{seq}, Timestamp: at}); err != nil {
		return fmt.Errorf("%w: %w", pistore.ErrInvalid, err)
	}
	return nil
}

func (b *plainBackend) List(ctx context.Context) iter.Seq2[pistore.Info, error] {
	return func(yield func(pistore.Info, error) bool) {
		b.all.mu.Lock()
		var infos []pistore.Info
		for _, s := range b.sessions {
			infos = append(infos, s.info)
		}
		err := b.usable(ctx)
		b.all.mu.Unlock()
		slices.SortFunc(infos, func(x, y pistore.Info) int { return strings.Compare(string(x.ID), string(y.ID)) })
		yieldAll(infos, err, yield)
	}
}

func yieldAll[T any](all []T, err error, yield func(T, error) bool) {
	if err != nil {
		var none T
		yield(none, err)
		return
	}
	sequence(all)(yield)
}

func (b *plainBackend) Delete(ctx context.Context, id pistore.SessionID) error {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return err
	}
	switch s := b.sessions[id]; {
	case s == nil:
		return pistore.ErrNotFound
	case s.owner != nil:
		return pistore.ErrLocked
	}
	delete(b.sessions, id)
	return nil
}

func (b *plainBackend) Close() error {
	for _, h := range b.handles {
		_ = h.Close() // always nil
	}
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.closed = true
	return nil
}

func (h *plainStorage) Info() pistore.Info { return h.s.info }

func (h *plainStorage) usable(ctx context.Context) error {
	if h.closed {
		return pistore.ErrClosed
	}
	return ctx.Err()
}

func (h *plainStorage) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if err := h.usable(ctx); err != nil {
		return pistore.Receipt{}, err
	}
	if h.mode == pistore.ReadOnly {
		return pistore.Receipt{}, pistore.ErrReadOnly
	}
	may, conflict := h.s.m.judge(tx)
	switch {
	case conflict != nil:
		return pistore.Receipt{}, conflict
	case len(may) > 0:
		if _, err := tx.Admit(); err != nil {
			return pistore.Receipt{}, err
		}
		return pistore.Receipt{}, may[0]
	}
	r := pistore.Receipt{Timestamp: 1_700_000_000_000}
	for range tx.Writes {
		r.Seqs = append(r.Seqs, h.s.next)
		h.s.next++
	}
	if len(r.Seqs) > 0 {
		r.FirstSeq = r.Seqs[0]
	}
	if err := h.s.m.apply(tx, r); err != nil {
		return pistore.Receipt{}, err
	}
	r.Stats = h.s.m.stats()
	return r, nil
}

// plainRead answers a read under the lock.
func plainRead[T any](ctx context.Context, h *plainStorage, answer func(*model) (T, error)) (T, error) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if err := h.usable(ctx); err != nil {
		var none T
		return none, err
	}
	return answer(h.s.m)
}

// plainIter yields a copy of an answer.
func plainIter[T any](ctx context.Context, h *plainStorage, answer func(*model) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := plainRead(ctx, h, func(m *model) ([]T, error) {
			all, err := answer(m)
			return slices.Clone(all), err
		})
		yieldAll(all, err, yield)
	}
}

func (h *plainStorage) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	return plainRead(ctx, h, func(m *model) ([]pistore.Entry, error) { return m.entriesByID(ids), nil })
}

func (h *plainStorage) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	return plainRead(ctx, h, func(m *model) ([]pistore.Register, error) { return m.registersAt(at), nil })
}

func (h *plainStorage) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	return plainIter(ctx, h, func(m *model) ([]pistore.Register, error) { return m.prefix(namespace, prefix), nil })
}

func (h *plainStorage) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	return plainIter(ctx, h, func(m *model) ([]pistore.Entry, error) { return m.branch(q) })
}

func (h *plainStorage) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	return plainIter(ctx, h, func(m *model) ([]pistore.Entry, error) { return m.scanEntries(q) })
}

func (h *plainStorage) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return plainIter(ctx, h, func(m *model) ([]pistore.UsageRow, error) { return m.scanUsage(q) })
}

func (h *plainStorage) Stats(ctx context.Context) (pistore.Stats, error) {
	return plainRead(ctx, h, func(m *model) (pistore.Stats, error) { return m.stats(), nil })
}

func (h *plainStorage) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return plainIter(ctx, h, func(m *model) ([]pistore.Row, error) {
		return append([]pistore.Row{pistore.Header{Info: h.s.info, NextSeq: h.s.next}}, m.rows()...), nil
	})
}

func (h *plainStorage) Close() error {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if !h.closed && h.s.owner == h {
		h.s.owner = nil
	}
	h.closed = true
	return nil
}
