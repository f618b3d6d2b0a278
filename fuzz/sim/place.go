package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"

	"pistore"
	"pistore/disk"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/memstore"
)

// The backends.
const (
	Memstore = "memstore"
	Jsonl    = "jsonl"
	Logstore = "logstore"
)

// Backends are those that can be simulated.
var Backends = []string{Memstore, Jsonl, Logstore}

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
	// losesPower: what is acknowledged outlives the power too. At a lower level it
	// may be gone, which would be no finding.
	losesPower bool
}

func newPlace(backend string, seed uint64, clock pistore.Clock) (place, error) {
	r := dice(seed, "place")
	var key [32]byte
	for i := range key {
		key[i] = byte(r.Uint32())
	}
	random := rand.NewChaCha8(key)
	level := []pistore.Durability{pistore.Process, pistore.Power}[r.IntN(2)]
	switch backend {
	case Memstore:
		return memoryPlace(clock, random), nil
	case Jsonl:
		return diskPlace(level, "", func(fs disk.FS) (pistore.Backend, error) {
			o := jsonl.Options{Durability: level, Clock: clock, Rand: random, FS: fs}
			if chance(dice(seed, "eager"), 3) {
				o.CompactEagerly = true
			}
			return jsonl.NewFolder(folder, o), nil
		})
	case Logstore:
		return diskPlace(level, ".log", func(fs disk.FS) (pistore.Backend, error) {
			return logstore.Open(folder, logstore.Options{
				Durability: level, Clock: clock, Random: random, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1,
			})
		})
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

// folder is where a backend with a disk keeps its session.
const folder = "/sessions"

// diskPlace keeps a session on a disk in memory. Calls on files with a suffix may
// fail.
func diskPlace(level pistore.Durability, suffix string, start func(disk.FS) (pistore.Backend, error)) (place, error) {
	d := &diskState{memory: disk.NewMemory(), suffix: suffix, start: start}
	if err := errors.Join(d.memory.Mkdir(folder), d.memory.SyncDir("/")); err != nil {
		return place{}, err
	}
	return place{open: d.open, close: d.close, die: d.die, fail: d.fail, losesPower: level == pistore.Power}, nil
}

// diskState is a disk and the backend that works on it.
type diskState struct {
	start   func(disk.FS) (pistore.Backend, error)
	suffix  string // of the files whose calls may fail
	memory  *disk.Memory
	failing *disk.Failing
	backend pistore.Backend // nil: nobody has it open
	made    bool
}

func (d *diskState) open(ctx context.Context) (pistore.Storage, error) {
	d.failing = disk.NewFailing(d.memory)
	backend, err := d.start(d.failing)
	if err != nil {
		return nil, err
	}
	d.backend = backend
	if d.made {
		return backend.Open(ctx, sessionID, pistore.ReadWrite)
	}
	s, err := backend.Create(ctx, pistore.Info{ID: sessionID})
	d.made = err == nil
	return s, err
}

func (d *diskState) close() error {
	if d.backend == nil {
		return nil
	}
	d.failing.Rule(nil)
	backend := d.backend
	d.backend = nil
	return backend.Close()
}

// die leaves the disk to the next process as it is, or as a power cut leaves it.
// The old process goes on to its end on a disk that nobody looks at any more.
func (d *diskState) die(power bool, rng *rand.Rand) error {
	left := d.memory.Die()
	if power {
		left = d.memory.Crash(rng)
	}
	_ = d.close() // of a process that is dead
	d.memory = left
	return nil
}

// fail has the next write or sync fail, after some of it or all of it was done.
func (d *diskState) fail(rng *rand.Rand) {
	kind := []disk.Kind{disk.OpWrite, disk.OpWrite, disk.OpSyncData, disk.OpSync}[rng.IntN(4)]
	written := 0
	if chance(rng, 2) {
		written = rng.IntN(2000)
	}
	done := false
	d.failing.Rule(func(c disk.Call) disk.Verdict {
		// What an engine does to its other files it does when it likes.
		if done || c.Kind != kind || !strings.HasSuffix(c.Name, d.suffix) {
			return disk.Verdict{}
		}
		done = true
		return disk.Verdict{Err: syscall.EIO, Written: written}
	})
}
