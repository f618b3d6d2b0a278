package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"pistore"
	"pistore/memstore"
)

// The backends.
const (
	Memstore = "memstore"
	Jsonl    = "jsonl"
	Logstore = "logstore"
)

// Backends are those that can be simulated.
var Backends = []string{Memstore}

const sessionID pistore.SessionID = "simulated"

// place is where a session is kept: what outlives a process.
type place struct {
	// open opens the session for writing, and makes it the first time.
	open func(ctx context.Context) (pistore.Storage, error)
	// close closes it in order.
	close func() error
	// die drops what only the process knew and, with the power, everything that
	// was not synced.
	die func(power bool, rng *rand.Rand) error
	// fail has one of the next calls to the disk fail; nil: there is no disk.
	fail func(rng *rand.Rand)
}

func newPlace(backend string, seed uint64, clock pistore.Clock) (place, error) {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), 1})
	switch backend {
	case Memstore:
		return memoryPlace(clock, random), nil
	default:
		return place{}, fmt.Errorf("sim: %w: there is no backend %q", pistore.ErrInvalid, backend)
	}
}

// memoryPlace keeps the rows of a session, as its last owner left them.
func memoryPlace(clock pistore.Clock, random io.Reader) place {
	var rows []pistore.Row
	var current pistore.Storage
	var backend *memstore.Backend
	p := place{}
	p.open = func(ctx context.Context) (pistore.Storage, error) {
		backend = memstore.New(memstore.Options{Clock: clock, Rand: random})
		var err error
		if rows == nil {
			current, err = backend.Create(ctx, pistore.Info{ID: sessionID})
			return current, err
		}
		if _, err = backend.Load(ctx, func(yield func(pistore.Row, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}); err != nil {
			return nil, err
		}
		current, err = backend.Open(ctx, sessionID, pistore.ReadWrite)
		return current, err
	}
	p.close = func() error {
		if current == nil {
			return nil
		}
		rows = nil
		for row, err := range current.Export(context.Background()) {
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		current = nil
		return backend.Close()
	}
	p.die = func(bool, *rand.Rand) error { return p.close() }
	return p
}
