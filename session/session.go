package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"pistore"
	"pistore/registers"
)

// ErrLaneBusy: the lane has an open operation, whose inbox takes what is to be
// written. Nothing was written.
var ErrLaneBusy = errors.New("lane busy")

// Session is the typed view of one open session. It keeps no state of its own,
// so several may stand over one Storage, and it is safe for concurrent use.
// Everything that it writes is durable when the call returns. Conflicting calls
// are ErrConflict and write nothing; the caller reads again and decides again.
type Session struct{ storage pistore.Storage }

// New returns the session in storage, which it does not touch; the lane main
// must be there already. The caller goes on to own the storage and closes it.
func New(storage pistore.Storage) *Session { return &Session{storage} }

// Open returns the session in storage and gives it the lane main if it has
// none, unless the storage is read-only.
func Open(ctx context.Context, storage pistore.Storage) (*Session, error) {
	s := New(storage)
	_, err := s.Lane(ctx, registers.MainLane)
	if errors.Is(err, pistore.ErrNotFound) {
		err = Init(ctx, storage)
		if errors.Is(err, pistore.ErrConflict) || errors.Is(err, pistore.ErrReadOnly) {
			err = nil // somebody else was first, or nobody can
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Init gives a new session its lane main, standing before any entry and idle.
// Its configuration comes with the first transaction that accepts an operation.
// A session that has the lane already is ErrConflict.
func Init(ctx context.Context, storage pistore.Storage) error {
	_, err := storage.Commit(ctx, newLane(registers.MainLane, ""))
	return wrap("init", err)
}

// newLane is the transaction that makes a lane.
func newLane(name string, anchor pistore.ID) pistore.Tx {
	return pistore.Tx{
		Writes: []pistore.Write{
			pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: name, Value: registers.EncodeLaneLeaf(anchor)},
			pistore.SetRegister{Namespace: registers.LaneStateNS, Key: name, Value: registers.EncodeLaneState(registers.LaneState{})},
		},
		Expect: []pistore.Precondition{
			{Namespace: registers.LaneLeafNS, Key: name},
			{Namespace: registers.LaneStateNS, Key: name},
		},
	}
}

// Storage returns what the session stands on.
func (s *Session) Storage() pistore.Storage { return s.storage }

// RecordUsage appends a row to the usage ledger.
func (s *Session) RecordUsage(ctx context.Context, row pistore.InsertUsage) (pistore.Receipt, error) {
	r, err := s.storage.Commit(ctx, pistore.Tx{Writes: []pistore.Write{row}})
	return r, wrap("record usage", err)
}

// App returns a register in a namespace of an application, and whether it is
// there. Any namespace that does not start with "app." is ErrInvalid.
func (s *Session) App(ctx context.Context, namespace, key string) (pistore.JSON, bool, error) {
	if err := checkApp(namespace); err != nil {
		return "", false, err
	}
	return s.register(ctx, namespace, key)
}

// SetApp sets a register in a namespace of an application; null is a value.
func (s *Session) SetApp(ctx context.Context, namespace, key string, value pistore.JSON) error {
	if err := checkApp(namespace); err != nil {
		return err
	}
	return s.set(ctx, namespace, key, value)
}

// DeleteApp removes a register in a namespace of an application.
func (s *Session) DeleteApp(ctx context.Context, namespace, key string) error {
	if err := checkApp(namespace); err != nil {
		return err
	}
	return s.unset(ctx, namespace, key)
}

// Apps yields the registers in a namespace of an application whose key starts
// with prefix, by bytewise key order.
func (s *Session) Apps(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	if err := checkApp(namespace); err != nil {
		return func(yield func(pistore.Register, error) bool) { yield(pistore.Register{}, err) }
	}
	return s.storage.RegistersByPrefix(ctx, namespace, prefix)
}

func checkApp(namespace string) error {
	if !registers.IsApp(namespace) {
		return fmt.Errorf("session: %w: register namespace %.64q is not an application's", pistore.ErrInvalid, namespace)
	}
	return nil
}

func (s *Session) register(ctx context.Context, namespace, key string) (pistore.JSON, bool, error) {
	found, err := s.storage.Registers(ctx, []pistore.Address{{Namespace: namespace, Key: key}})
	if err != nil || len(found) == 0 {
		return "", false, wrap("read "+namespace, err)
	}
	return found[0].Value, true, nil
}

func (s *Session) set(ctx context.Context, namespace, key string, value pistore.JSON) error {
	_, err := s.storage.Commit(ctx, pistore.Tx{Writes: []pistore.Write{
		pistore.SetRegister{Namespace: namespace, Key: key, Value: value},
	}})
	return wrap("set "+namespace, err)
}

// unset deletes a register, and writes nothing if it is not there.
func (s *Session) unset(ctx context.Context, namespace, key string) error {
	_, there, err := s.register(ctx, namespace, key)
	if err != nil || !there {
		return err
	}
	_, err = s.storage.Commit(ctx, pistore.Tx{Writes: []pistore.Write{pistore.DeleteRegister{Namespace: namespace, Key: key}}})
	return wrap("unset "+namespace, err)
}

// hasEntry is ErrNotFound unless the entry exists.
func (s *Session) hasEntry(ctx context.Context, id pistore.ID) error {
	found, err := s.storage.Entries(ctx, []pistore.ID{id})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: entry %.128q", pistore.ErrNotFound, string(id))
	}
	return err
}

// corrupt reports a register that does not hold what its namespace demands.
func (s *Session) corrupt(namespace, key string, invariant int, problem string) error {
	info := s.storage.Info()
	return &pistore.CorruptError{
		Backend: info.Format, Session: info.ID, Place: fmt.Sprintf("register %s/%s", namespace, key), Invariant: invariant, Problem: problem,
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("session: %s: %w", what, err)
}
