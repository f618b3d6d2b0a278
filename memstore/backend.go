package memstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"

	"pistore"
	"pistore/internal/admit"
)

const format = "memory"

// Options configure a backend. The zero value is ready for use.
type Options struct {
	Clock pistore.Clock // nil: the system's clock
	Rand  io.Reader     // of session ids and generations; nil: crypto/rand
}

// Backend holds sessions in memory. See [pistore.Backend].
type Backend struct {
	clock pistore.Clock
	ids   *pistore.IDs

	mu       sync.Mutex // guards the rest
	closed   bool
	sessions map[pistore.SessionID]*session
	open     map[*storage]bool // every handle that is not closed
}

// session is a session and who has it open for writing, nil if nobody.
type session struct {
	state  *State
	writer *storage
}

var _ pistore.Backend = (*Backend)(nil)

// New returns a backend without sessions.
func New(o Options) *Backend {
	if o.Clock == nil {
		o.Clock = pistore.SystemClock
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return &Backend{
		clock:    o.Clock,
		ids:      pistore.NewIDs(o.Clock, o.Rand),
		sessions: make(map[pistore.SessionID]*session),
		open:     make(map[*storage]bool),
	}
}

// Create makes an empty session and opens it for writing.
func (b *Backend) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if info.ID == "" {
		info.ID = pistore.SessionID(b.ids.New())
	}
	if info.CreatedAt == 0 {
		info.CreatedAt = b.clock.Read()
	}
	info.Generation, info.StorageVersion, info.Format = string(b.ids.New()), pistore.StorageVersion, format
	if err := info.Check(); err != nil {
		return nil, fmt.Errorf("memstore: create: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.add(NewState(info))
	if err != nil {
		return nil, fmt.Errorf("memstore: create: %w", err)
	}
	return b.handOut(s.state, s), nil
}

// Open opens a session. Read-only it shows the session as it is now, whatever a
// writer commits later.
func (b *Backend) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.find(id)
	if err != nil {
		return nil, fmt.Errorf("memstore: open: %w", err)
	}
	switch mode {
	case pistore.ReadWrite:
		if s.writer != nil {
			return nil, fmt.Errorf("memstore: open: %w", s.writer.locked())
		}
		return b.handOut(s.state, s), nil
	case pistore.ReadOnly:
		return b.handOut(s.state.freeze(), nil), nil
	default:
		return nil, fmt.Errorf("memstore: open: %w: mode %d", pistore.ErrInvalid, mode)
	}
}

// Load builds a new session from an export.
func (b *Backend) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	state, err := b.loaded(ctx, rows, func(h pistore.Header) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.free(h.Info.ID)
	})
	if err != nil {
		return pistore.Info{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.add(state); err != nil {
		return pistore.Info{}, fmt.Errorf("memstore: load: %w", err)
	}
	return state.info, nil
}

// Rewrite replaces what a session holds. Handles that have it open for reading
// keep what they show.
func (b *Backend) Rewrite(ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	owner, err := b.Open(ctx, id, pistore.ReadWrite)
	if err != nil {
		return pistore.Info{}, err
	}
	defer owner.Close() // always nil
	old, err := b.Open(ctx, id, pistore.ReadOnly)
	if err != nil {
		return pistore.Info{}, err
	}
	defer old.Close() // always nil
	state, err := b.loaded(ctx, make(old), func(h pistore.Header) error {
		if h.Info.ID != id {
			return fmt.Errorf("%w: rows of session %s for session %s", pistore.ErrInvalid, h.Info.ID, id)
		}
		return nil
	})
	if err != nil {
		return pistore.Info{}, err
	}
	state.info.Generation = string(b.ids.New())
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.find(id)
	if err != nil {
		return pistore.Info{}, fmt.Errorf("memstore: rewrite: %w", err)
	}
	s.state = state
	return state.info, nil
}

// loaded makes the content of a session of rows; accept judges their header
// before the rest is read.
func (b *Backend) loaded(ctx context.Context, rows iter.Seq2[pistore.Row, error], accept func(pistore.Header) error) (*State, error) {
	state := NewState(pistore.Info{})
	for row, err := range admit.Rows(rows, state) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		h, ok := row.(pistore.Header)
		if !ok {
			state.load(row)
			continue
		}
		if err := b.loadHeader(state, h); err != nil {
			return nil, fmt.Errorf("memstore: load: %w", err)
		}
		if err := accept(h); err != nil {
			return nil, fmt.Errorf("memstore: load: %w", err)
		}
	}
	return state, nil
}

