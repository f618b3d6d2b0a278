package logstore

import (
	"context"
	"errors"
	"iter"

	"pistore"
)

// Rewrite implements pistore.Backend. The new rows are loaded under an ordinal
// of their own; the batch that ends the load removes the old ones and points the
// catalog at the new.
func (s *Store) Rewrite(
	ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error],
) (info pistore.Info, err error) {
	err = s.within(ctx, true, func() (err error) {
		owner, err := s.openSession(id, pistore.ReadWrite)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, owner.Close()) }()
		old, err := s.openSession(id, pistore.ReadOnly)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, old.Close()) }()
		l, err := s.newLoad()
		if err != nil {
			return err
		}
		l.replaces = owner
		if info, err = l.run(ctx, make(old)); err != nil {
			return errors.Join(err, l.drop())
		}
		return nil
	})
	if err != nil {
		return pistore.Info{}, err
	}
	return info, nil
}

// retire cuts the readers of a session off, which its owner is about to replace.
func (s *Store) retire(owner *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner.open.deleted.Store(true)
	delete(s.open, owner.info.ID)
}
