package pipe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os/exec"
	"sync"

	"pistore"
)

// Options say how to reach a store.
type Options struct {
	// Command returns a new command that speaks the protocol; what it does with
	// stdin, stdout and stderr is set here.
	Command func() *exec.Cmd
	// Location is where the store keeps its content, as it understands it.
	Location   string
	Durability pistore.Durability
}

// Backend is a store that other processes hold: one for each session that is
// open. It lists, loads, rewrites and deletes nothing, which the protocol has no
// words for (pistore.ErrUnsupported).
type Backend struct {
	o Options

	mu     sync.Mutex // guards what follows
	closed bool
	all    []*process // everything that was started
	idle   []*process // whose session was closed
}

var _ pistore.Backend = (*Backend)(nil)

// New returns the backend at a location. It starts nothing yet. It panics
// without a command.
func New(o Options) *Backend {
	if o.Command == nil {
		panic("pipe: Options.Command is nil")
	}
	return &Backend{o: o}
}

// Create makes a session. The protocol opens what exists already, so that is
// asked first.
func (b *Backend) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	if err := info.Check(); err != nil {
		return nil, fmt.Errorf("pipe: create: %w", err)
	}
	if info.ID != "" {
		s, err := b.Open(ctx, info.ID, pistore.ReadOnly)
		if err == nil {
			return nil, errors.Join(fmt.Errorf("pipe: create: %w: %s", pistore.ErrDuplicateID, info.ID), s.Close())
		}
		if !errors.Is(err, pistore.ErrNotFound) {
			return nil, err
		}
	}
	var metadata object
	metadata.textIf("id", string(info.ID))
	metadata.textIf("cwd", info.CWD)
	metadata.numberIf("createdAt", int64(info.CreatedAt))
	metadata.textIf("parentSessionId", string(info.ParentSessionID))
	return b.open(ctx, pistore.ReadWrite, func(o *object) {
		o.flag("create", true)
		o.textIf("session", string(info.ID))
		o.put("metadata", metadata.end())
	})
}

// Open opens a session.
func (b *Backend) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	if err := id.Check(); err != nil {
		return nil, fmt.Errorf("pipe: open: %w", err)
	}
	return b.open(ctx, mode, func(o *object) {
		o.flag("create", false)
		o.text("session", string(id))
	})
}

func (b *Backend) open(ctx context.Context, mode pistore.Mode, more func(*object)) (pistore.Storage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := b.process()
	if err != nil {
		return nil, err
	}
	var params object
	params.text("location", b.o.Location)
	params.text("mode", modeNames[mode])
	params.text("durability", b.o.Durability.String())
	more(&params)
	r, err := p.call("open", params.end())
	if err != nil {
		b.release(p)
		return nil, err
	}
	info, err := decodeInfo(r.fields["session"])
	if err != nil {
		return nil, fmt.Errorf("pipe: open: %w", err)
	}
	info.Format, info.StorageVersion = r.text("format"), int(r.number("storageVersion"))
	return &storage{b: b, p: p, info: info}, r.err
}

var modeNames = map[pistore.Mode]string{pistore.ReadWrite: "rw", pistore.ReadOnly: "ro"}

// process returns one that has nothing open.
func (b *Backend) process() (*process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("pipe: %w", pistore.ErrClosed)
	}
	if n := len(b.idle); n > 0 {
		p := b.idle[n-1]
		b.idle = b.idle[:n-1]
		return p, nil
	}
	p, err := start(b.o.Command())
	if err == nil {
		b.all = append(b.all, p)
	}
	return p, err
}

// release takes back a process whose session is closed.
func (b *Backend) release(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, p)
}

// Load is ErrUnsupported.
func (b *Backend) Load(context.Context, iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	return pistore.Info{}, unsupported("load")
}

// Rewrite is ErrUnsupported.
func (b *Backend) Rewrite(context.Context, pistore.SessionID, func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	return pistore.Info{}, unsupported("rewrite")
}

// List yields ErrUnsupported.
func (b *Backend) List(context.Context) iter.Seq2[pistore.Info, error] {
	return fail[pistore.Info](unsupported("list"))
}

// Delete is ErrUnsupported.
func (b *Backend) Delete(context.Context, pistore.SessionID) error { return unsupported("delete") }

// Close ends every process and waits for it.
func (b *Backend) Close() error {
	b.mu.Lock()
	all := b.all
	b.closed, b.all, b.idle = true, nil, nil
	b.mu.Unlock()
	var err error
	for _, p := range all {
		err = errors.Join(err, p.end(context.Background()))
	}
	return err
}

func unsupported(what string) error { return fmt.Errorf("pipe: %s: %w", what, pistore.ErrUnsupported) }

// fail is a sequence of one error.
func fail[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