// loadHeader takes the header over.
func (b *Backend) loadHeader(state *State, h pistore.Header) error {
	if h.Info.ID == "" {
		return fmt.Errorf("%w: a header without a session id", pistore.ErrInvalid)
	}
	switch v := h.Info.StorageVersion; {
	case v < 0:
		return fmt.Errorf("%w: storage version %d", pistore.ErrInvalid, v)
	case v == 0: // rows that were made, not exported
		h.Info.StorageVersion = pistore.StorageVersion
	case v > pistore.StorageVersion:
		return fmt.Errorf("%w: storage version %d", pistore.ErrNewerVersion, v)
	}
	if h.Info.Generation == "" {
		h.Info.Generation = string(b.ids.New())
	}
	h.Info.Format = format
	state.info = h.Info
	state.RaiseNextSeq(h.NextSeq)
	return nil
}

// List yields every session by id.
func (b *Backend) List(ctx context.Context) iter.Seq2[pistore.Info, error] {
	return func(yield func(pistore.Info, error) bool) {
		infos, err := b.infos()
		if err := cmp.Or(ctx.Err(), err); err != nil {
			yield(pistore.Info{}, err)
			return
		}
		for _, info := range infos {
			if err := ctx.Err(); err != nil {
				yield(pistore.Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (b *Backend) infos() ([]pistore.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("memstore: list: %w", pistore.ErrClosed)
	}
	infos := make([]pistore.Info, 0, len(b.sessions))
	for _, s := range b.sessions {
		infos = append(infos, s.state.info)
	}
	slices.SortFunc(infos, func(a, b pistore.Info) int { return cmp.Compare(a.ID, b.ID) })
	return infos, nil
}

// Delete removes a session. Handles that have it open for reading keep what they
// show.
func (b *Backend) Delete(ctx context.Context, id pistore.SessionID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.find(id)
	if err == nil && s.writer != nil {
		err = s.writer.locked()
	}
	if err != nil {
		return fmt.Errorf("memstore: delete: %w", err)
	}
	delete(b.sessions, id)
	return nil
}

// Close closes the sessions that are still open and lets go of all content.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	open := slices.Collect(maps.Keys(b.open))
	b.mu.Unlock()
	// Not under the lock: a handle that closes reports back.
	for _, h := range open {
		_ = h.Close() // always nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.sessions)
	return nil
}

// find returns a session. The caller holds mu.
func (b *Backend) find(id pistore.SessionID) (*session, error) {
	if b.closed {
		return nil, pistore.ErrClosed
	}
	s, ok := b.sessions[id]
	if !ok {
		return nil, fmt.Errorf("%w: session %.140q", pistore.ErrNotFound, string(id))
	}
	return s, nil
}

// free returns an error unless a session of this id can be added. The caller
// holds mu.
func (b *Backend) free(id pistore.SessionID) error {
	if b.closed {
		return pistore.ErrClosed
	}
	if b.sessions[id] != nil {
		return fmt.Errorf("%w: session %s", pistore.ErrDuplicateID, id)
	}
	return nil
}

// add adds a session. The caller holds mu.
func (b *Backend) add(state *State) (*session, error) {
	if err := b.free(state.info.ID); err != nil {
		return nil, err
	}
	s := &session{state: state}
	b.sessions[state.info.ID] = s
	return s, nil
}

// handOut returns a handle; with a session given it is that session's writer.
// The caller holds mu.
func (b *Backend) handOut(state *State, writes *session) *storage {
	h := &storage{backend: b, state: state, writes: writes, since: b.clock.Read()}
	b.open[h] = true
	if writes != nil {
		writes.writer = h
	}
	return h
}

// takeBack forgets a handle and releases its ownership.
func (b *Backend) takeBack(h *storage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, h)
	if h.writes != nil {
		h.writes.writer = nil
	}
}
